"""Append-only files of one JSON object a line that survive a crash at any byte."""

import asyncio
import json
import math
import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
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
