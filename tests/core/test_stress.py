import pytest

from alps.judges.matching import RELATIONS
from alps.judges.rubric import BINARY, Rating, RubricQuestion, enforce, rubric
from alps.schema import Turn
from tests.conftest import ROOT
from tests.endtoend import rows

RUBRICS = (*BINARY, "ei")
ITEMS = {path.stem: rows(path) for path in sorted((ROOT / "judges" / "stress").glob("*.jsonl"))}


def question(item):
    given = dict(item["payload"])
    dialogue = [Turn(**turn) for turn in given.pop("dialogue")]
    return RubricQuestion(rubric(item["rubric"]), dialogue=dialogue, **given)


def test_every_rubric_and_the_matching_have_items_with_known_answers():
    assert ITEMS.keys() == {*RUBRICS, "matching"}
    assert len(ITEMS["matching"]) >= 60
    assert all(len(ITEMS[name]) >= 20 for name in RUBRICS)


def test_every_relation_and_none_occur_in_matching():
    assert {item["label"] for item in ITEMS["matching"]} == {*RELATIONS, "unrelated"}


@pytest.mark.parametrize("name", RUBRICS)
def test_a_judge_that_says_the_right_thing_is_never_overruled(name):
    for item in ITEMS[name]:
        said = item["label"] if name == "ei" else [item["label"]]
        marks = dict(zip(rubric(name).lowest, said, strict=True))
        assert enforce(Rating("ok", marks), question(item)).marks == marks, item["item_id"]


@pytest.mark.parametrize("name", RUBRICS)
def test_copies_are_overruled_whatever_a_judge_says(name):
    best = dict.fromkeys(rubric(name).lowest, 5 if name == "ei" else 1)
    for item in (i for i in ITEMS[name] if i["kind"] == "copied"):
        assert enforce(Rating("ok", best), question(item)).marks == rubric(name).lowest
