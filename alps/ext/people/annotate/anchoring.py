"""Anchoring: how far people move their labels to what a judge or a draft says."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from alps.ext.calibration.agreement import LabelScale
from alps.ext.people.annotate.items import LabelItem
from alps.ext.people.annotate.journal import GivenLabel, before_shown, by_item
from alps.stats.bootstrap import Estimate, clustered_mean

# All fields together, where there are several.
ALL = "all labels"


@dataclass(frozen=True)
class Anchoring:
    """How the labels of one field changed after the judge or draft was shown.

    Attributes:
        seen: How many first labels were followed by what was shown.
        towards: The share changed towards it, of those that differed from it.
        away: The share changed away from it, of those that were the same.
    """

    seen: int
    towards: Estimate
    away: Estimate


@dataclass(frozen=True)
class _Change:
    """One label: how far from what was shown it was before and after, in any unit."""

    group: str
    before: float
    after: float


def anchoring(
    items: Mapping[str, LabelItem],
    people: Mapping[str, Sequence[GivenLabel]],
    scales: Mapping[str, LabelScale],
) -> dict[str, Anchoring]:
    """Estimate anchoring by rubric and field, with intervals over sessions.

    Numbers are nearer by their distance, on a scale with an order by that of their places, and
    other labels where they are the same.
    """
    changes: dict[str, list[_Change]] = {ALL: []}
    for said in people.values():
        for item_id, of_item in by_item(said).items():
            for name, change in _changes(items[item_id], of_item, scales):
                changes.setdefault(name, []).append(change)
                changes[ALL].append(change)
    if len(changes) < 3:
        changes.pop(ALL)
    return {name: _estimate(of_field) for name, of_field in changes.items()}


def _changes(
    item: LabelItem, said: Sequence[GivenLabel], scales: Mapping[str, LabelScale]
) -> Iterator[tuple[str, _Change]]:
    first, last = before_shown(said), said[-1]
    if first is None or first.shown or not last.shown or item.shown is None:
        return
    for name, shown in item.shown.items():
        if shown is None or name == "quote" or name not in first.answer:
            continue
        # A memory that is rejected in the end has none of its fields any more.
        after = last.answer.get(name)
        scale = scales.get(item.rubric) if name == "label" else None
        apart = [_apart(value, shown, scale) for value in (first.answer[name], after)]
        yield f"{item.rubric}: {name}", _Change(item.group, *apart)


def _apart(value: object, shown: object, scale: LabelScale | None) -> float:
    if value == shown:
        return 0.0
    if scale is not None and scale.kind != "nominal" and value is not None:
        places = scale.numbers[scale.codes([value, shown])]
        return float(abs(places[0] - places[1]))
    if isinstance(value, float) and isinstance(shown, float):
        return abs(value - shown)
    return 1.0


def _estimate(changes: Sequence[_Change]) -> Anchoring:
    apart = [change for change in changes if change.before]
    same = [change for change in changes if not change.before]
    return Anchoring(
        seen=len(changes),
        towards=_share([change.after < change.before for change in apart], apart),
        away=_share([change.after > 0 for change in same], same),
    )


def _share(moved: Sequence[bool], changes: Sequence[_Change]) -> Estimate:
    if not moved:
        return Estimate(None, None, None, 0)
    return clustered_mean(np.array(moved, dtype=np.float64), [one.group for one in changes])
