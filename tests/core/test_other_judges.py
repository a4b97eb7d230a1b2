import asyncio

import pytest

from alps.errors import DataError, UsageError
from alps.ext.adapters.recorded_verdicts import RELATION_OF, RecordedJudge
from alps.judges.base import RELATIONS, Judgement, Pair
from alps.judges.embedded import EmbeddedJudge
from alps.judges.matching import assign, match_memories
from alps.judges.repeated import RepeatedJudge, self_agreement
from alps.judges.rubric import RubricQuestion, rubric, support_answer
from tests.builders import memories
from tests.endtoend import write_rows

GOLD = memories("Plays the cello", "Lives in Graz")
PREDICTED = memories("A cellist", "Has a home in Graz")
SAME = {(0, 0): "same"}


class Opinion(EmbeddedJudge):
    """A judge with a fixed opinion."""

    name = "fixed"
    relations = frozenset(RELATIONS)
    comparable = True

    def __init__(self, *pairs, outcome="ok"):
        self.fingerprint = {"judge": "fixed"}
        self._judgement = Judgement(outcome, tuple(Pair(*pair, "because") for pair in pairs))

    async def answer(self, question, *, about):
        return self._judgement


def judged(judge, gold=GOLD, predicted=PREDICTED, about="b1"):
    return asyncio.run(match_memories(gold, predicted, judge=judge, about=about))


def relations(judgement):
    return {(pair.gold, pair.predicted): pair.relation for pair in judgement.pairs}


def test_the_majority_of_the_draws_decides():
    draws = [
        Opinion((0, 0, "same")),
        Opinion((0, 0, "same"), (1, 1, "same")),
        Opinion((0, 0, "related")),
    ]
    assert relations(judged(RepeatedJudge(draws))) == {(0, 0): "same"}


TIES = {
    "the stricter of two matches": ("narrower", {(0, 0): "narrower"}),
    "no match": ("conflicting", {(0, 0): "conflicting"}),
    "not named": (None, {}),
}


@pytest.mark.parametrize(("other", "decided"), TIES.values(), ids=TIES)
def test_a_tie_goes_against_the_system(other, decided):
    draws = [Opinion((0, 0, "same")), Opinion((0, 0, other)) if other else Opinion()]
    assert relations(judged(RepeatedJudge(draws))) == decided


def test_one_failed_draw_fails_the_judgement():
    draws = [Opinion((0, 0, "same")), Opinion(outcome="unparsable")]
    assert judged(RepeatedJudge(draws)).outcome == "unparsable"


VOTES = {
    "nothing named": ([{}, {}], 1.0),
    "two kinds of match": ([SAME, {(0, 0): "narrower"}], 1.0),
    "match and no match": ([SAME, {(0, 0): "broader"}], 0.0),
    "two of three": ([SAME, SAME, {}], 1 / 3),
    "one of two pairs": ([{**SAME, (1, 1): "same"}, SAME], 0.5),
}


@pytest.mark.parametrize(("votes", "agreement"), VOTES.values(), ids=VOTES)
def test_self_agreement_is_the_share_of_equal_decisions(votes, agreement):
    assert self_agreement(votes) == pytest.approx(agreement)


def record(**changes):
    items = [
        {"memory_id": f"m{n}", "type": "direct", "value": m.value}
        for n, m in enumerate(PREDICTED, start=1)
    ]
    reviews = [{"gold_id": GOLD[0].memory_id, "pred_id": "m1", "error_type": "EQUIVALENT"}]
    row = {
        "benchmark_id": "b1",
        "model_output": {"memory_items": items},
        "judge_output": {"pair_reviews": reviews},
    }
    return {**row, **changes}


def recorded(tmp_path, *rows):
    return RecordedJudge(write_rows(tmp_path / "records.jsonl", rows))


def own_ids(predicted):
    return tuple(
        m.model_copy(update={"memory_id": f"m{n}"}) for n, m in enumerate(predicted, start=1)
    )


@pytest.mark.parametrize("error_type", RELATION_OF)
def test_a_recorded_review_becomes_the_relation_of_its_pair(tmp_path, error_type):
    review = {"gold_id": GOLD[0].memory_id, "pred_id": "m1", "error_type": error_type}
    judge = recorded(tmp_path, record(judge_output={"pair_reviews": [review]}))
    judgement = judged(judge, predicted=own_ids(PREDICTED))
    assert relations(judgement) == {(0, 0): RELATION_OF[error_type]}
    matching = {"EQUIVALENT", "LABEL_WRONG", "TYPE_WRONG", "UNDERGENERAL"}
    assert bool(assign(judgement.pairs, "lenient")) == (error_type in matching)


UNREVIEWED = {
    "no record": ({"benchmark_id": "b2"}, "empty"),
    "no verdict": ({"judge_output": None}, "empty"),
    "another prediction": ({"model_output": {"memory_items": []}}, "invalid"),
    "no prediction": ({"model_output": None}, "invalid"),
}


@pytest.mark.parametrize(("changes", "outcome"), UNREVIEWED.values(), ids=UNREVIEWED)
def test_what_was_not_reviewed_is_a_failed_judgement(tmp_path, changes, outcome):
    judge = recorded(tmp_path, record(**changes))
    assert judged(judge, predicted=own_ids(PREDICTED)).outcome == outcome


@pytest.mark.parametrize(
    ("said", "name", "others"),
    [({"score": 1}, "pa", "ei"), ({"resonation": 4, "expression": 3, "reception": 5}, "ei", "cf")],
)
def test_a_recorded_rating_is_none_under_a_rubric_of_another_kind(tmp_path, said, name, others):
    given = {"responses": [{"response": "Take a walk."}]}
    judge = recorded(tmp_path, record(model_output=given, judge_output=said))

    def rated(name):
        question = RubricQuestion(rubric(name), "What now?", "Take a walk.", "Likes walks", ())
        return asyncio.run(judge.answer(question, about="b1"))

    assert rated(name).outcome == "ok"
    assert (rated(others).outcome, rated(others).marks) == ("invalid", {})
    assert "used another rubric" in rated(others).error


def test_bad_records_are_named_with_their_line_and_field(tmp_path):
    review = {"gold_id": "m1", "pred_id": "m1", "error_type": "MAYBE"}
    bad = record(judge_output={"pair_reviews": [review]})
    place = r"line 2, judge_output\.pair_reviews\.0\.error_type: .*MAYBE"
    with pytest.raises(DataError, match=place):
        recorded(tmp_path, record(), bad)
    with pytest.raises(UsageError, match="no such file"):
        RecordedJudge(tmp_path / "missing.jsonl")


NO_SUPPORT = {
    "an unknown verdict": ({"items": [{"id": "p1", "support": "maybe"}]}, "maybe"),
    "an item left out": ({"items": [{"id": "p1", "support": "supported"}]}, "p2"),
    "no list": ({"verdict": "supported"}, "items"),
}


@pytest.mark.parametrize(("node", "problem"), NO_SUPPORT.values(), ids=NO_SUPPORT)
def test_a_support_verdict_is_never_guessed(node, problem):
    with pytest.raises(ValueError, match=problem):
        support_answer(["p1", "p2"]).read(node)


def test_a_support_reply_is_read_item_by_item():
    items = [{"reason": "said", "id": f"p{n}", "support": "supported"} for n in (3, 2, 1)]
    read = support_answer(["p1", "p2"]).read({"items": items}).value
    assert read == dict.fromkeys(("p1", "p2"), ("supported", "said"))
