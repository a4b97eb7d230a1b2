"""Interval of a mean of which few values are known and all have a cheap score, by its groups.

For rare values: the variance between the few that are known says little there, and an interval by
variance covers too seldom, or has no width at all.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alps.stats.bootstrap import Floats, cluster_index, clustered_mean
from alps.stats.bounded import assumed_effect

ENOUGH = 10
"""Clusters with another value than the commonest from which a variance between them is used."""
RARE, RARE_DIFFERENCE = 0.1, 0.25
"""Up to which share of the values others than the commonest are rare, of scores and of differences,
which cancel. The variance of others is seen in however few clusters: Student's quantile allows for
them."""
Clusters = tuple[Sequence[Hashable], Sequence[Hashable]]
Bounds = tuple[float, float]


def few_differ(
    known: Floats,
    clusters: Sequence[Hashable],
    *,
    commonest: float | None = None,
    rare: float = RARE,
) -> bool:
    """Tell whether other values than the commonest are rare, and of fewer clusters than `ENOUGH`.

    Only then does the variance that is seen say too little: of 20 F1 scores half of which are 0 it
    says enough, and an interval that allows for what was not seen would be needlessly long.

    Args:
        known: Values, at least one.
        clusters: What each belongs to.
        commonest: The value from which others differ; without, the commonest one.
        rare: Up to which share of the values others are rare.
    """
    values = known.tolist()
    usual = Counter(values).most_common(1)[0][0] if commonest is None else commonest
    if len(values) - values.count(usual) > rare * len(values):
        return False
    others = {one for one, value in zip(clusters, values, strict=True) if value != usual}
    return len(others) < ENOUGH


def grouped_interval(
    known: Floats,
    cheap: Floats,
    others: Floats,
    clusters: Clusters,
    *,
    bounds: Bounds,
    difference: bool = False,
) -> Bounds:
    """Return the bounds of a mean from its means in groups of cheap scores.

    The groups are the cheap scores at the lowest value or below, at the highest or above, and
    between; of differences those below 0, above 0, and 0. The mean is the sum of the groups' means
    times their shares (poststratification). Each mean, and the shares, have the interval of bounded
    values, which holds small counts; the squared distances of their ends are added (MOVER). A group
    of which no value is known is counted in the nearest one.

    Sources: Holt and Smith, Journal of the Royal Statistical Society A 142 (1979) 33; Zou and
    Donner, Statistics in Medicine 27 (2008) 1693.

    Args:
        known: Values; shape (known,), at least one.
        cheap: The cheap scores of the same records.
        others: Those of the other records.
        clusters: What the known records and the others belong to.
        bounds: The least and the most that a value can be.
        difference: Whether values are differences.
    """
    scores = np.concatenate([cheap, others])
    names = cluster_index([*clusters[0], *clusters[1]])
    groups = _groups(scores, (0.0, 0.0) if difference else bounds, len(known))
    fitted = np.zeros(len(scores))
    below = above = 0.0

    def add(values: Floats, of: NDArray[Any], share: float, shared: float = 1.0) -> float:
        nonlocal below, above
        mean = clustered_mean(values, of, bounds=bounds, difference=difference)
        value = float(values.mean())
        low, high = bounds if mean.low is None or mean.high is None else (mean.low, mean.high)
        below += shared * (share * (value - low)) ** 2
        above += shared * (share * (high - value)) ** 2
        return value

    whole = assumed_effect(names[: len(known)])

    for group in np.unique(groups):
        inside = groups == group
        own = np.flatnonzero(inside[: len(known)])
        # Groups that share clusters err together: the correlation between them counts, too.
        shared = whole / assumed_effect(names[own])
        fitted[inside] = add(known[own], names[own], float(inside.mean()), max(1.0, shared))
    if len(np.unique(groups)) > 1:
        add(fitted, names, 1.0)
    value = float(fitted.mean())
    return max(bounds[0], value - sqrt(below)), min(bounds[1], value + sqrt(above))


def _groups(scores: Floats, ends: Bounds, known: int) -> NDArray[np.int64]:
    """Return the group of each score, all of them groups of the first `known` ones, too."""
    middle = (scores > ends[0]) & (scores < ends[1])
    if ends[0] == ends[1]:
        middle = scores == ends[0]
    groups = np.where(middle, 1, np.where(scores <= ends[0], 0, 2))
    seen = np.unique(groups[:known])
    nearest = [int(seen[np.abs(seen - group).argmin()]) for group in range(3)]
    return np.array(nearest)[groups]
