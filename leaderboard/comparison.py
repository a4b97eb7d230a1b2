"""Comparison of systems on the same records: their scores, differences, and rank classes.

What was not heard is worst. Every pair is tested as in `alps.stats.paired.paired_difference`, with
Holm's correction over the pairs. The variances of all differences come from two matrix products
where all systems have all records; where some lack some, cluster by cluster, each pair on the
records that both have.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alps.leaderboard.pages import FilePlace
from alps.run.engine import NO_GOLD
from alps.schema import UNHEARD
from alps.stats.bootstrap import Floats, cluster_index, clustered_difference
from alps.stats.paired import SIGNIFICANT, holm_all, t_tests
from alps.tasks import Metric


def record_scores(
    rows: Iterable[Mapping[str, Any]], metrics: Sequence[Metric]
) -> dict[str, dict[str, float]]:
    """Return the scores of each record by metric; the mean if it has several answers.

    A failed answer, or one without a verdict, has the worst score: whoever calls wrong answers lost
    gains nothing.
    """
    values_of: dict[str, dict[str, list[float]]] = {}
    lost: list[str] = []
    for row in rows:
        if _is_unscored(row):
            lost.append(row["benchmark_id"])
        for metric in metrics:
            if (value := _number(row.get("scores"), metric.name)) is not None:
                records = values_of.setdefault(metric.name, {})
                records.setdefault(row["benchmark_id"], []).append(value)
    means: dict[str, dict[str, float]] = {}
    for metric in metrics:
        if records := values_of.get(metric.name, {}):
            worst = metric.highest if metric.lower_is_better else metric.lowest
            for name in lost:
                records.setdefault(name, []).append(worst)
            means[metric.name] = {name: sum(own) / len(own) for name, own in records.items()}
    return means


def _number(scores: object, name: str) -> float | None:
    # Of a submission that nobody verified anything may stand there.
    value = scores.get(name) if isinstance(scores, dict) else None
    return value if type(value) in (int, float) else None


def _is_unscored(row: Mapping[str, Any]) -> bool:
    """Tell whether an answer has no score though its gold is here."""
    outcome, stage = row.get("outcome"), row.get("stage")
    return (stage == "generate" and outcome in UNHEARD) or (stage == "judge" and outcome != NO_GOLD)


Records = Mapping[str, float]
DIGITS = 6
"""To how many digits pages give a figure that no file has."""


@dataclass(frozen=True)
class StrongestBaseline:
    """The strongest trivial baseline of a board.

    `slug` is its submission, empty where it only came with others; `records` is what it scored on
    each record, nothing where no file says so.
    """

    name: str
    slug: str
    score: FilePlace
    records: Records


@dataclass(frozen=True)
class SystemLead:
    """How far a system is above a baseline; without records of both there is no interval."""

    value: float
    low: float | None = None
    high: float | None = None


def strongest(baselines: Sequence[StrongestBaseline]) -> StrongestBaseline | None:
    """Return the baseline with the highest score; of equals one with records, then by name."""
    if not baselines:
        return None
    return max(baselines, key=lambda one: (one.score["value"].value, bool(one.records), one.name))


def above(
    baseline: StrongestBaseline,
    score: FilePlace,
    records: Records,
    sessions: Mapping[str, str],
    metric: Metric,
) -> SystemLead:
    """Return how far a system is above a baseline, paired by record and clustered by session.

    `score` and `records` are the system's. A record without a session is its own.
    """
    difference = float(score["value"].value) - float(baseline.score["value"].value)
    shared = sorted(records.keys() & baseline.records.keys())
    # On fewer records than either has the difference would not be that of the two scores.
    if len(shared) < max(len(records), len(baseline.records)) or len(shared) < 2:
        return SystemLead(difference)
    first, second = (
        np.array([own[name] for name in shared]) for own in (records, baseline.records)
    )
    clusters = [sessions.get(name, name.partition(":")[0]) for name in shared]
    bounds = (metric.lowest, metric.highest)
    estimate = clustered_difference(first, second, clusters, bounds=bounds)
    if estimate.value is None:
        return SystemLead(difference)
    return SystemLead(estimate.value, estimate.low, estimate.high)


_ROUNDING = 1e-12


class Rank(NamedTuple):
    """Best and worst possible rank of a system; systems that do not differ significantly tie."""

    best: int
    worst: int

    def __str__(self) -> str:
        return str(self.best) if self.best == self.worst else f"{self.best}–{self.worst}"


def rank_classes(scores: Floats, clusters: Sequence[Hashable]) -> list[Rank] | None:
    """Return the rank of each system, or None for fewer than two clusters.

    Args:
        scores: Shape (systems, records); NaN where a system has no score for a record. More is
            better.
        clusters: What each record belongs to.
    """
    if len(set(clusters)) < 2 or np.isnan(scores).all():
        return None
    # Holm's correction is over all pairs of the board: with more systems, fewer differ.
    ahead, ps = all_pairs(scores, clusters)
    upper = np.triu_indices(len(scores), k=1)
    apart = np.zeros(ps.shape, dtype=bool)
    apart[upper] = holm_all(ps[upper]) <= SIGNIFICANT
    better = (apart | apart.T) & (ahead > 0)
    ranks = []
    for n in range(len(scores)):
        ranks.append(Rank(1 + int(better[:, n].sum()), len(scores) - int(better[n].sum())))
    return ranks


def all_pairs(scores: Floats, clusters: Sequence[Hashable]) -> tuple[Floats, Floats]:
    """Return, for all pairs, the mean difference and a two-sided p without correction.

    Args:
        scores: Shape (systems, records); NaN where a system has no score for a record.
        clusters: What each record belongs to.

    Raises:
        ValueError: If there are not as many clusters named as records.
    """
    if scores.shape[1] != len(clusters):
        raise ValueError(f"lengths differ: {scores.shape[1]}, {len(clusters)}")
    defined = ~np.isnan(scores)
    used = np.flatnonzero(defined.any(axis=0))
    index = cluster_index([clusters[n] for n in used.tolist()])
    scores, defined = scores[:, used], defined[:, used]
    if defined.all():
        ahead, errors, counts = _complete(scores, index)
    else:
        filled = np.where(defined, scores, 0.0)
        ahead, errors, counts = _partial(filled, defined.astype(np.float64), index)
    return ahead, t_tests(ahead, errors, counts)


def _complete(scores: Floats, index: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
    """Return mean differences, their standard errors and the numbers of clusters of all pairs."""
    records, clusters = scores.shape[1], int(index.max(initial=-1)) + 1
    means = scores.mean(axis=1)
    sums = np.zeros((clusters, len(scores)))
    np.add.at(sums, index, (scores - means[:, None]).T)
    gram = sums.T @ sums
    own = np.diag(gram)
    variance = np.maximum(own[:, None] + own[None, :] - 2 * gram, 0.0)
    # A difference of large equal terms: below its own rounding it is nothing.
    variance[variance <= _ROUNDING * (own[:, None] + own[None, :])] = 0.0
    errors = np.sqrt(variance * (clusters / (clusters - 1) if clusters > 1 else np.inf)) / records
    return means[:, None] - means[None, :], errors, np.full(errors.shape, float(clusters))


def _partial(
    filled: Floats, defined: Floats, index: NDArray[np.int64]
) -> tuple[Floats, Floats, Floats]:
    """Return the same where records are missing: every pair on the records that both have."""
    shared = defined @ defined.T
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = filled @ defined.T
        ahead = (sums - sums.T) / shared
    order = np.argsort(index, kind="stable")
    starts = np.flatnonzero(np.diff(index[order], prepend=-1))
    squares, counts = np.zeros_like(shared), np.zeros_like(shared)
    safe = np.nan_to_num(ahead)
    for columns in np.split(order, starts[1:]):
        here, present = filled[:, columns], defined[:, columns]
        of_one, both = here @ present.T, present @ present.T
        squares += np.square(of_one - of_one.T - safe * both)
        counts += both > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.sqrt(squares * counts / (counts - 1)) / shared
    return ahead, errors, counts
