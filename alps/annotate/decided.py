"""What people say of an item in the end: all the same, or what was adjudicated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from alps.annotate.differences import same_label
from alps.annotate.items import Answer, Work
from alps.annotate.journal import Said, before_shown, by_item
from alps.annotate.questions import ADD

Which = Literal["first", "revised"]


@dataclass(frozen=True)
class Decided:
    """The labels of one item.

    Attributes:
        by: What each person says; of a memory that is missing, the last thing.
        added: The memories that each person adds.
        answer: What all say, or what was adjudicated; None where people differ.
        adjudicated: Who adjudicated, if somebody did.
    """

    by: Mapping[str, Answer]
    added: Mapping[str, Sequence[Answer]] = field(default_factory=dict)
    answer: Answer | None = None
    adjudicated: str | None = None


def decided(
    work: Work, people: Mapping[str, Sequence[Said]], which: Which = "first"
) -> dict[str, Decided]:
    """Return what is said of each item that somebody labelled, in the order of the items.

    Args:
        work: The items.
        people: What each person said.
        which: The labels from before anything was shown, or the last ones.
    """
    labels: dict[str, dict[str, list[Said]]] = {}
    rulings: dict[str, tuple[str, Answer]] = {}
    for name, said in people.items():
        for item_id, of_item in by_item(said).items():
            labels.setdefault(item_id, {})[name] = of_item
        for one in said:
            if one.stage == "adjudicated":
                rulings[one.item_id] = (name, one.answer)
    found = {}
    for item_id in work.items:
        if item_id in labels:
            found[item_id] = _decide(labels[item_id], rulings.get(item_id), which)
    return found


def _decide(
    labels: Mapping[str, Sequence[Said]], ruling: tuple[str, Answer] | None, which: Which
) -> Decided:
    by: dict[str, Answer] = {}
    added: dict[str, list[Answer]] = {}
    for name, said in labels.items():
        one = said[-1] if which == "revised" else before_shown(said)
        assert one is not None
        by[name] = one.answer
        added[name] = [step.answer for step in said if step.answer.get("verdict") == ADD]
    if ruling is not None:
        return Decided(by, added, ruling[1], ruling[0])
    answers = [*by.values()]
    same = all(same_label(answers[0], answer) for answer in answers)
    return Decided(by, added, answers[0] if same else None)
