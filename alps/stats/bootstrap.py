"""Figures over records of which those of one session are not independent.

Means and ratios have an interval of their own (`alps.stats.bounded`); other figures, such as kappa,
have percentiles of a bootstrap that resamples clusters, and so have means and ratios of a few large
clusters where a caller asks for them. Everywhere `clusters` tells what each
record belongs to, and a ValueError is raised where lengths differ.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import erfc
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from alps.stats.bounded import (
    LEVEL,
    UNSEEN,
    bounded_interval,
    lacking,
    moments_of,
    p_of_interval,
    student_interval,
    student_quantile,
)

Floats = NDArray[np.float64]
Clusters = Sequence[Hashable] | NDArray[np.int64]
"""What each record belongs to: names of any kind, or numbers, which take less memory."""
Statistic = Callable[[Floats], Floats]
DRAWS = 2_000
RESAMPLED = "bootstrap over clusters, expanded percentiles"
"""The `method` of a figure whose interval comes from resampled clusters."""
UNIT = (0.0, 1.0)
"""Between which most scores lie."""
FEWEST_RESAMPLED = 6
"""Clusters below which expanded percentiles are those of the extremes, and cover less than .9."""
# What an interval leaves out at each end.
TAIL = (1 - LEVEL) / 2
# How many counts of resamples are made at once: 16 MB of them.
_CHUNK = 2_000_000
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval.

    `value` is None where nothing was scored. `low` and `high` are None where there is no interval
    that holds what it promises; `reason` then says why. `n` counts records. `method` says how the
    interval was made where a figure of its kind usually has another one. `p`, of a difference, is
    made as its interval: it is below .05 where that leaves out 0.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    reason: str | None = field(default=None, compare=False)
    method: str | None = field(default=None, compare=False)
    p: float | None = field(default=None, compare=False)

    @property
    def row(self) -> dict[str, Any]:
        """The figure as in files: reason and method only if there are any."""
        row: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high, "n": self.n}
        row |= {} if self.reason is None else {"reason": self.reason}
        return row if self.method is None else {**row, "method": self.method}


def clustered_ratio(
    numerators: Floats,
    denominators: Floats,
    clusters: Clusters,
    *,
    bounds: tuple[float, float] | None = UNIT,
    difference: bool = False,
    resampled: bool = False,
    tested: bool = False,
    unseen: float = UNSEEN,
) -> Estimate:
    """Estimate sum(numerators) / sum(denominators) over records that come in clusters.

    With denominators of one this is a mean. The interval is `bounded_interval`; without bounds,
    Student's between clusters.

    Args:
        numerators: Shape (records,).
        denominators: Shape (records,), not negative.
        clusters: Shape (records,).
        bounds: Of the values that the ratio may have; None where it has none.
        difference: Whether the numerators are differences, which are 0 where two systems agree.
        resampled: Whether too few clusters for that interval get one of resampled clusters.
        tested: Whether it has a p, that it is 0; Student's interval is that of a t test.
        unseen: See `bounded_interval`.
    """
    count = len(clusters)
    if not len(numerators) == len(denominators) == count:
        raise ValueError(f"lengths differ: {len(numerators)}, {len(denominators)}, {count}")
    total = float(denominators.sum()) if count else 0.0
    if total == 0:
        return Estimate(None, None, None, count)
    moments = moments_of(numerators, denominators, cluster_index(clusters), difference=difference)
    value = float(moments.value)
    if reason := lacking(int(moments.clusters), int((denominators > 0).sum()), moments):
        if resampled and moments.clusters > 1:
            return _resampled_ratio(numerators, denominators, clusters, tested=tested)
        return Estimate(value, None, None, count, reason)
    if bounds is not None and _within(numerators, denominators, bounds):
        interval_at = partial(bounded_interval, moments, *bounds, unseen=unseen)
        low, high = interval_at()
        p = p_of_interval(interval_at) if tested else None
        return Estimate(value, float(low), float(high), count, p=p)
    if (interval := student_interval(moments)) is None:
        return Estimate(value, None, None, count, "all values are equal and unbounded")
    return Estimate(value, *interval, count)


def _resampled_ratio(
    numerators: Floats, denominators: Floats, clusters: Clusters, *, tested: bool
) -> Estimate:
    features = np.stack([numerators, denominators], axis=1)
    names = cluster_index(clusters).tolist()

    def of_sums(sums: Floats) -> Floats:
        return ratio(sums[..., 0], sums[..., 1])

    return resampled_statistic(features, names, of_sums, tested=tested)


class HowEstimated(TypedDict, total=False):
    """The keywords of `clustered_ratio`."""

    bounds: tuple[float, float] | None
    difference: bool
    resampled: bool
    tested: bool
    unseen: float


def clustered_mean(values: Floats, clusters: Clusters, **how: Unpack[HowEstimated]) -> Estimate:
    """Estimate the mean of `values` over records; see `clustered_ratio`."""
    return clustered_ratio(values, np.ones(len(values)), clusters, **how)


def clustered_difference(
    first: Floats,
    second: Floats,
    clusters: Clusters,
    *,
    bounds: tuple[float, float] | None = UNIT,
    resampled: bool = False,
    tested: bool = False,
) -> Estimate:
    """Estimate the first less the second on the same records; `bounds` are those of both."""
    apart = None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])
    how = HowEstimated(bounds=apart, difference=True, resampled=resampled, tested=tested)
    return clustered_mean(first - second, clusters, **how)


def _within(numerators: Floats, denominators: Floats, bounds: tuple[float, float]) -> bool:
    """Tell whether every value lies in its bounds."""
    # One of a user's own metric may not: it then has Student's interval, which needs no bounds.
    slack = _ROUNDING * (abs(bounds[0]) + abs(bounds[1])) * denominators
    lowest, highest = (bound * denominators for bound in bounds)
    return bool((numerators >= lowest - slack).all() and (numerators <= highest + slack).all())


def cluster_index(clusters: Clusters) -> NDArray[np.int64]:
    """Number the clusters in the order of their first record; shape (records,)."""
    if isinstance(clusters, np.ndarray):
        _, first, index = np.unique(clusters, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[index]
    codes = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    return np.fromiter((codes[name] for name in clusters), dtype=np.int64, count=len(clusters))


def cluster_sums(features: Floats, clusters: Sequence[Hashable]) -> Floats:
    """Add up rows of shape (records, features) within each cluster; shape (clusters, features)."""
    if len(features) != len(clusters):
        raise ValueError(f"lengths differ: {len(features)}, {len(clusters)}")
    index = cluster_index(clusters)
    sums = np.zeros((int(index.max(initial=-1)) + 1, features.shape[1]))
    np.add.at(sums, index, features)
    return sums


def resampled_sums(sums: Floats, *, seed: int = 0) -> Floats:
    """Return what `DRAWS` resamples of the clusters add up to; shape (draws, features).

    The same seed draws the same clusters, so that figures are paired. `sums` has the shape
    (clusters, features), with at least one cluster.
    """
    return np.concatenate([chunk @ sums for chunk in resampled_times(len(sums), seed=seed)])


def resampled_times(clusters: int, *, seed: int = 0) -> Iterator[Floats]:
    """Yield how often each resample takes each cluster; shape (some draws, clusters)."""
    generator = np.random.Generator(np.random.PCG64(seed))
    per_chunk = max(1, _CHUNK // clusters)
    for start in range(0, DRAWS, per_chunk):
        chosen = generator.integers(0, clusters, size=(min(per_chunk, DRAWS - start), clusters))
        flat = (chosen + clusters * np.arange(len(chosen))[:, None]).ravel()
        yield np.bincount(flat, minlength=chosen.size).reshape(chosen.shape).astype(np.float64)


def percentile_interval(drawn: Floats, *, tail: float = TAIL) -> tuple[float, float] | None:
    """Return the percentile interval of resampled values, of which those undefined are NaN.

    None where more are undefined than the interval leaves outside. `tail` is the share of the
    others that it leaves out at each end.
    """
    # The values of those, whatever they were, could lie on either side of both bounds.
    defined = drawn[~np.isnan(drawn)]
    if not len(defined) or 1 - len(defined) / len(drawn) > 1 - LEVEL:
        return None
    low, high = np.percentile(defined, [100 * tail, 100 * (1 - tail)])
    # Without the last digits, which differ between processors, as products do.
    return float(f"{low:.12g}"), float(f"{high:.12g}")


def resampled_statistic(
    features: Floats, clusters: Sequence[Hashable], statistic: Statistic, *, tested: bool = False
) -> Estimate:
    """Estimate one function of sums over records; see `resampled_figure`.

    Args:
        features: Shape (records, features): what is added up.
        clusters: Shape (records,).
        statistic: Takes sums of shape (…, features) and returns figures of shape (…).
        tested: Whether it has a p, that it is 0.
    """
    sums = cluster_sums(features, clusters)

    def figure(times: Floats) -> Floats:
        # Added up, as a product rounds otherwise on other machines.
        return statistic(sums.sum(axis=0) if times.ndim == 1 else times @ sums)

    return resampled_figure(figure, clusters, tested=tested)


def resampled_figure(
    figure: Statistic, clusters: Sequence[Hashable], *, tested: bool = False
) -> Estimate:
    """Estimate one figure of records by expanded percentiles of resampled clusters.

    Plain percentiles of rates from .25 to .6 covered .92 with 20 clusters and .86 with six;
    expanded by the quantile of Student's t and the lost degree of freedom, .95 and .93. Rates near
    0 or 1 are covered less.

    Source: Hesterberg, The American Statistician 69 (2015) 371, §4.3.

    Args:
        figure: Takes how often each cluster counts, of shape (…, clusters), and returns figures of
            shape (…), NaN where undefined.
        clusters: Shape (records,).
        tested: Whether it has a p, that it is 0.
    """
    if not len(clusters):
        return Estimate(None, None, None, 0)
    return resampled_figures(lambda times: [figure(times)], clusters, tested=tested)[0]


def resampled_figures(
    figures: Callable[[Floats], Sequence[Floats]],
    clusters: Sequence[Hashable],
    *,
    tested: bool = False,
) -> list[Estimate]:
    """Estimate several figures of the same records on the same resamples; see `resampled_figure`.

    Args:
        figures: Takes how often each cluster counts and returns the figures, each of shape (…).
        clusters: Shape (records,), at least one.
        tested: Whether each has a p, that it is 0.
    """
    count, records = len(set(clusters)), len(clusters)
    values = list(map(float, figures(np.ones(count))))
    if count < FEWEST_RESAMPLED or np.isnan(values).all():
        return [_not_resampled(value, count, records) for value in values]
    chunks = [figures(times) for times in resampled_times(count)]
    drawn = map(np.concatenate, zip(*chunks, strict=True))
    paired = zip(values, drawn, strict=True)
    return [_expanded(*each, count, records, tested=tested) for each in paired]


def _not_resampled(value: float, count: int, records: int) -> Estimate:
    if np.isnan(value):
        return Estimate(None, None, None, records)
    sessions = "session is" if count == 1 else "sessions are"
    return Estimate(value, None, None, records, f"{count:,} {sessions} too few to resample")


def _expanded(value: float, drawn: Floats, count: int, records: int, *, tested: bool) -> Estimate:
    """Estimate a figure by the expanded percentiles of what `count` resampled clusters give."""
    if np.isnan(value):
        return Estimate(None, None, None, records)
    interval = percentile_interval(drawn, tail=float(_expanded_tail(np.array(LEVEL), count)))
    if interval is None or interval[1] - interval[0] <= _ROUNDING:
        # All clusters have one value: a width of nothing would promise certainty.
        reason = "too few sessions, or no variance between them"
        return Estimate(value, None, None, records, reason)
    p = None
    if tested:
        defined = drawn[~np.isnan(drawn)]

        def at(levels: Floats) -> tuple[Floats, Floats]:
            tails = _expanded_tail(levels, count)
            return np.quantile(defined, tails), np.quantile(defined, 1 - tails)

        p = p_of_interval(at)
    return Estimate(value, *interval, records, method=RESAMPLED, p=p)


def _expanded_tail(levels: Floats, clusters: int) -> Floats:
    """Return what an interval of expanded percentiles leaves out at each end."""
    wide = student_quantile(clusters - 1, (1 + levels) / 2) * (clusters / (clusters - 1)) ** 0.5
    tails: Floats = np.vectorize(erfc, otypes=[float])(wide / 2**0.5) / 2
    return tails


def clustered_variance(influence: Floats, clusters: Sequence[Hashable]) -> float | None:
    """Return the variance of a sum whose records are independent between clusters only.

    `influence` is what each record adds to the error of the estimate, shape (records,); it sums to
    about zero. With every record its own cluster and influences (x - mean) / n this is the usual
    s² / n. None with fewer than two clusters.
    """
    sums = cluster_sums(influence[:, None], clusters)[:, 0]
    if len(sums) < 2:
        return None
    return float(len(sums) / (len(sums) - 1) * np.square(sums).sum())


def ratio(above: Floats, below: Floats) -> Floats:
    """Divide element by element; NaN, an undefined figure, where `below` isn't positive."""
    above, below = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    quotient: Floats = np.divide(
        above, below, out=np.full(np.broadcast(above, below).shape, np.nan), where=below > 0
    )
    return quotient


def mean_of_ratios(sums: Floats, groups: Sequence[int]) -> Floats:
    """Return the mean over groups of the mean ratio within each; shape (…).

    Ratios without a denominator are left out, and so is a group of such: the mean over question
    types of a set that lacks one is that over the others.

    Args:
        sums: Shape (…, 2 × ratios): numerator and denominator of each ratio, group by group.
        groups: How many ratios each group has.
    """
    ratios = ratio(sums[..., 0::2], sums[..., 1::2])
    totals, counts, start = np.zeros(sums.shape[:-1]), np.zeros(sums.shape[:-1]), 0
    for size in groups:
        inside = ratios[..., start : start + size]
        defined = ~np.isnan(inside)
        mean = ratio(np.where(defined, inside, 0.0).sum(axis=-1), defined.sum(axis=-1))
        totals += np.nan_to_num(mean)
        counts += ~np.isnan(mean)
        start += size
    return ratio(totals, counts)


def excess_of_ratios(sums: Floats) -> Floats:
    """Return the largest of k ratios, less the 1/k that each has where they are even; shape (…).

    NaN where one of them has no denominator.

    Args:
        sums: Shape (…, 2 × k): numerator and denominator of each ratio.
    """
    ratios = ratio(sums[..., 0::2], sums[..., 1::2])
    largest: Floats = ratios.max(axis=-1) - 1 / ratios.shape[-1]
    return largest


def harmonic_of_ratios(sums: Floats) -> Floats:
    """Return the harmonic mean of k ratios, 0 where one of them is 0; shape (…).

    NaN where one of them has no denominator.

    Args:
        sums: Shape (…, 2 × k): numerator and denominator of each ratio.
    """
    ratios = ratio(sums[..., 0::2], sums[..., 1::2])
    inverse = (1 / np.where(ratios == 0, 1, ratios)).sum(axis=-1)
    return np.where((ratios == 0).any(axis=-1), 0.0, ratios.shape[-1] / inverse)


def name_estimates(
    first: Sequence[str], second: Sequence[str], clusters: Sequence[Hashable]
) -> dict[str, Estimate]:
    """Estimate `agreement`, Cohen's `kappa` and Krippendorff's nominal `alpha` of two raters.

    Their labels are of any vocabulary, which no scale declares. Two people who write labels of
    their own use hundreds of them: a table of all pairs of labels would be resampled in gigabytes.
    Unweighted kappa and nominal alpha need only how often both agree and how often each label was
    given.

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
