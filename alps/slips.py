"""Slips in files that people wrote: each is named and left out, and too many are refused.

What is wrong with a file as a whole is one fault, and no row's: an editor that saves UTF-16, or a
list where lines were meant, makes every line wrong at once. Files that machines write are read
strictly: a row of them that can't be right means a fault.
"""

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import BaseModel, ValidationError

from alps.errors import DataError, in_words, shown

M = TypeVar("M", bound=BaseModel)
MOST = 0.05
"""The share of the rows of a file above which its slips are no slips."""
_NAMED = 5
HEAD = 4096
"""How many bytes of the beginning of a file tell its form."""
_MARK = b"\xef\xbb\xbf"
_SAVE = "save it as UTF-8"


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
            listed = "; ".join([*self._once_each(), *([f"{more:,} more"] if more else [])])
            raise _Refused(f"{listed}; {share}, more than {MOST:.0%}", self.errors[0])
        for line in [*named, *([f"{self.path}: {more:,} more"] if more else [])]:
            click.echo(f"alps: {line}; left out", err=True)
        click.echo(f"alps: {self.path}: {share}; alps uses the rest", err=True)

    def _once_each(self) -> Iterator[str]:
        """Yield the first slips, and only the line of one that is wrong as another is."""
        said = set[str]()
        for error in self.errors[:_NAMED]:
            what = str(error).removeprefix(f"{self.path}, line {error.line}")
            yield f"line {error.line}, the same" if what in said else str(error)
            said.add(what)


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
        rest = deepcopy(node)
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
    given = "" if error["type"] == "missing" else f", got {shown(error['input'])}"
    name = ".".join(map(str, error["loc"]))
    return DataError(f"{in_words(error)}{given}", path=path, line=line, field=name)


def refuse_encoding(head: bytes, path: Path) -> None:
    """Refuse a file that is not UTF-8 as a whole, with a mark of its encoding or without.

    Args:
        head: Its first bytes; they begin with a sign of ASCII, as JSON, TOML and tables do.
        path: The file.

    Raises:
        DataError: If it is UTF-16 or UTF-32.
    """
    # A mark alone is no text of any encoding.
    encoding = json.detect_encoding(head) if len(head) > 3 else "utf-8"
    if not encoding.startswith("utf-8"):
        raise DataError(f"is {encoding[:6].upper()}: {_SAVE}", path=path)


def refuse_form(head: bytes, path: Path) -> None:
    """Refuse a file that can't be one JSON object a line, whatever its rows hold.

    Args:
        head: Its first `HEAD` bytes, or all of it.
        path: The file.

    Raises:
        DataError: If it is UTF-16 or UTF-32, one JSON list, or JSON with line ends in it.
    """
    refuse_encoding(head, path)
    begun = head.removeprefix(_MARK).lstrip()
    if begun[:1] == b"[" and begun[1:].lstrip()[:1] in (b"{", b""):
        fault = "is one JSON list: write JSON Lines, one object per line"
        raise DataError(fault, path=path)
    if begun[:1] == b"{" and begun[1:2] in (b"\r", b"\n"):
        raise DataError("is JSON on several lines: write each object on one line", path=path)


def refuse_form_of(path: Path) -> None:
    """Refuse a file as `refuse_form` does; a file that is not there is no matter of its form."""
    if path.is_file():
        with path.open("rb") as file:
            refuse_form(file.read(HEAD), path)


def read_text(path: Path) -> str:
    """Read a file in UTF-8, with its mark or without.

    Raises:
        DataError: If it is in another encoding.
        OSError: If it can't be read.
    """
    raw = path.read_bytes()
    refuse_encoding(raw[:HEAD], path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        fault = f"not UTF-8 text ({error.reason} on line {line}): {_SAVE}"
        raise DataError(fault, path=path) from error


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        DataError: If it is not TOML in UTF-8.
        OSError: If it can't be read.
    """
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, too
        raise DataError(f"not TOML ({error})", path=path) from error
