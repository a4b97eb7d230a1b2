"""Percentile bootstrap that resamples clusters: records of one session are not independent."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DRAWS = 2_000
_CHUNK = 2_000_000


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval.

    `value` is None where nothing was scored; `low` and `high` are None where fewer than two clusters are left to
    resample. `n` counts records.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int


def clustered_ratio(
    numerators: Floats,
    denominators: Floats,
    clusters: Sequence[Hashable],
    *,
    seed: int = 0,
    draws: int = DRAWS,
    level: float = 0.95,
) -> Estimate:
    """Estimate sum(numerators) / sum(denominators) with an interval over resampled clusters.

    With denominators of one this is a mean. Clusters are drawn with replacement, as many as there are (Efron and
    Tibshirani, «An Introduction to the Bootstrap», 1993, §8.3; percentile interval §13.3). The draws depend on `seed`
    and on the clusters in their order alone, so that two figures over the same records are paired.

    Args:
        numerators: Shape (records,).
        denominators: Shape (records,), not negative.
        clusters: What each record belongs to.
        seed: Of the resampling.
        draws: Resamples, ≥ 1.
        level: Of the interval, in (0, 1).

    Raises:
        ValueError: If the lengths differ.
    """
    count = len(clusters)
    if not len(numerators) == len(denominators) == count:
        raise ValueError(f"lengths differ: {len(numerators)}, {len(denominators)}, {count}")
    total = float(denominators.sum()) if count else 0.0
    if total == 0:
        return Estimate(None, None, None, count)
    value = float(numerators.sum()) / total
    codes = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    if len(codes) < 2:
        return Estimate(value, None, None, count)
    index = np.fromiter((codes[name] for name in clusters), dtype=np.int64, count=count)
    sums: Floats = np.bincount(index, weights=numerators, minlength=len(codes)).astype(np.float64)
    weights: Floats = np.bincount(index, weights=denominators, minlength=len(codes)).astype(np.float64)
    drawn = _resample(sums, weights, seed=seed, draws=draws)
    if not len(drawn):
        return Estimate(value, None, None, count)
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Estimate(value, float(low), float(high), count)


def clustered_mean(
    values: Floats, clusters: Sequence[Hashable], *, seed: int = 0, draws: int = DRAWS, level: float = 0.95
) -> Estimate:
    """Estimate the mean of `values` over records, with an interval over resampled clusters."""
    return clustered_ratio(values, np.ones(len(values)), clusters, seed=seed, draws=draws, level=level)


def _resample(sums: Floats, weights: Floats, *, seed: int, draws: int) -> Floats:
    """Return the ratio of `draws` resamples; resamples without weight are left out."""
    generator = np.random.Generator(np.random.PCG64(seed))
    clusters = len(sums)
    per_chunk = max(1, _CHUNK // clusters)
    parts = []
    for start in range(0, draws, per_chunk):
        chosen = generator.integers(0, clusters, size=(min(per_chunk, draws - start), clusters))
        below = weights[chosen].sum(axis=1)
        parts.append(sums[chosen].sum(axis=1)[below > 0] / below[below > 0])
    return np.concatenate(parts)
