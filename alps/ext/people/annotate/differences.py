"""Items that two people label differently."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alps.ext.calibration.sample import rank
from alps.ext.people.annotate.added import added_to
from alps.ext.people.annotate.items import Answer, LabelItem, Work
from alps.ext.people.annotate.journal import GivenLabel, before_shown, by_item

# What may differ without the labels being others: how a thing is quoted.
_NOT_COMPARED = ("quote",)


@dataclass(frozen=True)
class LabelDifference:
    """The different labels of an item, in an order that hides who gave them.

    Of a memory that one of two people adds there is that person's label alone.
    """

    item: LabelItem
    answers: tuple[Answer, ...]


def differing(work: Work, people: Mapping[str, Sequence[GivenLabel]]) -> list[LabelDifference]:
    """Return the items with labels that differ, in the order of the items."""
    labels: dict[str, dict[str, Sequence[GivenLabel]]] = {}
    for name, said in people.items():
        for item_id, of_item in by_item(said).items():
            labels.setdefault(item_id, {})[name] = of_item
    found: list[LabelDifference] = []
    for item_id, item in work.items.items():
        of_people = labels.get(item_id, {})
        if item.rubric == "missing":
            added = added_to(item, of_people)
            found += [LabelDifference(one.item, (one.answer,)) for one in added if not one.agreed]
        elif item.rubric != "queries":  # these are written, not chosen: all of them are kept
            found += _difference(work, item, of_people)
    return found


def _difference(
    work: Work, item: LabelItem, of_people: Mapping[str, Sequence[GivenLabel]]
) -> list[LabelDifference]:
    apart: dict[str, Answer] = {}
    for said in of_people.values():
        if (one := before_shown(said)) is not None:
            apart.setdefault(_compared(one.answer), one.answer)
    if len(apart) < 2:
        return []
    ordered = sorted(apart, key=lambda text: rank(work.plan.seed, item.item_id, text))
    return [LabelDifference(item, tuple(apart[text] for text in ordered))]


def same_label(one: Answer, other: Answer) -> bool:
    """Tell whether two labels say the same, however they quote."""
    return _compared(one) == _compared(other)


def _compared(answer: Answer) -> str:
    kept = {name: value for name, value in answer.items() if name not in _NOT_COMPARED}
    return json.dumps(kept, sort_keys=True)
