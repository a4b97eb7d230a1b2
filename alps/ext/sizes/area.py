"""The area under the curve of a metric over sizes of the context."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from alps.run.scores import RecordScores
from alps.stats.bootstrap import UNIT, Clusters, Estimate, Floats, cluster_index, clustered_mean
from alps.stats.bounded import LEVEL
from alps.tasks import Metric

ROUNDING = 1e-9
# The `unseen` of `clustered_ratio`: a record that differs at few sizes hides how far others may.
UNSEEN = 3.0


def area_of(boards: Sequence[RecordScores], sizes: Sequence[int], metric: Metric) -> Estimate:
    """Return the area under the curve of a mean metric, over the records of all boards.

    Args:
        boards: What followed at each size.
        sizes: Of the boards, rising.
        metric: What the curve is of; what is no mean has no area.
    """
    if not metric.is_mean:
        reason = "the area is defined only for a mean over records"
        return Estimate(None, None, None, boards[0].scored, reason)
    places, _, clusters = boards[0].by_place(metric.name)
    rows = [board.by_place(metric.name)[:2] for board in boards]
    shared = reduce(np.intersect1d, [at for at, _ in rows])
    columns = [values[np.isin(at, shared)] for at, values in rows]
    names = clusters[np.isin(places, shared)]
    return area_under(np.stack(columns, axis=1), sizes, names, bounds=metric.bounds)


def area_weights(sizes: Sequence[float]) -> Floats:
    """Return what each point counts in the area under a curve over log2 of its size.

    The area is that of trapezoids, and the axis runs from 0 at the smallest size to 1 at the
    largest: a curve that is level at .6 has an area of .6. The weights sum to 1.

    Args:
        sizes: At least two, above 0 and rising; shape (points,).
    """
    places = np.log2(np.asarray(sizes, dtype=np.float64))
    widths = np.diff(places) / (places[-1] - places[0])
    weights = np.zeros(len(places))
    weights[:-1] += widths / 2
    weights[1:] += widths / 2
    return weights


def rare_bound(away: Floats, confidence: float) -> float:
    """Return an upper bound of the mean of values in [0, 1], almost all 0.

    Values between 0 and 1 say less of the rate than ones do, and the variance between a few of them
    says almost nothing of those that were not seen: each is counted at what it adds to Clopper and
    Pearson's bound (Stringer).

    Source: Bickel, International Statistical Review 60 (1992) 197.

    Args:
        away: At least one.
        confidence: Of the bound, one-sided.
    """
    from scipy.stats import beta

    above = np.sort(away[away > 0])[::-1]
    seen = np.arange(len(above) + 1)
    # Where all values are above 0 there is none left to be seen.
    bounds = np.where(
        seen < len(away), beta.ppf(confidence, seen + 1, np.maximum(len(away) - seen, 1)), 1.0
    )
    return float(bounds[0] + np.diff(bounds) @ above)


def area_under(
    values: Floats,
    sizes: Sequence[float],
    clusters: Clusters,
    *,
    bounds: tuple[float, float] | None = UNIT,
) -> Estimate:
    """Estimate the area under the curve of mean values; see `area_weights`.

    Each record has an area of its own, within the bounds of its values: the interval is that of
    their mean, with more room for what was not seen. Percentiles of resampled clusters cover too
    seldom near an end of the scale. Where almost all areas are at one end, `rare_bound` of the
    means of clusters is the least that the other bound is away from it.

    Args:
        values: Shape (records, sizes).
        sizes: Shape (sizes,).
        clusters: Shape (records,).
        bounds: Of the values; None where they have none.
    """
    areas = values @ area_weights(sizes) if len(values) else np.zeros(0)
    mean = clustered_mean(areas, clusters, bounds=bounds, unseen=UNSEEN)
    if bounds is None or mean.low is None or mean.high is None:
        return mean
    names = cluster_index(clusters)
    positions = (areas - bounds[0]) / (bounds[1] - bounds[0])
    means = np.bincount(names, weights=positions) / np.bincount(names)
    low, high = mean.low, mean.high
    for away, lowest in ((means, True), (1 - means, False)):
        if (away > ROUNDING).sum() < len(away) / 2:
            most = rare_bound(np.where(away > ROUNDING, away, 0.0), (1 + LEVEL) / 2)
            span = most * (bounds[1] - bounds[0])
            if lowest:
                high = max(high, bounds[0] + span)
            else:
                low = min(low, bounds[1] - span)
    return replace(mean, low=low, high=high)
