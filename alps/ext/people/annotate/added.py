"""Memories that people add to a session; of two who add the same words, one memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alps.ext.calibration.sample import rank
from alps.ext.people.annotate.items import Answer, LabelItem
from alps.ext.people.annotate.journal import GivenLabel
from alps.ext.people.annotate.questions import ADD, KEEP, NOTHING
from alps.text import fold


@dataclass(frozen=True)
class Added:
    """A memory that a person adds.

    Attributes:
        item: The memory as an item of its own, for somebody else to decide about.
        by: Who adds it.
        agreed: Whether all do who are finished with the session.
    """

    item: LabelItem
    answer: Answer
    by: tuple[str, ...]
    agreed: bool


def added_to(item: LabelItem, people: Mapping[str, Sequence[GivenLabel]]) -> list[Added]:
    """Return what is added by people who are finished with a session.

    Args:
        item: What asks for the memories that are missing in it.
        people: What each person said of that, in their order.
    """
    finished: dict[str, list[Answer]] = {}
    for name, said in people.items():
        if said[-1].answer["verdict"] == NOTHING:
            finished[name] = [one.answer for one in said if one.answer["verdict"] == ADD]
    first: dict[str, Answer] = {}
    names: dict[str, list[str]] = {}
    for name, answers in finished.items():
        for answer in answers:
            value = fold(answer["value"])
            first.setdefault(value, {**answer, "verdict": KEEP})
            names.setdefault(value, []).append(name)
    added = []
    for value, answer in first.items():
        by = tuple(dict.fromkeys(names[value]))
        added.append(Added(_as_item(item, answer), answer, by, len(by) == len(finished)))
    return added


def _as_item(item: LabelItem, answer: Answer) -> LabelItem:
    memory = {"value": answer["value"]}
    payload = {"memory": memory, "dialogue": item.payload["dialogue"]}
    name = f"{item.item_id}{rank(0, fold(answer['value']))[:16]}"
    return LabelItem(name, "gold", item.cluster, payload, item.system)
