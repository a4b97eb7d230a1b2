"""Strict reading of untrusted files: plain, bounded in size, JSON without ambiguities."""

import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from alps.errors import DataError
from alps.leaderboard.unsafe_text import shown

MEBIBYTE = 1 << 20
LARGEST_CARD, LARGEST_FILE, LONGEST_LINE = MEBIBYTE, 200 * MEBIBYTE, MEBIBYTE
DEEPEST, LONGEST_INTEGER = 20, 16
_TOO_DEEP = f"lists and objects stand inside one another more than {DEEPEST} deep"

ModelT = TypeVar("ModelT", bound=BaseModel)


def parse(data: bytes | str) -> Any:
    """Read one JSON value without duplicate keys, NaN, huge numbers or deep nesting.

    Raises:
        ValueError: If it is not JSON in UTF-8, or JSON that readers would not agree about; one
            line, what is wrong.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_integer,
        )
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg.lower()} at character {error.pos})") from error
    _check_depth(value)
    return value


def _check_depth(value: Any) -> None:
    # Level by level, as recursion is what a bottomless value would break.
    level = [value]
    for _ in range(DEEPEST + 1):
        inner: list[Any] = []
        nested = False
        for node in level:
            if isinstance(node, dict | list):
                nested = True
                inner += node.values() if isinstance(node, dict) else node
        if not nested:
            return
        level = inner
    raise ValueError(_TOO_DEEP)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key {name[:40]!a} stands twice in one object")
            seen.add(name)
    return row


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is beyond the range of numbers")
    return value


def _integer(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError(f"the integer {text[:20]}… has more than {LONGEST_INTEGER} digits")
    return int(text)


def open_plain(path: Path, most: int) -> BinaryIO:
    """Open a plain file of at most `most` bytes, without following a link or waiting on a pipe.

    Raises:
        ValueError: If there is none, it is a link, a pipe or something else, or it is too large.
    """
    # O_NONBLOCK: opening a pipe would wait for a writer for ever. Windows has neither flag.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        reason = "a link" if path.is_symlink() else error.strerror or "can't be opened"
        raise ValueError(reason) from error
    status = os.fstat(handle)
    fault = "" if stat.S_ISREG(status.st_mode) else "not a plain file"
    if not fault and status.st_size > most:
        fault = f"{status.st_size:,} bytes; at most {most:,} are read"
    if fault:
        os.close(handle)
        raise ValueError(fault)
    return os.fdopen(handle, "rb")


def read_json(path: Path) -> Any:
    """Read a small file that holds one JSON value.

    Raises:
        ValueError: If it is no plain file of at most a mebibyte, or not strict JSON.
    """
    with open_plain(path, LARGEST_CARD) as file:
        return parse(file.read(LARGEST_CARD))


def read_model(path: Path, model: type[ModelT]) -> ModelT:
    """Read a file that holds one JSON object of the form `model`.

    Raises:
        DataError: If it can't be read, or does not fit; names the file and the field.
    """
    try:
        return model.model_validate(read_json(path))
    except ValidationError as error:
        faults = faults_of(error)
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise DataError(f"{faults[0][1]}{more}", path=path, field=faults[0][0]) from error
    except ValueError as error:
        raise DataError(str(error), path=path) from error


def faults_of(error: ValidationError) -> list[tuple[str, str]]:
    """Return the fields that don't fit, each with what is wrong; safe to print."""
    faults = []
    for fault in error.errors(include_url=False):
        steps = [shown(str(step), 40) for step in fault["loc"] if step != "[key]"]
        message = fault["msg"].removeprefix("Value error, ").replace("\n", " ")
        if fault["type"] == "extra_forbidden":
            message = "no such field"
        faults.append((".".join(steps) or "the file", message[:1].lower() + message[1:]))
    return faults


def scan_rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | None, str]]:
    """Yield `(line, row, fault)` of every line; the row is None where there is a fault.

    Raises:
        ValueError: If the file can't be read.
    """
    with open_plain(path, LARGEST_FILE) as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            try:
                yield number, _row(line), ""
            except ValueError as error:
                yield number, None, str(error)
            # The end of a line that is too long is never looked for.
            if len(line) > LONGEST_LINE:
                return


def _row(line: bytes) -> dict[str, Any]:
    if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
        raise ValueError(f"longer than {LONGEST_LINE:,} bytes")
    if not line.endswith(b"\n"):
        raise ValueError("torn: no end of line")
    row = parse(line)
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {type(row).__name__}")
    return row
