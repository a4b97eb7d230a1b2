import math
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alps.run.scores import RecordColumn, RecordScores, count_failure
from alps.schema import FAILURES, UNHEARD
from alps.stats.bootstrap import Estimate
from alps.tasks import Metric, MicroRatio, Scored

F1 = Metric("f1", "F1")
RECALL = Metric("recall_indirect", "recall, indirect")
ERROR = Metric("confidence_error", "confidence error", lower_is_better=True)
MICRO = Metric("f1_micro", "F1 (micro)", MicroRatio({"matched": 2}, {"gold": 1, "predicted": 1}))
METRICS = (F1, RECALL, ERROR, MICRO)


def record(f1: float, *sums: int, **scores: float) -> Scored:
    """Return what a record scored; the sums are matched, gold and predicted."""
    counts = dict(zip(("matched", "gold", "predicted"), sums or (0, 0, 0), strict=True))
    return Scored({"f1": f1, **scores}, counts)


def board(*records: tuple[int, str, Scored]) -> RecordScores:
    filled = RecordScores(METRICS)
    for place, session, scored in records:
        filled.add(place, session, scored)
    return filled


def apart(*records: Scored) -> RecordScores:
    """Return the scores of records that each have a session of their own."""
    return board(*((place, f"s{place}", scored) for place, scored in enumerate(records)))


def some_records() -> list[tuple[int, str, Scored]]:
    draw = random.Random(4)
    rows = []
    for place in range(30):
        indirect = {"recall_indirect": draw.random()} if place % 3 else {}
        sums = draw.random(), draw.randrange(4), draw.randrange(4, 9), draw.randrange(4, 9)
        rows.append((place, f"s{place // 2}", record(*sums, **indirect)))
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


HALF = (record(1.0), record(1.0, recall_indirect=0.5), record(1.0, recall_indirect=0.0))
FIGURES = {
    "a mean": (F1, (record(0.2), record(0.6), record(1.0)), 0.6, 3),
    "not defined for a record": (RECALL, HALF, 0.25, 2),
    "not defined for any": (RECALL, (record(1.0), record(0.0)), None, 0),
    "a ratio of sums": (MICRO, (record(1.0, 1, 1, 1), record(0.0, 0, 9, 3)), 2 / 14, 2),
}


@pytest.mark.parametrize(("metric", "records", "value", "n"), FIGURES.values(), ids=FIGURES)
def test_a_figure_is_taken_over_the_records_that_define_it(metric, records, value, n):
    filled = apart(*records)
    estimate = filled.estimate(metric)
    assert (estimate.value, estimate.n) == (value if value is None else pytest.approx(value), n)
    assert (estimate.low is None) == (estimate.high is None) == (value is None)
    assert filled.estimate(F1).n == len(records)


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
    filled = apart(record(1.0, 2, 3, 4), record(1.0, 1, 1, 1))
    assert (filled.total("matched"), filled.total("gold"), filled.total("unheard_of")) == (3, 4, 0)


BOUNDS = {
    "higher is better": (F1, (record(0.5), record(1.0), record(0.0)), (1.5 / 4, 2.5 / 4)),
    "lower is better": (ERROR, (record(0.5, confidence_error=0.2),), (0.6, 0.1)),
    "a ratio of sums has none": (MICRO, (record(0.5, 1, 1, 1),), None),
}


@pytest.mark.parametrize(("metric", "records", "bounds"), BOUNDS.values(), ids=BOUNDS)
def test_bounds_are_what_the_worst_and_the_best_of_the_unscored_would_make_of_it(
    metric, records, bounds
):
    filled = apart(*records)
    filled.unscored += 1
    found = filled.bounds(metric, filled.estimate(metric))
    assert found == (bounds if bounds is None else pytest.approx(bounds))


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
    mine = apart(*(record(value + 0.1 + draw.random() / 50) for value in hard))
    theirs = apart(*map(record, hard))
    difference = mine.difference(theirs, F1)
    assert difference.low > 0
    assert mine.estimate(F1).low < theirs.estimate(F1).high


def test_a_difference_does_not_depend_on_the_order_in_which_records_are_finished():
    rows = some_records()
    others = [(place, session, record(place / 100)) for place, session, _ in rows]
    one = board(*rows).difference(board(*others), F1)
    assert board(*reversed(rows)).difference(board(*others[5:], *others[:5]), F1) == one


@pytest.mark.parametrize("outcome", [*UNHEARD, *FAILURES])
def test_a_system_is_unscored_where_it_was_not_heard_and_not_where_it_failed(outcome):
    filled = board()
    count_failure(filled, outcome)
    unscored = int(outcome in UNHEARD)
    assert (filled.unscored, filled.failed_predictions[outcome]) == (unscored, 1)


REPRODUCIBLY = settings(max_examples=100, deadline=None, derandomize=True, database=None)
GAPS = st.integers(min_value=0, max_value=3)
SMALL = st.integers(min_value=0, max_value=254).map(float)
ANY = st.one_of(
    SMALL, st.sampled_from([255.0, 256.0, -1.0, 0.5, math.nan, math.inf]), st.floats(width=64)
)


@REPRODUCIBLY
@given(st.lists(st.tuples(GAPS, SMALL)), st.lists(st.tuples(GAPS, ANY)))
def test_a_column_gives_back_what_was_put_into_it_and_nothing_between(small, others):
    column, expected = RecordColumn(), []
    for gap, number in [*small, *others]:
        expected += [math.nan] * gap
        column.put(len(expected), number)
        expected.append(number)
    assert len(column) == len(expected)
    assert np.array_equal(column.numbers(), np.array(expected, dtype=np.float64), equal_nan=True)


@pytest.mark.parametrize(("number", "most"), [(254.0, 1.3), (0.5, 9.3)])
def test_whole_numbers_take_a_byte_each_and_others_eight(number, most):
    count = 50_000
    tracemalloc.start()
    try:
        column = RecordColumn()
        for place in range(count):
            column.put(place, number)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most / 2 < taken / count < most
