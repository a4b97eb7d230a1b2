import random

import numpy as np
import pytest
from scipy.special import stdtrit
from scipy.stats import t

from alps.stats.bootstrap import Estimate, clustered_difference, clustered_mean, clustered_ratio
from alps.stats.bounded import student_quantile
from tests.endtoend import run_cold, summary
from tests.few import few


def numbers(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


Z = 1.959963985


def agresti_coull(successes: float, trials: float) -> tuple[float, float]:
    """The published interval, Agresti and Coull 1998, cut at the ends of the range."""
    added = trials + Z * Z
    centre = (successes + Z * Z / 2) / added
    half = Z * (centre * (1 - centre) / added) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


@pytest.mark.parametrize(("successes", "trials"), [(10, 11), (24, 25), (30, 60), (1, 300)])
def test_a_rate_of_records_that_stand_alone_has_agresti_and_coulls_interval_at_students_quantile(
    successes, trials
):
    values = np.repeat([1.0, 0.0], [successes, trials - successes])
    estimate = clustered_mean(values, range(trials))
    worth = trials * (Z / t.ppf(0.975, trials - 1)) ** 2
    expected = agresti_coull(successes / trials * worth, worth)
    assert (estimate.low, estimate.high) == pytest.approx(expected, abs=1e-9)
    assert estimate.value == pytest.approx(successes / trials)
    assert estimate.n == trials


FREEDOM = np.array([0.4, 1, 1.2, 1.5, 2, 2.5, 3, 5, 7.3, 10, 25.5, 100, 1_000, 9_999, 100_000])


@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.975, 0.99, 1 - 1e-12])
def test_the_quantile_of_students_t_is_that_of_scipy(share, least):
    freedom = FREEDOM[least:]
    expected = stdtrit(freedom, share)
    assert student_quantile(freedom, share) == pytest.approx(expected, rel=2e-10, abs=1e-15)


@pytest.mark.parametrize(
    "words", [("task=extraction", "model=rules"), ("task=personamem", "model=floor/shortest")]
)
def test_a_score_has_the_same_interval_on_every_processor(tmp_path, words):
    # Sums of products in the way of processors of 2004: they round otherwise.
    for name, variables in {"here": {}, "there": {"OPENBLAS_CORETYPE": "Prescott"}}.items():
        assert run_cold(tmp_path, "run", *words, f"out={name}", **variables).returncode == 0
    here, there = (summary(tmp_path / name)["tracks"] for name in ("here", "there"))
    assert here == there


@pytest.mark.parametrize("count", [8, 11, 25, 300])
def test_where_all_records_have_the_best_value_the_interval_reaches_down_from_it(count):
    all_right = clustered_mean(np.ones(count), range(count))
    none_right = clustered_mean(np.zeros(count), range(count))
    assert (all_right.low, all_right.high) == pytest.approx(agresti_coull(count, count), abs=1e-9)
    assert (none_right.low, none_right.high) == pytest.approx((0.0, 1 - all_right.low))
    in_a_row = 0.05 ** (1 / count)  # the rate that gives so many in one case of twenty
    assert all_right.low < in_a_row


def test_values_that_agree_within_the_range_leave_room_on_both_sides():
    middle = clustered_mean(np.full(10, 0.5), range(10))
    assert middle.value - middle.low == pytest.approx(middle.high - middle.value)
    assert 0.1 < middle.high - middle.value < 0.2
    marks = clustered_mean(np.full(10, 3.0), range(10), bounds=(1, 5))
    assert (marks.low - 1) / 4 == pytest.approx(middle.low)


def test_records_of_a_session_that_agree_are_worth_less_than_as_many_that_stand_alone():
    alone = clustered_mean(np.ones(25), range(25))
    together = clustered_mean(np.ones(25), [n // 5 for n in range(25)])
    assert together.low < alone.low - 0.1
    assert together.low > agresti_coull(5, 5)[0]


@pytest.mark.parametrize(("records", "sessions"), [(60, 5), (300, 5), (300, 11)])
def test_few_sessions_of_many_records_have_no_interval_and_the_reason_is_said(records, sessions):
    values = np.random.default_rng(0).random(records)
    estimate = clustered_mean(values, [n % sessions for n in range(records)])
    assert (estimate.low, estimate.high) == (None, None)
    assert estimate.reason == f"{sessions} sessions are too few for {records} records"
    figures = {"value": estimate.value, "low": None, "high": None, "n": records}
    assert estimate.row == {**figures, "reason": estimate.reason}
    assert clustered_mean(values, range(records)).row.keys() == figures.keys()


def test_a_mean_is_a_ratio_with_weights_of_one():
    values, clusters = numbers(0.2, 0.9, 0.4, 0.7), ["a", "b", "b", "c"]
    assert clustered_mean(values, clusters) == clustered_ratio(values, np.ones(4), clusters)
    assert clustered_mean(values, clusters).value == pytest.approx(0.55)


@pytest.mark.parametrize("seed", range(5))
def test_the_interval_contains_the_value_and_a_scale_only_moves_and_stretches_it(seed):
    values = np.random.default_rng(seed).random(40)
    sessions = [n // 2 for n in range(40)]
    one = clustered_mean(values, sessions)
    assert one.low < one.value < one.high
    marks = clustered_mean(1 + 4 * values, sessions, bounds=(1, 5))
    assert (marks.low, marks.high) == pytest.approx((1 + 4 * one.low, 1 + 4 * one.high))


def test_values_without_bounds_have_students_interval_between_sessions():
    values = np.random.default_rng(3).normal(10, 3, 20)
    half = t.ppf(0.975, 19) * values.std(ddof=1) / 20**0.5
    ends = values.mean() - half, values.mean() + half
    for bounds in (None, (0, 1)):  # somebody's own metric may leave the bounds that it names
        estimate = clustered_mean(values, range(20), bounds=bounds)
        assert (estimate.low, estimate.high) == pytest.approx(ends)
    agree = clustered_mean(np.full(20, 7.0), range(20), bounds=None)
    assert (agree.low, agree.high) == (None, None)
    assert agree.reason == "all values are equal and unbounded"


def test_many_records_have_the_interval_of_the_normal_law():
    values = np.random.default_rng(4).random(40_000)
    estimate = clustered_mean(values, range(40_000))
    half = 1.96 * values.std() / 200
    ends = values.mean() - half, values.mean() + half
    assert (estimate.low, estimate.high) == pytest.approx(ends, abs=2e-5)


def test_records_of_a_session_that_resemble_each_other_widen_the_interval():
    sessions = np.random.default_rng(2).random(15)
    values = np.repeat(sessions, 8)
    clustered = clustered_mean(values, [n // 8 for n in range(120)])
    apart = clustered_mean(values, range(120))
    assert clustered.value == pytest.approx(apart.value)
    assert clustered.high - clustered.low > 2 * (apart.high - apart.low)


ALONE = "all records belong to one session"


@pytest.mark.parametrize(
    ("above", "below", "sessions", "expected", "reason"),
    [
        ((0.25, 0.75), (1, 1), "aa", Estimate(0.5, None, None, 2), ALONE),
        ((), (), "", Estimate(None, None, None, 0), None),
        ((0, 0), (0, 0), "ab", Estimate(None, None, None, 2), None),
        ((1, 0), (2, 0), "ab", Estimate(0.5, None, None, 2), ALONE),
    ],
    ids=["one session", "nothing", "a ratio to nothing", "a session without weight"],
)
def test_what_has_no_interval_says_why(above, below, sessions, expected, reason):
    found = clustered_ratio(numbers(*above), numbers(*below), list(sessions))
    assert (found, found.reason) == (expected, reason)
    if set(below) <= {1}:
        assert clustered_mean(numbers(*above), list(sessions)) == found


def test_sessions_without_weight_do_not_count():
    above, below = numbers(1, 1, 0, 2, 0), numbers(2, 1, 0, 2, 3)
    found = clustered_ratio(above, below, list("abcde"))
    some = below > 0
    heard = clustered_ratio(above[some], below[some], list("abde"))
    figures = heard.value, heard.low, heard.high
    assert (found.value, found.low, found.high) == pytest.approx(figures)


def test_the_order_of_records_does_not_matter():
    values, clusters = [0.1, 0.5, 0.9, 0.2, 0.4, 0.3], list("aaabbc")
    one = clustered_mean(numbers(*values), clusters)
    order = random.Random(1).sample(range(6), 6)
    other = clustered_mean(numbers(*(values[n] for n in order)), [clusters[n] for n in order])
    assert (other.low, other.high) == pytest.approx((one.low, one.high))


def test_systems_that_never_differ_may_still_differ_where_nobody_looked():
    same = np.ones(25)
    found = clustered_difference(same, same, range(25))
    assert found.value == 0
    assert found.low == pytest.approx(-found.high)
    assert 0.1 < found.high < 0.2
    # Half as many records that differ the most are taken to be unseen as of scores.
    differing = np.array([0.2, -0.1] * 10)
    of_differences = clustered_mean(differing, range(20), bounds=(-1.0, 1.0), difference=True)
    assert clustered_difference(differing, np.zeros(20), range(20)) == of_differences
    assert of_differences != clustered_mean(differing, range(20), bounds=(-1.0, 1.0))


@pytest.mark.parametrize(("above", "below", "clusters"), [(2, 1, 2), (2, 2, 1), (1, 2, 2)])
def test_lengths_that_differ_are_refused(above, below, clusters):
    with pytest.raises(ValueError, match="lengths differ"):
        clustered_ratio(np.ones(above), np.ones(below), ["a"] * clusters)


@pytest.mark.parametrize("rate", few([0.8, 0.95, 0.99], plain={1}))
@pytest.mark.parametrize(
    ("records", "sessions"), few([(11, 11), (25, 25), (25, 5), (60, 11)], plain={0, 2})
)
def test_an_interval_at_95_percent_covers_the_truth_in_nine_of_ten_samples(rate, records, sessions):
    """Percentiles of a bootstrap covered .10 to .77 of these rates alone."""
    generator = np.random.default_rng(11)
    names, covered = [n * sessions // records for n in range(records)], 0
    for _ in range(300):
        own = np.full(sessions, rate)
        if sessions < records:
            own = generator.beta(rate * 7 / 3, (1 - rate) * 7 / 3, sessions)
        values = (generator.random(records) < own[names]).astype(np.float64)
        estimate = clustered_mean(values, names)
        covered += estimate.low <= rate <= estimate.high
    assert covered / 300 >= 0.90
