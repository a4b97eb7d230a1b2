import random

import pytest

from alps.run.scores import RecordScores, count_failure
from alps.schema import FAILURES, UNHEARD
from alps.stats.bootstrap import Estimate
from alps.tasks import Metric, MicroRatio, Scored

F1 = Metric("f1", "F1")
RECALL = Metric("recall_indirect", "recall, indirect")
ERROR = Metric("confidence_error", "confidence error", lower_is_better=True)
MICRO = Metric("f1_micro", "F1 (micro)", MicroRatio({"matched": 2}, {"gold": 1, "predicted": 1}))
METRICS = (F1, RECALL, ERROR, MICRO)


def record(
    f1: float, matched: int = 0, gold: int = 0, predicted: int = 0, **scores: float
) -> Scored:
    return Scored({"f1": f1, **scores}, {"matched": matched, "gold": gold, "predicted": predicted})


def board(*records: tuple[int, str, Scored]) -> RecordScores:
    filled = RecordScores(METRICS)
    for place, session, scored in records:
        filled.add(place, session, scored)
    return filled


def some_records(count: int = 30) -> list[tuple[int, str, Scored]]:
    draw = random.Random(4)
    rows = []
    for place in range(count):
        indirect = {"recall_indirect": draw.random()} if place % 3 else {}
        scored = record(
            draw.random(), draw.randrange(4), draw.randrange(4, 9), draw.randrange(4, 9), **indirect
        )
        rows.append((place, f"s{place // 2}", scored))
    return rows


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_an_empty_board_has_no_figures(metric):
    empty = board()
    assert empty.estimate(metric) == Estimate(None, None, None, 0)
    assert empty.bounds(metric, empty.estimate(metric)) is None
    assert empty.scored == 0


@pytest.mark.parametrize("shuffled_with", [1, 2, 3])
@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_order_in_which_records_are_finished_does_not_change_a_figure(metric, shuffled_with):
    rows = some_records()
    shuffled = random.Random(shuffled_with).sample(rows, len(rows))
    assert board(*shuffled).estimate(metric) == board(*rows).estimate(metric)


def test_a_mean_is_taken_over_the_records():
    estimate = board((0, "a", record(0.2)), (1, "b", record(0.6)), (2, "c", record(1.0))).estimate(
        F1
    )
    assert estimate.value == pytest.approx(0.6)
    assert estimate.n == 3
    assert estimate.low is not None


def test_a_figure_that_is_not_defined_for_a_record_leaves_it_out():
    filled = board(
        (0, "a", record(1.0)),
        (1, "b", record(1.0, recall_indirect=0.5)),
        (2, "c", record(1.0)),
        (3, "d", record(1.0, recall_indirect=0.0)),
    )
    estimate = filled.estimate(RECALL)
    assert (estimate.value, estimate.n) == (0.25, 2)
    assert filled.estimate(F1).n == 4


def test_a_figure_that_no_record_defines_has_no_value():
    assert board((0, "a", record(1.0)), (1, "b", record(0.0))).estimate(RECALL) == Estimate(
        None, None, None, 0
    )


def test_a_micro_figure_is_the_ratio_of_sums():
    filled = board((0, "a", record(1.0, 1, 1, 1)), (1, "b", record(0.0, 0, 9, 3)))
    assert filled.estimate(MICRO).value == pytest.approx(2 * 1 / (10 + 4))
    assert filled.estimate(F1).value == pytest.approx(0.5)


def test_repeats_of_a_record_count_each_and_their_order_does_not_matter():
    rows = [
        (place, repeat, record(draw))
        for repeat in (0, 1)
        for place, draw in enumerate((0.1, 0.7, 0.9, 0.3))
    ]
    estimates = set()
    for order in (rows, rows[::-1], random.Random(1).sample(rows, len(rows))):
        filled = RecordScores(METRICS)
        for place, repeat, scored in order:
            filled.add(place, f"s{place}", scored, repeat=repeat)
        estimates.add(filled.estimate(F1))
    (only,) = estimates
    assert (only.value, only.n) == (pytest.approx(0.5), 8)


def test_each_repeat_has_its_own_mean():
    filled = RecordScores(METRICS)
    for place, repeat, f1 in [(1, 1, 0.9), (0, 0, 0.2), (0, 1, 0.7), (1, 0, 0.4)]:
        filled.add(place, f"s{place}", record(f1), repeat=repeat)
    assert filled.by_repeat(F1) == pytest.approx([0.3, 0.8])


def test_counts_are_summed():
    filled = board((0, "a", record(1.0, 2, 3, 4)), (1, "b", record(1.0, 1, 1, 1)))
    assert (filled.total("matched"), filled.total("gold"), filled.total("unheard_of")) == (3, 4, 0)


def test_bounds_are_what_the_worst_and_the_best_of_the_unscored_would_make_of_it():
    filled = board((0, "a", record(0.5)), (1, "b", record(1.0)), (2, "c", record(0.0)))
    filled.add_unscored()
    low, high = filled.bounds(F1, filled.estimate(F1))
    assert low == pytest.approx(1.5 / 4)
    assert high == pytest.approx(2.5 / 4)


def test_the_worst_error_is_the_highest_and_the_best_the_lowest():
    filled = board((0, "a", record(0.5, confidence_error=0.2)))
    filled.add_unscored()
    assert filled.bounds(ERROR, filled.estimate(ERROR)) == (pytest.approx(0.6), pytest.approx(0.1))


def test_ratios_of_sums_have_no_worst_record_and_no_bounds():
    filled = board((0, "a", record(0.5, 1, 1, 1)))
    filled.add_unscored()
    assert filled.bounds(MICRO, filled.estimate(MICRO)) is None


def test_a_difference_is_taken_record_by_record_over_those_that_both_have():
    mine = board((0, "a", record(0.9)), (1, "b", record(0.4)), (3, "d", record(1.0)))
    theirs = board((2, "c", record(0.0)), (1, "b", record(0.1)), (0, "a", record(0.6)))
    difference = mine.difference(theirs, F1)
    assert difference.value == pytest.approx(0.3)
    assert difference.n == 2
    assert difference.low < -0.3  # two records that differ alike don't tell that all do
    assert difference.high > 0.7


def test_a_paired_difference_is_surer_than_two_intervals():
    draw = random.Random(3)
    hard = [draw.random() * 0.8 for _ in range(60)]
    mine = board(
        *((n, f"s{n}", record(value + 0.1 + draw.random() / 50)) for n, value in enumerate(hard))
    )
    theirs = board(*((n, f"s{n}", record(value)) for n, value in enumerate(hard)))
    difference = mine.difference(theirs, F1)
    assert difference.low > 0
    assert mine.estimate(F1).low < theirs.estimate(F1).high


def test_a_difference_does_not_depend_on_the_order_in_which_records_are_finished():
    rows = some_records()
    others = [(place, session, record(place / 100)) for place, session, _ in rows]
    one = board(*rows).difference(board(*others), F1)
    assert board(*reversed(rows)).difference(board(*others[5:], *others[:5]), F1) == one


@pytest.mark.parametrize("outcome", UNHEARD)
def test_a_system_that_was_not_heard_is_unscored(outcome):
    filled = board()
    count_failure(filled, outcome)
    assert (filled.unscored, filled.failed_predictions[outcome]) == (1, 1)


@pytest.mark.parametrize("outcome", FAILURES)
def test_a_system_that_was_heard_and_failed_is_counted_but_not_unscored(outcome):
    filled = board()
    count_failure(filled, outcome)
    assert (filled.unscored, filled.failed_predictions[outcome]) == (0, 1)
