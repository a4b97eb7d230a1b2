"""F1 of what changed: standing contradictions, reworded or dropped memories, and copies."""

import pytest

from alps.judges.embedded import LexicalJudge
from alps.tasks.update_scores import states_besides
from tests.core.test_update import (
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


class Lenient(Names):
    """Takes every value that begins with a gold one for a more detailed form of it."""

    async def answer(self, question, *, about):
        pairs = []
        for gold in question.gold:
            for predicted in question.predicted:
                if predicted.value.startswith(gold.value):
                    pairs.append((gold.value, predicted.value, "same"))
        self.pairs = tuple(pairs)
        return await super().answer(question, about=about)


def in_one(text):
    return m(f"{TEACHER.value} {text}", "m2_updated")


@pytest.mark.parametrize(
    ("teacher", "f1", "kept"),
    [
        pytest.param([TEACHER], 1, 0, id="the old one is gone"),
        pytest.param([in_one("at a school")], 1, 0, id="with detail of its own"),
        # One right change of two, and one wrong.
        pytest.param([TEACHER, NURSE], 1 / 2, 1, id="both are in the list"),
        pytest.param([in_one("(formerly works as a nurse)")], 1 / 2, 1, id="both in one value"),
        pytest.param([in_one("; Works as a Nurse")], 1 / 2, 1, id="with a semicolon"),
        pytest.param([NURSE], 1 / 2, 1, id="the old one alone"),
    ],
)
def test_a_change_whose_old_memory_is_kept_is_not_made(teacher, f1, kept):
    rest = [memory for memory in GOLD if memory != TEACHER]
    scored = score(update_sample(), answer(*rest, *teacher), Lenient())
    assert scored.scores["f1_changed"] == pytest.approx(f1 if teacher != [NURSE] else 2 / 3)
    assert scored.counts["kept_gone"] == kept


def test_keeping_every_contradiction_earns_nothing():
    both = m("Teaches physics, formerly works as a nurse", "m2_updated")
    sample = update_sample(gold=(OLD[0], TEACHER, OLD[2], OLD[3]))
    for listed in ([*OLD, TEACHER], [OLD[0], both, OLD[2], OLD[3]]):
        scored = score(sample, answer(*listed), Lenient())
        assert scored.scores["f1_changed"] == 0
    assert score(sample, answer(*sample.gold), Lenient()).scores["f1_changed"] == 1


@pytest.mark.parametrize(
    ("value", "new", "old", "kept"),
    [
        ("Teaches physics; before that: works as a nurse", "Teaches physics", "Is a nurse", True),
        ("Used to run 5 km a week, now 10 km", "Runs 10 km a week", "Runs 5 km a week", True),
        # Half of what only the old one says is not most of it.
        ("Works as a physics teacher", "Teaches physics", "Works as a nurse", False),
        ("No coffee in the morning", "Drinks no coffee", "Drinks coffee every morning", False),
    ],
)
def test_an_old_value_is_stated_by_most_of_what_is_its_own(value, new, old, kept):
    assert states_besides(value, new, old) is kept


def test_a_retained_memory_is_never_taken_for_one_that_is_gone():
    head = m("Works as a nurse in the heart ward", "m9")
    old, gold = (*OLD, head), (*GOLD, head)
    scored = score(update_sample(gold, old), answer(*gold))
    assert (scored.scores["f1_changed"], scored.counts["kept_gone"]) == (1, 0)
    grown = m("Owns a cat and a dog", "m1_updated")
    gold = (grown, *OLD[1:])
    scored = score(update_sample(gold), answer(m("Owns a cat and a dog now", "x"), *OLD[1:]))
    assert scored.counts["kept_gone"] == 0


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
