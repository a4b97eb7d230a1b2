"""The labelled items of one rubric that a judge was asked about, in columns, and what people say of
each of them.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

import numpy as np

from alps.judges.labels import Item, LabelSet, Scale, Value, Verdict, Verdicts, on_scale
from alps.stats.bootstrap import Floats

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
