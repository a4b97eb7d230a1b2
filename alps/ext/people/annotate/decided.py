"""Decision on an item: what all people say the same of it, or what was adjudicated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from alps.ext.people.annotate.added import Added, added_to
from alps.ext.people.annotate.differences import same_label
from alps.ext.people.annotate.items import Answer, LabelItem, Work
from alps.ext.people.annotate.journal import GivenLabel, before_shown, by_item

Which = Literal["first", "revised"]


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
        added = [(one, rulings.get(one.item.item_id)) for one in added_to(item, labels)]
        return Decided(by, {}, added=added)
    ruling = rulings.get(item.item_id)
    if ruling is not None:
        return Decided(by, ruling.answer, ruling)
    answers = [*by.values()]
    same = all(same_label(answers[0], answer) for answer in answers)
    return Decided(by, answers[0] if same else None)
