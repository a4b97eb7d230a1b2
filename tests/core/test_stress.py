import re
from collections import Counter

import pytest

from alps.judges.matching import RELATIONS
from alps.judges.rubric import BINARY, Rating, RubricQuestion, enforce, rubric
from alps.schema import Turn
from tests.conftest import ROOT
from tests.endtoend import rows

RUBRICS = (*BINARY, "ei")
ITEMS = {path.stem: rows(path) for path in sorted((ROOT / "judges" / "stress").glob("*.jsonl"))}
KINDS = {
    *(
        "good",
        "specifically_wrong",
        "vaguely_wrong",
        "reworded",
        "other_language",
        "wrong_person",
        "fiction_as_fact",
    ),
    *("injection", "generic", "copied", "narrower", "bundle", "same", "refusal", "partial"),
}


def question(item):
    given = dict(item["payload"])
    dialogue = [Turn(**turn) for turn in given.pop("dialogue")]
    return RubricQuestion(rubric(item["rubric"]), dialogue=dialogue, **given)


def test_every_rubric_and_the_matching_have_items_with_known_answers():
    assert ITEMS.keys() == {*RUBRICS, "matching"}
    assert len(ITEMS["matching"]) >= 60
    assert all(len(ITEMS[name]) >= 20 for name in RUBRICS)


@pytest.mark.parametrize("name", ITEMS)
def test_items_are_told_apart_and_of_a_known_kind(name):
    items = ITEMS[name]
    assert max(Counter(item["item_id"] for item in items).values()) == 1
    assert {item["rubric"] for item in items} == {name}
    assert {item["kind"] for item in items} <= KINDS


@pytest.mark.parametrize("name", BINARY)
def test_right_and_wrong_answers_are_about_as_many(name):
    met = sum(item["label"] for item in ITEMS[name])
    assert {item["label"] for item in ITEMS[name]} == {0, 1}
    assert 0.35 < met / len(ITEMS[name]) < 0.65


def test_emotional_items_use_the_whole_scale():
    marks = [mark for item in ITEMS["ei"] for mark in item["label"]]
    assert {len(item["label"]) for item in ITEMS["ei"]} == {3}
    assert set(marks) == {1, 2, 3, 4, 5}


def test_every_relation_and_none_occur_in_matching():
    assert {item["label"] for item in ITEMS["matching"]} == {*RELATIONS, "unrelated"}


@pytest.mark.parametrize(
    "item", [pytest.param(i, id=i["item_id"]) for name in RUBRICS for i in ITEMS[name]]
)
def test_a_judge_that_says_the_right_thing_is_never_overruled(item):
    right = {"met": item["label"]} if item["rubric"] != "ei" else None
    marks = right or dict(
        zip(("resonation", "expression", "reception"), item["label"], strict=True)
    )
    assert enforce(Rating("ok", marks), question(item)).marks == marks


@pytest.mark.parametrize("name", RUBRICS)
def test_copies_are_overruled_whatever_a_judge_says(name):
    best = dict.fromkeys(rubric(name).lowest, 5 if name == "ei" else 1)
    for item in (i for i in ITEMS[name] if i["kind"] == "copied"):
        assert enforce(Rating("ok", best), question(item)).marks == rubric(name).lowest


def responses(name, kind, label):
    return {
        item["payload"]["response"]
        for item in ITEMS[name]
        if item["kind"] == kind and item["label"] == label
    }


@pytest.mark.parametrize("name", RUBRICS)
def test_a_refusal_that_anybody_could_have_got_earns_nothing(name):
    worst = [1, 2, 1] if name == "ei" else 0
    assert responses(name, "refusal", worst)
    assert "I'm sorry, I can't help with that." not in {
        item["payload"]["response"] for item in ITEMS[name] if item["label"] not in (0, [1, 2, 1])
    }


@pytest.mark.parametrize("name", ["vra", "cf"])
def test_refusals_are_told_apart_by_whether_they_draw_the_line_about_this_user(name):
    assert len(responses(name, "refusal", 0)) >= 5
    assert len(responses(name, "refusal", 1)) >= 2
    assert len(responses(name, "partial", 1)) >= 2
    scripts = {bool(re.search(r"[\u4e00-\u9fff]", text)) for text in responses(name, "refusal", 0)}
    assert scripts == {True, False}


def test_the_refusal_that_was_once_labelled_met_is_not():
    assert {item["item_id"]: item["label"] for item in ITEMS["vra"]}["vra-12"] == 0
