"""Errors that the user can repair.

AlpsError                exit 2, one line: what, where, how to mend
├── UsageError           a key, a value or an option that was typed
│   └── CodeNotImportedError   a module that only a file names
├── DataError            a file that was given: names the file, the line and the field
├── RunFolderError       a run folder that can't be used as asked
│   └── FolderInUseError       another process holds it
├── CredentialError      a provider's key that is missing or was refused
├── QuotaError           a provider that lets nothing through for longer than a run should wait
├── BudgetError          exit 3: the money or the tokens allowed are spent
└── TooManyFailuresError exit 1: the run is finished, but more of it failed than may
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

_IN_WORDS = {
    **dict.fromkeys(("list_type", "tuple_type"), "expected a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "expected an object"),
    "string_type": "expected a text",
    "extra_forbidden": "unknown field",
    "missing": "missing",
}
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONGEST, _LONGEST_NAME, _MOST_NAMES = 2_000, 40, 10


class AlpsError(Exception):
    """A failure whose message is all that the user needs: it is printed without a traceback."""

    exit_code = 2


class UsageError(AlpsError):
    """Something typed on the command line, or in a config file, is not understood."""


class CodeNotImportedError(UsageError):
    """A file names the module of a task that the user did not type, so it is not imported.

    Args:
        name: The task as the file names it, `python:MODULE`.
    """

    def __init__(self, name: str) -> None:
        # The name is a stranger's: it must not steer the terminal that it is printed in.
        task = "task=" + "".join(sign if sign.isprintable() else "?" for sign in name[:100])
        why = "alps does not import code that is named only in a file"
        super().__init__(f"{task}: {why}; if you trust the code, add {task} to the command")


class DataError(AlpsError):
    """A data file says something that can't be read.

    Args:
        line: The line, counted from 1.
        field: The field, as a dotted path.
    """

    def __init__(
        self,
        message: str,
        *,
        path: Path | str | None = None,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        place = [str(path)] if path is not None else []
        if line is not None:
            place.append(f"line {line}")
        if field:
            place.append(field)
        super().__init__(f"{', '.join(place)}: {message}" if place else message)
        self.path, self.line, self.field = path, line, field


class RunFolderError(AlpsError):
    """A run folder belongs to another run, is in use, or can't be written."""


class FolderInUseError(RunFolderError):
    """Another process holds a folder."""


class CredentialError(AlpsError):
    """A provider's key is missing or was refused."""


class QuotaError(AlpsError):
    """A provider lets nothing through for longer than a run should wait."""


class BudgetError(AlpsError):
    """The run was stopped because what it may spend is spent."""

    exit_code = 3


class TooManyFailuresError(AlpsError):
    """A finished run of which a larger share than `max_failures` failed or is unscored."""

    exit_code = 1


def closest(word: str, known: Iterable[str]) -> str:
    """Return « — did you mean 'x'?» for the known word closest to `word`, or the empty string."""
    matches = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" — did you mean '{matches[0]}'?" if matches else ""


def in_words(fault: Mapping[str, Any]) -> str:
    """Say what pydantic found wrong with a value, one of its `errors()`, in words of users."""
    said = _IN_WORDS.get(fault["type"]) or str(fault["msg"]).removeprefix("Value error, ")
    given = fault.get("input")
    if fault["type"] == "missing" and isinstance(given, Mapping):
        # It often stands there under another name: `content` for `text`.
        names = (one_line(str(name))[:_LONGEST_NAME] for name in islice(given, _MOST_NAMES))
        return f"missing; it has {', '.join(names) or 'nothing'}"
    return said[:1].lower() + said[1:]


def first_fault(error: Any) -> tuple[str, str]:
    """Return what is wrong first by a pydantic ValidationError, and the field where."""
    first = error.errors(include_url=False)[0]
    return in_words(first), ".".join(map(str, first["loc"]))


def text_of(error: BaseException) -> str:
    """Return an exception as `ValueError: its message`."""
    try:
        message = str(error)
    except BaseException:  # an exception may raise when it is asked for its message
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def one_line(message: str) -> str:
    """Return a message on one line that steers no terminal; a very long one is cut."""
    line = _CONTROLS.sub("?", " ".join(message.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def shown(value: object) -> str:
    """Return a value as JSON text, shortened if it is long."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 80 else text[:79] + "…"


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what led to it, the first cause last."""
    # A chain of causes may lead back to its start.
    met: set[int] = set()
    while error is not None and id(error) not in met:
        met.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
