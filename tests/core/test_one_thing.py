"""A memory says one thing: what states more, makes detail up, repeats itself or is no memory
matches nothing.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alps.judges.base import (
    RELATIONS,
    Item,
    Judgement,
    MatchQuestion,
    Pair,
    SupportJudgement,
    SupportQuestion,
)
from alps.judges.embedded import EmbeddedJudge, LexicalJudge
from alps.judges.llm import LlmJudge, payload_text
from alps.judges.matching import MOST_EXTRA, gold_items, predicted_items, screen
from alps.schema import LONGEST_VALUE, Memory, Outcome, Prediction, Turn
from alps.tasks.base import JUST_THE_SCORE, JudgingOptions, Scored
from alps.tasks.extraction import TASK as EXTRACTION
from alps.tasks.update import TASK as UPDATE
from tests.builders import extraction_sample, heard, memories, memory
from tests.endtoend import extraction, rows, run, task1
from tests.loopback import Answer, serve
from tests.recorded_requests import requests_of
from tests.visitors import is_judging, memory_items, values_of, visitor, write_visitors

DOG = "Has a four-year-old beagle named Pip"


class Reader(EmbeddedJudge):
    """A judge that reads dialogues: it says the relations and supports it was given, by id, or
    fails to check.
    """

    name = "reader"
    comparable = True
    answers = frozenset({MatchQuestion, SupportQuestion})
    relations = frozenset(RELATIONS)

    def __init__(
        self,
        *pairs: tuple[str, str, str],
        support: Mapping[str, str] | None = None,
        checks: Outcome = "ok",
    ) -> None:
        self.fingerprint = {"judge": "reader"}
        self._pairs, self._support, self._checks = pairs, support or {}, checks
        self.checked: list[list[str]] = []

    async def answer(self, question: Any, *, about: str) -> Any:
        if isinstance(question, SupportQuestion):
            return await self.support(question.dialogue, question.items, about=about)
        rows_by_id = {item.id: place for place, item in enumerate(question.gold)}
        columns = {item.id: place for place, item in enumerate(question.predicted)}
        shown = [(g, p, r) for g, p, r in self._pairs if g in rows_by_id and p in columns]
        return Judgement(
            "ok", tuple(Pair(rows_by_id[g], columns[p], r, "named") for g, p, r in shown)
        )  # type: ignore[arg-type]

    async def support(
        self, dialogue: object, items: Sequence[Item], *, about: str
    ) -> SupportJudgement:
        self.checked.append([item.id for item in items])
        if self._checks != "ok":
            return SupportJudgement(self._checks, {}, error="no answer")
        said = {item.id: (self._support.get(item.id, "unsupported"), "as told") for item in items}
        return SupportJudgement("ok", said)  # type: ignore[arg-type]


def judged(
    sample: Any, prediction: Prediction, judge: EmbeddedJudge, options: JudgingOptions
) -> dict[str, Any]:
    return asyncio.run(EXTRACTION.judge(sample, prediction, judge, options))


def score(
    gold: Sequence[Memory],
    predicted: Sequence[Memory],
    judge: EmbeddedJudge,
    options: JudgingOptions = JUST_THE_SCORE,
) -> Scored:
    sample, prediction = extraction_sample(gold), heard(*predicted)
    verdict = judged(sample, prediction, judge, options)
    assert verdict["outcome"] == "ok"
    return EXTRACTION.score(sample, prediction, json.loads(json.dumps(verdict)), judge)


def reasons(scored: Scored) -> dict[str, str]:
    return {item["id"]: item["reason"] for item in scored.details.get("set_aside", ())}


@pytest.mark.parametrize("relation", ["bundle", "narrower"])
def test_a_bundle_matches_nothing_under_any_policy_whatever_a_judge_calls_it(relation):
    pairs = [(gold, "p1", relation) for gold in ("g1", "g2")]
    judge = Reader(*pairs, support={"p1": "supported"})
    gold = memories("Owns a dog", "Works nights")
    scored = score(gold, memories("Has a dog and works nights"), judge)
    assert (scored.scores["f1"], scored.scores["f1_strict"]) == (0, 0)
    assert (scored.counts["bundles"], reasons(scored)) == (1, {"p1": "bundle"})


def test_gold_that_tells_one_matter_twice_makes_no_bundle_of_what_implies_both():
    judge = Reader(("g1", "p1", "narrower"), ("g2", "p1", "narrower"), support={"p1": "supported"})
    scored = score(memories("Owns a dog", "The dog is a beagle"), [memory(DOG)], judge)
    assert (scored.counts["matched"], "bundles" in scored.counts) == (1, False)


@pytest.mark.parametrize(
    ("support", "f1"), [("supported", 1.0), ("unsupported", 0.0), ("not_about_user", 0.0)]
)
def test_added_detail_matches_only_where_the_dialogue_bears_it_out(support, f1):
    judge = Reader(("g1", "p1", "narrower"), support={"p1": support})
    scored = score(memories("Owns a dog"), [memory(DOG)], judge)
    assert scored.scores["f1"] == f1
    assert judge.checked == [["p1"]]
    assert reasons(scored) == ({} if f1 else {"p1": "unsupported detail"})
    assert scored.counts["matched_narrower"] == f1


DETAILS = {
    "a name": ("Has a dog in Trondheim", "narrower"),
    "a number": ("Has had a dog for 7 years", "narrower"),
    "another word": ("Keeps a dog", "same"),
    "a name that the user said": ("Has a dog called Pip", "same"),
}


@pytest.mark.parametrize(("value", "relation"), DETAILS.values(), ids=DETAILS)
def test_a_name_or_number_that_nobody_said_is_detail_though_the_judge_calls_it_the_same(
    value, relation
):
    judge = Reader(("g1", "p1", "same"))
    said = Turn(role="user", text="My dog is called Pip.")
    sample = extraction_sample(memories("Owns a dog")).model_copy(update={"dialogue": (said,)})
    verdict = judged(sample, heard(memory(value)), judge, JUST_THE_SCORE)
    assert [pair["relation"] for pair in verdict["pairs"]] == [relation]
    scored = EXTRACTION.score(sample, heard(memory(value)), verdict, judge)
    assert scored.scores["f1"] == (relation == "same")


def test_with_extras_added_detail_and_extras_are_checked_in_one_question():
    related = ("g1", "p1", "narrower"), ("g2", "p2", "same")
    judge = Reader(*related, support={"p1": "supported", "p3": "supported"})
    gold, predicted = ("Owns a dog", "Lives in Porto"), (DOG, "Resides in Porto", "Sings")
    scored = score(memories(*gold), memories(*predicted), judge, JudgingOptions(extras=True))
    assert judge.checked == [["p1", "p3"]]
    counts = {"extras": 1, "supported": 1, "checked": 3}
    assert {name: scored.counts[name] for name in counts} == counts


@pytest.mark.parametrize(("relation", "outcome"), [("narrower", "transport"), ("same", "ok")])
def test_a_check_that_a_match_hangs_on_fails_the_judgement_where_it_fails(relation, outcome):
    judge = Reader(("g1", "p1", relation), checks="transport")
    sample, prediction = extraction_sample(memories("Owns a dog")), heard(memory("Has a brown dog"))
    assert judged(sample, prediction, judge, JUST_THE_SCORE)["outcome"] == outcome


def test_no_verdict_on_added_detail_is_no_match():
    judge = Reader(("g1", "p1", "narrower"), support={"p1": "supported"})
    sample, prediction = extraction_sample(memories("Owns a dog")), heard(memory(DOG))
    verdict = judged(sample, prediction, judge, JUST_THE_SCORE)
    without = {name: value for name, value in verdict.items() if name != "support"}
    assert EXTRACTION.score(sample, prediction, verdict, judge).scores["f1"] == 1
    assert EXTRACTION.score(sample, prediction, without, judge).scores["f1"] == 0


def test_update_checks_added_detail_against_both_dialogues():
    seen: list[str] = []

    class Listening(Reader):
        async def support(self, dialogue, items, *, about):  # type: ignore[no-untyped-def]
            seen.extend(turn.text for turn in dialogue)
            return await super().support(dialogue, items, about=about)

    said = {f"{name}_dialogue": [{"role": "user", "text": name}] for name in ("old", "new")}
    row = {"benchmark_id": "b1", "input": {"memory": [], **said}}
    gold = {"gold": {"answer": [memory("Owns a dog").model_dump()]}}
    sample = UPDATE.read_sample(row, gold)
    item = {**memory(DOG).model_dump(), "action": None, "replaces": None}
    answered = {"outcome": "ok", "prediction": {"memory_items": [item]}}
    prediction = Prediction(benchmark_id="b1", track="task2", **answered)
    judge = Listening(("g1", "p1", "narrower"))
    verdict = asyncio.run(UPDATE.judge(sample, prediction, judge, JUST_THE_SCORE))
    assert seen == ["old", "new"]
    assert UPDATE.score(sample, prediction, verdict, judge).scores["f1_changed"] == 0


def test_a_value_far_longer_than_any_memory_is_an_invalid_item_that_counts():
    gold = memories("Owns a dog")
    predicted = [memory("Owns a dog"), memory("a dog " * 400)]
    scored = score(gold, predicted, Reader(("g1", "p2", "same")))
    assert scored.scores["precision"] == 0.5
    assert (scored.counts["invalid_items"], reasons(scored)) == (1, {"p2": "too long"})


def test_wide_characters_count_as_two_letters():
    lengths = {"x" * LONGEST_VALUE: 0, "x" * (LONGEST_VALUE + 1): 1, "犬" * 500: 0, "犬" * 501: 1}
    for value, invalid in lengths.items():
        scored = score([], [memory(value)], Reader())
        assert scored.counts.get("invalid_items", 0) == invalid, len(value)


COPIES = {
    "to the letter": ["Owns a dog"] * 3,
    "case, spaces and phrasing": ["Owns a dog", "OWNS  A DOG", "The user owns a dog."],
    "marks": ["Owns a dog in Porto, walks it at six", "Owns a dog in Porto; walks it at six!"],
}


@pytest.mark.parametrize("copies", COPIES.values(), ids=COPIES)
def test_near_copies_count_once(copies):
    scored = score(memories("Lives in Lisbon"), memories(*copies), LexicalJudge())
    assert (scored.counts["predicted"], scored.counts["repeated_items"]) == (1, len(copies) - 1)


def test_an_endless_list_ends_where_no_answer_is_that_long():
    endless = [memory(f"Owns a {'x' * n} dog") for n in range(1, 400)]
    scored = score(memories("Owns a cat"), endless, LexicalJudge())
    assert scored.counts["predicted"] + scored.counts.get("repeated_items", 0) == len(endless)
    assert scored.counts["invalid_items"] == len(endless) - MOST_EXTRA - 1


def test_other_numbers_and_negations_are_no_copies_and_gold_that_is_alike_can_be_found_twice():
    predicted = memories("Owns 2 dogs", "Owns 3 dogs", "Owns no dogs")
    assert score([], predicted, LexicalJudge()).counts["predicted"] == 3
    gold = memories("Likes tea.", "likes tea")
    assert score(gold, gold, LexicalJudge()).scores["f1"] == 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["Owns a dog", "owns a dog!", "Sings", "x" * 1_200, "Lives in Porto"]),
        max_size=6,
    )
)
def test_every_prediction_is_asked_about_paired_set_aside_or_a_copy(values):
    screening = screen(memories("Sings", "Lives in Porto"), memories(*values))
    parts = [screening.asked, screening.too_long, screening.too_many, tuple(screening.copies)]
    parts.append(tuple(pair.predicted for pair in screening.identical))
    assert sorted(n for part in parts for n in part) == list(range(len(values)))
    assert not {*screening.copies} & {*screening.copies.values()}


MARKERS = ("<|im_end|>", "<|im_start|>system", "[INST]", "[/INST]", "<<SYS>>", "<end_of_turn>")
MARKERS += ("</s>", "<｜User｜>")


def test_markers_of_chat_templates_reach_a_judge_as_escapes_of_the_same_value():
    payload = {"kind": "match", "gold": [{"value": " b ".join(MARKERS)}], "predicted": []}
    text = payload_text(payload)
    assert [marker for marker in MARKERS if marker in text] == []
    assert json.loads(text) == payload


def shown(values: Sequence[str], **options: int) -> list[str]:
    """Return predicted values in the order that a judge is shown them."""
    judge = LlmJudge("openai/x", client=None, **options)  # type: ignore[arg-type]
    gold, predicted = gold_items(memories("a")), predicted_items(memories(*values))
    (request,) = requests_of(judge, MatchQuestion(gold, predicted))
    text = request.messages[-1]["content"]
    payload, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
    return [item["value"] for item in payload["predicted"]]


def test_lists_are_shown_in_an_order_that_hangs_on_seed_and_repeat_alone():
    values = [f"fact {n}" for n in range(8)]
    pairs = [(seed, repeat) for seed in range(3) for repeat in range(3)]
    orders = [shown(values, seed=seed, repeat=repeat) for seed, repeat in pairs]
    assert all(sorted(order) == values for order in orders)
    assert len({tuple(order) for order in orders}) == 9
    assert shown(values) == orders[0]


def embellishing(body):
    """Call everything narrower, and read in the dialogue that only even visitors bear it out."""
    text, number = body["messages"][-1]["content"], visitor(body)
    payload = json.loads(text[text.index("{") :]) if '"kind": ' in text else {}
    if payload.get("kind") == "support":
        said = "supported" if number % 2 == 0 else "unsupported"
        items = [{"reason": "", "id": item["id"], "support": said} for item in payload["items"]]
        return Answer(json.dumps({"items": items}))
    if is_judging(body):
        ids = {name: payload[name][0]["id"] for name in ("gold", "predicted")}
        return Answer(json.dumps({"pairs": [{"reason": "", **ids, "relation": "narrower"}]}))
    return Answer(json.dumps({"memory_items": memory_items(values_of(number)[0])}))


def test_a_run_checks_added_detail_and_prints_the_shares_by_relation(tmp_path):
    write_visitors(tmp_path / "data", 6)
    with serve(embellishing) as server:
        words = extraction(server.url, "out=out", "baseline_records=0")
        finished = run(tmp_path, *words, OPENAI_API_KEY="none")
    assert finished.returncode == 0, finished.stderr
    expected = {"matched_narrower": 3, "matched_same": 0, "unsupported_detail": 3}
    counts = task1(tmp_path / "out")["counts"]
    assert {name: counts[name] for name in expected} == expected
    shown = " ".join(run(tmp_path, "show", "out").stdout.split())
    assert "3 matches: 0% same, 100% narrower (the prediction adds supported detail)." in shown
    assert "3 with detail that the dialogue does not support" in shown
    scored = rows(tmp_path / "out" / "scores.jsonl")
    aside = [item["reason"] for row in scored for item in row.get("set_aside", ())]
    assert aside == ["unsupported detail"] * 3
