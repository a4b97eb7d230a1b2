"""Slips in files that people wrote: each is named and left out, and too many are refused.

Files that machines write are read strictly: a row of them that can't be right means a fault.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import BaseModel, ValidationError

from alps.errors import DataError, shown

M = TypeVar("M", bound=BaseModel)
MOST = 0.05
"""The share of the rows of a file above which its slips are no slips."""
_NAMED = 5


@dataclass
class Slips:
    """The slips of one file.

    Attributes:
        path: The file.
        errors: What is wrong, in the order of the file.
        rows: How many rows the file has.
    """

    path: Path
    errors: list[DataError] = field(default_factory=list)
    rows: int = 0

    def unreadable(self, error: DataError) -> None:
        """Note a row of which nothing can be read."""
        self.rows += 1
        self.errors.append(error)

    @contextmanager
    def leaving_out(self) -> Iterator[None]:
        """Note what is wrong with a row, or a part of it, that is left out."""
        try:
            yield
        except DataError as error:
            self.errors.append(error)

    def settle(self) -> None:
        """Name the slips on stderr, once the file is read.

        Raises:
            DataError: If more than `MOST` of the rows are wrong; names the first ones.
        """
        if not self.errors:
            return
        wrong = len({error.line for error in self.errors})
        share = f"{wrong:,} of {self.rows:,} rows wrong ({wrong / max(self.rows, 1):.1%})"
        named = [str(error) for error in self.errors[:_NAMED]]
        more = len(self.errors) - len(named)
        if wrong > MOST * self.rows:
            first, *others = named
            others += [f"{more:,} more"] if more else []
            listed = "".join(f"; {other}" for other in others)
            raise _Refused(f"{first}{listed}; {share}, more than {MOST:.0%}", self.errors[0])
        for line in [*named, *([f"{self.path}: {more:,} more"] if more else [])]:
            click.echo(f"alps: {line}; left out", err=True)
        click.echo(f"alps: {self.path}: {share}; the rest is read", err=True)


class _Refused(DataError):
    """Too many slips: the message of the first one, and of some others."""

    def __init__(self, message: str, first: DataError) -> None:
        super().__init__(message)
        self.path, self.line, self.field = first.path, first.line, first.field


def read_model(kind: type[M], row: dict[str, Any], slips: Slips, line: int) -> M:
    """Return a row as `kind`, without the fields that are wrong; each is noted.

    What lacks a field that it needs is left out with all that it holds.

    Raises:
        DataError: If nothing of the row can be read.
    """
    node, errors = row, list[DataError]()
    while True:
        try:
            model = kind.model_validate(node)
        except ValidationError as error:
            wrong = error.errors(include_url=False)
        else:
            slips.errors += errors
            return model
        # What is missing once its slip is left out is no further slip.
        errors = errors or [_error(one, slips.path, line) for one in wrong]
        places = {_place(one) for one in wrong}
        if () in places:
            raise errors[0]
        rest = _copy(node)
        # From behind: what comes first in a list keeps its place.
        for place in sorted(places, reverse=True):
            _remove(rest, place)
        if rest == node:
            raise errors[0]
        node = rest


def _place(error: Any) -> tuple[Any, ...]:
    """Return the part that is wrong: of a missing field, what lacks it."""
    place: tuple[Any, ...] = error["loc"]
    return place[:-1] if error["type"] == "missing" else place


def _copy(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _copy(part) for name, part in node.items()}
    return [_copy(part) for part in node] if isinstance(node, list) else node


def _remove(node: Any, place: tuple[Any, ...]) -> None:
    """Take a part away; of a place within what is gone already, nothing."""
    *way, last = place
    for name in way:
        if not _holds(node, name):
            return
        node = node[name]
    if _holds(node, last):
        del node[last]


def _holds(node: Any, name: Any) -> bool:
    if isinstance(node, list):
        return isinstance(name, int) and name < len(node)
    return isinstance(node, dict) and name in node


def _error(error: Any, path: Path, line: int) -> DataError:
    message = error["msg"].removeprefix("Value error, ")
    given = "" if error["type"] == "missing" else f", got {shown(error['input'])}"
    name = ".".join(map(str, error["loc"]))
    return DataError(f"{message[:1].lower()}{message[1:]}{given}", path=path, line=line, field=name)
