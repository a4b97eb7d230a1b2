"""Differences of systems from the strongest trivial baseline of their board."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from alps.leaderboard.provenance import Place
from alps.stats.bootstrap import clustered_difference
from alps.tasks import Metric

Records = Mapping[str, float]
DIGITS = 6
"""To how many digits pages give a difference that no file has."""


@dataclass(frozen=True)
class Baseline:
    """The strongest trivial baseline of a board.

    Attributes:
        name: What it is called, and `slug` its submission; empty where it only came with others.
        score: The place of its score.
        records: What it scored on each record; nothing where no file says so.
    """

    name: str
    slug: str
    score: Place
    records: Records


@dataclass(frozen=True)
class Above:
    """How far a system is above a baseline; without records of both there is no interval."""

    baseline: Baseline
    value: float
    low: float | None = None
    high: float | None = None


def strongest(baselines: Sequence[Baseline]) -> Baseline | None:
    """Return the baseline with the highest score; of equals one with records, then by name."""
    if not baselines:
        return None
    return max(baselines, key=lambda one: (one.score["value"].value, bool(one.records), one.name))


def above(
    baseline: Baseline,
    score: Place,
    records: Records,
    sessions: Mapping[str, str],
    metric: Metric,
) -> Above:
    """Return how far a system is above a baseline, paired by record and clustered by session.

    Args:
        baseline: The baseline.
        score: The place of the score of the system.
        records: What the system scored on each record.
        sessions: The session of each record; one that is not there is its own.
        metric: What was measured.
    """
    difference = float(score["value"].value) - float(baseline.score["value"].value)
    shared = sorted(records.keys() & baseline.records.keys())
    # On fewer records than either has the difference would not be that of the two scores.
    if len(shared) < max(len(records), len(baseline.records)) or len(shared) < 2:
        return Above(baseline, difference)
    first, second = (
        np.array([own[name] for name in shared]) for own in (records, baseline.records)
    )
    clusters = [sessions.get(name, name.partition(":")[0]) for name in shared]
    bounds = (metric.lowest, metric.highest)
    estimate = clustered_difference(first, second, clusters, bounds=bounds)
    if estimate.value is None:
        return Above(baseline, difference)
    return Above(baseline, estimate.value, estimate.low, estimate.high)
