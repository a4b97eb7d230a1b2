"""Figures of many pairs of raters at once, from the same resampled clusters, so that they may stand side by side."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from alps.judges.labels import Scale, Value
from alps.stats.agreement import disagreement
from alps.stats.bootstrap import Estimate, Floats, clustered_statistics, on_table, ratio
from alps.stats.intervals import clustered_wilson, proportion

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
    """Estimate the figures `names` of each pair of raters over the same records; a missing label leaves a record out.

    `agreement`; `kappa`, quadratic unless the scale is nominal; `mae` in units of the scale; `sensitivity` and
    `specificity` of the second rater on the first, as the first and last value of a scale of two say. The figures are
    those of `pair_estimates`, which resamples once a pair. `n` counts the records that a figure stands on.
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
    """Estimate the figures of pairs of raters from one flat table a record, as `pair_features` lays them out."""
    size = len(scale.values) ** 2
    found: list[dict[str, Estimate]] = []
    for start in range(0, len(tables), _BLOCK):  # all at once would take memory without need
        block = tables[start : start + _BLOCK]
        figures = [_at(place * size, size, _statistic(name, scale)) for place in range(len(block)) for name in names]
        estimates = iter(clustered_statistics(np.hstack(block), clusters, figures, seed=seed, draws=draws))
        for table in block:
            counts = table.sum(axis=0).reshape(len(scale.values), -1)
            found.append({name: _counted(next(estimates), name, counts) for name in names})
    return found


def rate(successes: Sequence[bool], clusters: Sequence[str]) -> Estimate:
    """Estimate a share: exactly under 40 records, else by Wilson's interval; clusters lower the number of records.

    Unlike the bootstrap's, the interval has a width where every record says the same.
    """
    if len(set(clusters)) == len(successes):
        return proportion(sum(successes), len(successes))
    return clustered_wilson(np.array(successes, dtype=np.float64), clusters)


def pair_features(one: Labels, other: Labels, scale: Scale) -> Floats:
    """Return one flat table a record, shape (records, values²): a one where the pair is, nothing if one is missing."""
    size = len(scale.values)
    first, second = scale.codes(one), scale.codes(other)
    features = np.zeros((len(first), size * size))
    both = np.flatnonzero((first >= 0) & (second >= 0))
    features[both, first[both] * size + second[both]] = 1
    return features


def _at(start: int, size: int, figure: Callable[[Floats], Floats]) -> Callable[[Floats], Floats]:
    flat = on_table(figure, size)
    return lambda sums: flat(sums[..., start:])


def _statistic(name: str, scale: Scale) -> Callable[[Floats], Floats]:
    if name == "sensitivity":
        return lambda tables: ratio(tables[..., -1, -1], tables[..., -1, :].sum(axis=-1))
    if name == "specificity":
        return lambda tables: ratio(tables[..., 0, 0], tables[..., 0, :].sum(axis=-1))
    if name == "kappa":
        return partial(_kappa, apart=disagreement(scale, "unweighted" if scale.kind == "nominal" else "quadratic"))
    numbers = scale.numbers
    weights = np.abs(numbers[:, None] - numbers) if name == "mae" else np.eye(len(numbers))
    return lambda tables: ratio((tables * weights).sum(axis=(-2, -1)), tables.sum(axis=(-2, -1)))


def _kappa(tables: Floats, apart: Floats) -> Floats:
    rows, columns = tables.sum(axis=-1), tables.sum(axis=-2)
    seen = (tables * apart).sum(axis=(-2, -1)) * tables.sum(axis=(-2, -1))
    return np.asarray(1 - ratio(seen, ((rows @ apart) * columns).sum(axis=-1)))


def _counted(estimate: Estimate, name: str, counts: Floats) -> Estimate:
    part = {"sensitivity": counts[-1], "specificity": counts[0]}.get(name, counts)
    return Estimate(estimate.value, estimate.low, estimate.high, round(float(part.sum())))
