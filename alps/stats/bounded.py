"""Intervals of means and ratios of bounded values whose records come in clusters.

A mean is taken for a rate of as many trials as it is worth, and gets the interval of such a rate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import lgamma, pi
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = Floats | float

# Percentiles of a bootstrap covered .50 to .77 of rates near 1 on 11 to 25 records, and had no
# width where all values agree. `bench/coverage.py` chose this method, and holds it to its bounds.

# The correlation within clusters that is assumed as far as the data don't tell theirs.
WITHIN = 0.3
# How many clusters that assumption is worth.
ASSUMED = 3.0
# How many more records of the greatest possible variance are counted, of scores and differences.
UNSEEN, UNSEEN_DIFFERENCE = 1.0, 0.5
# Of every interval of this package.
LEVEL = 0.95
# No interval where a cluster holds more records than this many times the number of clusters.
# Between few large clusters chance and correlation can't be told apart: what covers .90 under a
# correlation of .7 is more than 1.3 times as wide as the exact interval under none.
CROWDED = 1.5
_ROUNDING = 1e-12
_LEAST_P = 1e-12

# Quantiles are our own up to this share: `scipy.special` takes .1 s and 16 MB to import, a seventh
# of a small run. Tails, which only a p needs, are scipy's.
_TAIL = 0.99
_NODES, _STEPS, _BITS = 32, 12, 36
_log_gamma = np.vectorize(lgamma, otypes=[float])
_normal_quantile = np.vectorize(NormalDist().inv_cdf, otypes=[float])


def student_quantile(freedom: Numbers, share: Numbers) -> Any:
    """Return the value that a share of Student's t is below, to ten digits.

    With t = √freedom · tan(angle), the share between 0 and t is a constant times the integral of
    cos^(freedom - 1) up to the angle. The integrand falls, so that Newton's steps from the normal
    quantile, which is nearer to 0, stay below the root.

    Args:
        freedom: Degrees of freedom, > 0; need not be whole.
        share: In [.5, 1).
    """
    if np.max(share) > _TAIL or np.min(freedom) < 1:
        from scipy.special import stdtrit

        return stdtrit(freedom, share)
    nodes, weights = _legendre()
    degrees, above = np.asarray(freedom, dtype=float), np.asarray(share) - 0.5
    constant = np.exp(_log_gamma((degrees + 1) / 2) - _log_gamma(degrees / 2)) / pi**0.5
    angle = np.arctan(_normal_quantile(share) / np.sqrt(degrees))
    for _ in range(_STEPS):
        heights = np.cos(angle[..., None] * (1 + nodes) / 2) ** (degrees[..., None] - 1)
        missing = above - constant * angle * (heights @ weights) / 2
        angle = angle + missing / (constant * np.cos(angle) ** (degrees - 1))
    # Without the last bits, which differ between processors: a score has one interval on all.
    fraction, exponent = np.frexp(np.sqrt(degrees) * np.tan(angle))
    return np.ldexp(np.round(np.ldexp(fraction, _BITS)), exponent - _BITS)


@cache
def _legendre() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(_NODES)


@dataclass(frozen=True)
class Moments:
    """What an interval needs to know of a sample; numbers, or arrays with one element a sample.

    Attributes:
        value: The ratio of the sums; a mean where all weights are one.
        alone: The sum of the squared errors of records over the squared sum of weights: the
            variance of `value` if records were independent.
        together: The same over the sums of errors in clusters.
        clusters: How many have a weight.
        records: How many records of equal weight weigh as much (Kish): the squared sum over the sum
            of squares.
        groups: The same of clusters.
        magnitude: The mean size of the values; only of differences.
    """

    value: Numbers
    alone: Numbers
    together: Numbers
    clusters: Numbers
    records: Numbers
    groups: Numbers
    magnitude: Numbers | None = None


def moments_of(
    numerators: Floats, denominators: Floats, index: NDArray[np.int64], *, difference: bool = False
) -> Moments:
    """Return the moments of one sample with a positive sum of weights.

    Args:
        numerators: Shape (records,).
        denominators: The weights; shape (records,), not negative.
        index: The number of the cluster of each record; shape (records,).
        difference: Whether values are differences.
    """
    total = float(denominators.sum())
    value = float(numerators.sum()) / total
    errors = numerators - value * denominators
    weights, sums = np.bincount(index, weights=denominators), np.bincount(index, weights=errors)
    return Moments(
        value=value,
        alone=float(np.square(errors).sum()) / total**2,
        together=float(np.square(sums).sum()) / total**2,
        clusters=float((weights > 0).sum()),
        records=total**2 / float(np.square(denominators).sum()),
        groups=total**2 / float(np.square(weights).sum()),
        magnitude=float(np.abs(numerators).sum()) / total if difference else None,
    )


def lacking(clusters: int, records: int, moments: Moments) -> str | None:
    """Say why a sample of so many clusters and records with a weight has no interval, if so."""
    if clusters < 2:
        return "all records belong to one session"
    if moments.records > CROWDED * moments.groups**2 and clusters < records:
        return f"{clusters:,} sessions are too few for {records:,} records"
    return None


def bounded_interval(
    moments: Moments,
    lowest: float,
    highest: float,
    level: Numbers = LEVEL,
    *,
    unseen: float = UNSEEN,
) -> tuple[Any, Any]:
    """Return the bounds of a mean or ratio of values in [lowest, highest].

    The interval is Agresti and Coull's at the number of independent trials that would vary as much,
    which is that of records over the design effect, times a factor for the quantile of Student's t
    with one degree less than there are clusters (Korn and Graubard). Two things that small samples
    hide are assumed rather than read from them: a correlation within clusters (`WITHIN`), and
    records of the greatest possible variance (`UNSEEN`).

    Sources: Agresti and Coull, The American Statistician 52 (1998) 119; Korn and Graubard, Survey
    Methodology 24 (1998) 193; design effects and weights: Kish, «Survey Sampling» (1965) §8.2 and
    11.7; both compared in clusters: Franco, Little, Louis and Slud, Journal of Survey Statistics
    and Methodology 7 (2019) 334.

    Args:
        moments: At least two clusters in each sample.
        lowest: The least that a value can be.
        highest: The most.
        level: Of confidence; a number, or an array of one sample's.
        unseen: How many more records of the greatest possible variance are counted, of scores.
    """
    span = highest - lowest
    position = np.clip((np.asarray(moments.value) - lowest) / span, 0.0, 1.0)
    groups, records = np.asarray(moments.groups), np.asarray(moments.records)
    alone, together = (np.asarray(part) / span**2 for part in (moments.alone, moments.together))
    agree = alone * records <= _ROUNDING**2
    away, more = position, unseen
    if moments.magnitude is not None:
        away, more = np.minimum(np.asarray(moments.magnitude) / highest, 0.5), UNSEEN_DIFFERENCE
    # The design effect is averaged with that of the correlation `WITHIN`. The data's weighs as many
    # clusters as can show one: few, where almost all values are at one end.
    informative = groups * 4 * away * (1 - away)
    effect = _design_effect(
        np.where(agree, 1.0, alone),
        together,
        np.asarray(moments.clusters),
        informative,
        records / groups,
    )
    # A rare value may not have been seen, and would be of the greatest possible variance.
    greatest = position * (1 - position)
    variance = (alone * records + more * greatest / records) / (records + more)
    wide = student_quantile(np.maximum(groups - 1, 1.0), (1 + level) / 2)
    z = _normal_quantile((1 + level) / 2)
    trials = greatest / np.where(agree, 1.0, variance * effect) * (z / wide) ** 2
    low, high = agresti_coull(position, trials, z)
    # Where all values agree, others are as frequent as failures may be that were never seen in as
    # many trials.
    assumed = 1 + (records / groups - 1) * WITHIN
    most = agresti_coull(np.zeros_like(position), records / assumed, z)[1]
    low = np.where(agree, position * (1 - most), low)
    high = np.where(agree, position + most * (1 - position), high)
    return lowest + span * low, lowest + span * high


def student_interval(moments: Moments) -> tuple[float, float] | None:
    """Return Student's interval of unbounded values between clusters; None where all agree."""
    clusters = float(moments.clusters)
    error = float(np.sqrt(float(moments.together) * clusters / (clusters - 1)))
    value = float(moments.value)
    if error <= _ROUNDING * max(1.0, abs(value)):
        return None
    half = float(student_quantile(clusters - 1, (1 + LEVEL) / 2)) * error
    return value - half, value + half


def _design_effect(
    alone: Floats, together: Floats, clusters: Floats, informative: Floats, size: Floats
) -> Floats:
    """Return how many times as large a variance is for the clusters, as `informative` ones show."""
    # Cluster by cluster and record by record the same degrees of freedom are lost, so that without
    # clusters it is 1.
    seen = together / alone * np.where(size > 1, clusters / (clusters - 1), 1.0)
    effect: Floats = (informative * seen + ASSUMED * (1 + (size - 1) * WITHIN)) / (
        informative + ASSUMED
    )
    return np.maximum(1.0, effect)


def agresti_coull(position: Floats, trials: Floats, z: Numbers) -> tuple[Floats, Floats]:
    """Return the bounds of a rate at a number of trials; z is the quantile of the level."""
    added = trials + z * z
    centre = (position * trials + z * z / 2) / added
    half = z * np.sqrt(centre * (1 - centre) / added)
    return np.maximum(0.0, centre - half), np.minimum(1.0, centre + half)


def p_of_interval(interval_at: Callable[[Floats], tuple[Floats, Floats]]) -> float:
    """Return the smallest p at whose level, 1 − p, an interval leaves out 0; 1 where none does.

    So p is below .05 if, and only if, the interval of .95 leaves out 0.

    Args:
        interval_at: The bounds at levels of confidence; all of one shape.
    """

    def smallest(candidates: Floats) -> float | None:
        low, high = interval_at(1 - candidates)
        outside = np.flatnonzero((low > 0) | (high < 0))
        return float(candidates[outside[0]]) if len(outside) else None

    # A coarse grid brackets it, a fine one has it to a thousandth of itself; both hold the level
    # of the interval that is shown.
    coarse = np.union1d(np.geomspace(_LEAST_P, 1.0, 400, endpoint=False), [1 - LEVEL])
    if (p := smallest(coarse)) is None:
        return 1.0
    before = coarse[max(0, int(np.searchsorted(coarse, p)) - 1)]
    return smallest(np.linspace(before, p, 64)) or p
