"""Components of the spread of a score, on designs whose components are known."""

import numpy as np
import pytest

from alps.ext.judging.judges import BOTH, JUDGE, NOISE, PROMPT, variance_components
from alps.stats.open_labels import fixed_rank_correlation, rank_correlation


def crossed(generator, records, sizes, deviations, *, each=0.0):
    """Return values of records in a design whose levels lie apart by these deviations."""
    judges, prompts, _ = sizes
    values = np.broadcast_to(generator.normal(0.5, 0.2, (records, 1, 1, 1)), (records, *sizes))
    shapes = ((1, judges, 1, 1), (1, 1, prompts, 1), (1, judges, prompts, 1))
    for shape, deviation in zip(shapes, deviations, strict=True):
        levels = generator.normal(0, 1, shape)
        values = values + deviation * levels
    return values + generator.normal(0, each, (records, *sizes)) if each else values


def test_a_spread_of_prompts_alone_is_the_variance_of_their_scores():
    generator = np.random.default_rng(1)
    values = crossed(generator, 40, (3, 4, 1), (0, 0.1, 0))
    components, draws = variance_components(values, [n // 2 for n in range(40)])
    scores = values.mean(axis=(0, 1, 3))
    assert components[PROMPT].deviation == pytest.approx(scores.std(ddof=1))
    assert components[PROMPT].share.value == pytest.approx(1)
    assert components[JUDGE].deviation == pytest.approx(0, abs=1e-6)
    assert components[NOISE].deviation == pytest.approx(0, abs=1e-6)
    assert draws is None


@pytest.mark.release
def test_planted_components_come_out_on_average():
    generator = np.random.default_rng(2)
    planted, records, each = (0.08, 0.05, 0.03), 60, 0.3
    found = []
    for _ in range(60):
        values = crossed(generator, records, (5, 5, 2), planted, each=each)
        components, draws = variance_components(values, range(records))
        variances = [components[name].deviation ** 2 for name in (JUDGE, PROMPT, BOTH, NOISE)]
        found.append([*variances, draws**2])
    noise = each / records**0.5
    assert np.mean(found, axis=0) ** 0.5 == pytest.approx((*planted, noise, noise), rel=0.15)


def test_a_factor_with_one_level_has_no_component_and_one_score_has_no_spread():
    generator = np.random.default_rng(3)
    values = crossed(generator, 20, (3, 1, 1), (0.1, 0, 0), each=0.1)
    assert set(variance_components(values, range(20))[0]) == {JUDGE, NOISE}
    assert variance_components(values[:, :1], range(20)) == ({}, None)


def test_ranks_that_resamples_keep_have_the_value_and_nearly_the_interval_of_spearman():
    generator = np.random.default_rng(4)
    first = generator.integers(0, 6, 120).astype(float)
    second = first + generator.integers(0, 6, 120)
    sessions = [n // 3 for n in range(120)]
    quick, slow = (f(first, second, sessions) for f in (fixed_rank_correlation, rank_correlation))
    assert quick.value == pytest.approx(slow.value)
    assert (quick.low, quick.high) == pytest.approx((slow.low, slow.high), abs=0.03)
