"""The labelled items of one rubric that a judge was asked about, in columns, and what people say of
each of them.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from statistics import median

import numpy as np
from numpy.typing import NDArray

from alps.calibration.labels import Item, LabelSet, Scale, Value, Verdict, Verdicts, on_scale
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

SHOWN = ("query", "response", "memory", "dialogue", "gold", "predicted")
"""What of a payload a judge is shown; a payload without any of them is of another form, and is
shown whole.
"""


@dataclass(frozen=True)
class Columns:
    """Items in columns: row n of each is about `items[n]`.

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
        adjudicated: The places of items whose label was derived from those of people.
        beside: Labels that are no single person's, by name: derived ones, and means of crowds on
            the nearest value.
    """

    judge_name: str
    scale: Scale
    items: Sequence[Item]
    names: Sequence[str]
    people: Sequence[tuple[Value | None, ...]]
    truth: Sequence[Value | None]
    verdicts: Sequence[Verdict]
    clusters: Sequence[str]
    accepted: frozenset[Value] = frozenset()
    adjudicated: frozenset[int] = frozenset()
    beside: Mapping[str, Sequence[Value | None]] = field(default_factory=dict)

    @cached_property
    def means(self) -> list[float | None]:
        """The adjudicated label of each item as a number, else the mean of its people's.

        None where there is none.

        Where people disagree the mean lies between: leaving such items out would make a random
        sample one no more.
        """
        truth = self.numbers(self.truth)
        people = (
            [[x for x in self.numbers(row) if not np.isnan(x)] for row in self.people]
            if self.measured
            else []
        )
        return [
            float(truth[n]) if n in self.adjudicated else float(np.mean(row)) if row else None
            for n, row in enumerate(people)
        ] or [None] * len(self.items)

    @cached_property
    def judge(self) -> list[Value | None]:
        """What the judge said of each item, None where it could not be parsed."""
        return [verdict.value for verdict in self.verdicts]

    @cached_property
    def heard(self) -> list[int]:
        """The places of items on which people say something."""
        return [n for n, truth in enumerate(self.truth) if truth is not None]

    @cached_property
    def tied(self) -> list[int]:
        """The places of items that people labelled without settling them."""
        return [
            n
            for n, row in enumerate(self.people)
            if self.truth[n] is None and any(x is not None for x in row)
        ]

    @cached_property
    def parsed(self) -> list[int]:
        """The places of items on which people and the judge say something."""
        return [n for n in self.heard if self.verdicts[n].value is not None]

    @property
    def binary(self) -> bool:
        """Whether there are two values; the last one is the positive one."""
        return len(self.scale.values) == 2

    @property
    def measured(self) -> bool:
        """Whether labels have a mean: those of two values (the share of positives) and of ordinal
        scales do.
        """
        return self.binary or self.scale.kind != "nominal"

    @property
    def grouped(self) -> bool:
        """Whether any two items share a cluster."""
        return len(set(self.clusters)) < len(self.clusters)

    def numbers(self, labels: Sequence[Value | None]) -> Floats:
        """Return labels as numbers in units of the scale, NaN where there is none.

        0 and 1 on a binary scale.
        """
        numbers = np.array([0.0, 1.0]) if self.binary else self.scale.numbers
        codes = self.scale.codes(labels)
        return np.where(codes >= 0, numbers[codes], np.nan)

    def clusters_of(self, places: Sequence[int]) -> list[str]:
        """Return the clusters of the items at `places`."""
        return [self.clusters[n] for n in places]


def truth_of(
    labels: Mapping[str, Value], people: Sequence[str], derived: Sequence[str], scale: Scale
) -> Value | None:
    """Return what people say of an item: the adjudicated label, else what most say, as `most_say`
    has it.

    None where there is no label, or a tie on a nominal scale.
    """
    adjudicated = [labels[name] for name in derived if name in labels]
    if adjudicated:
        return adjudicated[0]
    most = most_say([labels[name] for name in people if name in labels], scale)
    return most[0] if len(most) == 1 else None


def most_say(given: Sequence[Value], scale: Scale) -> list[Value]:
    """Return the most frequent label.

    Where several tie, all of them on a nominal scale, and one on others.

    On an ordinal or interval scale that one is the median of all labels by their places on the
    scale, rounded down to a
    place: labels of 1 and 5 on a scale of five make 3, which nobody gave, and 2 and 3 make 2.
    """
    counts = Counter(given)
    most = [label for label, count in counts.items() if count == max(counts.values())]
    if len(most) < 2 or scale.kind == "nominal":
        return most
    places = sorted(int(code) for code in scale.codes(given))
    return [scale.values[int(median(places))]]  # type: ignore[list-item]


def columns_of(labels: LabelSet, rubric: str, verdicts: Verdicts) -> Columns:
    """Lay out the items of `rubric` that have a verdict; there may be none."""
    people, derived = labels.annotators_of(rubric), labels.annotators_of(rubric, derived=True)
    scale = labels.scales[rubric]
    items = [item for item in labels.items_of(rubric) if item.item_id in verdicts.by_item]
    rows = [labels.labels_of(item.item_id) for item in items]
    beside: dict[str, list[Value | None]] = {
        name: [row.get(name) for row in rows] for name in derived
    }
    for name, means in labels.crowd.items():
        if any(item.item_id in means for item in items):
            beside[name] = [_nearest(means.get(item.item_id), scale) for item in items]
    return Columns(
        judge_name=verdicts.judge,
        scale=scale,
        items=items,
        names=people,
        people=[tuple(row.get(name) for name in people) for row in rows],
        truth=[truth_of(row, people, derived, scale) for row in rows],
        verdicts=[verdicts.by_item[item.item_id] for item in items],
        clusters=_clusters(items),
        accepted=labels.positive.get(rubric, frozenset()),
        beside=beside,
        adjudicated=frozenset(
            n for n, row in enumerate(rows) if any(name in row for name in derived)
        ),
    )


def _clusters(items: Sequence[Item]) -> list[str]:
    """Return what each item belongs to.

    The judge is asked the same thing once, so that it errs on all copies alike.
    """
    first: dict[str, str] = {}
    return [item.cluster or first.setdefault(_asked(item), item.item_id) for item in items]


def _asked(item: Item) -> str:
    """Return what a judge is shown of an item, as one text.

    An item without a payload is like no other.
    """
    shown = {name: item.payload[name] for name in SHOWN if item.payload.get(name)}
    return json.dumps(shown or dict(item.payload), sort_keys=True) if item.payload else item.item_id


def _nearest(mean: float | None, scale: Scale) -> Value | None:
    """Return the declared value nearest to a mean, the higher one of two that are as near."""
    if mean is None:
        return None
    numbers = [float(value) for value in scale.values if isinstance(value, int | float)]
    place = min(range(len(numbers)), key=lambda n: (abs(numbers[n] - mean), -numbers[n]))
    return on_scale(numbers[place], scale)


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
