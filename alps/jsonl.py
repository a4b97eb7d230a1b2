"""JSON read within bounds, append-only files of one object a line, and journals made of them.

Such a file survives a crash at any byte. A journal has one row a record, on disk before the next
stage begins, and finds it again on resume.
"""

import asyncio
import json
import math
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, NoReturn

Row = dict[str, Any]

MOST_VALUES = 4_000_000
"""Values of one JSON text: an empty list takes three bytes of it, and seventy of memory.

LongMemEval with its histories has about a million.
"""
_DEEPEST = 100
_TOO_DEEP = "lists and objects are nested more than {} deep"
_TOO_MANY = f"more than {MOST_VALUES:,} values"
# An end that is missing is no reason to begin again at each quote.
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)
_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
# Keeps Windows from writing line ends of its own.
_AS_BYTES: int = getattr(os, "O_BINARY", 0)
_FLUSHING = ThreadPoolExecutor(max_workers=4, thread_name_prefix="flush")
# The outcome of a row that takes back those before it; only the file of a run that is not finished
# has such rows.
WITHDRAWN = "withdrawn"
# The offset of a record without a row.
_NOWHERE = -1


def dump(row: Row) -> bytes:
    """Return `row` as one line: UTF-8, keys in their order, no NaN."""
    # Lone surrogates, which broken escapes of models bring in, are written as escapes.
    text = _ENCODE(row)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(row, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def scan(path: Path) -> Iterator[tuple[int, int, Row | None]]:
    """Yield `(offset, length, row)` of every line; `row` is None where it can't be read."""
    if not path.exists():
        return
    offset = 0
    with path.open("rb") as file:
        for line in file:
            yield offset, len(line), _parse(line)
            offset += len(line)


def parse_json(text: str | bytes, *, deepest: int = _DEEPEST, **hooks: Any) -> Any:
    """Read one JSON value as `json.loads` does, nested at most `deepest` deep.

    Raises:
        TooMuchError: If it is nested more deeply, or has more than `MOST_VALUES` values.
        ValueError: If it is not JSON.
    """
    if has_more_values(text, MOST_VALUES):
        raise TooMuchError(_TOO_MANY)
    # How deep the parser itself goes depends on the version of Python: 3.13 reads 3,000 lists
    # inside one another, which nothing that walks through them with a function for each can follow.
    try:
        value = json.loads(text, **hooks)
    except RecursionError as error:
        raise TooMuchError(_TOO_DEEP.format(deepest)) from error
    # To walk through a value takes longer than to read it, and most rows are short.
    if _opened(text) > deepest and is_too_deep(value, deepest):
        raise TooMuchError(_TOO_DEEP.format(deepest))
    return value


def _opened(text: str | bytes) -> int:
    """Count the characters that may open a list or an object."""
    if isinstance(text, str):
        return text.count("[") + text.count("{")
    return text.count(b"[") + text.count(b"{")


def has_more_values(text: str | bytes, most: int) -> bool:
    """Tell whether a JSON text has more than `most` values, by what opens one or parts two."""
    if len(text) <= most:
        return False
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    if _opened(data) + data.count(b",") <= most:
        return False
    # Those within strings are no values.
    values = (found for found in _TOKENS.finditer(data) if not found[0].startswith(b'"'))
    return next(islice(values, most, None), None) is not None


class TooMuchError(ValueError):
    """A JSON text that is nested too deeply, or has too many values."""


class NoNumberError(ValueError):
    """JSON has no NaN, no Infinity and no end of numbers, though Python reads and writes them."""


class TwiceError(ValueError):
    """A key that is repeated in one object: Python keeps the last, and the other is lost."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key[:40]!a} is repeated in one object")
        self.key = key


def parse_strict(text: str | bytes, **hooks: Any) -> Any:
    """Read one JSON value that all readers agree about.

    Raises:
        NoNumberError: If a number in it is NaN, infinite, or beyond the range of floats.
        TwiceError: If a key is repeated in one object.
        ValueError: If it is not JSON, or nested too deeply.
    """
    return parse_json(
        text, object_pairs_hook=each_key_once, parse_constant=_constant, parse_float=_float, **hooks
    )


def each_key_once(pairs: list[tuple[str, Any]]) -> Row:
    """Return an object of JSON; raises TwiceError where a key is repeated in it."""
    row = dict(pairs)
    if len(row) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise TwiceError(key)
            seen.add(key)
    return row


def _constant(name: str) -> NoReturn:
    raise NoNumberError(f"{name} is not a number in JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NoNumberError(f"the number {text[:20]} is too large")
    return value


def is_too_deep(value: Any, deepest: int = _DEEPEST) -> bool:
    """Tell whether lists and objects are nested more than `deepest` deep."""
    level = [value]
    for _ in range(deepest + 1):
        inner = [node for node in level if isinstance(node, (dict, list))]
        if not inner:
            return False
        level = []
        for node in inner:
            level += node.values() if isinstance(node, dict) else node
    return True


def _parse(line: bytes) -> Row | None:
    if not line.endswith(b"\n"):
        return None
    try:
        row = parse_json(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _read_at(file: int, offset: int, length: int) -> bytes:
    """Read `length` bytes at `offset`; what is appended goes to the end all the same."""
    if hasattr(os, "pread"):
        return os.pread(file, length, offset)
    os.lseek(file, offset, os.SEEK_SET)  # Windows
    return os.read(file, length)


class Appender:
    """Appends rows durably: each is on disk when `append` returns; `size` is in bytes.

    A torn last line, left by a crash, is cut off on opening.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _AS_BYTES, 0o644)
        self.size = self._durable = self._cut_torn_line()
        self._flush: asyncio.Task[None] | None = None
        self._syncing: Future[None] | None = None

    def append(self, row: Row) -> None:
        """Write `row` and flush it to disk.

        A write that fails half-way (a full disk) is undone, so that the file never holds a torn
        line.

        Raises:
            OSError: If the disk is full or the file can't be written.
        """
        offset = self.size
        self.write(row)
        try:
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, offset)
            self.size = offset
            raise
        self._durable = self.size

    def write(self, row: Row) -> None:
        """Write `row` without flushing.

        The crash of a process leaves it there, that of a machine need not.

        Raises:
            OSError: As `append`.
        """
        line, offset = dump(row), self.size
        try:
            written = os.write(self._file, line)
            if written < len(line):
                os.write(self._file, line[written:])
        except OSError:
            os.ftruncate(self._file, offset)
            raise
        self.size += len(line)

    async def flushed(self) -> None:
        """Wait until everything written so far is on disk.

        Raises:
            OSError: If the disk fails.
        """
        # The disk is waited for beside the event loop. What is written meanwhile is flushed
        # together, next: a slow disk makes larger groups, not a slower run.
        wanted = self.size
        while self._durable < wanted:
            if self._flush is None:
                self._flush = asyncio.ensure_future(self._flush_once())
            await asyncio.shield(self._flush)

    async def _flush_once(self) -> None:
        reached = self.size
        self._syncing = _FLUSHING.submit(os.fsync, self._file)
        try:
            await asyncio.wrap_future(self._syncing)
            self._durable = reached
        finally:
            self._flush = None

    def read(self, offset: int, length: int) -> Row:
        """Return the row at `offset`."""
        row: Row = json.loads(_read_at(self._file, offset, length))
        return row

    def close(self) -> None:
        """Flush what is not on disk yet, and close the file."""
        with suppress(OSError):  # whoever waited for it has been told
            if self._syncing is not None and not self._syncing.cancelled():
                self._syncing.result()
            self.flush()
        os.close(self._file)

    def flush(self) -> None:
        """Have what is written on disk.

        Raises:
            OSError: If the disk fails.
        """
        if self._durable < self.size:
            os.fsync(self._file)
            self._durable = self.size

    def _cut_torn_line(self) -> int:
        size = os.fstat(self._file).st_size
        end = size
        while end > 0:
            start = max(0, end - 65_536)
            newline = _read_at(self._file, start, end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            os.ftruncate(self._file, end)
        return end


def journal_key(track: str, benchmark_id: str, repeat: int = 0) -> str:
    """Return the key of a row: track, `benchmark_id`, and which of several answers it is."""
    return f"{track}\x00{benchmark_id}\x00{repeat}"


def key_of(row: Row) -> str | None:
    """Return the key of a row of any journal of a run; None where it is about no record."""
    if not isinstance(row.get("benchmark_id"), str):
        return None
    return journal_key(str(row.get("track", "")), row["benchmark_id"], row.get("repeat", 0))


class Journal:
    """Rows of one stage, by their key: `journal_key`, unless another is given.

    The last row of a record counts.

    Opening it cuts off a torn last line and leaves out lines that can't be read: their records are
    done again.

    Args:
        key: Returns the key of a row; None where it is about no record.
        numbers: The numbers that keys have. Journals about the same records share one, and add to
            it: so each keeps no more than a few bytes a record.
    """

    def __init__(
        self,
        path: Path,
        key: Callable[[Row], str | None] = key_of,
        *,
        numbers: dict[str, int] | None = None,
    ) -> None:
        self.path = path
        self._key = key
        self._numbers = {} if numbers is None else numbers
        self._file = Appender(path)
        self._offsets, self._lengths = array("q"), array("I")
        for offset, length, row in scan(path):
            if row is not None and (name := key(row)) is not None:
                self._remember(name, row, offset, length)

    def write(self, row: Row) -> None:
        """Write `row`, which is on disk once the journal is settled: it can be made again.

        It replaces an earlier row of the same record.
        """
        name = self._key(row)
        if name is None:
            raise ValueError(f"a row without its keys: {sorted(row)}")
        before = self._file.size
        self._file.write(row)
        self._remember(name, row, before, self._file.size - before)

    async def append_together(self, row: Row) -> None:
        """Write `row` durably; rows that come at about the same time share a flush to disk."""
        self.write(row)
        await self._file.flushed()

    async def withdraw(self, about: Row) -> None:
        """Take back, durably, what the journal holds of the record that `about` names.

        `settle` leaves no trace of it.

        Args:
            about: A row with nothing but what it is about.
        """
        name = self._key(about)
        if name is not None and self._holds(name):
            await self.append_together({**about, "outcome": WITHDRAWN})

    def _remember(self, name: str, row: Row, offset: int, length: int) -> None:
        number = self._numbers.setdefault(name, len(self._numbers))
        while len(self._offsets) <= number:
            self._offsets.append(_NOWHERE)
            self._lengths.append(0)
        self._offsets[number] = _NOWHERE if row.get("outcome") == WITHDRAWN else offset
        self._lengths[number] = length

    def get(self, name: str) -> Row | None:
        """Return the row under the key `name`."""
        return self._read(self._numbers[name]) if self._holds(name) else None

    def keys(self) -> list[str]:
        """Return the keys of the records that have a row."""
        return [name for name in self._numbers if self._holds(name)]

    def settle(self, order: Iterable[str]) -> None:
        """Rewrite the file with exactly one row a record, in `order`, in one atomic step.

        The file of a finished run does not depend on which record was finished first.
        """
        wanted = array("q", (self._numbers[name] for name in order if self._holds(name)))
        if self._is_settled(wanted):
            self._file.flush()
            return
        temporary = self.path.with_name(self.path.name + ".tmp")
        offsets, lengths = array("q", [_NOWHERE]) * len(self._offsets), array("I", self._lengths)
        offset = 0
        with temporary.open("wb") as file:
            for number in wanted:
                line = dump(self._read(number))
                file.write(line)
                offsets[number], lengths[number] = offset, len(line)
                offset += len(line)
            file.flush()
            os.fsync(file.fileno())
        self._file.close()  # Windows replaces no file that is open
        try:
            temporary.replace(self.path)
            self._offsets, self._lengths = offsets, lengths
        finally:
            self._file = Appender(self.path)

    def _is_settled(self, wanted: Sequence[int]) -> bool:
        """Tell whether the file has exactly the lines that are wanted, in their order."""
        offset = 0
        with self.path.open("rb") as file:
            for number, line in zip_longest(wanted, file):
                if number is None or line is None or self._place(number) != (offset, len(line)):
                    return False
                offset += len(line)
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _holds(self, name: str) -> bool:
        number = self._numbers.get(name)
        return (
            number is not None and number < len(self._offsets) and self._offsets[number] != _NOWHERE
        )

    def _place(self, number: int) -> tuple[int, int]:
        return self._offsets[number], self._lengths[number]

    def _read(self, number: int) -> Row:
        return self._file.read(*self._place(number))
