"""What answered, as a provider says it: in each row of the calls, in the summary, in a calibration
and in a card.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from alps.leaderboard.packing import pack
from alps.leaderboard.verify import Options, verify
from tests.desk import chat
from tests.endtoend import extraction, rows, run, summary
from tests.ext.calibration.test_correction import calibrated, make_run, score, strict
from tests.llm.test_provider import sent
from tests.loopback import Answer, LoopbackServer, serve
from tests.submissions import WHO, card_of
from tests.visitors import good, write_visitors

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serial")

USAGE = {
    "prompt_tokens": 1_000,
    "completion_tokens": 50,
    "total_tokens": 1_050,
    "prompt_tokens_details": {"cached_tokens": 600},
    "completion_tokens_details": {"reasoning_tokens": 20},
}
MINI = "gpt-4.1-mini-2025-04-14"


def completion(text: str | None, **more: Any) -> Answer:
    head = {"id": "chatcmpl-7", "model": MINI, "system_fingerprint": "fp_abc", "usage": USAGE}
    return Answer(body=json.dumps(chat(text, **{**head, **more})))


class Provider:
    """Answers as snapshots of what was asked for; of the answers to `changing`, every second is of
    another one.
    """

    def __init__(self, changing: str = "") -> None:
        self.changing = changing
        self.asked = 0

    def __call__(self, body: dict[str, Any]) -> Answer:
        self.asked += 1
        later = body["model"] == self.changing and self.asked % 2
        snapshot = f"{body['model']}-2025-{'06' if later else '04'}-14"
        build = "fp_two" if later else "fp_one"
        return completion(good(body).text, model=snapshot, system_fingerprint=build)


def carried_out(folder: Path, server: LoopbackServer, *words: str) -> str:
    if not (folder / "data").exists():
        write_visitors(folder / "data", 6)
    asked = extraction(server.url, *words, "judge_check=no")  # the known items have their own model
    finished = run(folder, *asked, OPENAI_API_KEY="none")
    assert finished.returncode == 0, finished.stderr
    return " ".join(finished.stdout.split())


def test_a_reply_tells_what_answered_it():
    answer = completion("Yes.")
    reply = sent(Answer(body=answer.body, headers={"x-request-id": "req_42"}))
    assert (reply.served_model, reply.fingerprint) == (MINI, "fp_abc")
    assert reply.request_id == "req_42"  # without the header, that of the answer: see below
    counts = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_500}
    counts |= {"completion_tokens_details": {"reasoning_tokens": 400}}
    beside = sent(completion("Yes.", usage=counts))  # thought is not in the count of the answer
    assert (beside.completion_tokens, beside.reasoning_tokens) == (500, 400)


ODD = [7, ["a"], {"a": 1}, "", "x" * 5_000, "a\nb\x1b[31m", None, "fp an-ordinary-word"]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_names_of_any_shape_are_short_lines_without_a_key_or_none(odd: Any, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "an-ordinary-word")
    reply = sent(completion("Yes.", system_fingerprint=odd))
    build = reply.fingerprint
    assert reply.text == "Yes."
    assert build is None or (0 < len(build) <= 120 and build.isprintable())
    assert odd != ODD[-1] or build == "fp [secret]"


SERVED = {
    "generate": [{"model": "scripted-2025-04-14", "fingerprint": "fp_one"}],
    "judge": [{"model": "scripted-judge-2025-04-14", "fingerprint": "fp_one"}],
}


def test_each_call_and_the_summary_say_what_answered_and_later_sessions_what_had_answered(tmp_path):
    with serve(Provider()) as server:
        said = carried_out(tmp_path, server, "out=out")
        carried_out(tmp_path, server, "out=second")
        carried_out(tmp_path, server, "out=second")
    calls = rows(tmp_path / "out" / "calls.jsonl")
    keys = ("purpose", "served_model", "fingerprint", "finish_reason", "cached_tokens")
    told = {tuple(row[key] for key in (*keys, "reasoning_tokens", "request_id")) for row in calls}
    assert told == {
        (purpose, one["model"], "fp_one", "stop", 600, 20, "chatcmpl-7")
        for purpose, (one,) in SERVED.items()
    }
    found, manifest = summary(tmp_path / "out"), (tmp_path / "out" / "manifest.json").read_text()
    assert found["served"] == json.loads(manifest)["served"] == SERVED
    assert found["calls"]["cached_tokens"] == 600 * len(calls)
    shown = " ".join(run(tmp_path, "show", "out").stdout.split())
    assert "60% from the provider's cache" in shown
    assert "Model that served the answers: scripted-2025-04-14, build fp_one." in shown
    assert "Warning" not in said + shown
    second = summary(tmp_path / "second")
    assert (second["calls"]["http"], second["served"]) == (0, SERVED)


def packed_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, Any]]:
    """Pack the run; return the submission, and what its card says of what answered."""
    monkeypatch.chdir(folder)
    packed = pack([folder / "out"], WHO, out=folder / "packed" / "served")
    (card,) = card_of(packed.folder)["runs"]
    return packed.folder, card["served"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("changing", "role"), [("scripted", "the answers"), ("scripted-judge", "the verdicts")]
)
def test_a_change_of_what_answers_is_named_wherever_it_is_shown(
    tmp_path: Path, monkeypatch, changing: str, role: str
):
    with serve(Provider(changing)) as server:
        said = carried_out(tmp_path, server, "out=out", "concurrency=1")
    models = f"{changing}-2025-04-14, {changing}-2025-06-14"
    assert f"Warning: {role} come from more than one model: {models}." in said
    assert f"Warning: {role} come from 2 model builds: fp_one, fp_two." in said
    assert said.count("Warning") == 2
    assert run(tmp_path, "report", "out", "out=page.html").returncode == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"Warning: {role} come from more than one model" in page
    if changing == "scripted":
        assert "Model that served the verdicts: scripted-judge-2025-04-14, build fp_one." in page
        return
    folder, served = packed_in(tmp_path, monkeypatch)
    assert served["generate"] == SERVED["generate"]
    findings = verify(folder, Options(data=str(tmp_path / "data"))).findings
    found = {(one.where, one.severity) for one in findings if one.code == "served"}
    assert found == {("runs.0.served.judge", "warning")}


def test_the_folder_of_a_model_on_a_server_of_ones_own_is_not_published(tmp_path, monkeypatch):
    path = "/".join(("", "home", "anna", "models", "qwen"))

    def own(body: dict[str, Any]) -> Answer:
        return completion(good(body).text, model=path, system_fingerprint=None)

    with serve(own) as server:
        carried_out(tmp_path, server, "out=out")
    _, served = packed_in(tmp_path, monkeypatch)
    assert {row["model"] for told in served.values() for row in told} == {"qwen"}


@pytest.mark.release
def test_a_judge_that_is_another_model_than_when_it_was_calibrated_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPS_CALIBRATIONS", str(tmp_path / "known"))
    predicted = make_run(tmp_path)

    def served_as(snapshot: str) -> Any:
        return lambda body: completion(strict(body).text, model=snapshot)

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
    assert "Warning: the judge's model differs from the calibrated model" in said
    assert "was judge-2025-04-14 in" in said
    assert "is now judge-2025-06-14" in said
