"""Two or more systems on the same records: differences, tests, detectable effects, ties.

Scores are paired by place: the same record at the same place on both sides, finite on both. What a
sample can't say is None, never NaN. Systems whose costs differ are compared by both: `front_of` has
those that no other one beats.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, sqrt
from string import ascii_lowercase

import numpy as np

from alps.stats.bootstrap import UNIT, Estimate, Floats, clustered_difference, clustered_variance
from alps.stats.bounded import LEVEL, student_quantile

_ROUNDING = 1e-12
# The share of cases in which a detectable difference is found.
POWER = 0.8
SIGNIFICANT = 0.05
"""The highest p that is bold, and tells two systems apart."""


@dataclass(frozen=True)
class McNemar:
    """Where two binary verdicts differ; `p` is exact, two-sided, `chi2` None if they never do."""

    first_only: int
    second_only: int
    chi2: float | None
    p: float


def mcnemar(first_only: int, second_only: int) -> McNemar:
    """Test whether two binary verdicts are equally often positive, from their discordance.

    Records are independent; for clustered ones use `paired_difference`.

    Source: McNemar, Psychometrika 12 (1947) 153; exact: binomial of the discordant at one half.

    Raises:
        ValueError: If a count is negative.
    """
    if min(first_only, second_only) < 0:
        raise ValueError(f"counts must not be negative, got {first_only} and {second_only}")
    discordant = first_only + second_only
    if not discordant:
        return McNemar(0, 0, None, 1.0)
    from scipy.stats import binomtest

    p = float(binomtest(first_only, discordant).pvalue)
    return McNemar(first_only, second_only, (first_only - second_only) ** 2 / discordant, p)


@dataclass(frozen=True)
class Difference:
    """First less second: the mean difference with its interval, and a two-sided p.

    `detectable` is the true difference that a sample of this size and spread finds significant in
    80 % of cases. `p` and `detectable` are None with fewer than two clusters.
    """

    estimate: Estimate
    p: float | None
    detectable: float | None


def paired_difference(
    first: Floats,
    second: Floats,
    clusters: Sequence[Hashable] | None = None,
    *,
    bounds: tuple[float, float] | None = UNIT,
    resampled: bool = False,
) -> Difference:
    """Compare two systems on the same records.

    `p` is that of a t test whose variance is one between clusters; where all clusters differ by
    exactly as much, that of the sign test.

    Args:
        first: Scores of the one; shape (records,), finite.
        second: Scores of the other on the same records.
        clusters: Cluster of each record; without it, records are independent.
        bounds: Of the scores; None where they have none.
        resampled: See `clustered_ratio`.

    Raises:
        ValueError: If lengths differ or a score is not finite.
    """
    groups = range(len(first)) if clusters is None else clusters
    if not len(first) == len(second) == len(groups):
        raise ValueError(f"lengths differ: {len(first)}, {len(second)}, {len(groups)}")
    ahead = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    if not np.isfinite(ahead).all():
        what = "scores must be finite: compare only records that both sides have a score for"
        raise ValueError(what)
    estimate = clustered_difference(
        first, second, groups, bounds=bounds, resampled=resampled, tested=True
    )
    variance = None
    if len(ahead):
        variance = clustered_variance((ahead - ahead.mean()) / len(ahead), groups)
    if variance is None:
        return Difference(estimate, None, None)
    error, count = sqrt(variance), len(set(groups))
    p = t_tests(np.array(ahead.mean()), np.array(error), np.array(count, dtype=np.float64))
    return Difference(estimate, float(p), detectable(error, count))


def t_tests(means: Floats, errors: Floats, clusters: Floats) -> Floats:
    """Return the two-sided p of mean differences, each a t test.

    Where all clusters differ alike, it is that of a sign test; 1 where nothing differs, or fewer
    than two clusters were seen. All of one shape.

    Args:
        means: Of the differences; NaN where there is none.
        errors: Their standard errors between clusters.
        clusters: From how many clusters each comes.
    """
    from scipy.special import stdtr

    # Where all clusters differ by exactly as much there is no variance, and a t of infinity; two of
    # them would then be significant, which a sign test of two can't be.
    ahead = np.abs(means)
    with np.errstate(divide="ignore", invalid="ignore"):
        ps = 2 * stdtr(clusters - 1, -ahead / errors)
        ps = np.where(errors <= _ROUNDING * ahead, 2.0 ** (1 - clusters), ps)
    return np.where((clusters < 2) | ~(ahead > _ROUNDING), 1.0, np.minimum(ps, 1.0))


def detectable(error: float, clusters: int) -> float:
    """Return the smallest true difference that is found with a chance of `POWER`.

    A difference observed to be smaller says little about which system is better.

    Source: Bloom, Evaluation Review 19 (1995) 547.

    Args:
        error: The standard error between clusters.
        clusters: How many there are, ≥ 2.
    """
    # The two-sided quantile plus that of the power, times the standard error between clusters.
    freedom = clusters - 1
    shares = np.array([(1 + LEVEL) / 2, POWER])
    return float(student_quantile(freedom, shares).sum() * error)


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """Return p-values corrected for having tested several hypotheses, in their order.

    The chance that any true hypothesis falls below the significance is at most that significance,
    whatever the dependence between the tests.

    Source: Holm, Scandinavian Journal of Statistics 6 (1979) 65.

    Raises:
        ValueError: If a p is not in [0, 1].
    """
    if any(not 0 <= p <= 1 for p in ps):
        raise ValueError(f"p-values must be in [0, 1], got {list(ps)}")
    return tuple(holm_all(np.array(ps, dtype=np.float64)).tolist())


def holm_all(ps: Floats) -> Floats:
    """Correct p-values in [0, 1] as `holm` does: hundreds of thousands, shape (tests,)."""
    order = np.argsort(ps, kind="stable")
    corrected = np.empty_like(ps)
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, ps[order] * np.arange(len(ps), 0, -1)))
    return corrected


def shared_letters(count: int, different: Iterable[tuple[int, int]]) -> tuple[tuple[str, ...], ...]:
    """Return letters for `count` systems: two share one exactly if they do not differ.

    Letters go down the order of the systems: `a` is that of the first, and after `z` comes `aa`.

    Source: Piepho, Journal of Computational and Graphical Statistics 13 (2004) 456, insert and
        absorb.

    Args:
        count: Of the systems, in the order of their scores.
        different: Pairs of positions of systems that differ significantly.
    """
    classes = [frozenset(range(count))] if count else []
    for left, right in different:
        split = {part for group in classes for part in _without(group, left, right)}
        classes = [group for group in split if not any(group < wider for wider in split)]
    ordered = sorted(classes, key=sorted)
    names = _names(len(ordered))
    letters: list[list[str]] = [[] for _ in range(count)]
    for name, group in zip(names, ordered, strict=True):
        for system in group:
            letters[system].append(name)
    return tuple(map(tuple, letters))


def _without(group: frozenset[int], left: int, right: int) -> list[frozenset[int]]:
    if left == right:
        raise ValueError(f"system {left} is compared with itself")
    return [group - {left}, group - {right}] if {left, right} <= group else [group]


def _names(count: int) -> list[str]:
    names: list[str] = []
    width = 1
    while len(names) < count:
        names += ["".join(letters) for letters in product(ascii_lowercase, repeat=width)]
        width += 1
    return names[:count]


@dataclass(frozen=True)
class Ranked:
    """One system among others: its mean, and the letters it shares with those it ties with."""

    name: str
    estimate: Estimate
    letters: tuple[str, ...]


@dataclass(frozen=True)
class Spot:
    """A point of a plane: the lower its cost and the higher its score, the better."""

    cost: float
    score: float


def front_of(spots: Sequence[Spot]) -> tuple[int, ...]:
    """Return the places of the points that no other one beats (Pareto), the cheapest first."""
    order = sorted(range(len(spots)), key=lambda place: (spots[place].cost, -spots[place].score))
    front: list[int] = []
    best, cost = -inf, -inf
    for place in order:
        spot = spots[place]
        # Equal points are both on the front: neither beats the other.
        if spot.score > best or (spot.score == best and spot.cost == cost):
            front.append(place)
            best, cost = spot.score, spot.cost
    return tuple(front)
