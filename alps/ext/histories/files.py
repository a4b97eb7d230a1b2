"""Files of sets, read one story at a time: a file of gigabytes takes the memory of one story.

Their fields are each of the type that a reader expects, or named in a fault. Rows of Parquet files
are read one at a time by `datasets`.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from alps.errors import DataError, UsageError, shown
from alps.jsonl import parse_json
from alps.slips import HEAD, refuse_encoding

_CUT_OFF = "the list is not closed; check that the file is complete"
# Bytes read at a time: the `m` file of LongMemEval has 2.6 GB.
_CHUNK = 1 << 22
_BETWEEN = b" \t\r\n,"
_MARK_AND_BLANKS = b"\xef\xbb\xbf \t\r\n"
_GZIP, _POINTER = b"\x1f\x8b", b"version https://git-lfs"
# Brackets inside a text nest nothing: a text is left at its own end alone.
_END_OF_TEXT = re.compile(rb'["\\]')
_MARKS = re.compile(rb'["{}\[\]]')

Role = Literal["user", "assistant", "system"]
ROLES = get_args(Role)


class StoryPlace(Protocol):
    """Where a story lies; equal places are of equal stories."""

    def __hash__(self) -> int: ...

    def read(self) -> Any:
        """Return what the files hold of it.

        Raises:
            DataError: If that can't be read.
        """
        ...

    @property
    def path(self) -> Path:
        """The file, for messages."""
        ...


@dataclass(frozen=True)
class SetFiles:
    """The files of a set: their stories, and everything that the hash is of."""

    stories: Sequence[StoryPlace]
    hashed: Sequence[Path]


@dataclass(frozen=True)
class SetChoice:
    """Choice of files of a set: `set=` and `size=`, if given."""

    set: str | None = None
    size: str | None = None


def refuse_other_set(path: Path, choice: SetChoice, names: Mapping[str, Sequence[str]]) -> None:
    """Refuse a file that has the name of another set than the chosen one.

    Raises:
        UsageError: If it has.
    """
    own = next((one for one, files in names.items() if path.name in files), None)
    if None not in (own, choice.set) and own != choice.set:
        fix = f"leave out set=, or give the file of set {choice.set}"
        raise UsageError(f"set={choice.set}: {path.name} is set {own}; {fix}")


@dataclass(frozen=True)
class JsonSlice:
    """A JSON value of a file, from byte `start` on; of a file of lines, a line."""

    path: Path
    start: int
    length: int
    line: int | None = None

    def read(self) -> Any:
        """Read the value.

        Raises:
            DataError: If it is not JSON.
        """
        with self.path.open("rb") as file:
            file.seek(self.start)
            raw = file.read(self.length)
        try:
            return parse_json(raw)
        except ValueError as error:
            where = "" if self.line else f" at byte {self.start:,}"
            fault = f"not JSON{where} ({error})"
            raise DataError(fault, path=self.path, line=self.line) from error


@dataclass(frozen=True)
class WholeFile:
    """A file of one JSON value, or of one that is written as a literal of Python."""

    path: Path

    def read(self) -> Any:
        """Read the value.

        Raises:
            DataError: If it is not JSON.
        """
        refuse_head(self.path)
        try:
            return parse_json(self.path.read_bytes())
        except (OSError, ValueError) as error:
            raise DataError(f"not JSON ({error})", path=self.path) from error


@dataclass(frozen=True)
class Together:
    """Files of one JSON value each, which are one story under a name."""

    name: str
    paths: tuple[Path, ...]

    @property
    def path(self) -> Path:
        """The first of them."""
        return self.paths[0]

    def read(self) -> tuple[Any, ...]:
        """Read the name and the values.

        Raises:
            DataError: If one is not JSON.
        """
        return self.name, *(WholeFile(path).read() for path in self.paths)


def refuse_head(path: Path, repair: str = "download it again") -> None:
    """Refuse a file that no reader can read, by its first bytes; `repair` is that of an empty one.

    Raises:
        DataError: If it is empty, packed, a pointer to a file elsewhere, or not UTF-8.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head.strip():
        raise DataError(f"the file is empty; {repair}", path=path)
    if head.startswith(_GZIP):
        raise DataError("compressed with gzip; unpack it first, for example with gunzip", path=path)
    if head.startswith(_POINTER):
        raise DataError("a Git LFS pointer; fetch the file with git lfs pull", path=path)
    if head.lstrip(_MARK_AND_BLANKS).startswith(b"<"):
        raise DataError("a web page, not data; download the file itself", path=path)
    refuse_encoding(head, path)


def lines(path: Path, repair: str = "download it again") -> Iterator[JsonSlice]:
    """Yield the place of each line that is not blank; lines count from 1.

    Raises:
        DataError: As `refuse_head`.
    """
    refuse_head(path, repair)
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield JsonSlice(path, offset, len(line), number)
            offset += len(line)


def items(path: Path) -> Iterator[JsonSlice]:
    """Yield the place of each object of a JSON list, without reading more of it at a time.

    Raises:
        DataError: If the file is no list of objects, or ends too early.
    """
    refuse_head(path)
    with path.open("rb") as file:
        buffer, base = file.read(_CHUNK), 0
        at = len(buffer) - len(buffer.lstrip(_MARK_AND_BLANKS))
        if buffer[at : at + 1] != b"[":
            raise DataError("expected a JSON list", path=path)
        at += 1
        while True:
            while at < len(buffer) and buffer[at] in _BETWEEN:
                at += 1
            if at == len(buffer):
                base, buffer, at = base + at, file.read(_CHUNK), 0
                if not buffer:
                    raise DataError(_CUT_OFF, path=path)
                continue
            if buffer[at : at + 1] == b"]":
                # A second list behind the first would be dropped in silence.
                if (buffer[at + 1 :] + file.read(_CHUNK)).strip():
                    where = f"byte {base + at + 1:,}"
                    raise DataError(f"data after the list, at {where}; remove it", path=path)
                return
            if buffer[at : at + 1] != b"{":
                raise DataError(f"expected an object at byte {base + at:,}", path=path)
            base, buffer, at = base + at, buffer[at:], 0
            parts, end = _Nesting(), 0
            while (end := parts.end(buffer)) < 0:
                more = file.read(_CHUNK)
                if not more:
                    raise DataError(_CUT_OFF, path=path)
                buffer += more
            yield JsonSlice(path, base, end)
            at = end


class _Nesting:
    """Follows brackets and texts of one JSON value through bytes that come in parts."""

    def __init__(self) -> None:
        self._depth, self._at, self._inside = 0, 0, False

    def end(self, buffer: bytes) -> int:
        """Return where the value ends in `buffer`, which grew at its end alone; -1 for not yet."""
        while True:
            found = (_END_OF_TEXT if self._inside else _MARKS).search(buffer, self._at)
            if found is None:
                self._at = len(buffer)
                return -1
            mark = found[0]
            if mark == b"\\":
                # What the backslash escapes comes with the next bytes.
                if found.end() == len(buffer):
                    self._at = found.start()
                    return -1
                self._at = found.end() + 1
                continue
            self._at = found.end()
            if mark == b'"':
                self._inside = not self._inside
            else:
                self._depth += 1 if mark in b"{[" else -1
                if self._depth == 0:
                    return self._at


def field(node: Any, name: str) -> Any:
    """Return a field of an object.

    Raises:
        KeyError: If it is not there.
        ValueError: If there is no object.
    """
    if not isinstance(node, Mapping):
        raise ValueError(f"expected an object with {name}, got {shown(node)}")
    return node[name]


def as_object(value: Any, name: str) -> Mapping[str, Any]:
    """Return a value that is an object.

    Raises:
        ValueError: If it is none.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}: expected an object, got {shown(value)}")
    return value


def fault_of(error: Exception) -> str:
    """Return in words what a reader stumbled over."""
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of a file before what is wrong in it, where a story lies in several files.

    Raises:
        ValueError: If something is.
    """
    try:
        yield
    except (KeyError, ValueError) as error:
        raise ValueError(f"{name}: {fault_of(error)}") from error


def number(node: Any, name: str) -> float:
    """Return a number, which may be written as a text; 0 where there is none.

    Raises:
        ValueError: If it is something else.
    """
    value = node.get(name) or 0
    with suppress(TypeError, ValueError):
        return float(value)
    raise ValueError(f"{name}: expected a number, got {shown(value)}")


def whole(node: Any, name: str) -> int:
    """Return a whole number, which may be written as a text.

    Raises:
        KeyError: If it is not there.
        ValueError: If it is something else.
    """
    value = text(node, name)
    with suppress(ValueError):
        # Tables with gaps have 3.0 for 3.
        return int(value.removesuffix(".0"))
    raise ValueError(f"{name}: expected a whole number, got {shown(value)}")


def text(node: Any, name: str) -> str:
    """Return a text; numbers are written out, as years and counts are in some files.

    Raises:
        KeyError: If it is not there.
        ValueError: If it is neither.
    """
    return as_text(field(node, name), name)


def as_text(value: Any, name: str) -> str:
    """Return a value as a text; see `text`."""
    # Golds are numbers in six questions of LoCoMo and 32 of LongMemEval. `str` would make a gold
    # «None» of a null.
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{name}: expected a string, got {shown(value)}")
    return str(value)


def role(node: Any) -> Role:
    """Return who says a message.

    Raises:
        KeyError: If nothing says so.
        ValueError: If it is nobody that a conversation has.
    """
    found: Any = text(node, "role")
    if found not in ROLES:
        raise ValueError(f"role: {shown(found)} is not one of {', '.join(ROLES)}")
    given: Role = found
    return given


def listed(node: Any, name: str) -> list[Any]:
    """Return a list.

    Raises:
        KeyError: If it is not there.
        ValueError: If it is no list.
    """
    return as_list(field(node, name), name)


def maybe_listed(node: Any, name: str) -> list[Any]:
    """Return a list, nothing where there is none; see `listed`."""
    found = field(node, name) if isinstance(node, Mapping) and name in node else None
    return [] if found is None else as_list(found, name)


def as_list(value: Any, name: str) -> list[Any]:
    """Return a value that is a list; see `listed`."""
    if not isinstance(value, list):
        raise ValueError(f"{name}: expected a list, got {shown(value)}")
    return value


def ids_in(value: Any) -> list[Any]:
    """Return ids that stand in a list, or in lists by what they are."""
    lists = value.values() if isinstance(value, dict) else [value or []]
    return [name for own in lists for name in (own if isinstance(own, list) else [own])]


@dataclass(frozen=True)
class HubRow:
    """One row of a file, and what is made of its fields and of a name for it."""

    path: Path
    place: int
    name: str
    make: Callable[[str, Mapping[str, Any]], Any]

    def read(self) -> Any:
        """Read the row.

        Raises:
            DataError: If the file is no Parquet.
        """
        return self.make(self.name, _opened(self.path)[self.place])


@lru_cache(maxsize=2)
def _opened(path: Path) -> Any:
    from datasets import Dataset, disable_progress_bars
    from datasets.utils import logging

    disable_progress_bars()
    # What goes wrong is said in one line of ours.
    logging.set_verbosity(logging.CRITICAL)
    try:
        return Dataset.from_parquet(str(path))
    except Exception as error:  # whatever its reader raises
        raise DataError(f"not a Parquet file ({type(error).__name__})", path=path) from error


def rows_of(
    paths: Sequence[Path], make: Callable[[str, Mapping[str, Any]], Any]
) -> Iterator[HubRow]:
    """Yield the rows of the files of a split, named after it and numbered from 1."""
    number = 0
    for path in paths:
        for place in range(len(_opened(path))):
            number += 1
            # The hub names the files of a split such as 100K-00000-of-00001.parquet.
            yield HubRow(path, place, f"{path.stem.partition('-')[0]}-{number}", make)


def literal(text: str) -> Any:
    """Return the value of a Python literal.

    Raises:
        ValueError: If it is none.
    """
    try:
        return ast.literal_eval(text)
    # Python raises the last two for literals that nest too deeply.
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("not a Python literal") from error
