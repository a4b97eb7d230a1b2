"""Intervals of proportions: a binary judge's rates, and bounds for selective trust.

And of a mean of rare values of which few are known and all have a cheap score: the variance between
the few that are known says little there, and an interval by variance covers too seldom, or has no
width at all.
A proportion of nothing has no value: None, never NaN. Bounds stay within [0, 1] by construction,
not by clipping. Everywhere `clusters` tells what each record belongs to, and a ValueError is raised
where lengths differ, or unless 0 ≤ successes ≤ trials.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alps.stats.bootstrap import (
    Estimate,
    Floats,
    Statistic,
    cluster_index,
    cluster_sums,
    clustered_mean,
    clustered_ratio,
    percentile_interval,
    ratio,
    resampled_sums,
)
from alps.stats.bounded import LEVEL, WITHIN, agresti_coull, student_quantile

# Trials from which Wilson's interval does, and the exact one is not needed.
SMALL = 40
# How many more records of the greatest possible variance are counted of scores that audits correct:
# cheap scores of all records show a part of what they lack.
UNSEEN = 0.25
# Items that a threshold must keep to be looked at.
FEWEST = 30
# tp, fn, fp, tn: people, then the judge
_CELLS = tuple(product((True, False), repeat=2))
# What a record in each of these cells adds to an index; the index is the mean over all of them.
_INDICES = {"pabak": (1, -1, -1, 1), "prevalence_index": (1, 0, 0, -1), "bias_index": (0, -1, 1, 0)}
# Which cells of a confusion table a rate counts, over which.
RATES = {
    "sensitivity": ("tp", "tp fn"),
    "specificity": ("tn", "fp tn"),
    "ppv": ("tp", "tp fp"),
    "npv": ("tn", "fn tn"),
    "accuracy": ("tp tn", "tp fn fp tn"),
    "people": ("tp fn", "tp fn fp tn"),
    "judge": ("tp fp", "tp fn fp tn"),
}

# The standard normal quantile of a two-sided interval: 1.96.
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)

ENOUGH = 10
"""Clusters with another value than the commonest from which a variance between them is used."""
RARE, RARE_DIFFERENCE = 0.1, 0.25
"""Up to which share of the values others than the commonest are rare, of scores and of differences,
which cancel. The variance of others is seen in however few clusters: Student's quantile allows for
them."""
Clusters = tuple[Sequence[Hashable], Sequence[Hashable]]
Bounds = tuple[float, float]


def wilson(successes: float, trials: float) -> Estimate:
    """Estimate a proportion with Wilson's score interval.

    Counts need not be whole: trials divided by a design effect make the interval fit clustered
    records. `n` is the number of trials, rounded.

    Source: Wilson, JASA 22 (1927) 209; recommended by Newcombe, Statistics in Medicine 17 (1998)
    857.
    """
    _check(successes, trials)
    if trials == 0:
        return Estimate(None, None, None, 0)
    z, share = Z, successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    spread = sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    half = z / (1 + z * z / trials) * spread
    # The formula gives exactly 0 and 1 at the ends; floating point misses them by a hair.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return Estimate(share, low, high, round(trials))


def clopper_pearson(successes: int, trials: int) -> Estimate:
    """Estimate a proportion with the exact interval, which covers at least as often as it says.

    Source: Clopper and Pearson, Biometrika 26 (1934) 404.
    """
    _check(successes, trials)
    if trials == 0:
        return Estimate(None, None, None, 0)
    from scipy.stats import binomtest

    bounds = binomtest(successes, trials).proportion_ci(LEVEL, method="exact")
    return Estimate(successes / trials, float(bounds.low), float(bounds.high), trials)


def proportion(successes: int, trials: int) -> Estimate:
    """Estimate a proportion: by Clopper and Pearson under 40 trials, by Wilson from there."""
    # Wilson's covers on average as often as it says, and of few trials at times less.
    return (clopper_pearson if trials < SMALL else wilson)(successes, trials)


def upper_bound(successes: int, trials: int, *, confidence: float) -> float | None:
    """Return the exact one-sided upper bound of a proportion; None without trials."""
    _check(successes, trials)
    if trials == 0:
        return None
    from scipy.stats import binomtest

    test = binomtest(successes, trials, alternative="less")
    return float(test.proportion_ci(confidence, method="exact").high)


@dataclass(frozen=True)
class Confusion:
    """A binary judge's verdicts against people's labels, and what could not be parsed.

    Rates leave the unparsed out; `unparsed_as_wrong` counts them in. Intervals are exact under 40
    items and Wilson's from there, over independent items.
    """

    tp: int
    fn: int
    fp: int
    tn: int
    unparsed_positive: int = 0
    unparsed_negative: int = 0

    def unparsed_as_wrong(self) -> "Confusion":
        """Count what was not parsed as the judge saying the opposite of people."""
        return Confusion(
            self.tp, self.fn + self.unparsed_positive, self.fp + self.unparsed_negative, self.tn
        )

    def rates(self) -> dict[str, Estimate]:
        """Estimate the `RATES`, with one base rate each for `people` and the `judge`."""

        def count(names: str) -> int:
            return sum(getattr(self, name) for name in names.split())

        return {
            name: proportion(count(above), count(below)) for name, (above, below) in RATES.items()
        }


def confusion(people: Sequence[bool | None], judge: Sequence[bool | None]) -> Confusion:
    """Count a judge's verdicts against people's labels.

    Args:
        people: One label an item; items without one (None) are left out.
        judge: One verdict an item, None where it could not be parsed.
    """
    counts: Counter[tuple[bool | None, ...]] = Counter()
    for label, verdict in zip(people, judge, strict=True):
        if label is not None:
            # Counted, not dropped: a judge that breaks off at hard items would look better.
            counts[bool(label), None if verdict is None else bool(verdict)] += 1
    return Confusion(*(counts[cell] for cell in (*_CELLS, (True, None), (False, None))))


def clustered_rates(
    people: Sequence[bool | None], judge: Sequence[bool | None], clusters: Sequence[Hashable]
) -> dict[str, Estimate]:
    """Estimate the `RATES` of items that come in clusters; the unparsed are left out."""
    cells = _cell_features(people, judge)
    rates = {}
    for name, (counted, over) in RATES.items():
        above, below = cells @ _weights(counted), cells @ _weights(over)
        # Items of one question err together: GPT-4's interval on openqa_eval is a third wider so.
        rates[name] = replace(clustered_ratio(above, below, clusters), n=int(below.sum()))
    return rates


def clustered_statistics(
    features: Floats,
    clusters: Sequence[Hashable],
    statistics: Sequence[Statistic],
    *,
    n: int | None = None,
    seed: int = 0,
) -> list[Estimate]:
    """Estimate functions of sums over records, all from the same resampled clusters.

    Args:
        features: Shape (records, features): what is added up.
        clusters: Shape (records,).
        statistics: Each takes sums of shape (…, features) and returns figures of shape (…), NaN
            where undefined.
        n: Records that count for `Estimate.n`; all by default.
        seed: Of the resampling.
    """
    # A statistic is a function of sums: each cluster is added up once, and not in every resample.
    sums = cluster_sums(features, clusters)
    count = len(features) if n is None else n
    if not len(sums):
        return [Estimate(None, None, None, count) for _ in statistics]
    total = sums.sum(axis=0)
    drawn = resampled_sums(sums, seed=seed) if len(sums) > 1 else None
    estimates = []
    for statistic in statistics:
        value = float(statistic(total))
        if np.isnan(value):
            estimates.append(Estimate(None, None, None, count))
            continue
        interval = None if drawn is None else percentile_interval(statistic(drawn))
        low, high = interval or (None, None)
        estimates.append(Estimate(value, low, high, count))
    return estimates


def clustered_indices(
    people: Sequence[bool], judge: Sequence[bool], clusters: Sequence[Hashable], *, seed: int = 0
) -> dict[str, Estimate]:
    """Estimate what kappa is to be read with, with intervals over resampled clusters.

    `pabak` is the prevalence- and bias-adjusted kappa, twice the observed agreement less 1.
    `prevalence_index` is how much likelier agreement is on yes than on no: far from 0, kappa is
    small by itself. `bias_index` is how much oftener the judge says yes than people do. All lie
    from -1 to 1.

    Source: Byrt, Bishop and Carlin, Journal of Clinical Epidemiology 46 (1993) 423.
    """
    features = _cell_features(people, judge)
    statistics = [_mean_of(np.array(weights, dtype=np.float64)) for weights in _INDICES.values()]
    estimates = clustered_statistics(features, clusters, statistics, seed=seed)
    return dict(zip(_INDICES, estimates, strict=True))


@dataclass(frozen=True)
class Threshold:
    """How sure a judge must be for its verdicts to agree with people often enough.

    `bound` is what the share of disagreements is at most among the `kept` of `n` items; `kept` /
    `n` is the coverage.
    """

    confidence: float
    kept: int
    disagreements: int
    bound: float
    n: int


def selective_threshold(
    confidences: Floats, disagreements: Floats, *, risk: float, failure: float = 0.1
) -> Threshold | None:
    """Find the lowest confidence from which a judge may be believed.

    Candidates are walked down from 1 by .001; the walk ends at the first whose bound exceeds
    `risk`, and the one before it is returned. Among exchangeable items a verdict at least that sure
    then disagrees at a rate of at most `risk`, with probability 1 - `failure`. None where even the
    strictest candidate with 30 items fails, or none has so many.

    Source: Jung, Brahman and Choi, arXiv:2407.18370, §2.

    Args:
        confidences: Shape (items,), in [0, 1].
        disagreements: Shape (items,), 1 where the verdict is not the people's, else 0.
        risk: Highest acceptable share of disagreements, in (0, 1).
        failure: Probability that the guarantee fails, in (0, 1).

    Raises:
        ValueError: If `risk` or `failure` is not in (0, 1), or lengths differ.
    """
    if len(confidences) != len(disagreements):
        lengths = f"{len(confidences)} confidences, {len(disagreements)} disagreements"
        raise ValueError(f"lengths differ: {lengths}")
    if not (0 < risk < 1 and 0 < failure < 1):
        raise ValueError(f"risk and failure must be in (0, 1), got {risk} and {failure}")
    # Fixed-sequence testing: the walk ends at the first that fails, so the guarantee needs no
    # correction for having looked at many.
    lowest = None
    # Fewer items could not pass even without a disagreement: starting there would end the walk
    # before it began.
    minimum = max(FEWEST, ceil(log(failure) / log(1 - risk) - 1e-9))
    for number in range(1000, -1, -1):
        candidate = number / 1000
        kept = confidences >= candidate
        count, wrong = int(kept.sum()), int(disagreements[kept].sum())
        if count < minimum:
            continue
        if lowest and count == lowest.kept:  # nobody new is kept: the same test
            lowest = Threshold(candidate, count, wrong, lowest.bound, len(confidences))
            continue
        bound = upper_bound(wrong, count, confidence=1 - failure)
        if bound is None or bound > risk:
            break
        lowest = Threshold(candidate, count, wrong, bound, len(confidences))
    return lowest


def _cell_features(people: Sequence[bool | None], judge: Sequence[bool | None]) -> Floats:
    """Return a one in the cell that a record falls into, if in any; shape (records, 4)."""
    pairs = list(zip(people, judge, strict=True))
    return np.array([[float(pair == cell) for cell in _CELLS] for pair in pairs]).reshape(-1, 4)


def _mean_of(weights: Floats) -> Statistic:
    """Return a mean of what records add as a function of sums over the cells; shape (…, 4)."""
    return lambda sums: ratio(sums @ weights, sums.sum(axis=-1))


def _weights(names: str) -> Floats:
    """Return a one for each of the cells tp, fn, fp, tn that is named."""
    return np.array([float(cell in names.split()) for cell in ("tp", "fn", "fp", "tn")])


def _check(successes: float, trials: float) -> None:
    if not 0 <= successes <= trials:
        raise ValueError(f"successes must be between 0 and trials, got {successes} of {trials}")


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
    # Differences have no ends to lie at; what matters of them is the side.
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
    # The shares of the groups are of a sample of sessions, too, and have an error.
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


def interval_by_variance(
    value: float, variance: float, bounds: tuple[float, float], *, freedom: float, records: int
) -> tuple[float, float]:
    """Return the bounds of an estimate of a mean of bounded values whose variance is known.

    As `bounded_interval`, at the number of independent trials that would vary as much; the
    correlation within clusters is in the variance, and nothing is assumed of it.

    Args:
        value: Strictly between the bounds.
        variance: Of the estimate between clusters, > 0.
        bounds: The least and the most that a value can be.
        freedom: The degrees of freedom of that variance, > 0.
        records: How many values were seen: one of the greatest possible variance is counted more.
    """
    lowest, span = bounds[0], bounds[1] - bounds[0]
    position, own = (value - lowest) / span, variance / span**2
    greatest = position * (1 - position)
    seen = (own * records + UNSEEN * greatest / records) / (records + UNSEEN)
    # Few sessions know their own variance badly; the normal quantile would cover too seldom.
    wide = float(student_quantile(freedom, (1 + LEVEL) / 2))
    trials = np.array(greatest / seen * (Z / wide) ** 2)
    low, high = agresti_coull(np.array(position), trials, Z)
    return lowest + span * float(low), lowest + span * float(high)


def assumed_effect(index: NDArray[np.int64]) -> float:
    """Return the design effect of a mean of records of these clusters under `WITHIN`."""
    counts = np.bincount(index)
    # A mean weighted by size: the session of a random record is larger than a random session.
    size = float(np.square(counts).sum() / counts.sum())
    return 1 + (size - 1) * WITHIN
