"""Rank classes of systems by their scores on the same records.

Every pair is tested as in `alps.stats.paired.paired_difference`, with Holm's correction over the
pairs. The variances of all differences come from two matrix products where all systems have all
records; where some lack some, cluster by cluster, each pair on the records that both have.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alps.stats.bootstrap import Floats, cluster_index
from alps.stats.paired import holm_all, t_tests

SIGNIFICANCE = 0.05
_ROUNDING = 1e-12


class Rank(NamedTuple):
    """The best and the worst place of a system: those that do not differ significantly share."""

    best: int
    worst: int

    def __str__(self) -> str:
        return str(self.best) if self.best == self.worst else f"{self.best}–{self.worst}"


def rank_classes(
    scores: Floats, clusters: Sequence[Hashable], *, significance: float = SIGNIFICANCE
) -> list[Rank] | None:
    """Return the rank of each system, or None for fewer than two clusters.

    Args:
        scores: Shape (systems, records); NaN where a system has no score for a record. More is
            better.
        clusters: What each record belongs to.
        significance: Over all pairs, in (0, 1).

    Raises:
        ValueError: If there are not as many clusters named as records.
    """
    if len(set(clusters)) < 2 or np.isnan(scores).all():
        return None
    # Holm's correction is over all pairs of the board: with more systems, fewer differ.
    ahead, ps = all_pairs(scores, clusters)
    upper = np.triu_indices(len(scores), k=1)
    apart = np.zeros(ps.shape, dtype=bool)
    apart[upper] = holm_all(ps[upper]) <= significance
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
