"""Percentile bootstrap that resamples clusters: records of one session are not independent."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Clusters = Sequence[Hashable] | NDArray[np.int64]
"""What each record belongs to: names of any kind, or numbers, which take less memory."""
Statistic = Callable[[Floats], Floats]
DRAWS = 2_000
_CHUNK, _GATHERED = 2_000_000, 200_000
_KEPT_BYTES = 32_000_000
_last_kept: dict[tuple[int, int, int], NDArray[Any]] = {}


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
    clusters: Clusters,
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
    index = cluster_index(clusters)
    if not index.any():  # a single cluster
        return Estimate(value, None, None, count)
    sums: Floats = np.bincount(index, weights=numerators).astype(np.float64)
    weights: Floats = np.bincount(index, weights=denominators).astype(np.float64)
    drawn = _resample(sums, weights, seed=seed, draws=draws)
    if not len(drawn):
        return Estimate(value, None, None, count)
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(drawn, [tail, 100 - tail])
    return Estimate(value, float(low), float(high), count)


def clustered_mean(
    values: Floats, clusters: Clusters, *, seed: int = 0, draws: int = DRAWS, level: float = 0.95
) -> Estimate:
    """Estimate the mean of `values` over records, with an interval over resampled clusters.

    Raises:
        ValueError: If the lengths differ.
    """
    return clustered_ratio(values, np.ones(len(values)), clusters, seed=seed, draws=draws, level=level)


def _resample(sums: Floats, weights: Floats, *, seed: int, draws: int) -> Floats:
    """Return the ratio of `draws` resamples; resamples without weight are left out."""
    weighs_all = bool(weights.min() > 0)
    if weighs_all and not sums.any():
        return np.zeros(draws)
    weight = float(weights[0])
    alike = weighs_all and weight.is_integer() and bool((weights == weight).all())  # adds up exactly in any order
    parts = []
    for chosen in _chosen(len(sums), seed=seed, draws=draws):
        above = sums[chosen].sum(axis=1)
        below = np.full(len(above), weight * len(sums)) if alike else weights[chosen].sum(axis=1)
        parts.append(above[below > 0] / below[below > 0])
    return np.concatenate(parts)


def _chosen(clusters: int, *, seed: int, draws: int) -> Iterator[NDArray[Any]]:
    """Yield which clusters each resample takes, shape (some draws, clusters), until there are `draws`."""
    per_chunk = max(1, _GATHERED // clusters)
    small = np.min_scalar_type(clusters)
    if draws * clusters * small.itemsize <= _KEPT_BYTES:
        kept = _kept(clusters, seed, draws)
        yield from (kept[start : start + per_chunk] for start in range(0, draws, per_chunk))
        return
    generator = np.random.Generator(np.random.PCG64(seed))
    for start in range(0, draws, per_chunk):
        yield generator.integers(0, clusters, size=(min(per_chunk, draws - start), clusters))


def _kept(clusters: int, seed: int, draws: int) -> NDArray[Any]:
    """Return the same as one array of small integers: all figures of a table are resampled alike."""
    asked = clusters, seed, draws
    if asked not in _last_kept:
        _last_kept.clear()  # before the next is made: two at once would be most of a summary's memory
        _last_kept[asked] = _draw(clusters, seed, draws)
    return _last_kept[asked]


def _draw(clusters: int, seed: int, draws: int) -> NDArray[Any]:
    kept = np.empty((draws, clusters), dtype=np.min_scalar_type(clusters))
    generator = np.random.Generator(np.random.PCG64(seed))
    per_chunk = max(1, _GATHERED // clusters)
    for start in range(0, draws, per_chunk):
        kept[start : start + per_chunk] = generator.integers(
            0, clusters, size=(min(per_chunk, draws - start), clusters)
        )
    return kept


def cluster_index(clusters: Clusters) -> NDArray[np.int64]:
    """Number the clusters in the order of their first record; shape (records,)."""
    if isinstance(clusters, np.ndarray):
        _, first, index = np.unique(clusters, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[index]
    codes = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    return np.fromiter((codes[name] for name in clusters), dtype=np.int64, count=len(clusters))


def cluster_sums(features: Floats, clusters: Sequence[Hashable]) -> Floats:
    """Add up the rows of `features`, shape (records, features), within each cluster; shape (clusters, features).

    Raises:
        ValueError: If there are not as many clusters named as rows.
    """
    if len(features) != len(clusters):
        raise ValueError(f"lengths differ: {len(features)}, {len(clusters)}")
    index = cluster_index(clusters)
    sums = np.zeros((int(index.max(initial=-1)) + 1, features.shape[1]))
    np.add.at(sums, index, features)
    return sums


def resampled_sums(sums: Floats, *, seed: int = 0, draws: int = DRAWS) -> Floats:
    """Return what `draws` resamples of the clusters add up to; shape (draws, features).

    The clusters drawn are those that `clustered_ratio` draws with the same seed, so that the figures are paired.

    Args:
        sums: Shape (clusters, features), at least one cluster.
        seed: Of the resampling.
        draws: Resamples, ≥ 1.
    """
    return np.concatenate([times @ sums for times in resampled_times(len(sums), seed=seed, draws=draws)])


def resampled_times(clusters: int, *, seed: int = 0, draws: int = DRAWS) -> Iterator[Floats]:
    """Yield how often each resample of `resampled_sums` takes each cluster; shape (some draws, clusters)."""
    generator = np.random.Generator(np.random.PCG64(seed))
    per_chunk = max(1, _CHUNK // clusters)
    for start in range(0, draws, per_chunk):
        chosen = generator.integers(0, clusters, size=(min(per_chunk, draws - start), clusters))
        flat = (chosen + clusters * np.arange(len(chosen))[:, None]).ravel()
        yield np.bincount(flat, minlength=chosen.size).reshape(chosen.shape).astype(np.float64)


def percentile_interval(drawn: Floats, level: float = 0.95) -> tuple[float, float] | None:
    """Return the percentile interval of resampled values, NaN where a resample leaves the figure undefined.

    None where more resamples are undefined than the interval leaves outside: their values, whatever they were, could
    then lie on either side of both bounds.
    """
    defined = drawn[~np.isnan(drawn)]
    if not len(defined) or 1 - len(defined) / len(drawn) > 1 - level:
        return None
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(defined, [tail, 100 - tail])
    return float(low), float(high)


def ratio(above: Floats, below: Floats) -> Floats:
    """Divide element by element; NaN, the mark of an undefined figure among draws, where `below` isn't positive."""
    above, below = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    quotient: Floats = np.divide(above, below, out=np.full(np.broadcast(above, below).shape, np.nan), where=below > 0)
    return quotient


def on_table(statistic: Statistic, width: int) -> Statistic:
    """Let a figure of square tables, shape (…, values, values), take the first `width` = values² of flat sums."""
    size = round(width**0.5)
    return lambda sums: statistic(sums[..., :width].reshape(*sums.shape[:-1], size, size))


def clustered_statistics(
    features: Floats,
    clusters: Sequence[Hashable],
    statistics: Sequence[Statistic],
    *,
    n: int | None = None,
    seed: int = 0,
    draws: int = DRAWS,
    level: float = 0.95,
) -> list[Estimate]:
    """Estimate figures that are functions of sums over records, all from the same resampled clusters.

    Args:
        features: Shape (records, features): what is added up.
        clusters: What each record belongs to.
        statistics: Each takes sums of shape (…, features) and returns figures of shape (…), NaN where undefined.
        n: Records that count for `Estimate.n`; all by default.
        seed: Of the resampling.
        draws: Resamples, ≥ 1.
        level: Of the interval, in (0, 1).

    Raises:
        ValueError: If there are not as many clusters named as records.
    """
    sums = cluster_sums(features, clusters)
    count = len(features) if n is None else n
    if not len(sums):
        return [Estimate(None, None, None, count) for _ in statistics]
    total = sums.sum(axis=0)
    drawn = resampled_sums(sums, seed=seed, draws=draws) if len(sums) > 1 else None
    estimates = []
    for statistic in statistics:
        value = float(statistic(total))
        if np.isnan(value):
            estimates.append(Estimate(None, None, None, count))
            continue
        low, high = (drawn is not None and percentile_interval(statistic(drawn), level)) or (None, None)
        estimates.append(Estimate(value, low, high, count))
    return estimates
