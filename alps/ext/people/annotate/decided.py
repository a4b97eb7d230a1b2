"""Decision on an item: what all people say the same of it, or what was adjudicated.

Of two people who add a memory in the same words, it is one memory. Where people say different
things, the item is listed for adjudication.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from alps.ext.calibration.sample import rank
from alps.ext.people.annotate.items import ADD, KEEP, NOTHING, Answer, LabelItem, Work
from alps.ext.people.annotate.journal import GivenLabel, before_shown, by_item
from alps.text import fold

Which = Literal["first", "revised"]
# What may differ without the labels being others: how a thing is quoted.
_NOT_COMPARED = ("quote",)


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


@dataclass(frozen=True)
class Ruling:
    """Decision on an item on which people differed."""

    by: str
    answer: Answer


@dataclass(frozen=True)
class Decided:
    """The labels of one item.

    Attributes:
        by: What each person says; of memories that are missing, the last thing.
        answer: What all say, or what was adjudicated; None where people differ.
        ruling: What was adjudicated, if anything was.
        added: The memories that are added, each with the ruling about it.
    """

    by: Mapping[str, Answer]
    answer: Answer | None = None
    ruling: Ruling | None = None
    added: Sequence[tuple[Added, Ruling | None]] = ()

    @property
    def open(self) -> int:
        """Number of items on which people differ without a decision."""
        waiting = [one for one, ruling in self.added if ruling is None and not one.agreed]
        return len(waiting) + (self.answer is None)


def decided(
    work: Work, people: Mapping[str, Sequence[GivenLabel]], which: Which = "first"
) -> dict[str, Decided]:
    """Return the decision on each labelled item, in the order of the items.

    Args:
        work: The items.
        people: What each person said.
        which: The labels from before anything was shown, or the last ones.
    """
    labels: dict[str, dict[str, list[GivenLabel]]] = {}
    rulings: dict[str, Ruling] = {}
    for name, said in people.items():
        for item_id, of_item in by_item(said).items():
            labels.setdefault(item_id, {})[name] = of_item
        for one in said:
            if one.stage == "adjudicated":
                rulings[one.item_id] = Ruling(name, one.answer)
    found = {}
    for item_id, item in work.items.items():
        if item_id in labels:
            found[item_id] = _decide(item, labels[item_id], rulings, which)
    return found


def _decide(
    item: LabelItem,
    labels: Mapping[str, Sequence[GivenLabel]],
    rulings: Mapping[str, Ruling],
    which: Which,
) -> Decided:
    by: dict[str, Answer] = {}
    for name, said in labels.items():
        one = said[-1] if which == "revised" else before_shown(said)
        assert one is not None
        by[name] = one.answer
    if item.rubric == "missing":
        added = [(one, rulings.get(one.item.item_id)) for one in _added_to(item, labels)]
        return Decided(by, {}, added=added)
    ruling = rulings.get(item.item_id)
    if ruling is not None:
        return Decided(by, ruling.answer, ruling)
    answers = [*by.values()]
    same = all(_same_label(answers[0], answer) for answer in answers)
    return Decided(by, answers[0] if same else None)


def _added_to(item: LabelItem, people: Mapping[str, Sequence[GivenLabel]]) -> list[Added]:
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
            added = _added_to(item, of_people)
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


def _same_label(one: Answer, other: Answer) -> bool:
    """Tell whether two labels say the same, however they quote."""
    return _compared(one) == _compared(other)


def _compared(answer: Answer) -> str:
    kept = {name: value for name, value in answer.items() if name not in _NOT_COMPARED}
    return json.dumps(kept, sort_keys=True)
