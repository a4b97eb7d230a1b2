"""Items that two people label differently."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alps.annotate.items import Answer, Work
from alps.annotate.journal import Said, before_shown, by_item
from alps.calibration.sample import rank

# What may differ without the labels being others: how a thing is quoted, and who wrote a text how.
_NOT_COMPARED = ("quote",)


@dataclass(frozen=True)
class Difference:
    """The different labels of an item, in an order that says nothing of who gave them."""

    item_id: str
    answers: tuple[Answer, ...]


def differing(work: Work, people: Mapping[str, Sequence[Said]]) -> list[Difference]:
    """Return the items with labels that differ, in the order of the items."""
    labels: dict[str, list[Answer]] = {}
    for said in people.values():
        for item_id, of_item in by_item(said).items():
            one = before_shown(of_item)
            if one is not None:
                labels.setdefault(item_id, []).append(one.answer)
    found = []
    for item_id, item in work.items.items():
        # Queries and memories that were missing are written, not chosen: all of them are kept.
        if item.rubric in ("queries", "missing"):
            continue
        apart = {_compared(answer): answer for answer in labels.get(item_id, ())}
        if len(apart) > 1:
            ordered = sorted(apart, key=lambda text: rank(work.plan.seed, item_id, text))
            found.append(Difference(item_id, tuple(apart[text] for text in ordered)))
    return found


def same_label(one: Answer, other: Answer) -> bool:
    """Tell whether two labels say the same, however they quote."""
    return _compared(one) == _compared(other)


def _compared(answer: Answer) -> str:
    kept = {name: value for name, value in answer.items() if name not in _NOT_COMPARED}
    return json.dumps(kept, sort_keys=True)
