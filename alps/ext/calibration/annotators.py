"""Tests of a judge among annotators: whether it can replace one, and agreement.

Labels of `people` are numbers, or the places of names on a scale; shape (items, annotators), NaN
where an annotator gave none. Verdicts of a `judge` have the shape (items,); one that could not be
parsed is NaN, and its item is left out and not counted in `n`. `clusters` tells what each item
belongs to; without, each stands alone. What is not defined is None, never NaN, and shapes that
don't fit are a ValueError.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal, get_args

import numpy as np

from alps.ext.audits.intervals import clustered_statistics
from alps.stats.bootstrap import Estimate, Floats, clustered_ratio, clustered_variance, ratio

Score = Literal["accuracy", "rmse"]
Status = Literal["passed", "failed", "underpowered"]
# Both are the test's authors': of fewer items or people omega says little.
ITEMS = 30
ANNOTATORS = 3
# With 74 to 88 items a person, as in MT-Bench, omega is 0 whatever the judge: no failure of it.
POWER = 0.8
# False discovery rate over annotators.
_FALSE = 0.05
# Two closenesses that are equal differ by a rounding of their means.
_TIE = 1e-9


@dataclass(frozen=True)
class AgainstOne:
    """The judge against one annotator, both measured on the other annotators.

    `judge_wins` and `annotator_wins` are the shares of the `n` items where the one is at least as
    close to the others as the other is; ties count for both. `p` is that of the hypothesis that the
    annotator, less epsilon, is at least as good, `adjusted` the same after Benjamini and Yekutieli.
    `power` is the probability that a judge exactly as good as this annotator would have been found
    so. All but `n` are None where the annotator shares too few items.
    """

    n: int
    judge_wins: float | None = None
    annotator_wins: float | None = None
    p: float | None = None
    adjusted: float | None = None
    power: float | None = None


@dataclass(frozen=True)
class AlternativeAnnotator:
    """Outcome of the alternative-annotator test.

    `omega` is the share of the tested annotators whom the judge can replace, `rho` the mean share
    of items where it is at least as close to the others as they are. `status` is `passed` from an
    omega of .5 with at least 3 tested annotators; `failed` where the test could have told, or the
    judge is significantly worse than half of them; `underpowered` otherwise: too few items or
    annotators to say.
    """

    epsilon: float
    score: Score
    omega: float | None
    rho: Estimate
    annotators: tuple[AgainstOne, ...]
    status: Status


def alternative_annotator(
    people: Floats,
    judge: Floats,
    clusters: Sequence[Hashable] | None = None,
    *,
    epsilon: float,
    score: Score = "accuracy",
    seed: int = 0,
) -> AlternativeAnnotator:
    """Test whether a judge may replace an annotator picked at random.

    Each annotator in turn is left out; an item counts where the judge, that annotator and at least
    one other labelled it. With `clusters` the t statistic uses a variance between clusters and as
    many degrees of freedom, less one; without, it is the ordinary one-sided t test.

    Source: Calderon, Reichart and Dror, arXiv:2501.10970; Benjamini and Yekutieli, Annals of
    Statistics 29 (2001) 1165.

    Args:
        people: Shape (items, annotators).
        judge: Shape (items,).
        clusters: What each item belongs to.
        epsilon: What being cheaper than a person is worth, in wins: about .2 against experts, .15
            against trained people, .1 against a crowd.
        score: Closeness to the others: the share that gave the same label, or minus the root mean
            squared difference.
        seed: Of the interval of rho.
    """
    groups = _groups(people, judge, clusters, score)
    wins: list[Floats] = []
    compared: list[AgainstOne] = []
    tests: dict[int, _Test] = {}
    for annotator in range(people.shape[1]):
        own, their = _wins(people, judge, annotator, score)
        shared = int((~np.isnan(own)).sum())
        compared.append(AgainstOne(shared))
        if shared >= ITEMS:
            test = tests[annotator] = _test(own, their, groups, epsilon)
            wins.append(own)
            shares = float(np.nanmean(own)), float(np.nanmean(their))
            compared[annotator] = AgainstOne(shared, *shares, test.p)
    # It holds under any dependence: all annotators are tested against nearly the same others.
    adjusted = _benjamini_yekutieli([test.p for test in tests.values()])
    worse = _benjamini_yekutieli([test.worse for test in tests.values()])
    powers, harmonic = [], sum(1 / rank for rank in range(1, len(tests) + 1))
    for (annotator, test), corrected in zip(tests.items(), adjusted, strict=True):
        # Benjamini and Yekutieli's threshold where the judge beats everyone: the easiest there is.
        powers.append(test.power(epsilon, _FALSE / harmonic))
        alone = compared[annotator]
        compared[annotator] = replace(alone, adjusted=corrected, power=powers[-1])
    omega = float(np.mean(np.array(adjusted) <= _FALSE)) if tests else None
    status = _status(omega, powers, [p <= _FALSE for p in worse])
    rho = _rho(wins, groups, seed=seed)
    return AlternativeAnnotator(epsilon, score, omega, rho, tuple(compared), status)


def _groups(
    people: Floats, judge: Floats, clusters: Sequence[Hashable] | None, score: Score
) -> Sequence[Hashable]:
    """Return what each item belongs to, of labels that can be tested."""
    _check(people, judge)
    if score not in get_args(Score):
        raise ValueError(f"score must be one of {', '.join(get_args(Score))}, got {score}")
    groups: Sequence[Hashable] = range(len(people)) if clusters is None else clusters
    if len(groups) != len(people):
        raise ValueError(f"lengths differ: {len(people)} items, {len(groups)} clusters")
    return groups


def leave_one_out(
    people: Floats, judge: Floats, clusters: Sequence[Hashable] | None = None
) -> dict[str, Estimate]:
    """Estimate how often people, and a judge, give the most frequent label of all people but one.

    `judge` is compared with the same groups of people, each lacking one of them, so that it and
    `everyone` are on one footing. Where several labels are most frequent each counts its share. `n`
    counts labels compared.

    Source: the evaluator metrics of AlpacaEval (Dubois et al., arXiv:2404.04475).
    """
    # Ties count by their expectation rather than at random: the same labels give the same figures.
    _check(people, judge)
    values = _values(people, judge)
    votes = _given(people, values)
    rest = _modes(votes.sum(axis=1)[:, None, :] - votes)
    compared = (rest.sum(axis=-1) > 0) & ~np.isnan(people)
    judged = compared & ~np.isnan(judge)[:, None]
    shares = {}
    sides = (("everyone", votes, compared), ("judge", _given(judge[:, None], values), judged))
    for name, given, counted in sides:
        credit = (given * rest).sum(axis=-1) * counted
        shares[name] = _share(credit.sum(axis=1), counted.sum(axis=1).astype(np.float64), clusters)
    return shares


def self_agreement(labels: Floats, clusters: Sequence[Hashable] | None = None) -> Estimate:
    """Estimate how often two draws of one rater agree, over items with two; (items, draws)."""
    _check(labels)
    counts = _given(labels, _values(labels)).sum(axis=1)
    many = counts.sum(axis=1)
    agreed = np.nan_to_num(ratio((counts * (counts - 1)).sum(axis=1), many * (many - 1)))
    return _share(agreed, (many >= 2).astype(np.float64), clusters)


@dataclass(frozen=True)
class Alignment:
    """Shares of items where the judge agrees with all annotators, with some, and with none."""

    full: Estimate
    partial: Estimate
    none: Estimate


def alignment(
    people: Floats, judge: Floats, clusters: Sequence[Hashable] | None = None
) -> Alignment:
    """Estimate on which share of the items a judge is fully, partially and not aligned.

    Items with a verdict and at least two labels count.
    """
    # One annotator alone can't be aligned with partially.
    _check(people, judge)
    labels = (~np.isnan(people)).sum(axis=1)
    same = (people == judge[:, None]).sum(axis=1)
    counted = ((labels >= 2) & ~np.isnan(judge)).astype(np.float64)
    kinds = (same == labels, (same > 0) & (same < labels), same == 0)
    return Alignment(*(_share(kind * counted, counted, clusters) for kind in kinds))


def _check(people: Floats, judge: Floats | None = None) -> None:
    if people.ndim != 2:
        raise ValueError(f"labels must have the shape (items, annotators), got {people.shape}")
    if judge is not None and judge.shape != (len(people),):
        raise ValueError(f"lengths differ: {len(people)} items, verdicts of shape {judge.shape}")


def _wins(people: Floats, judge: Floats, annotator: int, score: Score) -> tuple[Floats, Floats]:
    """Return where judge and annotator are at least as close to the others; NaN: not compared."""
    others = np.delete(people, annotator, axis=1)
    labelled = ~np.isnan(others)
    counts = labelled.sum(axis=1)
    compared = (counts > 0) & ~np.isnan(people[:, annotator]) & ~np.isnan(judge)

    def closeness(labels: Floats) -> Floats:
        apart = np.where(labelled, others - labels[:, None], 0.0)
        if score == "accuracy":
            return np.asarray(ratio(((apart == 0) & labelled).sum(axis=1), counts))
        return np.asarray(-np.sqrt(ratio((apart**2).sum(axis=1), counts)))

    ahead = closeness(judge) - closeness(people[:, annotator])
    own, their = (np.where(compared, side >= -_TIE, np.nan) for side in (ahead, -ahead))
    return own, their


@dataclass(frozen=True)
class _Test:
    """One annotator's t test: p, that of the opposite, the standard error, and the df."""

    p: float
    worse: float
    error: float
    freedom: int

    def power(self, epsilon: float, significance: float) -> float:
        """Return how often a judge exactly as good as the annotator would be found so."""
        if self.error == 0 or not self.freedom:
            return float(self.freedom > 0 and epsilon > 0)
        from scipy.stats import nct, t

        critical = t.ppf(significance, self.freedom)
        return float(nct.cdf(critical, self.freedom, -epsilon / self.error))


def _test(own: Floats, their: Floats, groups: Sequence[Hashable], epsilon: float) -> _Test:
    from scipy.stats import t

    compared = np.flatnonzero(~np.isnan(own))
    lead = their[compared] - own[compared]
    within = [groups[item] for item in compared.tolist()]
    mean = float(lead.mean())
    variance = clustered_variance((lead - mean) / len(lead), within)
    if variance is None:  # one cluster says nothing about others
        return _Test(1.0, 1.0, 0.0, 0)
    freedom = len(set(within)) - 1
    if variance == 0:  # every item says the same
        return _Test(float(mean >= epsilon), float(mean <= epsilon), 0.0, freedom)
    error = variance**0.5
    statistic = (mean - epsilon) / error
    return _Test(float(t.cdf(statistic, freedom)), float(t.sf(statistic, freedom)), error, freedom)


def _benjamini_yekutieli(ps: Sequence[float]) -> list[float]:
    if not ps:
        return []
    from scipy.stats import false_discovery_control

    return [float(p) for p in false_discovery_control(ps, method="by")]


def _status(omega: float | None, powers: Sequence[float], worse: Sequence[bool]) -> Status:
    if omega is None or len(powers) < ANNOTATORS:
        return "underpowered"
    if omega >= 0.5:
        return "passed"
    # A test that fails says nothing where it would have failed a judge as good as the people.
    conclusive = median(powers) >= POWER or sum(worse) >= len(worse) / 2
    return "failed" if conclusive else "underpowered"


def _rho(wins: Sequence[Floats], groups: Sequence[Hashable], *, seed: int) -> Estimate:
    """Return the mean over annotators of the judge's share of wins."""
    if not wins:
        return Estimate(None, None, None, 0)
    own = np.stack(wins, axis=1)
    features = np.hstack([np.nan_to_num(own), (~np.isnan(own)).astype(np.float64)])
    size = own.shape[1]
    n = int((~np.isnan(own)).any(axis=1).sum())

    def mean_of_shares(sums: Floats) -> Floats:
        return np.asarray(ratio(sums[..., :size], sums[..., size:]).mean(axis=-1))

    return clustered_statistics(features, groups, [mean_of_shares], n=n, seed=seed)[0]


def _values(*labels: Floats) -> Floats:
    distinct = np.unique(np.concatenate([part.ravel() for part in labels]))
    return np.asarray(distinct[~np.isnan(distinct)], dtype=np.float64)


def _given(labels: Floats, values: Floats) -> Floats:
    """Return ones where a label is a value; shape (items, annotators, values)."""
    return np.asarray(labels[:, :, None] == values, dtype=np.float64)


def _modes(counts: Floats) -> Floats:
    """Return an equal share to each of the most frequent values along the last axis, if any."""
    highest = counts.max(axis=-1, keepdims=True, initial=0)
    top = ((counts == highest) & (counts > 0)).astype(np.float64)
    return np.nan_to_num(ratio(top, top.sum(axis=-1, keepdims=True)))


def _share(credit: Floats, counted: Floats, clusters: Sequence[Hashable] | None) -> Estimate:
    """Estimate credit over what was counted, with `n` as the latter's number."""
    groups = range(len(credit)) if clusters is None else clusters
    return replace(clustered_ratio(credit, counted, groups), n=int(counted.sum()))
