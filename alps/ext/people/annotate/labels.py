"""Labels: the journal that those of a person are kept in, and what all of them decide on an item.

Every label is on disk before the next item. Each person has a file of their own, so that two may
label in one shared folder. A lock keeps a second page from being opened for the same person.

An item is decided by what all people say the same of it, or by what was adjudicated. Of two people
who add a memory in the same words, it is one memory. Where people say different things, the item is
listed for adjudication.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic import ValidationError

from alps.errors import DataError, UsageError
from alps.ext.calibration.sample import rank
from alps.ext.people.annotate import ADD, KEEP, NOTHING, Answer, LabelItem, Work
from alps.folders import same_file
from alps.jsonl import Appender, scan
from alps.schema import FrozenRow
from alps.text import fold

Stage = Literal["first", "revised", "adjudicated"]
_BEGINNING, _END = "journal-", ".jsonl"

Which = Literal["first", "revised"]
# What may differ without the labels being others: how a thing is quoted.
_NOT_COMPARED = ("quote",)


class GivenLabel(FrozenRow):
    """One label.

    Attributes:
        stage: `first`, `revised` (given again, or after something was shown), or `adjudicated`.
        shown: Whether judge or draft could be seen when it was given.
        seconds: From showing the item to the label.
        at: When, in UTC.
        showing: The name of the form that it came by, so that it is written once.
    """

    item_id: str
    stage: Stage
    answer: dict[str, Any]
    shown: bool = False
    seconds: float = 0.0
    at: str = ""
    showing: str = ""


class LabelJournal:
    """The labels of one person, held by this process until it is closed.

    Raises:
        UsageError: If another page is open for the same person, or the folder can't be written.
        DataError: If a line can't be read.
    """

    def __init__(self, folder: Path, person: str) -> None:
        # On a disk that ignores case Anna and anna would write into one journal.
        for other in map(_person, _journals(folder)):
            if other != person and same_file(other) == same_file(person):
                fault = f"has the same file name as {other} on some disks; choose another name"
                raise UsageError(f"as={person}: {fault}")
        path = folder / f"{_BEGINNING}{person}{_END}"
        self._lock = FileLock(f"{path}.lock")
        try:
            # A second page says at once that the first one is open, and does not hang until it
            # closes.
            self._lock.acquire(timeout=0)
        except Timeout as error:
            fault = "this annotator's page is already open; close it, or choose another name"
            raise UsageError(f"as={person}: {fault}") from error
        except OSError as error:
            raise UsageError(f"{folder}: can't be written ({error.strerror})") from error
        try:
            self._file = Appender(path)
            self.said = [*read_journal(path)]
        except BaseException:
            self._lock.release()
            raise

    def append(self, said: GivenLabel) -> None:
        """Write a label to disk.

        Raises:
            OSError: If it can't be written.
        """
        self._file.append(said.model_dump())
        self.said.append(said)

    def close(self) -> None:
        """Close the file, and let others open it."""
        self._file.close()
        self._lock.release()


def read_journal(path: Path) -> Iterator[GivenLabel]:
    """Yield the labels of a journal; a torn last line is left out.

    Raises:
        DataError: If another line can't be read.
    """
    lines = [*scan(path)]
    for number, (_, _, row) in enumerate(lines, start=1):
        # Another person's page may be writing its last line right now.
        if row is None and number == len(lines):
            continue
        try:
            yield GivenLabel.model_validate(row)
        except ValidationError as error:
            message = "is not a label; restore or remove the line"
            raise DataError(message, path=path, line=number) from error


def people_in(folder: Path) -> dict[str, list[GivenLabel]]:
    """Return each person's labels, by name in alphabetical order."""
    return {_person(path): [*read_journal(path)] for path in _journals(folder)}


def _journals(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_BEGINNING}*{_END}"))


def _person(path: Path) -> str:
    return path.name.removeprefix(_BEGINNING).removesuffix(_END)


def before_shown(said: Sequence[GivenLabel]) -> GivenLabel | None:
    """Return the last label of an item that was given before anything was shown.

    Where all were given in sight of something, the first of them.
    """
    alone = [one for one in said if not one.shown]
    return alone[-1] if alone else next(iter(said), None)


def by_item(said: Sequence[GivenLabel]) -> Mapping[str, list[GivenLabel]]:
    """Return what one person said, by item; adjudications are left out."""
    items: dict[str, list[GivenLabel]] = {}
    for one in said:
        if one.stage != "adjudicated":
            items.setdefault(one.item_id, []).append(one)
    return items


def _of_each_item(
    people: Mapping[str, Sequence[GivenLabel]],
) -> Mapping[str, Mapping[str, Sequence[GivenLabel]]]:
    """Return what each person said, by item; adjudications are left out."""
    labels: dict[str, dict[str, Sequence[GivenLabel]]] = {}
    for name, said in people.items():
        for item_id, of_item in by_item(said).items():
            labels.setdefault(item_id, {})[name] = of_item
    return labels


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

    `which` are the labels from before anything was shown, or the last ones.
    """
    labels = _of_each_item(people)
    rulings: dict[str, Ruling] = {}
    for name, said in people.items():
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
        # `{}` and not None: the item itself is decided, what people add is open.
        return Decided(by, {}, added=added)
    ruling = rulings.get(item.item_id)
    if ruling is not None:
        return Decided(by, ruling.answer, ruling)
    same = len(set(map(_compared, by.values()))) == 1
    return Decided(by, next(iter(by.values())) if same else None)


def _added_to(item: LabelItem, people: Mapping[str, Sequence[GivenLabel]]) -> list[Added]:
    """Return what is added by people who are finished with a session."""
    finished: dict[str, list[Answer]] = {}
    for name, said in people.items():
        # Who is not finished may add the same memory later.
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
    # The id follows from the words, so that a ruling finds its memory in any later process.
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
    labels = _of_each_item(people)
    found: list[LabelDifference] = []
    for item_id, item in work.items.items():
        # Queries are written, not chosen: all of them are kept.
        if item.rubric == "queries" or item_id not in labels:
            continue
        one = _decide(item, labels[item_id], {}, "first")
        added = [memory for memory, _ in one.added if not memory.agreed]
        found += [LabelDifference(memory.item, (memory.answer,)) for memory in added]
        if one.answer is None:
            found.append(LabelDifference(item, _in_hiding_order(work, item, one.by)))
    return found


def _in_hiding_order(work: Work, item: LabelItem, by: Mapping[str, Answer]) -> tuple[Answer, ...]:
    apart: dict[str, Answer] = {}
    for answer in by.values():
        apart.setdefault(_compared(answer), answer)
    ordered = sorted(apart, key=lambda text: rank(work.plan.seed, item.item_id, text))
    return tuple(apart[text] for text in ordered)


def _compared(answer: Answer) -> str:
    """Return what a label says, however it quotes."""
    kept = {name: value for name, value in answer.items() if name not in _NOT_COMPARED}
    return json.dumps(kept, sort_keys=True)
