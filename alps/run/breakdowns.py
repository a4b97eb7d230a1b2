"""Breakdowns of a track: a metric by groups of records, also with every group's mix made alike."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alps.rows import BreakdownRow, GroupRow, Interval
from alps.run.scores import RecordScores
from alps.stats.bootstrap import Estimate, Floats, clustered_mean, ratio, resampled_statistic
from alps.tasks import Breakdown, Metric, Task

Members = Mapping[str, NDArray[np.bool_]]
"""Which records belong to each group."""
FEWEST = 10
"""Records that a standardised figure needs for an interval: of fewer most strata have none."""


def break_down(
    board: RecordScores, task: Task, *, without: Collection[str] = ()
) -> dict[str, BreakdownRow]:
    """Return the breakdowns of a task, those without any record left out.

    So are those of the metrics called `without`, which have no score.
    """
    metrics = {metric.name: metric for metric in task.metrics}
    rows = {}
    for breakdown in task.shown.breakdowns:
        members = board.members(breakdown.name)
        if not members or breakdown.metric in without:
            continue
        if breakdown.metric is None:
            title, groups = "share", _shares(board, members)
        else:
            metric = metrics[breakdown.metric]
            title, groups = metric.title.strip(), _figures(board, breakdown, metric, members)
        # What only some breakdowns have is set in those alone.
        own: dict[str, Any] = {"warning": breakdown.warning} if breakdown.warning else {}
        own |= {"standardised": breakdown.standardised} if breakdown.standardised else {}
        listed = _listed(breakdown, members, groups)
        row = BreakdownRow(title=breakdown.title, metric=title, groups=listed, **own)
        rows[breakdown.name] = row
    return rows


def _listed(
    breakdown: Breakdown, members: Members, groups: Mapping[str, GroupRow]
) -> list[GroupRow]:
    """Put groups into the order of the task, others by their size, and give them their names."""
    places = {group: place for place, group in enumerate(breakdown.groups)}
    last = len(places)

    def rank(group: str) -> tuple[int, int, str]:
        return places.get(group, last), -int(members[group].sum()), group

    listed = []
    for group in sorted(groups, key=rank):
        also = breakdown.groups.get(group, "")
        listed.append(groups[group].model_copy(update={"also": also} if also else {}))
    return listed


def _shares(board: RecordScores, members: Members) -> dict[str, GroupRow]:
    """Return the share of each group among the records that are in one."""
    any_of = np.logical_or.reduce(list(members.values()))
    clusters, rows = board.clusters()[any_of], {}
    for group, inside in members.items():
        share = clustered_mean(inside[any_of].astype(float), clusters, resampled=True)
        # `n` is how many are in the group: of how many, the others tell.
        row = {**share.row, "n": int(inside.sum())}
        rows[group] = GroupRow(group=group, figure=Interval(**row))
    return rows


def _figures(
    board: RecordScores, breakdown: Breakdown, metric: Metric, members: Members
) -> dict[str, GroupRow]:
    values, clusters = board.values(metric), board.clusters()
    defined = ~np.isnan(values)
    strata = board.members(breakdown.standardised) if breakdown.standardised else {}
    rows = {}
    for group, inside in members.items():
        chosen = inside & defined
        figure = clustered_mean(
            values[chosen],
            clusters[chosen],
            bounds=metric.bounds,
            resampled=metric.inference.resampled,
        )
        own: dict[str, Any] = {}
        if strata:
            weights = {name: float((among & defined).sum()) for name, among in strata.items()}
            within = {name: among[chosen] for name, among in strata.items()}
            estimate = standardise(values[chosen], clusters[chosen].tolist(), within, weights)
            own["standardised"] = Interval(**estimate.row)
            if lacking := [name for name, among in within.items() if not among.any()]:
                own["lacking"] = sorted(lacking)
        rows[group] = GroupRow(group=group, figure=Interval(**figure.row), **own)
    return rows


def standardise(
    values: Floats, clusters: Sequence[int], strata: Members, weights: Mapping[str, float]
) -> Estimate:
    """Estimate the mean over strata of the mean within each, by given weights.

    Direct standardisation: two groups of records then differ by what happens within strata, and not
    by how they are mixed. Strata without a record are left out, with their weight.

    Args:
        values: Shape (records,).
        clusters: Shape (records,).
        strata: Which records belong to each, shape (records,).
        weights: Of each stratum; not negative.
    """
    shares = np.array([weights[name] for name in strata])
    columns = []
    for among in strata.values():
        columns += [np.where(among, values, 0.0), among.astype(float)]

    def statistic(sums: Floats) -> Floats:
        means = ratio(sums[..., 0::2], sums[..., 1::2])
        weighted = np.where(np.isnan(means), 0.0, shares)
        return ratio((weighted * np.nan_to_num(means)).sum(axis=-1), weighted.sum(axis=-1))

    estimate = resampled_statistic(np.stack(columns, axis=1), clusters, statistic)
    if estimate.n < FEWEST and estimate.low is not None:
        reason = f"{estimate.n} records are too few for a standardised interval"
        return Estimate(estimate.value, None, None, estimate.n, reason)
    return estimate
