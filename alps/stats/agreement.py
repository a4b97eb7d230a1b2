"""How far labels agree: two raters, many raters, and a judge's verdicts against people's.

A figure that is not defined has no value: None, never NaN and never a number that stands for it. So it is with kappa,
AC1 and alpha where chance alone would agree always, with rank correlations where one side never varies, and with
everything over no labels. A missing label is None (or NaN); a label that the scale does not declare is an error.
Values may be negative and analytic intervals may leave [-1, 1]: nothing is clipped.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import isnan, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from alps.stats.bootstrap import DRAWS, Estimate, Floats, Statistic, clustered_mean, clustered_statistics
from alps.stats.intervals import proportion, quantile

Kind = Literal["nominal", "ordinal", "interval"]
Weights = Literal["unweighted", "linear", "quadratic"]
Metric = Literal["nominal", "ordinal", "interval", "ratio"]
Label = Hashable
Ratings = Sequence[Sequence[Label | None]]
Codes = NDArray[np.int64]
MISSING = -1


@dataclass(frozen=True)
class Scale:
    """The labels that a rubric declares, whether or not anybody used them.

    Weights and chance agreement follow the declared values, never the observed ones. Numbers of an ordinal or interval
    scale ascend; an ordinal scale may also have names, which then stand one step apart.

    Raises:
        ValueError: With fewer than two values, with a value twice, or with numbers out of order.
    """

    kind: Kind
    values: tuple[Label, ...]

    def __post_init__(self) -> None:
        if len(set(self.values)) != len(self.values) or len(self.values) < 2:
            raise ValueError(f"a scale declares two or more different values, got {self.values}")
        if self.kind == "interval" and not self._numeric:
            raise ValueError(f"an interval scale declares numbers, got {self.values}")
        if self.kind != "nominal" and self._numeric and any(a >= b for a, b in pairwise(self.numbers)):
            raise ValueError(f"the values of an {self.kind} scale ascend, got {self.values}")

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
        places = {value: place for place, value in enumerate(self.values)}
        codes = np.empty(len(labels), dtype=np.int64)
        for index, label in enumerate(labels):
            if _missing(label):
                codes[index] = MISSING
            elif label in places:
                codes[index] = places[label]
            else:
                raise ValueError(f"label {label!r} at {index} is not on the scale {list(self.values)}")
        return codes

    def with_averages(self, labels: Sequence[float | None]) -> "Scale":
        """Return this scale with the averages among `labels` as further values, for a crowd's mean, say.

        Weighted kappa, alpha, error and rank correlations keep their meaning; AC1, which counts the values, does not.

        Raises:
            ValueError: If the scale has no numbers, or an average lies outside them.
        """
        if not self._numeric:
            raise ValueError(f"names have no averages: {list(self.values)}")
        low, high = float(self.numbers.min()), float(self.numbers.max())
        found = {float(label) for label in labels if label is not None and not isnan(label)}
        outside = sorted(label for label in found if not low <= label <= high)
        if outside:
            raise ValueError(f"average {outside[0]} lies outside the scale {list(self.values)}")
        return replace(self, values=tuple(sorted(found | {float(number) for number in self.numbers})))


def encode(ratings: Ratings, scale: Scale) -> Codes:
    """Return the places of many raters' labels on the scale, -1 where missing; shape (items, raters).

    Raises:
        ValueError: If items differ in their number of raters, or a label is not on the scale.
    """
    raters = len(ratings[0]) if len(ratings) else 0
    if any(len(row) != raters for row in ratings):
        raise ValueError("items differ in their number of raters: write None where somebody gave no label")
    flat = scale.codes([label for row in ratings for label in row])
    return flat.reshape(len(ratings), raters)


def pair_table(first: Sequence[Label | None], second: Sequence[Label | None], scale: Scale) -> Floats:
    """Count how often the first rater said i where the second said j; items with a missing label are left out.

    Shape (values, values) of the scale.

    Raises:
        ValueError: If the lengths differ or a label is not on the scale.
    """
    return np.asarray(_pair_features(first, second, scale).sum(axis=0)).reshape(len(scale.values), -1)


def disagreement(scale: Scale, weights: Weights) -> Floats:
    """Return how far two values are apart, from 0 to 1; shape (values, values).

    Linear and quadratic weights are distances of the declared values over the declared range, to the power 1 or 2.
    """
    numbers = scale.numbers
    if weights == "unweighted":
        return 1 - np.eye(len(numbers))
    apart = np.abs(numbers[:, None] - numbers[None, :]) / (numbers.max() - numbers.min())
    return np.asarray(apart if weights == "linear" else apart**2, dtype=np.float64)


def kappa(table: Floats, scale: Scale, weights: Weights = "unweighted", *, level: float = 0.95) -> Estimate:
    """Estimate Cohen's kappa of two raters with its large-sample interval over independent items.

    Source: Cohen, Psychological Bulletin 70 (1968) 213; standard error that does not assume a kappa of zero: Fleiss,
    Cohen and Everitt, Psychological Bulletin 72 (1969) 323.

    Args:
        table: Shape (values, values) of the scale, as `pair_table` gives it.
        scale: What the raters could say.
        weights: Of disagreements.
        level: Of the interval, in (0, 1).
    """
    z = quantile(level)
    apart = disagreement(scale, weights)
    count = round(float(table.sum()))
    value = float(_kappa(table, apart)) if count else float("nan")
    if isnan(value):
        return Estimate(None, None, None, count)
    share = table / table.sum()
    rows, columns = share.sum(axis=1), share.sum(axis=0)
    near = 1 - apart
    chance = float(rows @ near @ columns)
    means = (near @ columns)[:, None] + (rows @ near)[None, :]
    spread = float((share * (near - means * (1 - value)) ** 2).sum()) - (value - chance * (1 - value)) ** 2
    error = sqrt(max(0.0, spread) / table.sum()) / (1 - chance)  # rounding alone makes the spread negative
    return Estimate(value, value - z * error, value + z * error, count)


def gwet(ratings: Ratings, scale: Scale, weights: Weights = "unweighted", *, level: float = 0.95) -> Estimate:
    """Estimate Gwet's AC1 (unweighted) or AC2 of two or more raters, labels may be missing.

    The interval is Student's over items, with Gwet's variance. `n` counts items with at least one label.

    Source: Gwet, British Journal of Mathematical and Statistical Psychology 61 (2008) 29; weights and missing labels:
    Gwet, «Handbook of Inter-Rater Reliability», 4th ed. (2014).

    Raises:
        ValueError: If a label is not on the scale.
    """
    near = 1 - disagreement(scale, weights)
    counts = _counts(encode(ratings, scale), len(scale.values))
    counts = counts[counts.sum(axis=1) > 0]
    features = _gwet_features(counts, near)
    value = float(_gwet(features.sum(axis=0), near))
    items = len(counts)
    if isnan(value) or items < 2:
        return Estimate(None if isnan(value) else value, None, None, items)
    share = features[:, :-3].mean(axis=0)
    scale_of_chance = near.sum() / (len(near) * (len(near) - 1))
    chance = float(scale_of_chance * (share * (1 - share)).sum())
    own_chance = scale_of_chance * (features[:, :-3] @ (1 - share))
    own_agreement = features[:, -1] * items / features[:, -2].sum()
    own = (own_agreement - chance) / (1 - chance) - 2 * (1 - value) * (own_chance - chance) / (1 - chance)
    error = sqrt(float(((own - value) ** 2).sum()) / (items * (items - 1)))
    from scipy.stats import t

    width = float(t.ppf((1 + level) / 2, items - 1)) * error
    return Estimate(value, value - width, value + width, items)


def krippendorff(ratings: Ratings, scale: Scale, metric: Metric | None = None) -> float | None:
    """Return Krippendorff's alpha of two or more raters; labels may be missing.

    Items with fewer than two labels don't count. Distances follow the scale's kind unless `metric` names another.

    Source: Hayes and Krippendorff, Communication Methods and Measures 1 (2007) 77.

    Raises:
        ValueError: If a label is not on the scale, or distances by ratio meet negative values.
    """
    counts = _counts(encode(ratings, scale), len(scale.values))
    value = float(_alpha(_coincidences(counts).sum(axis=0), scale, metric or scale.kind))
    return None if isnan(value) else value


def fleiss(counts: Floats) -> float | None:
    """Return Fleiss' kappa of items that were all labelled equally often.

    Source: Fleiss, Psychological Bulletin 76 (1971) 378.

    Args:
        counts: Shape (items, values): how many raters said what.

    Raises:
        ValueError: If items differ in their number of labels.
    """
    raters = counts.sum(axis=1)
    if not len(counts) or raters[0] < 2:
        return None
    if (raters != raters[0]).any():
        raise ValueError("items differ in their number of labels: use krippendorff or gwet")
    agreed = float(((counts * (counts - 1)).sum(axis=1) / (raters * (raters - 1))).mean())
    chance = float(np.square(counts.sum(axis=0) / counts.sum()).sum())
    return (agreed - chance) / (1 - chance) if chance < 1 else None


def pair_estimates(
    first: Sequence[Label | None],
    second: Sequence[Label | None],
    scale: Scale,
    clusters: Sequence[Hashable] | None = None,
    *,
    seed: int = 0,
    draws: int = DRAWS,
    level: float = 0.95,
) -> dict[str, Estimate]:
    """Estimate all that two raters' agreement is measured by, with intervals over resampled clusters.

    `agreement`, `kappa`, `ac1`, `alpha`; on ordinal and interval scales also `kappa_linear`, `kappa_quadratic`, `ac2`
    (quadratic), `spearman`, `kendall` (tau-b), `mae` and `bias` (second minus first, in units of the scale). Items with
    a missing label are left out and `n` counts the others.

    Args:
        first: One rater's labels; shape (items,).
        second: The other's.
        scale: What they could say.
        clusters: What each item belongs to; without, each item stands alone.
        seed: Of the resampling.
        draws: Resamples, ≥ 1.
        level: Of the intervals, in (0, 1).

    Raises:
        ValueError: If lengths differ or a label is not on the scale.
    """
    features = _pair_features(first, second, scale)
    both = features.any(axis=1)
    groups: Sequence[Hashable] = range(len(features)) if clusters is None else clusters
    if len(groups) != len(features):
        raise ValueError(f"lengths differ: {len(features)}, {len(groups)}")
    groups = [group for group, kept in zip(groups, both, strict=True) if kept]
    named = _pair_statistics(scale)
    found = clustered_statistics(
        features[both], groups, [_on_tables(statistic) for statistic in named.values()], seed=seed, draws=draws, level=level
    )
    return dict(zip(named, found, strict=True))


def rater_estimates(
    ratings: Ratings,
    scale: Scale,
    clusters: Sequence[Hashable] | None = None,
    *,
    seed: int = 0,
    draws: int = DRAWS,
    level: float = 0.95,
) -> dict[str, Estimate]:
    """Estimate `alpha`, `ac1` and (not on nominal scales) quadratic `ac2` of many raters over resampled clusters.

    Labels may be missing; `n` counts items with at least two, without which an item says nothing about agreement.

    Raises:
        ValueError: If lengths differ or a label is not on the scale.
    """
    values = len(scale.values)
    counts = _counts(encode(ratings, scale), values)
    groups: Sequence[Hashable] = range(len(counts)) if clusters is None else clusters
    n = int((counts.sum(axis=1) >= 2).sum())
    settings = {"n": n, "seed": seed, "draws": draws, "level": level}
    alpha = _on_tables(partial(_alpha, scale=scale, metric=scale.kind))
    pairs = _coincidences(counts).reshape(len(counts), -1)
    found = {"alpha": clustered_statistics(pairs, groups, [alpha], **settings)[0]}  # type: ignore[arg-type]
    return found
