import math
import random
import tracemalloc

import numpy as np
import pytest

from alps.stats.bootstrap import DRAWS, Estimate, clustered_mean, clustered_ratio


def numbers(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def naive(above: list[float], below: list[float], clusters: list[str], *, seed: int, draws: int) -> tuple[float, float]:
    """Resample the plain way: draw clusters, put their records together, divide the sums, read off two percentiles."""
    names = list(dict.fromkeys(clusters))
    chosen = np.random.Generator(np.random.PCG64(seed)).integers(0, len(names), size=(draws, len(names)))
    ratios = []
    for draw in chosen:
        records = [n for code in draw for n, name in enumerate(clusters) if name == names[code]]
        weight = sum(below[n] for n in records)
        if weight > 0:
            ratios.append(sum(above[n] for n in records) / weight)
    ratios.sort()

    def percentile(share: float) -> float:
        place = share * (len(ratios) - 1)
        left = math.floor(place)
        right = min(left + 1, len(ratios) - 1)
        return ratios[left] + (place - left) * (ratios[right] - ratios[left])

    return percentile(0.025), percentile(0.975)


@pytest.mark.parametrize("seed", [0, 1, 12])
def test_the_interval_is_that_of_the_plain_way_with_the_same_draws(seed):
    draw = random.Random(seed)
    clusters = [draw.choice("abcdef") for _ in range(25)]
    below = [float(draw.choice([0, 0, 1, 3])) for _ in clusters]
    above = [draw.uniform(0, weight) for weight in below]
    estimate = clustered_ratio(numbers(*above), numbers(*below), clusters, seed=seed, draws=300)
    assert estimate.value == pytest.approx(sum(above) / sum(below))
    assert (estimate.low, estimate.high) == pytest.approx(naive(above, below, clusters, seed=seed, draws=300))
    assert estimate.n == 25


def test_a_mean_is_a_ratio_with_weights_of_one():
    values, clusters = numbers(0.2, 0.9, 0.4, 0.7), ["a", "b", "b", "c"]
    assert clustered_mean(values, clusters, seed=3) == clustered_ratio(values, np.ones(4), clusters, seed=3)
    assert clustered_mean(values, clusters).value == pytest.approx(0.55)


@pytest.mark.parametrize("seed", range(5))
def test_the_interval_contains_the_value(seed):
    values = np.random.default_rng(seed).random(40)
    estimate = clustered_mean(values, [n // 2 for n in range(40)], seed=seed)
    assert estimate.low < estimate.value < estimate.high


def test_values_that_do_not_vary_have_an_interval_without_width():
    assert clustered_mean(np.full(10, 0.5), list(range(10))) == Estimate(0.5, 0.5, 0.5, 10)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    values = np.random.default_rng(0).random(30)
    assert clustered_mean(values, range(30), seed=1) == clustered_mean(values, range(30), seed=1)
    assert clustered_mean(values, range(30), seed=1) != clustered_mean(values, range(30), seed=2)


def test_more_draws_move_the_bounds_less_from_seed_to_seed():
    values = np.random.default_rng(5).random(40)

    def spread(draws: int) -> float:
        return float(np.std([clustered_mean(values, range(40), seed=seed, draws=draws).low for seed in range(12)]))

    assert spread(4_000) < spread(100) / 2


def test_a_level_that_is_lower_gives_a_narrower_interval():
    values = np.random.default_rng(7).random(40)
    narrow, wide = clustered_mean(values, range(40), level=0.5), clustered_mean(values, range(40), level=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_records_of_a_session_that_resemble_each_other_widen_the_interval():
    sessions = np.random.default_rng(2).random(15)
    values = np.repeat(sessions, 8)
    clustered = clustered_mean(values, [n // 8 for n in range(120)])
    apart = clustered_mean(values, range(120))
    assert clustered.value == pytest.approx(apart.value)
    assert clustered.high - clustered.low > 2 * (apart.high - apart.low)


def test_one_session_has_a_value_but_no_interval():
    assert clustered_mean(numbers(0.25, 0.75), ["a", "a"]) == Estimate(0.5, None, None, 2)


def test_nothing_has_no_value():
    assert clustered_mean(numbers(), []) == Estimate(None, None, None, 0)


def test_a_ratio_to_nothing_has_no_value():
    assert clustered_ratio(numbers(0, 0), numbers(0, 0), ["a", "b"]) == Estimate(None, None, None, 2)


def test_draws_of_sessions_without_weight_are_left_out():
    estimate = clustered_ratio(numbers(1, 0), numbers(2, 0), ["a", "b"])
    assert (estimate.value, estimate.low, estimate.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("seed", range(4))
def test_where_no_draw_has_weight_there_is_no_interval_and_no_crash(seed):
    estimate = clustered_ratio(numbers(1, 0), numbers(2, 0), ["a", "b"], seed=seed, draws=1)
    assert (estimate.low, estimate.high) in {(0.5, 0.5), (None, None)}


def test_the_order_of_records_within_a_session_does_not_matter():
    clusters = ["a", "a", "a", "b", "b", "c"]
    one = clustered_mean(numbers(0.1, 0.5, 0.9, 0.2, 0.4, 0.3), clusters)
    other = clustered_mean(numbers(0.9, 0.1, 0.5, 0.4, 0.2, 0.3), clusters)
    assert (other.low, other.high) == pytest.approx((one.low, one.high))


def test_what_sessions_are_called_does_not_matter():
    values = numbers(0.1, 0.5, 0.9, 0.2)
    named = clustered_mean(values, ["z", "y", "z", "x"])
    assert named == clustered_mean(values, [3, 1, 3, 2])
    assert named == clustered_mean(values, np.array([3, 1, 3, 2]))


def test_two_figures_over_the_same_records_are_drawn_together():
    values, clusters = np.random.default_rng(3).random(50), [n // 2 for n in range(50)]
    one, other = clustered_mean(values, clusters, seed=4), clustered_mean(values + 0.25, clusters, seed=4)
    assert (other.low - one.low, other.high - one.high) == pytest.approx((0.25, 0.25))


def test_many_sessions_are_drawn_as_a_few_are():
    few = clustered_mean(np.tile(numbers(0, 1), 50), range(100), draws=500)
    many = clustered_mean(np.tile(numbers(0, 1), 5_000), range(10_000), draws=500)
    assert (many.high - many.low) / (few.high - few.low) == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize(("above", "below", "clusters"), [(2, 1, 2), (2, 2, 1), (1, 2, 2)])
def test_lengths_that_differ_are_refused(above, below, clusters):
    with pytest.raises(ValueError, match="lengths differ"):
        clustered_ratio(np.ones(above), np.ones(below), ["a"] * clusters)


def test_an_interval_at_95_percent_covers_the_truth_about_that_often():
    generator = np.random.default_rng(11)
    clusters = [n // 3 for n in range(120)]
    covered = 0
    for seed in range(200):
        session = np.repeat(generator.normal(0, 0.5, 40), 3)
        estimate = clustered_mean(0.5 + session + generator.normal(0, 0.5, 120), clusters, seed=seed, draws=500)
        covered += estimate.low <= 0.5 <= estimate.high
    assert 0.88 <= covered / 200 <= 0.99


def test_two_thousand_draws_are_the_rule():
    values = np.random.default_rng(0).random(20)
    assert DRAWS == 2_000
    assert clustered_mean(values, range(20)) == clustered_mean(values, range(20), draws=2_000)


def test_figures_over_fewer_records_do_not_hold_the_draws_of_the_last_ones_too():
    values = np.arange(4_000) % 2 * 1.0
    draws = 4_000 * DRAWS * 2  # bytes
    tracemalloc.start()
    try:
        for count in (4_000, 3_900, 4_000):
            clustered_mean(values[:count], range(count))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert draws < peak < 1.6 * draws
