"""A change of a score over time, split into that of the judge and that of the system.

Anchors are answers kept byte-identical and judged then and now: what their score changes by is the
judge's. The rest of the system's change is the system's own.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from alps.stats.bootstrap import Estimate, Floats, ratio, resampled_statistic
from alps.stats.paired import paired_difference

LEVEL = 0.001
"""The share of checks of an unchanged judge that raise the alarm."""


@dataclass(frozen=True)
class Change:
    """Values of the same records then and now, and their clusters; shape (records,)."""

    then: Floats
    now: Floats
    clusters: Sequence[Hashable]


@dataclass(frozen=True)
class Drift:
    """A change of a score, now less then: `change` = `judge` + `system`.

    Attributes:
        p: Of no change on the anchors, two-sided; None with fewer than two clusters.
        alarm: Whether p is below `level`.
    """

    change: Estimate
    judge: Estimate
    system: Estimate
    p: float | None
    level: float
    alarm: bool


def attribute_drift(system: Change, anchors: Change, *, level: float = LEVEL) -> Drift:
    """Split the change of a system's score by what anchors change.

    It is taken for granted that a judge changes on the system's answers as much as on the anchors.
    Clusters of one name are resampled together, so that both changes are paired by session.

    Raises:
        ValueError: If lengths differ, or there are no anchors.
    """
    if not len(anchors.then):
        raise ValueError("no anchors: nothing tells a change of the judge")
    changed, own = np.zeros((len(system.then), 4)), np.zeros((len(anchors.then), 4))
    changed[:, 0], changed[:, 1] = 1, system.now - system.then
    own[:, 2], own[:, 3] = 1, anchors.now - anchors.then
    features = np.concatenate([changed, own])
    clusters = [*system.clusters, *anchors.clusters]
    of_system = paired_difference(system.now, system.then, system.clusters, bounds=None)
    of_judge = paired_difference(anchors.now, anchors.then, anchors.clusters, bounds=None)
    alarm = of_judge.p is not None and of_judge.p < level
    rest = resampled_statistic(features, clusters, _rest)
    return Drift(of_system.estimate, of_judge.estimate, rest, of_judge.p, level, alarm)


def _rest(sums: Floats) -> Floats:
    return ratio(sums[..., 1], sums[..., 0]) - ratio(sums[..., 3], sums[..., 2])
