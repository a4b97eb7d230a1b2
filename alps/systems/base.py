"""The protocol of a system, its answers read, and exceptions of the user's own code kept."""

import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from alps.llm.secrets import masked, redact
from alps.llm.types import Completes
from alps.schema import Prediction
from alps.tasks import Task

TRACEBACKS, STDERR = "tracebacks.log", "program.stderr.log"
# Tracebacks that are kept, and characters of each
_MOST, _LONGEST = 20, 20_000
_ERROR_LENGTH = 2_000


class System(Protocol):
    """Something that answers samples, of one task or of several.

    One that holds something open has an `aclose`, after which it can be asked again. One that can't
    answer all data has a `check_data`, which gets the `RunData` of a run before it begins.

    Attributes:
        name: What the user called it.
        settings: Everything that can change its answers; written into the manifest.
    """

    name: str
    settings: Mapping[str, Any]

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Answer what `task` asks about `sample`; a failure is a `Prediction`, no exception."""
        ...


@dataclass(frozen=True)
class Place:
    """Where a system works, and how long.

    Attributes:
        timeout: Seconds that it may take for one sample.
        folder: Where a program's stderr is kept, and what a class raises; None for nowhere.
        env: Variables of the environment that a program gets, too.
        id_key: Makes the ids that the user's own code is shown; None where it is shown those of the
            data.
        tasks: What it is asked.
    """

    timeout: float = 120.0
    folder: Path | None = None
    env: Sequence[str] = ()
    id_key: str | None = None
    tasks: Sequence[Task] = ()

    @property
    def tracebacks(self) -> Path | None:
        """The file of what is raised."""
        return None if self.folder is None else self.folder / TRACEBACKS


def on_client(system: System, client: Completes) -> System | None:
    """Return `system` with its requests going to `client`.

    None where that can't be done, so that nobody knows its calls beforehand: a dry run starts no
    program and no class of the user's, and an extension's system may have no `on(client)`.
    """
    on = getattr(system, "on", None)
    moved: System | None = None if on is None else on(client)
    return moved


class Tracebacks:
    """Keeps what is raised in a file, with secrets masked.

    Of exceptions of one type from one line only the first is kept, and 20 in all: a system that
    fails on every one of a thousand records fails in the same place.

    Args:
        path: The file, which is begun at the first exception and continued when a run goes on; None
            for nowhere.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen: set[tuple[str, str, int | None]] = set()

    def keep(self, error: BaseException, *, about: str) -> None:
        """Write down the traceback of `error`, which was raised about the record `about`."""
        frames = traceback.extract_tb(error.__traceback__)
        file, line = (frames[-1].filename, frames[-1].lineno) if frames else ("", None)
        origin = type(error).__name__, file, line
        if self._path is None or origin in self._seen or len(self._seen) == _MOST:
            return
        self._seen.add(origin)
        text = redact(masked(f"{about}:\n{_formatted(error)[-_LONGEST:]}\n"))
        with suppress(OSError), self._path.open("ab") as log:  # a full disk must not end the run
            log.write(text.encode(errors="replace"))


def described(error: BaseException) -> str:
    """Return an exception on one line, with secrets masked: `ValueError: its message`."""
    try:
        message = str(error)
    except BaseException:  # an exception may raise when it is asked for its message
        message = ""
    return one_line(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def one_line(text: str) -> str:
    """Return `text` on one line of at most 2,000 characters, with secrets masked."""
    return " ".join(redact(masked(text)).split())[:_ERROR_LENGTH]


def _formatted(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:  # as above, or a chain of causes that is too deep
        return "".join(traceback.format_tb(error.__traceback__))
