"""Journal of one person: every label is on disk before the next item.

Each person has a file of their own, so that two may label in one shared folder. A lock keeps a
second page from being opened for the same person.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic import ValidationError

from alps.errors import DataError, UsageError
from alps.folders import same_file
from alps.jsonl import Appender, scan
from alps.schema import FrozenRow

Stage = Literal["first", "revised", "adjudicated"]
_BEGINNING, _END = "journal-", ".jsonl"


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
        for other in map(_person, _journals(folder)):
            if other != person and same_file(other) == same_file(person):
                fault = f"has the same file name as {other} on some disks; choose another name"
                raise UsageError(f"as={person}: {fault}")
        path = folder / f"{_BEGINNING}{person}{_END}"
        self._lock = FileLock(f"{path}.lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise UsageError(
                f"as={person}: this page is already open; close it, or choose another name"
            ) from error
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
