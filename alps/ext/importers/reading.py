"""Reading of JSON files of others into typed rows; what does not fit is named in one line."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    TypeAdapter,
    ValidationError,
)

from alps.errors import DataError, UsageError, in_words
from alps.jsonl import TooMuchError, TwiceError, each_key_once, parse_json
from alps.schema import FrozenRow
from alps.sizes import Body, TooLarge, Unreadable
from alps.slips import HEAD, refuse_encoding

_MESSAGES = {
    "missing": "is missing",
    "dict_type": "is not an object",
    "model_type": "is not an object",
    "list_type": "is not a list",
    "finite_number": "is not a finite number",
}
_MOST_FAULTS = 1_000
LARGEST_FILE = 512 << 20
"""Bytes of a file of results of another benchmark; that of LongMemEval with its histories has
280 MB."""
LARGEST_PACKED = 128 << 20
"""Bytes that a packed file of results may unpack to."""
_GZIP, _CHUNK = b"\x1f\x8b", 1 << 16
_DAMAGED = "a damaged gzip file; copy it again"
UNKNOWN = "unknown type"
"""The category of questions whose file names none."""

T = TypeVar("T")


class ImportedAnswer(FrozenRow):
    """One answer of a system to one question of a benchmark.

    Attributes:
        part: What of the benchmark it belongs to, where that measures several things.
        id: Of the question; the same in all files of a benchmark.
        conversation: Whose questions are not independent: intervals resample it.
        gold: What was expected; None where the file does not say.
        answer: What the system said; None where the file does not say.
        score: Between 0 and 1, as the file's judge gave it; None where there is none.
        outcome: What the judge sorted it as, where that says more than right or wrong.
        abstains: Whether the right answer is that nothing is known.
        repeat: Which of several answers to the question, from 0.
        of_system: Whether the system itself wrote what is rated, so that no other has the same.
        reasons: What the judge says next to its verdict, in fields that the format knows; not
            written.
        unread: The fields of its row that the format does not know; not written.
    """

    system: str
    part: str = ""
    id: str
    conversation: str
    category: str
    question: str | None = None
    gold: str | None = None
    answer: str | None = None
    score: Annotated[float, Field(ge=0, le=1)] | None = None
    outcome: str | None = None
    abstains: bool = False
    repeat: int = 0
    of_system: bool = False
    reasons: Mapping[str, Any] = Field(default_factory=dict, exclude=True, repr=False)
    unread: Mapping[str, Any] = Field(default_factory=dict, exclude=True, repr=False)


class Numbered:
    """Ids for questions without one: conversation and position in it.

    A question that stands in its conversation twice gets two ids.
    """

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()

    def of(self, conversation: str, question: str) -> str:
        """Return the id of the next question of this wording."""
        # By its words: files of two systems need not have the same order.
        # Halves of characters, as in files cut by bytes, have no UTF-8.
        digest = sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        self._seen[conversation, question] += 1
        count = self._seen[conversation, question]
        return f"{conversation}/{digest}" + (f"-{count}" if count > 1 else "")


class _FirstFault(FailFast):
    """Ends the reading of a list at its first fault; hashable, as adapters are cached by kind."""

    def __hash__(self) -> int:
        return hash(type(self))


Listed = Annotated[list[T], _FirstFault()]
"""A list within a row or a file: its first fault ends the reading."""
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:[^\n]*\n)*?size (\d{1,15})\b"
)


class Foreign(BaseModel):
    """A part of a third-party file; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    @property
    def unread(self) -> dict[str, Any]:
        """The fields that are not read, by their names."""
        return self.model_extra or {}


def _as_text(value: object) -> object:
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return value
    return str(value) if isinstance(value, int | float) else value


Text = Annotated[str, BeforeValidator(_as_text)]
"""A text that some files write as a number: years, counts, categories."""


def unless_empty(value: object) -> object:
    """Return None for a text of white space alone, else the value."""
    return None if isinstance(value, str) and not value.strip() else value


Score = Annotated[float | None, BeforeValidator(unless_empty)]
"""A verdict as a number; the empty text and null stand where a judge failed."""


def first_of(facts: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return the first of these facts that is known."""
    return next((str(facts[name]) for name in names if facts.get(name)), None)


def refuse_off_scale(score: object, path: Path, field: str) -> None:
    """Refuse a score that is no number from 0 to 1; None stands for none.

    Raises:
        DataError: Names the field.
    """
    if score is not None and not (isinstance(score, int | float) and 0 <= score <= 1):
        raise DataError("not a score from 0 to 1", path=path, field=field)


def read_file(path: Path, kind: Any) -> Any:
    """Read a whole JSON file, gzipped or not, as `kind`.

    Raises:
        UsageError: If there is no such file.
        DataError: If it is not JSON, or not of that form; names the line, or the field.
    """
    return _validated(_parsed(read_text(path), path, None), kind, path, None)


def read_rows(path: Path, kind: Any) -> list[Any]:
    """Read a file of rows as `kind`: JSON Lines, where blank lines are skipped, or one JSON list.

    Raises:
        UsageError: If there is no such file.
        DataError: If a line is not JSON, or not of that form; names the line and the field.
    """
    content = read_text(path)
    if content.lstrip().startswith("["):
        listed: list[Any] = _validated(_parsed(content, path, None), list[kind], path, None)
        return listed
    rows = []
    # not splitlines: a text may hold other separators, which JSON does not escape
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            rows.append(_validated(_parsed(line, path, number), kind, path, number))
    return rows


def read_tree(path: Path) -> Any:
    """Read a JSON file of any form; JSON Lines are a list.

    Raises:
        UsageError: If there is no such file.
        DataError: If it is not JSON; names the line.
    """
    content = read_text(path)
    lines = [(n, line) for n, line in enumerate(content.split("\n"), start=1) if line.strip()]
    first = lines[0][1].strip() if lines else ""
    if len(lines) > 1 and first.startswith("{") and first.endswith("}"):
        return [_parsed(line, path, number) for number, line in lines]
    return _parsed(content, path, None)


def read_text(path: Path) -> str:
    """Read a whole file of text, gzipped or not.

    Raises:
        UsageError: If there is no such file.
        DataError: If it is no UTF-8, or a pointer to a file elsewhere.
    """
    try:
        content = _read_packed(path)
        # Repositories keep large result files in Git LFS: a download without it is three lines of
        # text.
        if (pointer := _POINTER.match(content)) is not None:
            size = f"{int(pointer[1]):,} bytes"
            fault = f"a Git LFS pointer to a file of {size}; fetch that file with git lfs pull"
            raise DataError(fault, path=path)
        refuse_encoding(content[:HEAD], path)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError("not UTF-8", path=path) from error


def _read_packed(path: Path) -> bytes:
    """Read a file, gzipped or not.

    Raises:
        UsageError: If it can't be opened.
        DataError: If it is too large, or damaged; names both sizes.
    """
    try:
        with path.open("rb") as file:
            first = file.read(_CHUNK)
            packed = first.startswith(_GZIP)
            # A few kilobytes of gzip can unpack to gigabytes.
            largest = LARGEST_PACKED if packed else LARGEST_FILE
            body = Body("gzip" if packed else "", largest)
            while first:
                body.add(first)
                first = file.read(_CHUNK)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except TooLarge as error:
        unpacked = " unpacked" if packed else ""
        raise DataError(f"{error}{unpacked}; split it into several files", path=path) from error
    except Unreadable as error:
        raise DataError(_DAMAGED, path=path) from error
    if not body.is_whole:
        raise DataError(_DAMAGED, path=path)
    return bytes(body.data)


def _parsed(text: str, path: Path, line: int | None) -> Any:
    if not text.strip():
        raise DataError("the file is empty; export it again", path=path)
    try:
        # By itself `json` keeps the last of two equal keys, and drops an answer in silence.
        return parse_json(text, object_pairs_hook=each_key_once)
    except TwiceError as error:
        fault = f"the key {error.key[:80]!r} is repeated in one object; keep one"
        raise DataError(fault, path=path, line=line) from error
    except json.JSONDecodeError as error:
        if line is None and error.msg == "Extra data":
            fault = "JSON Lines, one object per line; this format needs one JSON value"
            raise DataError(fault, path=path, line=error.lineno) from error
        raise DataError(f"not JSON ({error.msg})", path=path, line=line or error.lineno) from error
    except TooMuchError as error:
        raise DataError(str(error), path=path, line=line) from error
    except ValueError as error:
        # Python converts no more than 4,300 digits.
        raise DataError("a number has thousands of digits", path=path, line=line) from error


def _validated(node: Any, kind: Any, path: Path, line: int | None) -> Any:
    try:
        return _as_kind(node, kind, ())
    except _MisfitError as misfit:
        field = ".".join(map(str, misfit.place)) or None
        raise DataError(str(misfit), path=path, line=line, field=field) from misfit


class _MisfitError(Exception):
    """A value has not the form that is read; names its place."""

    def __init__(self, place: tuple[str | int, ...], fault: str) -> None:
        super().__init__(fault)
        self.place = place


def _as_kind(node: Any, kind: Any, place: tuple[str | int, ...]) -> Any:
    """Return `node` as `kind`, element by element: the first that does not fit ends it.

    An adapter of the whole would note every fault, and a file of six kilobytes may hold millions.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is list and isinstance(node, list):
        return [_as_kind(one, inner[0], (*place, at)) for at, one in enumerate(node)]
    if origin is dict and isinstance(node, dict):
        return {key: _as_kind(one, inner[1], (*place, key)) for key, one in node.items()}
    try:
        return _adapter(kind).validate_python(node)
    except ValidationError as error:
        if error.error_count() > _MOST_FAULTS:
            raise _MisfitError(place, f"has {error.error_count():,} faults") from None
        first = error.errors(include_url=False)[0]
        message = _MESSAGES.get(first["type"]) or in_words(first)
        raise _MisfitError((*place, *first["loc"]), message) from error


@lru_cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
