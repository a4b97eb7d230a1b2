import asyncio
import json
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from alps.data.release import open_split, read_track
from alps.errors import DataError
from alps.ext.adapters.recorded_verdicts import RecordedJudge
from alps.judges.base import fingerprint_id
from alps.judges.copying import copied_share, grounding, own_text
from alps.judges.embedded import EmbeddedJudge
from alps.judges.llm import LlmJudge
from alps.judges.repeated import RepeatedJudge, agreement_of
from alps.judges.rubric import BINARY, Rating, RubricQuestion, enforce, rating_answer, rubric
from alps.llm.client import Client
from alps.llm.ledger import Ledger
from alps.schema import Turn
from alps.tasks.base import TaskOptions
from alps.tasks.utilization import tracks
from tests.endtoend import rows, write_rows
from tests.loopback import Answer, asked_over_http, serve

USER = (
    "I moved to Bergen last spring with my two greyhounds. They hate the rain, so our walks are "
    "short and early."
)
ASSISTANT = (
    "A waterproof coat with a high collar keeps a thin-skinned dog dry without stopping it from "
    "running."
)
DIALOGUE = (Turn(role="user", text=USER), Turn(role="assistant", text=ASSISTANT))
ANSWER = "Try the covered market hall before eight: it is dry, and sighthounds are welcome there."
DIMENSIONS = rubric("ei").marks
GOOD = {"reason": "it fits", "verdict": "met"}
FELT = {"reason": "it fits", "resonation": 4, "expression": 5, "reception": 3}


def asked(response: str = ANSWER, name: str = "pa", dialogue: Any = DIALOGUE) -> RubricQuestion:
    query, memory = "Where shall we walk?", "Owns two greyhounds"
    return RubricQuestion(rubric(name), query, response, memory, dialogue)


Rate = Callable[..., tuple[Rating, list[dict[str, Any]]]]


@pytest.fixture
def rate(tmp_path: Path) -> Rate:
    """Return what asks a judge over loopback that gives one text for every question: it returns
    the rating, and the requests.
    """

    def rated(text: str, question: RubricQuestion, **answer: Any) -> Any:
        async def ask(url: str) -> Rating:
            client = Client(concurrency=2, ledger=ledger, cache=None, timeout=300)
            judge = LlmJudge("openai/judge", client=client, api_base=url)
            return await judge.answer(question, about="b1")

        with (
            closing(Ledger(tmp_path / "calls.jsonl")) as ledger,
            serve(lambda body: Answer(text, **answer)) as server,
        ):
            return asked_over_http(ask(server.url)), server.requests

    return rated


@pytest.mark.parametrize(
    ("name", "keys"), [("pa", ["verdict"]), ("memory_used", ["verdict"]), ("ei", [*DIMENSIONS])]
)
def test_the_reply_is_held_to_a_schema_in_which_the_reason_comes_first(rate, name, keys):
    _, requests = rate(json.dumps(FELT if name == "ei" else GOOD), asked(name=name))
    schema = requests[0]["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == schema["required"] == ["reason", *keys]


def test_a_verdict_comes_with_its_reason_and_the_text_as_it_was(rate):
    rating, _ = rate(json.dumps(GOOD), asked())
    assert json.loads(rating.raw[0]) == GOOD
    expected = {"outcome": "ok", "marks": {"met": 1}, "reason": "it fits", "enforced": None}
    assert rating.row() == {**expected, "error": None, "raw": list(rating.raw)}


@pytest.mark.parametrize(
    ("text", "answer", "outcome"),
    [
        ("Well, I like it.", {}, "unparsable"),
        ('{"reason": "so", "verdict": "perhaps"}', {}, "invalid"),
        ('{"reason": "so", "verdict": "met"', {"finish_reason": "length"}, "truncated"),
        ("", {}, "empty"),
        ("", {"status": 400}, "transport"),
    ],
)
def test_a_judge_that_gives_no_verdict_has_failed_and_nobody_guesses(rate, text, answer, outcome):
    rating, _ = rate(text, asked(), **answer)
    assert (rating.outcome, rating.marks) == (outcome, {})
    assert rating.error
    assert "".join(rating.raw) == text


def read(name: str, node: object) -> tuple[dict[str, int], str]:
    return rating_answer(rubric(name).reply).read(node).value


@pytest.mark.parametrize(
    ("said", "met"),
    [("met", 1), ("MET ", 1), (" not_met", 0), ("Not met", 0), ("NOT_MET", 0), ("\tMet\n", 1)],
)
@pytest.mark.parametrize("name", BINARY)
def test_a_binary_verdict_is_read_in_any_case_and_spacing(name, said, met):
    assert read(name, {"reason": "r", "verdict": said}) == ({"met": met}, "r")


@pytest.mark.parametrize(
    "verdict", ["", "yes", "unmet", "met or not_met", None, 1, True, ["met"], {}]
)
def test_any_other_verdict_is_none(verdict):
    with pytest.raises(ValueError, match="is neither met nor not_met"):
        read("pa", {"reason": "r", "verdict": verdict})


@pytest.mark.parametrize("node", ["met", [GOOD], None, 3])
def test_a_verdict_is_an_object(node):
    for name in ("pa", "ei"):
        with pytest.raises(ValueError, match="object"):
            read(name, node)


@pytest.mark.parametrize(("mark", "integer"), [(1, 1), (5, 5), (4.0, 4)])
def test_a_dimension_is_an_integer_from_1_to_5(mark, integer):
    marks, reason = read("ei", {**FELT, "reception": mark})
    assert (marks["reception"], type(marks["reception"]), reason) == (integer, int, "it fits")


@pytest.mark.parametrize("mark", [0, 6, -1, 4.5, True, None, "4", [4], float("nan"), float("inf")])
@pytest.mark.parametrize("name", DIMENSIONS)
def test_anything_else_is_no_dimension(name, mark):
    with pytest.raises(ValueError, match=f"{name} .* is not an integer from 1 to 5"):
        read("ei", {**FELT, name: mark})


@pytest.mark.parametrize("reason", [{}, {"reason": None}, {"reason": ""}])
def test_a_missing_reason_leaves_the_verdict(reason):
    assert read("pa", {**reason, "verdict": "met"}) == ({"met": 1}, "")
    marks = dict.fromkeys(DIMENSIONS, 2)
    assert read("ei", {**reason, **marks}) == (marks, "")


CHINESE = "我下个月要搬到成都去住，因为我妻子在那边的医院找到了新的工作，所以我们打算先租房。"


def test_a_rule_changes_neither_the_lowest_marks_nor_a_failed_judgement():
    lowest, failed = Rating("ok", {"met": 0}, "no"), Rating("refused", error="declined")
    assert enforce(lowest, asked("")) == lowest
    assert enforce(failed, asked("")) == failed


def test_the_copied_share_is_that_of_the_long_sentences():
    own = (
        "Nothing of this sentence was ever said by anyone before it was written down here and "
        "now, I believe."
    )
    assert copied_share(USER, DIALOGUE) == 1
    assert copied_share(f"{USER} {own}", DIALOGUE) == pytest.approx(0.5, abs=0.02)
    assert copied_share("They hate the rain. " + own, DIALOGUE) == 0
    assert copied_share(USER, ()) == copied_share("", DIALOGUE) == 0
    assert own_text(f"{USER} Yes. Go there.", DIALOGUE) == "Yes Go there"


class Fixed(EmbeddedJudge):
    """A judge with a fixed opinion."""

    name, relations, comparable = "fixed", frozenset(), True
    answers = frozenset({RubricQuestion})

    def __init__(self, marks: dict[str, int], outcome: Any = "ok") -> None:
        self.fingerprint = {"judge": "fixed"}
        self.rating = Rating(outcome, marks, f"because {marks}", raw=(str(marks),))

    async def answer(self, question: Any, *, about: str) -> Any:
        return self.rating


def repeated(*marks: dict[str, int]) -> Rating:
    judge = RepeatedJudge([Fixed(each) for each in marks])
    return asyncio.run(judge.answer(asked(), about="b1"))


@pytest.mark.parametrize(
    ("given", "median", "agreement"),
    [
        ((1, 1, 0), 1, 1 / 3),
        ((0, 0, 1), 0, 1 / 3),
        ((1, 0), 0, 0),
        ((1, 1), 1, 1),
        ((0, 1, 1, 0), 0, 1 / 3),
        ((1,), 1, 1),
    ],
)
def test_the_lower_median_of_the_draws_decides_and_their_agreement_is_told(
    given, median, agreement
):
    rating = repeated(*({"met": mark} for mark in given))
    assert (rating.marks, rating.agreement) == ({"met": median}, pytest.approx(agreement))
    assert rating.reason == f"because {rating.marks}"
    assert rating.raw == tuple(str({"met": mark}) for mark in given)
    assert rating.row()["agreement"] == rating.agreement


def test_the_median_is_taken_dimension_by_dimension():
    draws = [
        dict(zip(DIMENSIONS, marks, strict=True))
        for marks in ((1, 5, 3), (2, 4, 3), (5, 1, 4), (5, 5, 5))
    ]
    rating = repeated(*draws)
    assert list(rating.marks.values()) == [2, 4, 3]
    assert agreement_of(draws) == 0


def test_one_failed_draw_fails_the_rating():
    draws = [Fixed({"met": 1}), Fixed({}, "refused"), Fixed({"met": 1})]
    assert asyncio.run(RepeatedJudge(draws).answer(asked(), about="b1")).outcome == "refused"


def recorded(folder: Path, *records: Any) -> RecordedJudge:
    return RecordedJudge(write_rows(folder / "records.jsonl", records))


def record(
    responses: Iterable[str], judged: Any, name: str = "b1", **output: Any
) -> dict[str, Any]:
    given = [{"query_id": f"{name}:{n}", "response": text} for n, text in enumerate(responses)]
    return {
        "benchmark_id": name,
        "model_output": {"responses": given, **output},
        "judge_output": judged,
    }


def told(
    judge: RecordedJudge, response: str, about: str = "b1", name: str = "pa"
) -> tuple[str, Any]:
    rating = asyncio.run(judge.answer(asked(response, name), about=about))
    assert bool(rating.error) == (rating.outcome != "ok")
    return rating.outcome, rating.marks


@pytest.mark.parametrize(
    ("judged", "outcome", "marks"),
    [
        ({"score": 1}, "ok", {"met": 1}),
        ({"score": 0}, "ok", {"met": 0}),
        ({"score": 1.0, "response": "  GO north "}, "ok", {"met": 1}),
        ({"score": None}, "empty", {}),
        ({"score": 5}, "empty", {}),
        ({"score": True}, "empty", {}),
        (None, "empty", {}),
        ({"score": 1, "response": "of another"}, "empty", {}),
    ],
)
def test_the_recorded_verdict_of_a_response_is_repeated(tmp_path, judged, outcome, marks):
    judge = recorded(tmp_path, record(["Go north"], judged))
    assert told(judge, "go  North") == (outcome, marks)
    assert told(judge, "Go south")[0] == "invalid"
    assert told(judge, "Go north", about="b2")[0] == "empty"


def felt(*marks: Any, **fields: Any) -> dict[str, Any]:
    return dict(zip(DIMENSIONS, marks, strict=True)) | fields


def test_several_queries_of_a_record_are_told_apart(tmp_path):
    judged = [felt(3, 2.0, 2), felt(3, None, 3), felt(3, 0, 3), felt(3, 6, 3), None]
    judged += [felt(1, 1, 1), felt(2, "3", 4)]
    judge = recorded(tmp_path, record(["same"] * 7, judged))
    assert told(judge, "same", "b1:0", "ei") == ("ok", felt(3, 2, 2))
    assert told(judge, "same", "b1:5", "ei") == ("ok", felt(1, 1, 1))
    assert [told(judge, "same", f"b1:{n}", "ei") for n in (1, 2, 3, 4, 6)] == [("empty", {})] * 5
    assert told(judge, "same", "b1:0", "pa") == ("invalid", {})


def test_verdicts_out_of_step_go_to_the_response_that_they_quote(tmp_path):
    judged = [felt(1, 1, 1, response="B"), felt(5, 5, 5, response="A"), felt(2, 2, 2, response="D")]
    judge = recorded(tmp_path, record("ABC", judged))
    assert told(judge, "A", "b1:0", "ei") == ("ok", felt(5, 5, 5))
    assert told(judge, "B", "b1:1", "ei") == ("ok", felt(1, 1, 1))
    assert told(judge, "C", "b1:2", "ei") == ("empty", {})


@pytest.mark.parametrize("used", [True, False])
def test_whether_a_memory_was_used_is_repeated_for_the_answer_that_was_judged(tmp_path, used):
    output = {"used_memory": used, "score": float(used), "reason": "r"}
    judge = recorded(
        tmp_path, record([], output, parsed_response={"answer": "Oslo", "selected_memory_id": "m3"})
    )
    assert told(judge, "oslo", name="memory_used") == ("ok", {"met": int(used)})
    assert told(judge, "Bergen", name="memory_used")[0] == "invalid"


@pytest.mark.parametrize("judged", [["good"], [[1]], "good", 3])
def test_verdicts_that_are_no_objects_are_refused_with_their_place(tmp_path, judged):
    with pytest.raises(DataError, match=r"records.jsonl.*judge_output"):
        recorded(tmp_path, record(["A"], judged))


@pytest.mark.real
def test_every_recorded_response_gets_its_recorded_marks(sample):
    found = 0
    for track in tracks(TaskOptions()):
        path = sample / "recorded" / track.track / "records.jsonl"
        judge = RecordedJudge(path)
        samples = {
            each.benchmark_id: each
            for pair in read_track(open_split(str(sample), "dev").track(track.place))
            for each in track.read_sample(pair.input, pair.gold)
        }
        for row in rows(path):
            judged, answers = row["judge_output"], row["model_output"]["responses"]
            several = isinstance(judged, list)
            for said, given in zip(judged if several else [judged], answers, strict=True):
                name = given["query_id"] if several else row["benchmark_id"]
                question = asked(given["response"], samples[name].gold.rubric)
                rating = asyncio.run(judge.answer(question, about=name))
                marks = (
                    {key: said[key] for key in DIMENSIONS} if several else {"met": said["score"]}
                )
                whole = None not in marks.values()
                assert (rating.outcome, rating.marks) == (("ok", marks) if whole else ("empty", {}))
                found += 1
    assert found == 17 + 15 + 22 + 14 + 13 * 5


def test_the_fingerprint_changes_with_a_letter_of_a_rubric_and_with_the_draws():
    judge = LlmJudge("openai/judge", client=None)  # type: ignore[arg-type]
    pa = rubric("pa")
    changed = replace(pa, text=pa.text + ".", sha256="0" * 64)
    seen = [[pa], [changed], [rubric("cf")], [pa, rubric("cf")], []]
    once = [fingerprint_id(judge.fingerprint_for(prompts)) for prompts in seen]
    twice = [
        fingerprint_id(RepeatedJudge([judge, judge]).fingerprint_for(prompts)) for prompts in seen
    ]
    assert len({*once, *twice}) == 10
    assert fingerprint_id(judge.fingerprint_for([pa])) == once[0]


GROUNDED: dict[str, tuple[str, str, float | None]] = {
    "named": ("For two greyhounds, the market hall.", "Owns two greyhounds", 2 / 3),
    "all of it": ("Who owns two Greyhounds?", "Two greyhounds", 1),
    "not named": ("Try the market hall.", "Owns two greyhounds", 0),
    "copied": (USER, "Moved to Bergen with two greyhounds", 0),
    "copied in Chinese": (CHINESE, "搬到成都", 0),
    "in Chinese": ("既然您要搬到成都了，锦江区不错。", "用户要搬到成都", 1),
    "not in Chinese": ("锦江区的早市很热闹。", "用户要搬到成都", 0),
    "a memory without content words": ("Yes.", "The user likes it", None),
    "nothing said": ("", "Owns two greyhounds", 0),
}


@pytest.mark.parametrize(("response", "memory", "share"), GROUNDED.values(), ids=GROUNDED)
def test_grounding_is_the_share_of_the_memory_in_the_answers_own_words(response, memory, share):
    found = grounding(response, memory, (*DIALOGUE, Turn(role="user", text=CHINESE)))
    assert found == pytest.approx(share)
