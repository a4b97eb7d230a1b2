"""Scores corrected for a judge's known errors, with intervals for all sources of noise.

Two ways, for two situations. Where people labelled a random sample of the population that the judge
scored: prediction-powered inference (`ppi`). Where error rates are carried over from elsewhere:
Rogan and Gladen's estimator (`rogan_gladen`), whose interval counts the noise of the score, of the
sensitivity and of the specificity.

Estimates and bounds may leave the range of possible values, as `Correction.outside` says. Where the
data can't support a correction `reason` says why, and value and bounds are None, never NaN.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt
from typing import Literal, NamedTuple

import numpy as np

from alps.ext.audits.intervals import (
    RARE,
    RARE_DIFFERENCE,
    Z,
    few_differ,
    grouped_interval,
    interval_by_variance,
    wilson,
)
from alps.stats.bootstrap import UNIT, Estimate, Floats, cluster_sums, clustered_variance
from alps.stats.bounded import LEVEL, student_quantile
from alps.stats.paired import Difference, detectable, t_tests

Method = Literal["rogan_gladen", "ppi"]
Interval = Literal["score", "normal", "bounded", "difference"]
# Youden's index up to which a judge nearly guesses, and no correction is made.
YOUDEN = 0.1


class Cells(NamedTuple):
    """A confusion table whose items count in part: to the share of people who say yes."""

    tp: float
    fn: float
    fp: float
    tn: float

    @property
    def n(self) -> int:
        """Items, to the nearest number."""
        return round(sum(self))


@dataclass(frozen=True)
class Correction:
    """A corrected score next to the raw one.

    `weight` is the lambda of `ppi`: how much the judge's verdicts count. `youden` is sensitivity +
    specificity - 1 of `rogan_gladen`: how much better than chance the judge is. `error` is the
    standard error of `ppi`, and `few` whether too few labels differ for it: the interval is another
    one.
    """

    method: Method
    raw: Estimate
    value: float | None
    low: float | None
    high: float | None
    labelled: int
    weight: float | None = None
    youden: Estimate | None = None
    reason: str | None = None
    bounds: tuple[float, float] = (0.0, 1.0)
    error: float | None = None
    few: bool = False

    @property
    def outside(self) -> bool:
        """Whether the value or a bound is impossible: outside `bounds`."""
        # Nothing is clipped: a rate below 0 is evidence that an assumption fails.
        low, high = self.bounds
        return any(
            figure is not None and not low <= figure <= high
            for figure in (self.value, self.low, self.high)
        )


def youden(counts: Cells, *, design_effect: float = 1.0) -> Estimate:
    """Estimate sensitivity + specificity - 1; 0 is a judge that guesses.

    The interval combines Wilson's two, squared distances added. None without both positive and
    negative items.

    Source: Newcombe, Statistics in Medicine 17 (1998) 873, method 10.
    """
    n = counts.n
    hit = wilson(counts.tp / design_effect, (counts.tp + counts.fn) / design_effect)
    spared = wilson(counts.tn / design_effect, (counts.tn + counts.fp) / design_effect)
    bounds = [(side.value, side.low, side.high) for side in (hit, spared)]
    if None in (hit.value, spared.value):
        return Estimate(None, None, None, n)
    (hit_rate, hit_low, hit_high), (spared_rate, spared_low, spared_high) = np.array(
        bounds, dtype=np.float64
    )
    value = hit_rate + spared_rate - 1
    low = value - sqrt((hit_rate - hit_low) ** 2 + (spared_rate - spared_low) ** 2)
    high = value + sqrt((hit_high - hit_rate) ** 2 + (spared_high - spared_rate) ** 2)
    return Estimate(float(value), float(low), float(high), n)


def rogan_gladen(
    positives: int, total: int, counts: Cells, *, design_effect: float = 1.0
) -> Correction:
    """Correct a judge's rate by its error rates, measured on other items.

    Assumes that sensitivity and specificity are the same on the items scored as on those labelled.
    The interval adds pseudo-counts to all three proportions and shifts its centre for the bias of
    the ratio; it covers about as often as it says from some ten items of the rarer class on. Not
    correctable where the judge is hardly better than chance: where youden is at most `YOUDEN`, or
    its interval reaches 0.

    Source: Rogan and Gladen, American Journal of Epidemiology 107 (1978) 71; interval: Lee et al.,
    arXiv:2511.21140, after Lang and Reiczigel, Preventive Veterinary Medicine 113 (2014) 13.

    Args:
        positives: Items that the judge accepted.
        total: Items that it judged.
        counts: Its confusion table on labelled items; what could not be parsed must be counted in
            as it is in `positives`, or left out of both.
        design_effect: By how much clusters widen the variance, ≥ 1; see `clustered_rogan_gladen`.

    Raises:
        ValueError: Unless 0 ≤ positives ≤ total and the design effect is at least 1.
    """
    if design_effect < 1:
        raise ValueError(f"design_effect must be at least 1, got {design_effect}")
    raw = replace(wilson(positives / design_effect, total / design_effect), n=total)
    better = youden(counts, design_effect=design_effect)
    value = low = high = None
    # Near Youden's index 0 the estimate divides by almost nothing, and any score could come out.
    reason = _why_not(raw, counts, better)
    if not reason and raw.value is not None and better.value is not None:
        spared = counts.tn / (counts.tn + counts.fp)
        value = (raw.value + spared - 1) / better.value
        low, high = _two_sources(positives, total, counts, design_effect)
    return Correction("rogan_gladen", raw, value, low, high, better.n, None, better, reason)


def _why_not(raw: Estimate, counts: Cells, better: Estimate) -> str | None:
    if raw.value is None:
        return "the judge scored no items"
    if better.value is None or better.low is None:
        missing = "positive" if counts.tp + counts.fn == 0 else "negative"
        return f"no labelled item is {missing}, so the judge's error rate on such items is unknown"
    index = "sensitivity + specificity - 1"
    value = f"{index} is {better.value:.2f}"
    # A label folder whose positive value was swapped comes out so.
    if better.value < 0:
        return f"{value}, so the judge contradicts people; check which label is positive"
    if better.value <= YOUDEN:
        return f"{value}, so the judge hardly does better than guessing (limit: {YOUDEN:g})"
    if better.low <= 0:
        return f"{index} may be 0 ({better.low:.2f} to {better.high:.2f}): label more items"
    return None


def _two_sources(
    positives: int, total: int, counts: Cells, design_effect: float
) -> tuple[float, float]:
    """Return the adjusted interval of Rogan and Gladen's estimate."""
    z = Z

    def padded(successes: float, trials: float, extra: float) -> tuple[float, float]:
        trials = trials / design_effect + extra
        share = (successes / design_effect + extra / 2) / trials
        return share, share * (1 - share) / trials

    rate, rate_noise = padded(positives, total, z * z)
    spared, spared_noise = padded(counts.tn, counts.tn + counts.fp, 2)
    hit, hit_noise = padded(counts.tp, counts.tp + counts.fn, 2)
    better = hit + spared - 1
    value = (rate + spared - 1) / better
    centre = value + 2 * z * z * (value * hit_noise - (1 - value) * spared_noise)
    noise = rate_noise + (1 - value) ** 2 * spared_noise + value**2 * hit_noise
    half = z * sqrt(noise) / abs(better)
    return centre - half, centre + half


def clustered_rogan_gladen(
    verdicts: Sequence[bool],
    clusters: Sequence[Hashable],
    people: Sequence[float],
    judge: Sequence[bool],
    label_clusters: Sequence[Hashable],
) -> Correction:
    """Correct a judge's rate where items share a user, a question or a session.

    As `rogan_gladen`, with all numbers of items divided by the design effect of the estimate
    itself, taken as at least 1; clusters of the same name among the items scored and those labelled
    are the same.

    Args:
        verdicts: The judge's, on the items scored; shape (items,).
        clusters: What each of these belongs to.
        people: Labels of the labelled items, 0 or 1, or between them where people disagree; shape
            (labelled,).
        judge: The judge's verdicts there.
        label_clusters: What each of these belongs to.

    Raises:
        ValueError: If lengths differ.
    """
    if len(verdicts) != len(clusters) or not len(people) == len(judge) == len(label_clusters):
        lengths = [len(part) for part in (verdicts, clusters, people, judge, label_clusters)]
        names = "verdicts, clusters, people, judge, label_clusters"
        raise ValueError(f"lengths differ ({names}): {', '.join(map(str, lengths))}")
    # Items that people dispute count in part: to leave them out would measure the judge where it is
    # easy, and bias the estimate.
    scored, truth, judged = (
        np.asarray(part, dtype=np.float64) for part in (verdicts, people, judge)
    )
    cells = (truth * judged, truth * (1 - judged), (1 - truth) * judged, (1 - truth) * (1 - judged))
    counts = Cells(*(float(cell.sum()) for cell in cells))
    effect = 1.0
    if len(scored) and truth.any() and not (truth == 1).all():
        effect = _design_effect(scored, truth, judged, [*clusters, *label_clusters])
    return rogan_gladen(int(scored.sum()), len(scored), counts, design_effect=effect)


def _design_effect(
    scored: Floats, truth: Floats, judged: Floats, clusters: Sequence[Hashable]
) -> float:
    """Return the clustered variance of Rogan and Gladen's estimate over that of lone items, ≥ 1."""
    no = 1 - truth
    rate = float(scored.mean())
    hit, false = (float((side * judged).sum() / side.sum()) for side in (truth, no))
    if hit == false:
        return 1.0  # not correctable whatever the clusters
    value = (rate - false) / (hit - false)
    noise = (
        -value * truth * (judged - hit) / truth.sum()
        - (1 - value) * no * (judged - false) / no.sum()
    )
    influence = np.concatenate([(scored - rate) / len(scored), noise]).astype(np.float64)
    together = clustered_variance(influence, clusters)
    alone = clustered_variance(influence, range(len(influence)))
    if not together or not alone:  # clusters that can't be seen are taken at their worst
        return len(influence) / len(set(clusters))
    # Below 1 is chance, and would narrow the interval for items that hang together.
    return max(1.0, together / alone)


def ppi(
    people: Floats,
    judge: Floats,
    others: Floats,
    clusters: tuple[Sequence[Hashable], Sequence[Hashable]] | None = None,
    *,
    interval: Interval = "normal",
    weight: float | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Correction:
    """Estimate what people's mean label would be, from few labels and many verdicts of a judge.

    Assumes that the labelled items are a random sample of the same population as the others. The
    judge may err in any way: a useless one gets a weight near 0 and costs nothing. The weight that
    makes the variance smallest is estimated and not clipped. With `clusters`, the variance is one
    between clusters, and quantiles are Student's.

    `interval="normal"` is the published one. `"score"`, for labels of 0 and 1 only, is Wilson's at
    the number of labels that the estimate is worth; it covers better for rates near 0 or 1 and
    small samples, and falls back to the normal one where the estimate is not between 0 and 1.
    `"bounded"` is the same for any values within `bounds`, such as F1 of records: the interval of
    `bounded_interval` at that number of labels. `"difference"`, for differences of values within
    bounds, is the normal one. Where labels other than the commonest are few and rare, these three
    give way to `grouped_interval`: of rare values the variance that is seen covers too seldom. So
    do the first two where all labels are at the bounds and the judge differs from few of them: of
    its errors too few are seen.

    Source: Angelopoulos, Duchi and Zrnic, «PPI++», arXiv:2311.01453.

    Args:
        people: Labels; shape (labelled,), finite.
        judge: The judge's verdicts on the same items; shape (labelled,), finite.
        others: Its verdicts on items without a label; shape (others,), finite, may be empty.
        clusters: What the labelled items and the others belong to; same names are the same cluster.
        interval: See above.
        weight: Of the verdicts, instead of the best; 0 ignores the judge, 1 trusts it as plain PPI
            does.
        bounds: Of possible values.

    Raises:
        ValueError: If lengths differ, a number is not finite, or a score interval is asked for of
            other numbers than 0 and 1.
    """
    _check(people, judge, others, clusters, interval)
    # Clusters of the same name are the same: users whose answers are labelled have others, too.
    n, groups = len(people), None if clusters is None else [*clusters[0], *clusters[1]]
    raw = _raw(np.concatenate([judge, others]), groups, interval, bounds)
    units = n if clusters is None else len(set(clusters[0]))
    if units < 2:
        unit = "item" if clusters is None else "cluster"
        reason = f"labels on {units} {unit}{'' if units == 1 else 's'}: at least 2 are needed"
        return Correction("ppi", raw, None, None, None, n, reason=reason, bounds=bounds)
    best = _best_weight(people, judge, others) if weight is None else weight
    # Where all is labelled the verdicts have nothing left to tell.
    if not len(others):
        best = 0.0
    rest = people - best * judge
    value = float(rest.mean()) + (best * float(others.mean()) if len(others) else 0.0)
    # What each item adds to the error: both samples are noise, the labels' and the others'.
    parts = [(rest - rest.mean()) / n]
    if len(others):
        parts.append(best * (others - others.mean()) / len(others))
    influence = np.concatenate(parts)
    together = _squares(influence, groups)
    clustered = groups is not None
    freedom = None
    if interval == "bounded":
        freedom = _freedom(influence, n, groups, weighed=weight is None and best != 0)
    low, high = _ppi_bounds(
        value,
        together,
        units,
        clustered=clustered,
        interval=interval,
        bounds=bounds,
        records=n,
        freedom=freedom,
    )
    own = clusters or (range(n), range(n, n + len(others)))
    # Of 20 to 30 audits a judge right nine times in ten often gets all: intervals by the variance
    # alone covered .888 in the worst of 1,400 simulated settings.
    few = _few(people, judge if best else None, own[0], interval, bounds)
    if few:
        apart = interval == "difference"
        ends = grouped_interval(people, judge, others, own, bounds=bounds, difference=apart)
        # The groups have a value of their own, which may miss the printed one.
        low, high = min(value, ends[0]), max(value, ends[1])
    error = sqrt(together * (units / (units - 1) if clustered else 1.0))
    return Correction("ppi", raw, value, low, high, n, best, None, None, bounds, error, few)


def _few(
    people: Floats,
    judge: Floats | None,
    clusters: Sequence[Hashable],
    interval: Interval,
    bounds: tuple[float, float],
) -> bool:
    """Tell whether too few labels, or errors of a judge that counts, differ for their variance."""
    if interval == "normal":
        return False
    rare = RARE_DIFFERENCE if interval == "difference" else RARE
    if few_differ(people, clusters, rare=rare):
        return True
    # Labels at the bounds alone: intervals of F1 between them covered well and stay shorter so.
    if interval == "difference" or judge is None or not np.isin(people, bounds).all():
        return False
    # Of a judge that is seldom wrong few errors are seen, if any, and an error is the largest.
    return few_differ(people - judge, clusters, commonest=0.0, rare=RARE_DIFFERENCE)


def labels_for(
    half: float, people: Floats, judge: Floats, others: Floats, error: float
) -> int | None:
    """Return how many labels in all would give `ppi` an interval of ± `half`.

    With n labels among N items that the judge scored, the best weight leaves a variance of
    s² ((1 - r²) / n + r² / N), r being the correlation of judge and people; clusters widen it as
    they do that of the labels at hand. None where labels on all N items would not be enough.

    Source: Angelopoulos, Duchi and Zrnic, arXiv:2311.01453, eq. 5 at its optimum.

    Args:
        half: Of the interval that is wanted, > 0.
        people: Labels; shape (labelled,).
        judge: The judge's verdicts on the same items.
        others: Its verdicts on the other items.
        error: The standard error that the labels at hand give, as `Correction.error` has it.
    """
    n, everyone = len(people), len(people) + len(others)
    varied = people.std() > 0 and judge.std() > 0
    shared = float(np.corrcoef(people, judge)[0, 1]) ** 2 if varied else 0.0
    now = (1 - shared) / n + shared / everyone
    wanted = now * (half / (Z * error)) ** 2 if error > 0 else now
    left = wanted - shared / everyone
    if left <= (1 - shared) / everyone:
        return None
    return max(n, ceil((1 - shared) / left))


def _freedom(
    influence: Floats, labelled: int, groups: Sequence[Hashable] | None, *, weighed: bool
) -> float:
    """Return the degrees of freedom of a variance between clusters, with labels and without.

    Much of the error is that of the clusters without a label, of which there are more. Those with
    labels lose one for their mean and one for the weight of the judge, if it was estimated.

    Source: Satterthwaite, Biometrics Bulletin 2 (1946) 110.
    """
    names = range(len(influence)) if groups is None else groups
    squares = np.square(cluster_sums(influence[:, None], names)).ravel()
    with_labels = len(set(names[:labelled]))  # numbered in the order of their first item
    known, others = squares[:with_labels], squares[with_labels:]
    lost = float(known.sum()) ** 2 / max(1, with_labels - 1 - weighed)
    if len(others) > 1:
        lost += float(others.sum()) ** 2 / (len(others) - 1)
    return float(squares.sum()) ** 2 / lost if lost > 0 else float(with_labels - 1)


def _squares(influence: Floats, groups: Sequence[Hashable] | None) -> float:
    sums = influence if groups is None else cluster_sums(influence[:, None], groups)
    return float(np.square(sums).sum())


def _raw(
    verdicts: Floats,
    groups: Sequence[Hashable] | None,
    interval: Interval,
    bounds: tuple[float, float],
) -> Estimate:
    """Estimate the judge's own mean, with the kind of interval that the corrected one has."""
    if not len(verdicts):
        return Estimate(None, None, None, 0)
    mean, units = float(verdicts.mean()), len(verdicts) if groups is None else len(set(groups))
    if units < 2:
        return Estimate(mean, None, None, len(verdicts))
    variance = _squares((verdicts - mean) / len(verdicts), groups)
    low, high = _ppi_bounds(
        mean,
        variance,
        units,
        clustered=groups is not None,
        interval=interval,
        bounds=bounds,
        records=len(verdicts),
    )
    return Estimate(mean, low, high, len(verdicts))


def _best_weight(people: Floats, judge: Floats, others: Floats) -> float:
    """Return the covariance over the pooled variance of verdicts, shrunk by n / N."""
    if not len(others):
        return 0.0
    pooled = float(np.concatenate([judge, others]).var(ddof=1))
    together = float(((people - people.mean()) * (judge - judge.mean())).mean())
    return together / ((1 + len(people) / len(others)) * pooled) if pooled > 0 else 0.0


def _ppi_bounds(
    value: float,
    variance: float,
    units: int,
    *,
    clustered: bool,
    interval: Interval,
    bounds: tuple[float, float],
    records: int,
    freedom: float | None = None,
) -> tuple[float, float]:
    z = Z
    if not clustered and interval == "normal":
        return value - z * sqrt(variance), value + z * sqrt(variance)
    variance *= units / (units - 1)
    wide = float(student_quantile(units - 1, (1 + LEVEL) / 2))
    if interval == "bounded" and bounds[0] < value < bounds[1] and variance > 0:
        return interval_by_variance(
            value, variance, bounds, freedom=freedom or units - 1, records=records
        )
    if interval == "score" and (0 < value < 1 or (variance == 0 and value in (0, 1))):
        # Labels that all agree have no variance to be seen: they are then worth their number.
        worth = value * (1 - value) / variance * (z / wide) ** 2 if variance > 0 else float(units)
        score = wilson(value * worth, worth)
        if score.low is not None and score.high is not None:
            return score.low, score.high
    return value - wide * sqrt(variance), value + wide * sqrt(variance)


def _check(
    people: Floats,
    judge: Floats,
    others: Floats,
    clusters: tuple[Sequence[Hashable], Sequence[Hashable]] | None,
    interval: Interval,
) -> None:
    if len(people) != len(judge):
        raise ValueError(f"lengths differ: {len(people)} labels, {len(judge)} verdicts")
    if clusters is not None and (len(clusters[0]), len(clusters[1])) != (len(people), len(others)):
        raise ValueError("lengths differ: name one cluster for each labelled and each other item")
    if not all(np.isfinite(part).all() for part in (people, judge, others)):
        raise ValueError("labels and verdicts must be finite: leave out missing values")
    if interval == "score" and not np.isin(people, (0, 1)).all():
        raise ValueError("interval='score' needs labels 0 or 1; else, use interval='normal'")


def powered_difference(
    people: Floats,
    judge: Floats,
    others: Floats,
    clusters: tuple[Sequence[Hashable], Sequence[Hashable]],
    *,
    bounds: tuple[float, float] = UNIT,
) -> Difference:
    """Compare two systems on the same records, of which few are judged well.

    PPI++ on the differences of records: those under the better judge, and those under a cheap one
    of all records. `p` is that of a t test whose variance is one between clusters; there is none
    where too few of the audited records differ, and the interval is then `grouped_interval`.

    Args:
        people: First less second under the better judge; shape (audited,).
        judge: The same under the cheap judge, of the same records.
        others: The same of the records that were not audited.
        clusters: What the audited records and the others belong to.
        bounds: Of the scores.
    """
    span = bounds[1] - bounds[0]
    found = ppi(people, judge, others, clusters, interval="difference", bounds=(-span, span))
    n, units = len(people) + len(others), len(set(clusters[0]))
    estimate = Estimate(found.value, found.low, found.high, n, found.reason)
    few = len(people) > 0 and few_differ(people, clusters[0], commonest=0.0, rare=RARE_DIFFERENCE)
    # Of so few sessions that differ the variance is too uncertain for a t test.
    if found.value is None or found.error is None or few:
        return Difference(estimate, None, None)
    p = t_tests(np.array(found.value), np.array(found.error), np.array(float(units)))
    return Difference(estimate, float(p), detectable(found.error, units))
