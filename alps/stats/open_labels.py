"""Agreement of two raters whose labels no scale declares: names of any vocabulary, and numbers.

Two people who write labels of their own use hundreds of them. A table of all pairs of labels would
be resampled in gigabytes; unweighted kappa and nominal alpha need only how often both agree and how
often each label was given.
"""

from collections.abc import Hashable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from alps.stats.bootstrap import (
    Estimate,
    Floats,
    cluster_index,
    ratio,
    resampled_figure,
    resampled_statistic,
)

# How many weights of items in resamples are looked at at once: 16 MB of them.
_BLOCK = 2_000_000


def name_estimates(
    first: Sequence[str], second: Sequence[str], clusters: Sequence[Hashable]
) -> dict[str, Estimate]:
    """Estimate `agreement`, Cohen's `kappa` and Krippendorff's nominal `alpha` of two raters.

    Intervals are those of `resampled_statistic`. Kappa and alpha have no value where both raters
    give one label throughout.

    Raises:
        ValueError: If lengths differ.
    """
    if not len(first) == len(second) == len(clusters):
        raise ValueError(f"lengths differ: {len(first)}, {len(second)}, {len(clusters)}")
    names = {name: code for code, name in enumerate(dict.fromkeys((*first, *second)))}
    items = np.arange(len(first))
    features = np.zeros((len(first), 2 + 2 * len(names)))
    features[:, 0] = 1
    features[:, 1] = [one == other for one, other in zip(first, second, strict=True)]
    for side, labels in enumerate((first, second)):
        codes = np.array([names[label] for label in labels], dtype=np.int64)
        features[items, 2 + side * len(names) + codes] = 1
    figures = {"agreement": _agreement, "kappa": _kappa, "alpha": _alpha}
    estimates = {}
    for name, figure in figures.items():
        estimates[name] = resampled_statistic(features, clusters, figure)
    return estimates


def rank_correlation(
    first: Sequence[float], second: Sequence[float], clusters: Sequence[Hashable]
) -> Estimate:
    """Estimate Spearman's correlation of two raters' numbers, by their middle ranks.

    It has no value where either gives one number throughout.

    Raises:
        ValueError: If lengths differ.
    """
    if not len(first) == len(second) == len(clusters):
        raise ValueError(f"lengths differ: {len(first)}, {len(second)}, {len(clusters)}")
    index = cluster_index(clusters)
    sides = [np.asarray(side, dtype=np.float64) for side in (first, second)]
    figure = partial(_spearman, sides=[_Ranked(side) for side in sides], index=index)
    return resampled_figure(figure, clusters)


def _agreement(sums: Floats) -> Floats:
    return ratio(sums[..., 1], sums[..., 0])


def _kappa(sums: Floats) -> Floats:
    count, same, (rows, columns) = sums[..., 0], sums[..., 1], _margins(sums)
    chance = (rows * columns).sum(axis=-1)
    return np.asarray(1 - ratio((count - same) * count, count**2 - chance))


def _alpha(sums: Floats) -> Floats:
    count, same, (rows, columns) = sums[..., 0], sums[..., 1], _margins(sums)
    labels = rows + columns
    given = 2 * count
    unlike = given**2 - np.square(labels).sum(axis=-1)
    return np.asarray(1 - ratio((count - same) * 2 * (given - 1), unlike))


def _margins(sums: Floats) -> tuple[Floats, Floats]:
    half = (sums.shape[-1] - 2) // 2
    return sums[..., 2 : 2 + half], sums[..., 2 + half :]


class _Ranked:
    """Numbers in their order, of which resamples take middle ranks."""

    def __init__(self, numbers: Floats) -> None:
        self._order = np.argsort(numbers, kind="stable")
        ordered = numbers[self._order]
        starts = np.flatnonzero(np.diff(ordered, prepend=np.nan) != 0)
        ends = np.append(starts[1:], len(ordered)) - 1
        group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(ordered))))
        self._first = np.empty(len(numbers), dtype=np.int64)
        self._last = np.empty(len(numbers), dtype=np.int64)
        self._first[self._order], self._last[self._order] = starts[group], ends[group]

    def ranks(self, weights: Floats) -> Floats:
        """Return the middle rank of each number where each counts by its weight; (…, numbers)."""
        upto = np.cumsum(weights[..., self._order], axis=-1)
        below = np.concatenate([np.zeros((*upto.shape[:-1], 1)), upto[..., :-1]], axis=-1)
        return np.asarray((upto[..., self._last] + below[..., self._first]) / 2)


def _spearman(times: Floats, sides: Sequence[_Ranked], index: NDArray[np.int64]) -> Floats:
    """Correlate the ranks of items whose clusters are taken `times` often; shape (…)."""
    flat = times.reshape(-1, times.shape[-1])
    rows = max(1, _BLOCK // max(1, len(index)))
    parts = []
    for start in range(0, len(flat), rows):
        weights = flat[start : start + rows][:, index]
        half = weights.sum(axis=-1, keepdims=True) / 2
        one, other = (side.ranks(weights) - half for side in sides)
        together = (weights * one * other).sum(axis=-1)
        spread = (weights * one**2).sum(axis=-1) * (weights * other**2).sum(axis=-1)
        parts.append(ratio(together, np.sqrt(spread)))
    return np.concatenate(parts).reshape(times.shape[:-1])
