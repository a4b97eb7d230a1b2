"""Agreement of labels: two raters, and many raters.

A figure that is not defined has no value: None, never NaN and never a number that stands for it. So
it is with kappa, AC1 and alpha where chance alone would agree always, with rank correlations where
one side never varies, and with everything over no labels. A missing label is None (or NaN); a
label that the scale does not declare is a ValueError, and so are lengths that differ. Values may be
negative and analytic intervals may leave [-1, 1]: nothing is clipped.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import isnan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from alps.ext.audits.intervals import clustered_statistics
from alps.stats.bootstrap import Estimate, Floats, Statistic, ratio

Kind = Literal["nominal", "ordinal", "interval"]
Weights = Literal["unweighted", "linear", "quadratic"]
Label = Hashable
Ratings = Sequence[Sequence[Label | None]]
Codes = NDArray[np.int64]
MISSING = -1


@dataclass(frozen=True)
class LabelScale:
    """The labels that a rubric declares, whether or not anybody used them.

    Numbers of an ordinal or interval scale ascend; an ordinal scale may also have names, which then
    stand one step apart.

    Raises:
        ValueError: With fewer than two values, with a value twice, or with numbers out of order.
    """

    kind: Kind
    values: tuple[Label, ...]

    def __post_init__(self) -> None:
        if len(set(self.values)) != len(self.values) or len(self.values) < 2:
            raise ValueError(f"a scale needs at least two different values, got {self.values}")
        if self.kind == "interval" and not self._numeric:
            raise ValueError(f"an interval scale needs numbers, got {self.values}")
        in_order = self.kind != "nominal" and self._numeric
        if in_order and any(a >= b for a, b in pairwise(self.numbers)):
            raise ValueError(f"the values of an {self.kind} scale must ascend, got {self.values}")

    @property
    def _numeric(self) -> bool:
        return all(isinstance(value, int | float) for value in self.values)

    @property
    def numbers(self) -> Floats:
        """The values as numbers, or their places where they are names; shape (values,)."""
        if self._numeric:
            return np.array(self.values, dtype=np.float64)
        return np.arange(len(self.values), dtype=np.float64)

    def codes(self, labels: Sequence[Label | None]) -> Codes:
        """Return the place of each label on the scale, -1 where it is missing; shape (labels,).

        Raises:
            ValueError: If a label is not on the scale; names it and its place.
        """
        places = {value: position for position, value in enumerate(self.values)}
        codes = np.full(len(labels), MISSING, dtype=np.int64)
        for index, label in enumerate(labels):
            if label in places:
                codes[index] = places[label]
            elif label is not None and not (isinstance(label, float) and isnan(label)):
                on_scale = list(self.values)
                raise ValueError(f"label {label!r} at index {index} is not on the scale {on_scale}")
        return codes


def encode(ratings: Ratings, scale: LabelScale) -> Codes:
    """Return the places of labels on the scale, -1 where missing; shape (items, raters)."""
    raters = len(ratings[0]) if len(ratings) else 0
    if any(len(row) != raters for row in ratings):
        what = "items differ in their number of raters"
        raise ValueError(f"{what}: write None for a missing label")
    flat = scale.codes([label for row in ratings for label in row])
    return flat.reshape(len(ratings), raters)


def pair_features(
    first: Sequence[Label | None], second: Sequence[Label | None], scale: LabelScale
) -> Floats:
    """Return one flat table an item: a one for its pair of labels, zeros where one is missing.

    Shape (items, values²) of the scale.
    """
    if len(first) != len(second):
        raise ValueError(f"lengths differ: {len(first)}, {len(second)}")
    first_codes, second_codes = scale.codes(first), scale.codes(second)
    size = len(scale.values)
    features = np.zeros((len(first_codes), size * size))
    both = np.flatnonzero((first_codes != MISSING) & (second_codes != MISSING))
    features[both, first_codes[both] * size + second_codes[both]] = 1
    return features


def pair_table(
    first: Sequence[Label | None], second: Sequence[Label | None], scale: LabelScale
) -> Floats:
    """Count how often the first said i where the second said j; shape (values, values)."""
    flat = np.asarray(pair_features(first, second, scale).sum(axis=0))
    return flat.reshape(len(scale.values), -1)


def disagreement(scale: LabelScale, weights: Weights) -> Floats:
    """Return how far two values are apart, from 0 to 1; shape (values, values).

    Linear and quadratic weights are distances of the declared values over the declared range, to
    the power 1 or 2.
    """
    # Of the declared values, never of those observed: else kappa would depend on who came by.
    numbers = scale.numbers
    if weights == "unweighted":
        return 1 - np.eye(len(numbers))
    # By the observed values 32 of 126 published kappas of experts on empathy are wrong.
    apart = np.abs(numbers[:, None] - numbers[None, :]) / (numbers.max() - numbers.min())
    return np.asarray(apart if weights == "linear" else apart**2, dtype=np.float64)


def kappa_of(tables: Floats, apart: Floats) -> Floats:
    """Return Cohen's kappa of each of many tables, NaN where it is not defined.

    Args:
        tables: Shape (…, values, values), as `pair_table` gives each.
        apart: How far two values are apart, as `disagreement` gives it.
    """
    rows, columns = tables.sum(axis=-1), tables.sum(axis=-2)
    seen = (tables * apart).sum(axis=(-2, -1)) * tables.sum(axis=(-2, -1))
    return np.asarray(1 - ratio(seen, ((rows @ apart) * columns).sum(axis=-1)))


def pair_estimates(
    first: Sequence[Label | None],
    second: Sequence[Label | None],
    scale: LabelScale,
    clusters: Sequence[Hashable] | None = None,
    *,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Estimate the agreement of two raters, with intervals over resampled clusters.

    `agreement`, `kappa`, `ac1`, `alpha`; on ordinal and interval scales also `kappa_linear`,
    `kappa_quadratic`, `ac2` (quadratic), `spearman`, `kendall` (tau-b), `mae` and `bias` (second
    minus first, in units of the scale). Items with a missing label are left out and `n` counts the
    others. Without `clusters` each item stands alone.
    """
    features = pair_features(first, second, scale)
    named = _pair_statistics(scale)
    groups = range(len(features)) if clusters is None else clusters
    estimates = clustered_statistics(
        features, groups, list(named.values()), n=int(features.sum()), seed=seed
    )
    return dict(zip(named, estimates, strict=True))


def on_table(statistic: Statistic, width: int) -> Statistic:
    """Let a statistic of square tables take the first `width` = values² of flat sums."""
    size = round(width**0.5)
    return lambda sums: statistic(sums[..., :width].reshape(*sums.shape[:-1], size, size))


def rater_estimates(
    ratings: Ratings,
    scale: LabelScale,
    clusters: Sequence[Hashable] | None = None,
    *,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Estimate `alpha`, `ac1` and, not on nominal scales, quadratic `ac2` of many raters.

    Distances of Krippendorff's alpha follow the scale's kind. Intervals are over resampled
    clusters. Labels may be missing; `n` counts items with at least two, without which an item says
    nothing about agreement.

    Source: Hayes and Krippendorff, Communication Methods and Measures 1 (2007) 77.
    """
    counts = _counts(encode(ratings, scale), len(scale.values))
    groups = range(len(counts)) if clusters is None else clusters
    pairs = _coincidences(counts).reshape(len(counts), len(scale.values) ** 2)
    alpha = on_table(partial(_alpha, scale=scale), pairs.shape[1])
    named: dict[str, Statistic] = {"alpha": alpha}
    columns = [pairs]
    for name, weights in _gwet_names(scale).items():
        near = 1 - disagreement(scale, weights)
        start = sum(part.shape[1] for part in columns)
        columns.append(_gwet_features(counts, near))
        named[name] = partial(_gwet, near=near, start=start)
    both, figures = int((counts.sum(axis=1) >= 2).sum()), list(named.values())
    estimates = clustered_statistics(np.hstack(columns), groups, figures, n=both, seed=seed)
    return dict(zip(named, estimates, strict=True))


def _gwet_names(scale: LabelScale) -> dict[str, Weights]:
    names: dict[str, Weights] = {"ac1": "unweighted", "ac2": "quadratic"}
    return {"ac1": "unweighted"} if scale.kind == "nominal" else names


def _pair_statistics(scale: LabelScale) -> dict[str, Statistic]:
    """Return the figures of two raters as functions of their flat table."""
    names: dict[str, Weights] = {"kappa": "unweighted"}
    if scale.kind != "nominal":
        names |= {"kappa_linear": "linear", "kappa_quadratic": "quadratic"}
    same = np.eye(len(scale.values))
    figures: dict[str, Statistic] = {"agreement": partial(_mean_of, weights=same)}
    for name, weights in names.items():
        figures[name] = partial(kappa_of, apart=disagreement(scale, weights))
    for name, weights in _gwet_names(scale).items():
        # Of labels that are nearly all the same kappa says too little: agreement .944 gives a kappa
        # of -.02, and an AC1 of .94.
        figures[name] = partial(_gwet_of_pair, near=1 - disagreement(scale, weights))
    figures["alpha"] = lambda counts: _alpha(counts + np.swapaxes(counts, -2, -1), scale)
    if scale.kind != "nominal":
        apart = scale.numbers[None, :] - scale.numbers[:, None]
        figures |= {"spearman": _spearman, "kendall": _kendall}
        figures["mae"] = partial(_mean_of, weights=np.abs(apart))
        figures["bias"] = partial(_mean_of, weights=apart)
    return {name: on_table(figure, len(scale.values) ** 2) for name, figure in figures.items()}


def _mean_of(tables: Floats, weights: Floats) -> Floats:
    return ratio((tables * weights).sum(axis=(-2, -1)), tables.sum(axis=(-2, -1)))


def _counts(codes: Codes, values: int) -> Floats:
    """Count how many raters gave each item each value; shape (items, values)."""
    counts = (codes[:, :, None] == np.arange(values)).sum(axis=1)
    return np.asarray(counts, dtype=np.float64).reshape(-1, values)


def _gwet_features(counts: Floats, near: Floats) -> Floats:
    """Return per item the shares of the values, its numbers of labels, and how far pairs agree."""
    labels = counts.sum(axis=1)
    pairs = labels * (labels - 1)
    agreed = np.nan_to_num(ratio((counts * (counts @ near - 1)).sum(axis=1), pairs))
    shares = np.nan_to_num(ratio(counts, labels[:, None]))
    parts = [shares, np.stack([labels > 0, pairs > 0, agreed], axis=1)]
    return np.hstack(parts).astype(np.float64)


def _gwet(sums: Floats, near: Floats, start: int = 0) -> Floats:
    size = len(near)
    part = sums[..., start : start + size + 3]
    shares = ratio(part[..., :size], part[..., size, None])
    return _corrected(ratio(part[..., size + 2], part[..., size + 1]), shares, near)


def _gwet_of_pair(tables: Floats, near: Floats) -> Floats:
    labels = tables.sum(axis=-1) + tables.sum(axis=-2)
    shares = ratio(labels, 2 * tables.sum(axis=(-2, -1))[..., None])
    return _corrected(_mean_of(tables, near), shares, near)


def _corrected(agreed: Floats, shares: Floats, near: Floats) -> Floats:
    # Gwet's chance agreement: unlike kappa's it stays small where nearly all labels are the same.
    chance = near.sum() / (near.size - len(near)) * (shares * (1 - shares)).sum(axis=-1)
    return ratio(agreed - chance, 1 - chance)


def _coincidences(counts: Floats) -> Floats:
    """Return per item the pairs of labels, each worth 1 / (labels - 1); (items, values, values)."""
    # Items with fewer than two labels say nothing of agreement, and add nothing.
    labels = counts.sum(axis=1)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(counts.shape[1])
    return np.nan_to_num(ratio(pairs, (labels - 1)[:, None, None]))


def _alpha(coincidences: Floats, scale: LabelScale) -> Floats:
    totals = coincidences.sum(axis=-1)
    apart = _distances(totals, scale)
    seen = (coincidences * apart).sum(axis=(-2, -1)) * (totals.sum(axis=-1) - 1)
    expected = (totals[..., :, None] * totals[..., None, :] * apart).sum(axis=(-2, -1))
    return np.asarray(1 - ratio(seen, expected))


def _distances(totals: Floats, scale: LabelScale) -> Floats:
    """Return Krippendorff's squared distances; ordinal ones depend on how often each was given."""
    if scale.kind == "nominal":
        return 1 - np.eye(len(scale.values))
    # The labels between two values, with half of those at either end, are the distance of their
    # middle ranks.
    places = scale.numbers if scale.kind == "interval" else _middle_ranks(totals)
    return np.asarray(np.square(places[..., :, None] - places[..., None, :]))


def _middle_ranks(totals: Floats) -> Floats:
    return np.asarray(np.cumsum(totals, axis=-1) - totals / 2)


def _spearman(tables: Floats) -> Floats:
    """Correlate middle ranks."""
    # Of thousands of resamples at once; scipy takes one at a time.
    rows, columns = tables.sum(axis=-1), tables.sum(axis=-2)
    half = rows.sum(axis=-1)[..., None] / 2
    row_ranks, column_ranks = _middle_ranks(rows) - half, _middle_ranks(columns) - half
    together = (tables * row_ranks[..., :, None] * column_ranks[..., None, :]).sum(axis=(-2, -1))
    spread = (rows * row_ranks**2).sum(axis=-1) * (columns * column_ranks**2).sum(axis=-1)
    return ratio(together, np.sqrt(spread))


def _kendall(tables: Floats) -> Floats:
    """Return tau-b: concordant less discordant pairs, over the mean of those untied on a side."""
    count = tables.sum(axis=(-2, -1))
    above = np.flip(np.cumsum(np.flip(tables, -2), axis=-2), -2) - tables
    upto = np.cumsum(above, axis=-1)
    balance = (tables * (upto[..., -1:] - upto - (upto - above))).sum(axis=(-2, -1))
    untied = [(count**2 - np.square(tables.sum(axis=axis)).sum(axis=-1)) / 2 for axis in (-1, -2)]
    return ratio(balance, np.sqrt(untied[0] * untied[1]))
