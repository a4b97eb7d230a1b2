"""F1 of what changed: standing contradictions, reworded or dropped memories, and copies."""

import pytest

from alps.judges.lexical import LexicalJudge
from tests.test_update import (
    GOLD,
    NURSE,
    OLD,
    TEACHER,
    VIOLIN,
    Names,
    answer,
    m,
    score,
    update_sample,
)


def test_a_contradiction_that_is_kept_costs_in_the_headline():
    deleted = score(update_sample(), answer(*GOLD))
    kept = score(update_sample(), answer(*GOLD, NURSE))
    assert deleted.scores["f1_changed"] == 1
    assert kept.scores["f1_changed"] == pytest.approx(
        4 / 5
    )  # two right changes, and one that was not made


@pytest.mark.parametrize(
    ("judge", "precision"),
    [
        pytest.param(
            Names((OLD[0].value, "Feline household", "related")), 2 / 3, id="the judge relates them"
        ),
        pytest.param(Names(), 1 / 2, id="it tells relations, and names none"),
        pytest.param(LexicalJudge(), 2 / 3, id="it tells none"),
    ],
)
def test_a_retained_memory_that_was_reworded_is_one_wrong_change(judge, precision):
    scored = score(update_sample(), answer(*GOLD[1:], m("Feline household", "m9")), judge)
    assert scored.scores["precision_changed"] == precision


def test_dropping_the_old_list_pays_for_no_wrong_memory():
    wrong = [m(f"Something else, number {word}", f"n{word}") for word in ("one", "six", "ten")]
    dropped = score(update_sample(), answer(TEACHER, VIOLIN))
    padded = score(update_sample(), answer(TEACHER, VIOLIN, *wrong))
    assert padded.scores["f1_changed"] < dropped.scores["f1_changed"]


def test_where_nothing_changes_leaving_the_list_alone_is_right_and_a_second_copy_counts_once():
    scored = score(update_sample(OLD, OLD), answer(*OLD, m("Owns a cat", "m9")))
    assert (scored.scores["precision"], scored.scores["f1_changed"]) == (1, 1)
    assert scored.counts["repeated_items"] == 1
    assert score(update_sample(OLD, OLD), answer(*OLD)).scores["f1_changed"] == 1
