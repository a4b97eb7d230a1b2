"""Strict reading of JSON files that people write: errors name file, line, field and a repair."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from alps.errors import DataError, closest, shown
from alps.ext.calibration.agreement import LabelScale
from alps.jsonl import NoNumberError, TwiceError, parse_json, parse_strict
from alps.slips import HEAD, Slips, refuse_encoding, refuse_form

Value = int | float | str
_ESCAPED_HALF = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
_HALF = re.compile(r"[\ud800-\udfff]")


def on_scale(value: object, scale: LabelScale) -> Value | None:
    """Return the declared value that `value` means, or None where it is not on the scale.

    Numbers count by value, and true and false only on a scale of 0 and 1.
    """
    # Python takes true for 1, which on a scale of 1 to 5 would be a mark.
    if isinstance(value, bool) and set(scale.values) != {0, 1}:
        return None
    for declared in scale.values:
        if declared == value and isinstance(declared, int | float | str):
            return declared
    return None


@dataclass(frozen=True)
class LabelRow:
    """An object of a file that somebody wrote, and where it is, so that errors can name the place.

    `within` is the dotted path of the object inside its line, with a dot at the end; empty for the
    line itself. All methods but `wrong` raise a `DataError` where the field is anything else.
    """

    path: Path
    line: int | None
    values: Mapping[str, Any]
    within: str = ""

    def wrong(self, field: str, message: str) -> DataError:
        """Return the error that says what is wrong with `field`."""
        return DataError(message, path=self.path, line=self.line, field=self.within + field)

    def get(self, field: str) -> Any:
        """Return what `field` holds; it must be there."""
        if field not in self.values:
            hint = f"{closest(field, self.values)} (fields: {shown(list(self.values))})"
            raise self.wrong(field, f"is missing{hint}")
        return self.values[field]

    def text(self, field: str) -> str:
        """Return a non-empty text."""
        value = self.get(field)
        if not isinstance(value, str):
            quotes = ": write it in quotes" if is_number(value) else ""
            raise self.wrong(field, f"must be a string, got {shown(value)}{quotes}")
        # An empty name of an item or an annotator would be shared by all who forgot it.
        if not value.strip():
            raise self.wrong(field, "must not be empty")
        return value

    def optional_text(self, field: str) -> str | None:
        """Return a text, or None where it is null or left out."""
        value = self.values.get(field)
        if value is not None and not isinstance(value, str):
            raise self.wrong(field, f"must be a string or null, got {shown(value)}")
        return value

    def object(self, field: str) -> dict[str, Any]:
        """Return an object."""
        value = self.get(field)
        if not isinstance(value, dict):
            raise self.wrong(field, f"must be an object, got {shown(value)}: write {{…}}")
        return value

    def part(self, field: str) -> "LabelRow":
        """Return an object inside this one."""
        return LabelRow(self.path, self.line, self.object(field), f"{self.within}{field}.")

    def value(self, field: str, scale: LabelScale, rubric: str) -> Value:
        """Return a value of the scale."""
        value = self.get(field)
        declared = on_scale(value, scale)
        if declared is None:
            values = shown(list(scale.values))
            repair = _repair(value, scale)
            raise self.wrong(
                field, f"{shown(value)} is not on the scale {values} of {shown(rubric)}{repair}"
            )
        return declared

    def mean(self, field: str, scale: LabelScale) -> float:
        """Return a number between the ends of the scale."""
        value = self.get(field)
        if any(isinstance(declared, str) for declared in scale.values):
            names = shown(list(scale.values))
            raise self.wrong(field, f"the scale {names} has names, so it has no mean")
        low, high = float(scale.numbers.min()), float(scale.numbers.max())
        if not is_number(value) or not low <= value <= high:
            message = f"must be a number from {low:g} to {high:g}, got {shown(value)}"
            raise self.wrong(field, message)
        return float(value)

    def probability(self, field: str) -> float | None:
        """Return a number from 0 to 1, or None where it is null or left out."""
        value = self.values.get(field)
        if value is None:
            return None
        if not is_number(value) or not 0 <= value <= 1:
            raise self.wrong(field, f"must be a number from 0 to 1 or null, got {shown(value)}")
        return float(value)

    def refuse_near_misses(self, optional: Sequence[str]) -> None:
        """Refuse a field whose name is nearly that of an optional one that is left out.

        It would be lost silently.
        """
        left_out = tuple(name for name in optional if name not in self.values)
        for field in self.values if left_out else ():
            near = None if field in optional else _near_miss(field, left_out)
            if near is not None:
                raise self.wrong(field, f"unknown field — did you mean '{near}'?")


def read_rows(path: Path, slips: Slips | None = None) -> Iterator[LabelRow]:
    """Yield the rows of a file of one JSON object a line; blank lines are left out.

    Args:
        path: The file.
        slips: Takes what is wrong in a file that people wrote, and is settled at the end.

    Raises:
        DataError: If the file can't be read or has no rows, or a line is not a JSON object or holds
            NaN.
    """
    empty = True
    try:
        with path.open("rb") as file:
            refuse_form(file.read(HEAD), path)
            file.seek(0)
            for line, raw in enumerate(file, start=1):
                # Editors leave blank lines at the end.
                if raw.strip():
                    empty = False
                    yield from _row(raw, path, line, slips)
    except OSError as error:
        raise DataError(f"can't be read ({error.strerror})", path=path) from error
    if empty:
        raise DataError("is empty: expected one JSON object per line", path=path)
    if slips is not None:
        slips.settle()


def _row(raw: bytes, path: Path, line: int, slips: Slips | None) -> Iterator[LabelRow]:
    if slips is None:
        yield LabelRow(path, line, _decode(raw, path, line))
        return
    slips.rows += 1
    with slips.leaving_out():
        yield LabelRow(path, line, _decode(raw, path, line))


def read_object(path: Path) -> LabelRow:
    """Read a file that is one JSON object.

    Raises:
        DataError: If the file can't be read or is not a JSON object, or holds NaN.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"can't be read ({error.strerror})", path=path) from error
    if not raw.strip():
        raise DataError("is empty: expected a JSON object", path=path)
    refuse_encoding(raw[:HEAD], path)
    return LabelRow(path, None, _decode(raw, path, None))


def is_number(value: object) -> bool:
    """Tell whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _repair(value: object, scale: LabelScale) -> str:
    if isinstance(value, str):
        if any(str(declared) == value for declared in scale.values):
            return ": write it without quotes"
        words = [declared for declared in scale.values if isinstance(declared, str)]
        if hint := closest(value, words):
            return hint
    return ": correct it, or declare it in the scale"


@lru_cache(maxsize=1024)  # all rows of a file have the same fields
def _near_miss(field: str, names: tuple[str, ...]) -> str | None:
    return next(iter(get_close_matches(field, names, n=1, cutoff=0.75)), None)


def _decode(raw: bytes, path: Path, line: int | None) -> dict[str, Any]:
    try:
        value = parse_strict(raw)
        if _ESCAPED_HALF.search(raw):  # half a character can be read, but written nowhere
            value = json.loads(_HALF.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
    except NoNumberError as error:
        field = _field_of(raw)
        raise DataError(f"{error}: write null", path=path, line=line, field=field) from error
    except TwiceError as error:
        fault = "appears twice in one object: keep one of them"
        raise DataError(fault, path=path, line=line, field=error.key) from error
    except (ValueError, RecursionError) as error:
        at = error.lineno if line is None and isinstance(error, json.JSONDecodeError) else line
        raise DataError(f"not JSON ({error})", path=path, line=at) from error
    if not isinstance(value, dict):
        raise DataError(f"expected a JSON object, got {shown(value)}", path=path, line=line)
    return value


def _field_of(raw: bytes) -> str | None:
    """Return the field of the first number that is none; None where the rest is no JSON either."""
    try:
        return _path_of(parse_json(raw))
    except (ValueError, RecursionError):
        return None


def _path_of(value: object) -> str | None:
    """Return the dotted path of the first number that is none; None where there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else ""
    parts: Iterator[tuple[object, object]] = iter(())
    if isinstance(value, dict):
        parts = iter(value.items())
    elif isinstance(value, list):
        parts = iter(enumerate(value))
    for name, part in parts:
        path = _path_of(part)
        if path is not None:
            return f"{name}.{path}" if path else str(name)
    return None
