"""The label matrix of one rubric, and figures of pairs of its raters.

Row n of every column is about one item: what people said, what the judge said, and the cluster that
the item belongs to. Figures of many pairs come from the same resampled clusters, so that they may
be compared with each other.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from alps.ext.audits.intervals import clustered_statistics, proportion
from alps.ext.calibration.agreement import (
    Codes,
    LabelScale,
    disagreement,
    encode,
    kappa_of,
    on_table,
)
from alps.ext.calibration.label_rows import Value, on_scale
from alps.ext.calibration.labels import JudgedItem, LabelSet, Verdict, Verdicts, truth_of
from alps.stats.bootstrap import (
    Estimate,
    Floats,
    Statistic,
    cluster_index,
    clustered_mean,
    percentile_interval,
    ratio,
    resampled_times,
)

Labels = Sequence[Value | None]
Cell = TypeVar("Cell")
Rater = TypeVar("Rater", str, str | None)
# The items that two people share, and their flat tables; shape (items, values²).
_Pair = tuple[list[int], Floats]
# Fields of a payload that a judge is shown; a payload without any of them is shown whole.
SHOWN = ("query", "response", "memory", "dialogue", "gold", "predicted")

PAIRS = 15
"""Of how many pairs of raters each is shown."""

_BLOCK = 16


@dataclass(frozen=True)
class LabelMatrix:
    """The items of a rubric that have a verdict, in columns.

    Attributes:
        judge_name: Who gave the verdicts.
        scale: What people and the judge could say.
        items: In the order of the label folder.
        names: The people who labelled any item of the rubric.
        people: Their labels, a row an item; None where there is none.
        truth: What people say of each item, as `truth_of` has it.
        verdicts: What the judge said of each item.
        clusters: What each item belongs to; those without a cluster are one where they ask the same
            question.
        accepted: The values that count as accepted; empty where none are declared.
        adjudicated: The indices of items whose label was derived from those of people.
        not_single: Labels that are no single person's, by name: derived ones, and means of crowds
            on the nearest value.
    """

    judge_name: str
    scale: LabelScale
    items: Sequence[JudgedItem]
    names: Sequence[str]
    people: Sequence[tuple[Value | None, ...]]
    truth: Sequence[Value | None]
    verdicts: Sequence[Verdict]
    clusters: Sequence[str]
    accepted: frozenset[Value] = frozenset()
    adjudicated: frozenset[int] = frozenset()
    not_single: Mapping[str, Labels] = field(default_factory=dict)

    @cached_property
    def means(self) -> list[float | None]:
        """The adjudicated label of each item as a number, else the mean of its people's.

        None where there is none.
        """
        if not self.measured:
            return [None] * len(self.items)
        truth = self.numbers(self.truth)
        means: list[float | None] = []
        for n, row in enumerate(self.people):
            # Where people disagree the mean lies between: leaving such items out would make a
            # random sample one no more.
            labels = self.numbers(row)
            labels = labels[~np.isnan(labels)]
            if n in self.adjudicated:
                means.append(float(truth[n]))
            else:
                means.append(float(np.mean(labels)) if len(labels) else None)
        return means

    @cached_property
    def judge(self) -> list[Value | None]:
        """Verdict on each item; None if it was not parsed."""
        return [verdict.value for verdict in self.verdicts]

    @cached_property
    def truth_codes(self) -> Codes:
        """The place on the scale of what people say of each item, -1 where they don't settle it."""
        return self.scale.codes(self.truth)

    @cached_property
    def judge_codes(self) -> Codes:
        """Position on the scale of each verdict; -1 if unknown."""
        return self.scale.codes(self.judge)

    @cached_property
    def probabilities(self) -> Floats:
        """The judge's probability of the last value for each item, NaN where it gave none."""
        return np.array([verdict.probability for verdict in self.verdicts], dtype=np.float64)

    @cached_property
    def settled(self) -> list[int]:
        """The indices of items on which people say something."""
        return _places(self.truth_codes >= 0)

    @cached_property
    def tied(self) -> list[int]:
        """The indices of items that people labelled without settling them."""
        labelled = (encode(self.people, self.scale) >= 0).any(axis=1)
        return _places((self.truth_codes < 0) & labelled)

    @cached_property
    def parsed(self) -> list[int]:
        """The indices of items on which people and the judge say something."""
        return _places((self.truth_codes >= 0) & (self.judge_codes >= 0))

    @property
    def binary(self) -> bool:
        """Tell whether there are two values; the last one is the positive one."""
        return len(self.scale.values) == 2

    @property
    def measured(self) -> bool:
        """Tell whether labels have a mean: those of two values and of ordinal scales do."""
        return self.binary or self.scale.kind != "nominal"

    def numbers(self, labels: Labels) -> Floats:
        """Return labels in units of the scale, 0 and 1 on a binary one; NaN where there is none."""
        # A mean on two values is the share of positives, whatever the values are called.
        numbers = np.array([0.0, 1.0]) if self.binary else self.scale.numbers
        codes = self.scale.codes(labels)
        return np.where(codes >= 0, numbers[codes], np.nan)

    def agrees_at(self, indices: Sequence[int]) -> NDArray[np.bool_]:
        """Tell of the items at `indices` whether the judge says what people say."""
        return np.asarray((self.judge_codes == self.truth_codes)[list(indices)])

    def accepts(self, labels: Labels) -> list[bool]:
        """Tell of each label whether it counts as accepted."""
        return [label in self.accepted for label in labels]


def at(column: Sequence[Cell], indices: Sequence[int]) -> list[Cell]:
    """Return the cells of a column of a label matrix at `indices`."""
    return [column[n] for n in indices]


def label_matrix(labels: LabelSet, rubric: str, verdicts: Verdicts) -> LabelMatrix:
    """Lay out the items of `rubric` that have a verdict; there may be none."""
    people, derived = labels.annotators_of(rubric), labels.annotators_of(rubric, derived=True)
    scale = labels.scales[rubric]
    items: list[JudgedItem] = []
    labels_of_people: list[tuple[Value | None, ...]] = []
    truth: list[Value | None] = []
    adjudicated: set[int] = set()
    not_single: dict[str, list[Value | None]] = {name: [] for name in derived}
    for item in labels.items_of(rubric):
        if item.item_id not in verdicts.by_item:
            continue
        row = labels.labels_of(item.item_id)
        if not row.keys().isdisjoint(derived):
            adjudicated.add(len(items))
        items.append(item)
        labels_of_people.append(tuple(map(row.get, people)))
        truth.append(truth_of(row, people, derived, scale))
        for name in derived:
            not_single[name].append(row.get(name))
    return LabelMatrix(
        judge_name=verdicts.judge,
        scale=scale,
        items=items,
        names=people,
        people=labels_of_people,
        truth=truth,
        verdicts=[verdicts.by_item[item.item_id] for item in items],
        clusters=_clusters(items),
        accepted=labels.positive.get(rubric, frozenset()),
        adjudicated=frozenset(adjudicated),
        not_single={**not_single, **_of_crowds(labels, items, scale)},
    )


def _places(chosen: NDArray[np.bool_]) -> list[int]:
    places: list[int] = np.flatnonzero(chosen).tolist()
    return places


def _of_crowds(
    labels: LabelSet, items: Sequence[JudgedItem], scale: LabelScale
) -> dict[str, Labels]:
    """Return the means of the crowds that labelled any of the items, on the nearest values."""
    columns: dict[str, Labels] = {}
    for name, means in labels.crowd.items():
        nearest = [_nearest(means.get(item.item_id), scale) for item in items]
        if nearest.count(None) < len(nearest):
            columns[name] = nearest
    return columns


def _clusters(items: Sequence[JudgedItem]) -> list[str]:
    # The judge is asked the same question once, so it errs on all copies alike.
    first: dict[str, str] = {}
    return [item.cluster or first.setdefault(_question(item), item.item_id) for item in items]


def _question(item: JudgedItem) -> str:
    """Return what a judge is shown of an item as text; one without a payload is like no other."""
    if not item.payload:
        return item.item_id
    # A judge does not see other fields: items that differ in these alone are one question.
    shown = {name: item.payload[name] for name in SHOWN if item.payload.get(name)}
    return json.dumps(shown or dict(item.payload), sort_keys=True)


def _nearest(mean: float | None, scale: LabelScale) -> Value | None:
    """Return the declared value nearest to a mean, the higher one of two that are as near."""
    if mean is None:
        return None
    # A crowd whose scale has names is refused where it is read.
    numbers = scale.numbers.tolist()
    return on_scale(min(numbers, key=lambda number: (abs(number - mean), -number)), scale)


def most_shared(
    pairs: Iterable[tuple[Rater, str]], columns: Mapping[Any, Labels]
) -> list[tuple[Rater, str]]:
    """Return the pairs of raters that share most items, those that share most first."""
    shared: dict[tuple[Rater, str], int] = {}
    for one, other in pairs:
        labels = zip(columns[one], columns[other], strict=True)
        both = sum(None not in pair for pair in labels)
        if both:
            shared[one, other] = both
    # A study with many annotators has thousands of pairs, which nobody can read.
    return sorted(shared, key=shared.__getitem__, reverse=True)[:PAIRS]


def table_figures(
    tables: Sequence[Floats],
    scale: LabelScale,
    names: Sequence[str],
    clusters: Sequence[str],
    *,
    seed: int,
) -> list[dict[str, Estimate]]:
    """Estimate the figures `names` of pairs of raters over the same items.

    `agreement`; `kappa`, quadratic unless the scale is nominal; `mae` in units of the scale;
    `sensitivity` and `specificity` of the second rater on the first, as the last and first value of
    a scale of two. The figures are those of `pair_estimates`, which resamples once a pair; `tables`
    are flat, as `pair_features` gives them. `n` counts the items that a figure is of.
    """
    size = len(scale.values) ** 2
    statistics = {name: on_table(_statistic(name, scale), size) for name in names}
    figures: list[dict[str, Estimate]] = []
    # A study with many annotators has thousands of pairs: all at once would take gigabytes.
    for start in range(0, len(tables), _BLOCK):
        block = tables[start : start + _BLOCK]
        of_block: list[Statistic] = []
        for n in range(len(block)):
            for statistic in statistics.values():
                of_block.append(partial(_from, n * size, statistic))
        features = np.hstack(block)
        estimates = clustered_statistics(features, clusters, of_block, seed=seed)
        in_order = iter(estimates)
        for table in block:
            counts = table.sum(axis=0).reshape(len(scale.values), -1)
            figures.append({name: _counted(next(in_order), name, counts) for name in names})
    return figures


def mean_kappa(
    people: Sequence[Labels], scale: LabelScale, clusters: Sequence[str], *, seed: int
) -> Estimate | None:
    """Estimate the mean kappa of pairs of people, weighted by the items that a pair shares.

    Pairs that share less than half as many as the pair with the most are left out: whoever labels
    few items is often asked just where others disagree. So are pairs whose kappa is not defined, in
    a resample, too. `n` counts the items that any of the pairs shares. None where no pair is left.
    """
    kappa, index = _statistic("kappa", scale), cluster_index(clusters)
    by_cluster: list[tuple[NDArray[np.int64], Floats]] = []
    used: set[int] = set()
    for items, features in _comparable(people, scale, kappa):
        by_cluster.append(_by_cluster(index[items], features))
        used.update(items)
    if not by_cluster:
        return None

    def mean(tables: Sequence[Floats]) -> Floats:
        above, below = np.zeros(tables[0].shape[:-1]), np.zeros(tables[0].shape[:-1])
        for flat in tables:
            kappas, weight = on_table(kappa, flat.shape[-1])(flat), flat.sum(axis=-1)
            above += np.where(np.isnan(kappas), 0, kappas * weight)
            below += np.where(np.isnan(kappas), 0, weight)  # not defined in this resample
        return ratio(above, below)

    value, count = float(mean([sums.sum(axis=0) for _, sums in by_cluster])), int(index.max()) + 1
    low = high = None
    if count > 1:
        drawn = []
        for times in resampled_times(count, seed=seed):
            drawn.append(mean([times[:, touched] @ sums for touched, sums in by_cluster]))
        low, high = percentile_interval(np.concatenate(drawn)) or (None, None)
    return Estimate(value, low, high, len(used))


def _by_cluster(clusters: NDArray[np.int64], features: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the clusters that a pair has items in, and the sums of its tables in each."""
    touched, within = np.unique(clusters, return_inverse=True)
    sums = np.zeros((len(touched), features.shape[1]))
    np.add.at(sums, within, features)
    return touched, sums


def _comparable(people: Sequence[Labels], scale: LabelScale, kappa: Statistic) -> list[_Pair]:
    """Return the pairs of people with a kappa that share half as many items as any of them."""
    pairs: list[_Pair] = []
    size = len(scale.values)
    for items, features in _shared(people, scale):
        if not np.isnan(kappa(features.sum(axis=0).reshape(size, size))):
            pairs.append((items, features))
    most = max((len(items) for items, _ in pairs), default=0)
    return [pair for pair in pairs if 2 * len(pair[0]) >= most]


def _shared(people: Sequence[Labels], scale: LabelScale) -> Iterator[_Pair]:
    """Yield the items that two people share, and their flat tables, for every pair with any."""
    codes, size = encode(people, scale), len(scale.values)
    shared: dict[tuple[int, int], list[int]] = {}
    for n, row in enumerate(codes):
        for pair in combinations(_places(row >= 0), 2):
            shared.setdefault(pair, []).append(n)
    for (one, other), items in shared.items():
        features = np.zeros((len(items), size * size))
        features[np.arange(len(items)), codes[items, one] * size + codes[items, other]] = 1
        yield items, features


def rate(successes: Sequence[bool] | NDArray[np.bool_], clusters: Sequence[str]) -> Estimate:
    """Estimate a share: exactly under 40 items, else by Wilson's interval; in clusters as a mean.

    The interval has a width where every item says the same.
    """
    if len(set(clusters)) == len(successes):
        return proportion(int(np.sum(successes)), len(successes))
    return clustered_mean(np.array(successes, dtype=np.float64), clusters)


def _from(start: int, statistic: Statistic, sums: Floats) -> Floats:
    return statistic(sums[..., start:])


def _statistic(name: str, scale: LabelScale) -> Statistic:
    if name == "sensitivity":
        return lambda tables: ratio(tables[..., -1, -1], tables[..., -1, :].sum(axis=-1))
    if name == "specificity":
        return lambda tables: ratio(tables[..., 0, 0], tables[..., 0, :].sum(axis=-1))
    if name == "kappa":
        apart = disagreement(scale, "unweighted" if scale.kind == "nominal" else "quadratic")
        return partial(kappa_of, apart=apart)
    numbers = scale.numbers
    weighed = np.abs(numbers[:, None] - numbers) if name == "mae" else np.eye(len(numbers))
    return lambda tables: ratio((tables * weighed).sum(axis=(-2, -1)), tables.sum(axis=(-2, -1)))


def _counted(estimate: Estimate, name: str, counts: Floats) -> Estimate:
    part = {"sensitivity": counts[-1], "specificity": counts[0]}.get(name, counts)
    return replace(estimate, n=round(float(part.sum())), reason=None)
