"""Files of strangers: opened without following a link or waiting on a pipe, and never read beyond
their limits.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from alps.errors import DataError
from alps.leaderboard.strict_json import parse
from alps.leaderboard.wording import shown

MEBIBYTE = 1 << 20
LARGEST_CARD, LARGEST_FILE, LONGEST_LINE = MEBIBYTE, 200 * MEBIBYTE, MEBIBYTE

ModelT = TypeVar("ModelT", bound=BaseModel)


def read_part(path: Path, model: type[ModelT]) -> ModelT:
    """Read a file that holds one JSON object of the form `model`.

    Raises:
        DataError: If it can't be read, or does not fit; names the file and the field.
    """
    try:
        return model.model_validate(parse(read_bytes(path, LARGEST_CARD)))
    except ValidationError as error:
        faults = faults_of(error)
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise DataError(f"{faults[0][1]}{more}", path=path, field=faults[0][0]) from error
    except ValueError as error:
        raise DataError(str(error), path=path) from error


def faults_of(error: ValidationError) -> list[tuple[str, str]]:
    """Return the fields that don't fit, each with what is wrong; safe to print."""
    found = []
    for fault in error.errors(include_url=False):
        field = (
            ".".join(shown(str(part), 40) for part in fault["loc"] if part != "[key]") or "the file"
        )
        message = fault["msg"].removeprefix("Value error, ").replace("\n", " ")
        if fault["type"] == "extra_forbidden":
            message = "no such field"
        found.append((field, message[:1].lower() + message[1:]))
    return found


def open_plain(path: Path, most: int) -> BinaryIO:
    """Open a plain file of at most `most` bytes.

    Raises:
        ValueError: If there is none, it is a link, a pipe or something else, or it is too large.
    """
    try:
        handle = os.open(
            path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        )
    except OSError as error:
        raise ValueError(
            "a link" if path.is_symlink() else error.strerror or "can't be opened"
        ) from error
    found = os.fstat(handle)
    fault = "" if stat.S_ISREG(found.st_mode) else "not a plain file"
    if not fault and found.st_size > most:
        fault = f"{found.st_size:,} bytes; at most {most:,} are read"
    if fault:
        os.close(handle)
        raise ValueError(fault)
    return os.fdopen(handle, "rb")


def read_bytes(path: Path, most: int) -> bytes:
    """Read a plain file of at most `most` bytes.

    Raises:
        ValueError: If there is none, it is something else, or it is too large.
    """
    with open_plain(path, most) as file:
        return file.read(most)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON Lines file, one line in memory at a time.

    Raises:
        DataError: If the file can't be read, or a line is too long, torn, or no JSON object; names
            the line.
    """
    try:
        for number, row, fault in scan_rows(path):
            if row is None:
                raise DataError(fault, path=path, line=number)
            yield row
    except ValueError as error:
        raise DataError(str(error), path=path) from error


def scan_rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | None, str]]:
    """Yield `(line, row, fault)` of every line.

    The row is None where it can't be read, and `fault` says why.

    Nothing is yielded after a line that is too long: its end is never looked for.

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
            if len(line) > LONGEST_LINE:
                return


def _row(line: bytes) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        most = (
            f"longer than {LONGEST_LINE:,} bytes"
            if len(line) > LONGEST_LINE
            else "torn: no end of line"
        )
        raise ValueError(most)
    row = parse(line)
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {type(row).__name__}")
    return row
