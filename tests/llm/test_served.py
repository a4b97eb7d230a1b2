"""What answered, as a provider says it: in each row of the calls, in the summary, in a calibration
and in a card.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from alps.leaderboard.packing import pack
from alps.leaderboard.verify import Options, verify
from alps.llm import Request
from alps.llm.provider import send
from alps.llm.types import Reply
from tests.desk import QUESTION
from tests.endtoend import extraction, rows, run, summary
from tests.ext.calibration.test_correction import calibrated, make_run, score, strict
from tests.loopback import Answer, LoopbackServer, asked_over_http, serve
from tests.submissions import WHO, card_of
from tests.visitors import good, write_visitors

pytestmark = [
    pytest.mark.filterwarnings(r"ignore:Item '\w+' on TypedDict class:UserWarning"),
    pytest.mark.filterwarnings("ignore:Pydantic serial"),
]

USAGE = {
    "prompt_tokens": 1_000,
    "completion_tokens": 50,
    "total_tokens": 1_050,
    "prompt_tokens_details": {"cached_tokens": 600},
    "completion_tokens_details": {"reasoning_tokens": 20},
}


def completion(text: str, **more: Any) -> str:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
    }
    head = {
        "id": "chatcmpl-7",
        "object": "chat.completion",
        "created": 0,
        "choices": [choice],
        "usage": USAGE,
    }
    return json.dumps(
        {"model": "gpt-4.1-mini-2025-04-14", "system_fingerprint": "fp_abc", **head, **more}
    )


def sent(answer: Answer) -> Reply:
    with serve(lambda _: answer) as server:
        request = Request[str]("openai/tiny", (), None, api_base=server.url)
        return asked_over_http(send(request, [dict(message) for message in QUESTION]))


class Provider:
    """Answers as snapshots of what was asked for; of the answers to `changing`, every second is of
    another one.
    """

    def __init__(self, changing: str = "") -> None:
        self.changing = changing
        self.asked = 0

    def __call__(self, body: dict[str, Any]) -> Answer:
        self.asked += 1
        text = good(body).text or ""
        later = body["model"] == self.changing and self.asked % 2
        snapshot = f"{body['model']}-2025-{'06' if later else '04'}-14"
        return Answer(
            body=completion(
                text, model=snapshot, system_fingerprint="fp_two" if later else "fp_one"
            )
        )


def carried_out(folder: Path, server: LoopbackServer, *words: str, **variables: str) -> Any:
    if not (folder / "data").exists():
        write_visitors(folder / "data", 6)
    asked = extraction(server.url, *words, "judge_check=no")  # the known items have their own model
    finished = run(folder, *asked, OPENAI_API_KEY="none", **variables)
    assert finished.returncode == 0, finished.stderr
    return " ".join(finished.stdout.split())


def test_a_reply_tells_what_answered_it():
    reply = sent(Answer(body=completion("Yes."), headers={"x-request-id": "req_42"}))
    assert (reply.served_model, reply.fingerprint) == ("gpt-4.1-mini-2025-04-14", "fp_abc")
    assert (reply.request_id, reply.finish_reason) == ("req_42", "stop")
    assert (reply.cached_tokens, reply.reasoning_tokens) == (600, 20)


def test_without_a_header_the_number_of_the_answer_is_that_of_the_request():
    assert sent(Answer(body=completion("Yes."))).request_id == "chatcmpl-7"


@pytest.mark.parametrize(
    "odd", [7, ["a"], {"a": 1}, "", "x" * 5_000, "a\nb\x1b[31m", None], ids=repr
)
def test_names_of_any_shape_are_short_lines_or_none(odd: Any):
    reply = sent(Answer(body=completion("Yes.", system_fingerprint=odd)))
    assert reply.text == "Yes."
    assert reply.fingerprint is None or (
        0 < len(reply.fingerprint) <= 120 and reply.fingerprint.isprintable()
    )


def test_a_key_in_the_name_of_a_model_is_masked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", "an-ordinary-looking-word")
    reply = sent(Answer(body=completion("Yes.", system_fingerprint="fp an-ordinary-looking-word")))
    assert reply.fingerprint == "fp [secret]"


def test_each_call_and_the_summary_say_what_answered(tmp_path: Path):
    with serve(Provider()) as server:
        said = carried_out(tmp_path, server, "out=out")
    calls = rows(tmp_path / "out" / "calls.jsonl")
    told = {
        (row["purpose"], row["served_model"], row["fingerprint"], row["finish_reason"])
        for row in calls
    }
    assert told == {
        ("generate", "scripted-2025-04-14", "fp_one", "stop"),
        ("judge", "scripted-judge-2025-04-14", "fp_one", "stop"),
    }
    assert {
        (row["cached_tokens"], row["reasoning_tokens"], row["request_id"]) for row in calls
    } == {(600, 20, "chatcmpl-7")}
    found = summary(tmp_path / "out")
    assert found["served"] == {
        "generate": [{"model": "scripted-2025-04-14", "fingerprint": "fp_one"}],
        "judge": [{"model": "scripted-judge-2025-04-14", "fingerprint": "fp_one"}],
    }
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["served"] == found["served"]
    assert found["calls"]["cached_tokens"] == 600 * len(calls)
    assert "60% of the prompts from the provider's cache" in said
    assert "Served for the answers: scripted-2025-04-14, build fp_one." in said
    assert "Warning" not in said


@pytest.mark.parametrize(
    ("changing", "role", "name"),
    [("scripted", "the answers", "scripted"), ("scripted-judge", "the verdicts", "scripted-judge")],
)
def test_a_change_of_what_answers_is_named(tmp_path: Path, changing: str, role: str, name: str):
    with serve(Provider(changing)) as server:
        said = carried_out(tmp_path, server, "out=out", "concurrency=1")
    assert (
        f"Warning: {role} are of more than one model: {name}-2025-04-14, {name}-2025-06-14." in said
    )
    assert f"Warning: {role} are of 2 builds of the model: fp_one, fp_two." in said
    assert said.count("Warning") == 2


def test_replies_of_the_cache_and_of_earlier_sessions_say_what_had_answered(tmp_path: Path):
    with serve(Provider()) as server:
        carried_out(tmp_path, server, "out=first")
        carried_out(tmp_path, server, "out=second")
        carried_out(tmp_path, server, "out=second")
    first, second = (summary(tmp_path / name) for name in ("first", "second"))
    assert second["calls"]["http"] == 0
    assert second["served"] == first["served"]


def test_the_page_of_a_run_says_what_answered(tmp_path: Path):
    with serve(Provider("scripted")) as server:
        carried_out(tmp_path, server, "out=out", "concurrency=1")
    assert run(tmp_path, "report", "out", "out=page.html").returncode == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Served for the verdicts: scripted-judge-2025-04-14, build fp_one." in page
    assert "Warning: the answers are of more than one model" in page


def test_a_submission_says_what_answered_and_a_change_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with serve(Provider("scripted-judge")) as server:
        carried_out(tmp_path, server, "out=out", "concurrency=1")
    monkeypatch.chdir(tmp_path)
    packed = pack([tmp_path / "out"], WHO, out=tmp_path / "packed" / "served")
    (card,) = card_of(packed.folder)["runs"]
    assert card["served"]["generate"] == [{"model": "scripted-2025-04-14", "fingerprint": "fp_one"}]
    found = verify(packed.folder, Options(data=str(tmp_path / "data"))).findings
    (served,) = {finding.where for finding in found if finding.code == "served"}
    assert served == "runs.0.served.judge"
    assert all(finding.severity == "warning" for finding in found if finding.code == "served")


def test_the_folder_of_a_model_on_a_server_of_ones_own_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = "/".join(("", "home", "anna", "models", "qwen"))

    def own(body: dict[str, Any]) -> Answer:
        return Answer(body=completion(good(body).text or "", model=path, system_fingerprint=None))

    with serve(own) as server:
        carried_out(tmp_path, server, "out=out")
    monkeypatch.chdir(tmp_path)
    packed = pack([tmp_path / "out"], WHO, out=tmp_path / "packed" / "served")
    (card,) = card_of(packed.folder)["runs"]
    assert {row["model"] for rows in card["served"].values() for row in rows} == {"qwen"}


def test_a_judge_that_is_another_model_than_when_it_was_calibrated_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ALPS_CALIBRATIONS", str(tmp_path / "known"))
    predicted = make_run(tmp_path)

    def served_as(snapshot: str) -> Any:
        return lambda body: Answer(body=completion(strict(body).text or "", model=snapshot))

    with serve(served_as("judge-2025-04-14")) as server:
        calibration = calibrated(predicted, server, n=20)
        under_it = (f"calibration={calibration}", "judge_check=no")
        again = score(predicted, server, *under_it, out="same")
        server.script = served_as("judge-2025-06-14")
        monkeypatch.setenv("ALPS_CACHE", "off")
        ran = score(predicted, server, *under_it, out="later")
    assert again.code == ran.code == 0, ran.err
    served = json.loads((calibration / "calibration.json").read_text())["served"]
    assert served == {"judge": [{"model": "judge-2025-04-14", "fingerprint": "fp_abc"}]}
    assert "Warning" not in again.out
    said = " ".join(ran.out.split())
    assert "Warning: the model of the judge changed after its calibration" in said
    assert "was judge-2025-04-14 in" in said
    assert "is judge-2025-06-14 now" in said
