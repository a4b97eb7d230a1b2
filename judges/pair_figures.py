"""Figures of many pairs of raters at once, from the same resampled clusters, so that they may stand
side by side.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from alps.judges.labels import Scale, Value
from alps.stats.agreement import disagreement, kappa_of, pair_features
from alps.stats.bootstrap import (
    Estimate,
    Floats,
    cluster_index,
    clustered_mean,
    clustered_statistics,
    on_table,
    percentile_interval,
    ratio,
    resampled_times,
)
from alps.stats.intervals import proportion

Labels = Sequence[Value | None]
_BLOCK = 16


def pair_figures(
    pairs: Sequence[tuple[Labels, Labels]],
    scale: Scale,
    names: Sequence[str],
    clusters: Sequence[str],
    *,
    seed: int,
    draws: int,
) -> list[dict[str, Estimate]]:
    """Estimate the figures `names` of each pair of raters over the same records.

    A missing label leaves a record out.

    `agreement`; `kappa`, quadratic unless the scale is nominal; `mae` in units of the scale;
    `sensitivity` and `specificity` of the second rater on the first, as the first and last value of
    a scale of two say. The figures are those of `pair_estimates`, which resamples once a pair. `n`
    counts the records that a figure stands on.
    """
    tables = [pair_features(one, other, scale) for one, other in pairs]
    return table_figures(tables, scale, names, clusters, seed=seed, draws=draws)


def table_figures(
    tables: Sequence[Floats],
    scale: Scale,
    names: Sequence[str],
    clusters: Sequence[str],
    *,
    seed: int,
    draws: int,
) -> list[dict[str, Estimate]]:
    """Estimate the figures of pairs of raters from one flat table a record, as `pair_features` lays
    them out.
    """
    size = len(scale.values) ** 2
    found: list[dict[str, Estimate]] = []
    for start in range(0, len(tables), _BLOCK):  # all at once would take memory without need
        block = tables[start : start + _BLOCK]
        figures = [
            _at(place * size, size, _statistic(name, scale))
            for place in range(len(block))
            for name in names
        ]
        estimates = iter(
            clustered_statistics(np.hstack(block), clusters, figures, seed=seed, draws=draws)
        )
        for table in block:
            counts = table.sum(axis=0).reshape(len(scale.values), -1)
            found.append({name: _counted(next(estimates), name, counts) for name in names})
    return found


def mean_kappa(
    people: Sequence[Labels], scale: Scale, clusters: Sequence[str], *, seed: int, draws: int
) -> Estimate | None:
    """Estimate the mean of the kappas of pairs of people, weighted by the records that a pair has
    in common.

    Pairs that have less than half as many in common as the pair with the most are left out: whoever
    labels few records is often asked just where others disagree. So are pairs whose kappa is not
    defined, in a resample, too. `n` counts the records that any of the pairs stands on.

    Args:
        people: The labels of each record, one of each person.
        scale: What they could say; kappa is quadratic unless it is nominal.
        clusters: What each record belongs to.
        seed: Of the resampling.
        draws: Resamples.

    Returns:
        None where no pair has a kappa.
    """
    kappa, index = _statistic("kappa", scale), cluster_index(clusters)
    size = len(scale.values)
    pairs = [
        (records, features)
        for records, features in _shared(people, scale)
        if not np.isnan(kappa(features.sum(axis=0).reshape(size, size)))
    ]
    if not pairs:
        return None
    most = max(len(records) for records, _ in pairs)
    pairs = [(records, features) for records, features in pairs if 2 * len(records) >= most]
    places, sums = zip(
        *(_by_cluster(index[records], features) for records, features in pairs), strict=True
    )

    def mean(tables: Sequence[Floats]) -> Floats:
        above, below = np.zeros(tables[0].shape[:-1]), np.zeros(tables[0].shape[:-1])
        for flat in tables:
            found, weight = on_table(kappa, flat.shape[-1])(flat), flat.sum(axis=-1)
            above += np.where(np.isnan(found), 0, found * weight)
            below += np.where(np.isnan(found), 0, weight)
        return ratio(above, below)

    used = {record for records, _ in pairs for record in records}
    value, count = float(mean([own.sum(axis=0) for own in sums])), int(index.max()) + 1
    interval = None
    if count > 1:
        resamples = resampled_times(count, seed=seed, draws=draws)
        drawn = [
            mean([times[:, at] @ own for at, own in zip(places, sums, strict=True)])
            for times in resamples
        ]
        interval = percentile_interval(np.concatenate(drawn))
    low, high = interval or (None, None)
    return Estimate(value, low, high, len(used))


def _by_cluster(clusters: NDArray[np.int64], features: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the clusters that a pair has records in, and what its tables add up to in each."""
    touched, within = np.unique(clusters, return_inverse=True)
    sums = np.zeros((len(touched), features.shape[1]))
    np.add.at(sums, within, features)
    return touched, sums


def _shared(people: Sequence[Labels], scale: Scale) -> Iterator[tuple[list[int], Floats]]:
    """Yield the records that two people have in common, and their flat tables, for every pair that
    has any.
    """
    found: dict[tuple[int, int], list[int]] = {}
    for record, row in enumerate(people):
        for pair in combinations(
            [person for person, label in enumerate(row) if label is not None], 2
        ):
            found.setdefault(pair, []).append(record)
    for (one, other), records in found.items():
        yield (
            records,
            pair_features(
                [people[n][one] for n in records], [people[n][other] for n in records], scale
            ),
        )


def rate(successes: Sequence[bool], clusters: Sequence[str]) -> Estimate:
    """Estimate a share: exactly under 40 records, else by Wilson's interval.

    In clusters as any mean is.

    The interval has a width where every record says the same.
    """
    if len(set(clusters)) == len(successes):
        return proportion(sum(successes), len(successes))
    return clustered_mean(np.array(successes, dtype=np.float64), clusters)


def _at(start: int, size: int, figure: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    flat = on_table(figure, size)
    return lambda sums: flat(sums[..., start:])


def _statistic(name: str, scale: Scale) -> Callable[[Floats], Floats]:
    if name == "sensitivity":
        return lambda tables: ratio(tables[..., -1, -1], tables[..., -1, :].sum(axis=-1))
    if name == "specificity":
        return lambda tables: ratio(tables[..., 0, 0], tables[..., 0, :].sum(axis=-1))
    if name == "kappa":
        return partial(
            kappa_of,
            apart=disagreement(scale, "unweighted" if scale.kind == "nominal" else "quadratic"),
        )
    numbers = scale.numbers
    weights = np.abs(numbers[:, None] - numbers) if name == "mae" else np.eye(len(numbers))
    return lambda tables: ratio((tables * weights).sum(axis=(-2, -1)), tables.sum(axis=(-2, -1)))


def _counted(estimate: Estimate, name: str, counts: Floats) -> Estimate:
    part = {"sensitivity": counts[-1], "specificity": counts[0]}.get(name, counts)
    return Estimate(estimate.value, estimate.low, estimate.high, round(float(part.sum())))
