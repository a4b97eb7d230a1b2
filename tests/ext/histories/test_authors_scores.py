"""Scores as the authors of sets compute them: rules by table, and floors that follow from them."""

import pytest

from alps.ext.histories.authors import (
    HALUMEM,
    LONGMEMEVAL,
    order_agreement,
    rubric_of_type,
    score_of,
)
from alps.ext.histories.model import SetQuestion
from alps.ext.histories.porter import stem

STEMS = {
    "caresses": "caress", "ponies": "poni", "ties": "tie", "cats": "cat", "agreed": "agre",
    "plastered": "plaster", "motoring": "motor", "conflated": "conflat", "hopping": "hop",
    "falling": "fall", "filing": "file", "happy": "happi", "enjoy": "enjoy", "relational": "relat",
    "conditional": "condit", "vietnamization": "vietnam", "electriciti": "electr",
    "hopefulness": "hope", "formalize": "formal", "goodness": "good", "adjustment": "adjust",
    "adoption": "adopt", "controll": "control", "rate": "rate", "cease": "ceas", "news": "news",
    "dying": "die", "skies": "sky", "died": "die", "by": "by", "a": "a", "": "",
    "geologi": "geolog",
    "formalli": "formal",
}  # fmt: skip


@pytest.mark.parametrize(("word", "expected"), list(STEMS.items()))
def test_words_have_the_stems_that_published_figures_were_computed_with(word, expected):
    assert stem(word) == expected


F1 = {
    "the same": ("4", "two kayaks", "two kayaks", 1.0),
    "articles, case and commas": ("4", "The kayak, and an oar!", "kayak oar", 1.0),
    "stems": ("4", "she was rowing boats", "rows boat", 2 / 3),
    "nothing in common": ("2", "May 2030", "7 June", 0.0),
    "half": ("2", "June 2030", "2 June 2031", 0.4),
    "open domain: the gold ends at a semicolon": ("3", "No", "No; her shoulder hurts", 1.0),
    "elsewhere it does not": ("4", "No", "No; her shoulder hurts", 0.4),
    "parts: each has its best": ("1", "sailing, kayaking", "kayaking, sailing", 1.0),
    "parts: one is missing": ("1", "sailing", "kayaking, sailing", 0.5),
    "parts: no comma in the answer": ("1", "sailing kayaking", "kayaking, sailing", 2 / 3),
    "adversarial: declined": ("5", "There is no information available.", "four", 1.0),
    "adversarial: not mentioned": ("5", "Not mentioned", "four", 1.0),
    "adversarial: the bait": ("5", "four", "four", 0.0),
    "an empty answer": ("4", "", "kayak", 0.0),
}


@pytest.mark.parametrize(("kind", "answer", "gold", "expected"), F1.values(), ids=F1)
def test_locomo_scores_by_category(kind, answer, gold, expected):
    assert score_of(kind, answer, gold) == pytest.approx(expected)


ORDERS = {
    "in order": ("abc", "abc", [0, 1, 2], 1.0),
    "turned round": ("abc", "cba", [2, 1, 0], 0.0),
    "one swapped pair": ("abc", "bac", [1, 0, 2], 2 / 3),
    "nothing found, one line": ("ab", "x", [-1], 0.0918),
    "one of two, nothing else": ("ab", "a", [0], 1.0),
}


@pytest.mark.parametrize(("nuggets", "lines", "found", "expected"), ORDERS.values(), ids=ORDERS)
def test_beam_compares_the_order_of_lines_with_that_of_nuggets(nuggets, lines, found, expected):
    assert order_agreement(nuggets, lines, found) == pytest.approx(expected, abs=1e-4)


def question(kind, **more):
    return SetQuestion("q", "h", "What?", "gold", kind, **more)


TYPES = {
    "single-session-user": "type_answer",
    "single-session-assistant": "type_answer",
    "multi-session": "type_answer",
    "temporal-reasoning": "type_time",
    "knowledge-update": "type_update",
    "single-session-preference": "type_guide",
}


@pytest.mark.parametrize(("kind", "rubric"), list(TYPES.items()))
def test_longmemeval_judges_by_type_and_abstention_before_it(kind, rubric):
    assert rubric_of_type(question(kind)) == rubric
    assert rubric_of_type(question(kind, abstains=True)) == "type_absent"


def test_longmemeval_keeps_abstention_in_the_figure_of_its_type():
    absent = question("multi-session", abstains=True)
    scores, counts = LONGMEMEVAL.score(absent, "an answer", {"type_absent": 1})
    assert scores == {"by_type": 1.0, "by_type_absent": 1.0}
    assert counts == {"right_multi_session": 1.0, "asked_multi_session": 1.0}


@pytest.mark.parametrize(
    ("mark", "name"), list(enumerate(("hallucination", "omission", "correct")))
)
def test_halumem_sorts_an_answer_into_one_of_three(mark, name):
    rates, _ = HALUMEM.score(question("Dynamic Update"), "an answer", {"outcome": mark})
    assert {key for key, value in rates.items() if value} == {name}
    assert sum(rates.values()) == 1
