"""Intervals of proportions: a binary judge's rates, and bounds for selective trust.

A proportion of nothing has no value: None, never NaN. Bounds stay within [0, 1] by construction,
not by clipping.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import ceil, log, sqrt
from statistics import NormalDist

import numpy as np

from alps.stats.bootstrap import (
    DRAWS,
    Estimate,
    Floats,
    Statistic,
    cluster_sums,
    clustered_ratio,
    clustered_statistics,
    ratio,
)

SMALL = 40
_CELLS = (
    (True, True),
    (True, False),
    (False, True),
    (False, False),
)  # tp, fn, fp, tn: people, then the judge
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


def quantile(level: float) -> float:
    """Return the standard normal quantile of a two-sided interval at `level`, e.g. 1.96 at .95.

    Raises:
        ValueError: If `level` is not in (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level}")
    return NormalDist().inv_cdf((1 + level) / 2)


def wilson(successes: float, trials: float, *, level: float = 0.95) -> Estimate:
    """Estimate a proportion with Wilson's score interval.

    Counts need not be whole: an effective number of trials, as `effective_trials` gives it, makes
    the interval fit clustered records. `n` is the number of trials, rounded.

    Source: Wilson, JASA 22 (1927) 209; recommended by Newcombe, Statistics in Medicine 17 (1998)
        857.

    Raises:
        ValueError: Unless 0 ≤ successes ≤ trials and `level` is in (0, 1).
    """
    _check(successes, trials)
    z = quantile(level)
    if trials == 0:
        return Estimate(None, None, None, 0)
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = (
        z
        / (1 + z * z / trials)
        * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    )
    # The formula gives exactly 0 and 1 at the ends; floating point misses them by a hair.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return Estimate(share, low, high, round(trials))


def clopper_pearson(successes: int, trials: int, *, level: float = 0.95) -> Estimate:
    """Estimate a proportion with the exact interval, which covers at least `level`.

    Source: Clopper and Pearson, Biometrika 26 (1934) 404.

    Raises:
        ValueError: Unless 0 ≤ successes ≤ trials and `level` is in (0, 1).
    """
    _check(successes, trials)
    quantile(level)
    if trials == 0:
        return Estimate(None, None, None, 0)
    from scipy.stats import binomtest

    bounds = binomtest(successes, trials).proportion_ci(level, method="exact")
    return Estimate(successes / trials, float(bounds.low), float(bounds.high), trials)


def proportion(successes: int, trials: int, *, level: float = 0.95) -> Estimate:
    """Estimate a proportion: by Clopper and Pearson under 40 trials, by Wilson from there."""
    method = clopper_pearson if trials < SMALL else wilson
    return method(successes, trials, level=level)


def upper_bound(successes: int, trials: int, *, confidence: float = 0.95) -> float | None:
    """Return the exact one-sided upper bound of a proportion, with `confidence`.

    None without trials.

    Raises:
        ValueError: Unless 0 ≤ successes ≤ trials and `confidence` is in (0, 1).
    """
    _check(successes, trials)
    quantile(confidence)
    if trials == 0:
        return None
    from scipy.stats import binomtest

    return float(
        binomtest(successes, trials, alternative="less")
        .proportion_ci(confidence, method="exact")
        .high
    )


def clustered_variance(influence: Floats, clusters: Sequence[Hashable]) -> float | None:
    """Return the variance of a sum whose records are independent between clusters only.

    With every record its own cluster and influences (x - mean) / n this is the usual s² / n. None
    with fewer than two clusters.

    Args:
        influence: Shape (records,): what each record adds to the error of the estimate; sums to
            about zero.
        clusters: What each record belongs to.
    """
    sums = cluster_sums(influence[:, None], clusters)[:, 0]
    if len(sums) < 2:
        return None
    return float(len(sums) / (len(sums) - 1) * np.square(sums).sum())


def effective_trials(successes: Floats, clusters: Sequence[Hashable]) -> float:
    """Return how many independent trials clustered zeros and ones are worth.

    The number of records over the design effect, which is taken as at least 1. Where all records
    agree, the design effect can't be seen: the number of clusters is returned, the most cautious
    reading.

    Source: Kish, «Survey Sampling» (1965) §8.2; use in score intervals: Dean and Pagano, Journal of
    Survey Statistics and Methodology 3 (2015) 484.

    Args:
        successes: Shape (records,), each 0 or 1.
        clusters: What each record belongs to.
    """
    count = len(successes)
    if not count:
        return 0.0
    mean = float(successes.mean())
    variance = clustered_variance((successes - mean) / count, clusters)
    if variance is None or mean in (0.0, 1.0):
        return float(len(set(clusters)))
    # s² rather than p(1-p): with every record its own cluster the effect is then exactly 1.
    alone = mean * (1 - mean) / (count - 1)
    return count / max(1.0, variance / alone)


@dataclass(frozen=True)
class Confusion:
    """A binary judge's verdicts against people's labels.

    What could not be parsed is counted beside the four cells.

    Rates leave the unparsed out; `unparsed_as_wrong` counts them in. Intervals are exact under 40
    items and Wilson's from there, over independent items.
    """

    tp: int
    fn: int
    fp: int
    tn: int
    unparsed_positive: int = 0
    unparsed_negative: int = 0

    @property
    def n(self) -> int:
        """Items with a verdict."""
        return self.tp + self.fn + self.fp + self.tn

    @property
    def unparsed(self) -> int:
        """Items whose verdict could not be parsed."""
        return self.unparsed_positive + self.unparsed_negative

    def unparsed_as_wrong(self) -> "Confusion":
        """Count what was not parsed as the judge saying the opposite of people."""
        return Confusion(
            self.tp, self.fn + self.unparsed_positive, self.fp + self.unparsed_negative, self.tn
        )

    def rates(self, *, level: float = 0.95) -> dict[str, Estimate]:
        """Estimate sensitivity, specificity, ppv, npv, accuracy and both base rates.

        The base rates are called `people` and `judge`.
        """
        cells = {"tp": self.tp, "fn": self.fn, "fp": self.fp, "tn": self.tn}

        def count(names: str) -> int:
            return sum(cells[name] for name in names.split())

        return {
            name: proportion(count(above), count(below), level=level)
            for name, (above, below) in RATES.items()
        }


def confusion(people: Sequence[bool | None], judge: Sequence[bool | None]) -> Confusion:
    """Count a judge's verdicts against people's labels.

    Args:
        people: One label an item; items without one (None) are left out.
        judge: One verdict an item, None where it could not be parsed.

    Raises:
        ValueError: If the lengths differ.
    """
    if len(people) != len(judge):
        raise ValueError(f"lengths differ: {len(people)}, {len(judge)}")
    pairs = [
        (bool(label), verdict)
        for label, verdict in zip(people, judge, strict=True)
        if label is not None
    ]
    heard = [(label, bool(verdict)) for label, verdict in pairs if verdict is not None]
    silent = [label for label, verdict in pairs if verdict is None]
    return Confusion(
        tp=heard.count((True, True)),
        fn=heard.count((True, False)),
        fp=heard.count((False, True)),
        tn=heard.count((False, False)),
        unparsed_positive=silent.count(True),
        unparsed_negative=silent.count(False),
    )


def clustered_rates(
    people: Sequence[bool | None],
    judge: Sequence[bool | None],
    clusters: Sequence[Hashable],
    *,
    level: float = 0.95,
) -> dict[str, Estimate]:
    """Estimate the rates of `Confusion.rates` for items that come in clusters.

    The unparsed are left out.

    Raises:
        ValueError: If the lengths differ.
    """
    cells = _cell_features(people, judge)
    if len(cells) != len(clusters):
        raise ValueError(f"lengths differ: {len(cells)}, {len(clusters)}")
    parts = {name: cells @ np.stack(_weights(*of_cells)).T for name, of_cells in RATES.items()}
    return {name: _rate(part, clusters, level) for name, part in parts.items()}


def _rate(part: Floats, clusters: Sequence[Hashable], level: float) -> Estimate:
    """Estimate a rate from what each item adds above and below; shape (items, 2)."""
    estimate = clustered_ratio(part[:, 0], part[:, 1], clusters, level=level)
    return replace(estimate, n=int(part[:, 1].sum()))


def clustered_indices(
    people: Sequence[bool],
    judge: Sequence[bool],
    clusters: Sequence[Hashable],
    *,
    seed: int = 0,
    draws: int = DRAWS,
) -> dict[str, Estimate]:
    """Estimate what kappa is to be read with, with intervals over resampled clusters.

    `pabak` is the prevalence- and bias-adjusted kappa, twice the observed agreement less 1.
    `prevalence_index` is how much likelier agreement is on yes than on no: far from 0, kappa is
    small by itself. `bias_index` is how much oftener the judge says yes than people do. All lie
    from -1 to 1.

    Source: Byrt, Bishop and Carlin, Journal of Clinical Epidemiology 46 (1993) 423.

    Raises:
        ValueError: If the lengths differ.
    """
    features = _cell_features(people, judge)
    statistics = [_mean_of(np.array(weights, dtype=np.float64)) for weights in _INDICES.values()]
    found = clustered_statistics(features, clusters, statistics, seed=seed, draws=draws)
    return dict(zip(_INDICES, found, strict=True))


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
    confidences: Floats,
    disagreements: Floats,
    *,
    risk: float,
    failure: float = 0.1,
    step: float = 0.001,
    minimum: int = 30,
) -> Threshold | None:
    """Find the lowest confidence from which a judge may be believed.

    Candidates are walked down from 1 by `step`; the walk ends at the first whose bound exceeds
    `risk`, and the one before it is returned: fixed-sequence testing, so the guarantee needs no
    correction for having looked at many. Among exchangeable items a verdict at least that sure then
    disagrees at a rate of at most `risk`, with probability 1 - `failure`. None where even the
    strictest candidate with `minimum` items fails, or none has so many.

    Source: Jung, Brahman and Choi, arXiv:2407.18370, §2.

    Args:
        confidences: Shape (items,), in [0, 1].
        disagreements: Shape (items,), 1 where the verdict is not the people's, else 0.
        risk: Highest acceptable share of disagreements, in (0, 1).
        failure: Probability that the guarantee fails, in (0, 1).
        step: Between candidates.
        minimum: Items that a candidate must keep to be looked at; at least as many as could pass
            without an error.

    Raises:
        ValueError: If the lengths differ, or `risk` or `failure` is not in (0, 1).
    """
    if len(confidences) != len(disagreements):
        raise ValueError(f"lengths differ: {len(confidences)}, {len(disagreements)}")
    if not (0 < risk < 1 and 0 < failure < 1):
        raise ValueError(f"risk and failure must be in (0, 1), got {risk} and {failure}")
    found = None
    # Fewer items could not pass even without a disagreement: starting there would end the walk
    # before it began.
    minimum = max(minimum, ceil(log(failure) / log(1 - risk) - 1e-9))
    steps = round(1 / step)
    for place in range(steps, -1, -1):
        candidate = place / steps
        kept = confidences >= candidate
        count, wrong = int(kept.sum()), int(disagreements[kept].sum())
        if count < minimum:
            continue
        if found and count == found.kept:  # nobody new is kept: the same test
            found = Threshold(candidate, count, wrong, found.bound, len(confidences))
            continue
        bound = upper_bound(wrong, count, confidence=1 - failure)
        if bound is None or bound > risk:
            break
        found = Threshold(candidate, count, wrong, bound, len(confidences))
    return found


def _cell_features(people: Sequence[bool | None], judge: Sequence[bool | None]) -> Floats:
    """Return a one a record in the cell it falls into, nothing where either side is missing.

    Shape (records, 4).
    """
    pairs = list(zip(people, judge, strict=True))
    return np.array([[float(pair == cell) for cell in _CELLS] for pair in pairs]).reshape(-1, 4)


def _mean_of(weights: Floats) -> Statistic:
    """Return a mean of what records add as a function of sums over the cells; shape (…, 4)."""
    return lambda sums: ratio(sums @ weights, sums.sum(axis=-1))


def _weights(above: str, below: str) -> tuple[Floats, Floats]:
    """Return which of the cells tp, fn, fp, tn count above, and which below."""
    top, base = (
        np.array([float(cell in names.split()) for cell in ("tp", "fn", "fp", "tn")])
        for names in (above, below)
    )
    return top, base


def _check(successes: float, trials: float) -> None:
    if not 0 <= successes <= trials:
        raise ValueError(f"successes must be between 0 and trials, got {successes} of {trials}")
