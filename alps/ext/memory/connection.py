"""A connection to a memory system: each call is timed, ends, and names a cause if it fails.

Answers are read by type. One that is not of the type is a failure of the stage that asked for it.
Nothing else of it reaches the suite, so no odd answer ends a run.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from alps.ext.adapters.python_class import Caller, attribute, end_of
from alps.ext.memory.protocol import LONGEST_ID, Hit, MemorySystem, Opening, Settled
from alps.schema import Outcome
from alps.sizes import LARGEST_TEXT, check_size
from alps.systems.base import Tracebacks, described, one_line

METHODS = ("open", "ingest", "settle", "search", "reset")
TIMED_OUT = "no answer within"
OPTIONAL = ("memories", "forget", "respond", "size", "close")
PARAMETERS = {
    "ingest": ("user", "session"),
    "settle": ("user", "timeout"),
    "search": ("user", "query", "k", "at"),
    "forget": ("user", "what"),
    "respond": ("user", "query", "at"),
}
"""The names of arguments as programs and servers are sent them; all others take a user alone."""
# Seconds; a system that hangs in `close` must not keep a finished run from ending
_CLOSING_TIME = 10.0
_QUOTED = 80

MOST_HITS = 100_000
"""Hits in one answer: a system that lists all memories of a user has fewer."""
# A program may send a number of 400 digits, which no float holds.
_LARGEST_NUMBER = 2**63

ModelT = TypeVar("ModelT", bound=BaseModel)


def beginning(value: object) -> str:
    """Return the type and the first 80 characters of what is in the wrong form."""
    text = value if isinstance(value, str) else repr(value)
    return f"{type(value).__name__} {one_line(text[:_QUOTED])!r}"


def shaped(model: type[ModelT], value: Any, where: str) -> ModelT:
    """Read a part of an answer that has a form.

    Raises:
        ValueError: If it has not; names the field, which is `where` or within it.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        # Without the input, which may be megabytes or hold a user's text.
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, (where, *first["loc"])))
        message = str(first["msg"]).removeprefix("Value error, ")
        raise ValueError(f"{field}: {message}") from error


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected a non-empty string")
    # Halves of characters, which broken escapes bring in, can be neither sent nor written.
    whole = value.encode(errors="replace")
    check_size(len(whole), LARGEST_TEXT, "the text")
    return whole.decode()


def _name(value: object) -> str:
    """Read an id or a time, which may be a number; or, from a class, an object of its own."""
    if isinstance(value, bool) or not isinstance(value, str | Real | UUID | date):
        raise ValueError(f"expected a string or a number, got {beginning(value)}")
    text = str(number(value) if isinstance(value, Real) else value)
    if len(text) > LONGEST_ID:
        raise ValueError(f"{len(text):,} characters, but at most {LONGEST_ID} are allowed")
    return text.encode(errors="replace").decode()


def number(value: object) -> int | float:
    """Return a number, one of numpy among them, as Python's own.

    Raises:
        ValueError: If it is none, infinite, or beyond 2^63.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"expected a number, got {beginning(value)}")
    read: Any = value
    if not -_LARGEST_NUMBER < read < _LARGEST_NUMBER:  # nan, too
        raise ValueError("expected a finite number below 2^63")
    return int(read) if isinstance(value, Integral) else float(read)


def _names(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    # A text is a sequence as well: each of its letters would be a source.
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise ValueError(f"expected a list, got {beginning(value)}")
    return tuple(map(_name, value))


_Name = Annotated[str, BeforeValidator(_name)]


class _HitRow(BaseModel):
    """One hit as a system gives it; what else it says of it is not read."""

    model_config = ConfigDict(extra="ignore")

    text: Annotated[str, BeforeValidator(_text)]
    id: _Name
    score: Annotated[float, BeforeValidator(number)] | None = None
    created_at: _Name | None = None
    sources: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()


def _read_hits(value: Any) -> list[Hit]:
    """Read what a search returned: hits, or rows with `text` (or `content`) and an `id`.

    Raises:
        ValueError: If it is something else; names the field.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise ValueError(f"expected a list of hits, got {beginning(value)}")
    if len(value) > MOST_HITS:
        raise ValueError(f"{len(value):,} hits; at most {MOST_HITS:,} are allowed")
    return [_read_hit(row, f"hits[{number}]") for number, row in enumerate(value)]


def _read_hit(row: Any, where: str) -> Hit:
    if isinstance(row, Hit):
        row = vars(row)
    if not isinstance(row, Mapping):
        raise ValueError(f"{where}: expected an object, got {beginning(row)}")
    fields = {name: row[name] for name in _HitRow.model_fields if name in row}
    # Servers of `POST /search` call it `content`; a class may return their rows unchanged.
    fields.setdefault("text", row.get("content"))
    # Without ids nobody can tell a repeated hit, or which memory an update rewrote.
    if fields.get("id") is None:
        raise ValueError(f"{where}.id: missing")
    return Hit(**vars(shaped(_HitRow, fields, where)))


def _read_settled(value: Any) -> Settled:
    if not isinstance(value, str) or value not in ("ready", "pending", "failed"):
        raise ValueError(f"expected 'ready', 'pending' or 'failed', got {beginning(value)}")
    return value  # type: ignore[return-value]


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "search": _read_hits,
    "memories": _read_hits,
    "settle": _read_settled,
    "size": number,
}


class MemoryFailed(Exception):
    """A memory system failed in one stage; says in which, and why.

    Its outcome is `invalid`, or that of a model which it asked and which was not heard.
    """

    def __init__(self, stage: str, why: str, *, outcome: Outcome = "invalid") -> None:
        super().__init__(f"memory, {stage}: {why}")
        self.stage, self.why, self.outcome = stage, why, outcome


def require_ready(settled: Any, timeout: float) -> None:
    """Refuse an answer to `settle` other than `ready`.

    Raises:
        MemoryFailed: Says what was answered.
    """
    if settled != "ready":
        reply = f"returned {settled!r:.200} instead of 'ready'"
        raise MemoryFailed("settle", f"{reply} (timeout: {timeout:g} s)")


@dataclass(frozen=True)
class MemoryReply:
    """What a call returned, by type as `answered` reads it, and how many seconds it took."""

    value: Any
    seconds: float


def answered(method: str, value: Any, seconds: float) -> MemoryReply:
    """Return what a call returned, by type, or None where nobody uses that; ends every call.

    Raises:
        MemoryFailed: If it is not of the type; names the field.
    """
    read = _READERS.get(method)
    try:
        return MemoryReply(None if read is None else read(value), seconds)
    except ValueError as error:
        raise MemoryFailed(method, one_line(str(error))) from error
    except Exception as error:  # an object of the user's own may raise whenever it is looked at
        why = f"the returned value can't be read: {type(error).__name__}"
        raise MemoryFailed(method, one_line(why)) from error


class MemoryConnection(Protocol):
    """A memory system that is called over some transport.

    Attributes:
        can: The names of the methods that it has.
        persistent: Whether it finds again in its folder what it had settled.
        settings: What it says of itself; written into the manifest.
        declaring: How it declares that it does without checks; `{}` stands for their names.
        begun: How often it was begun, where a process that ends is begun again: then it knows no
            more than what its folder holds.
    """

    can: frozenset[str]
    persistent: bool
    settings: Mapping[str, Any]
    declaring: str

    @property
    def begun(self) -> int: ...  # noqa: D102 - an attribute, described above

    async def call(self, method: str, *arguments: Any, timeout: float) -> MemoryReply:
        """Call a method.

        Raises:
            MemoryFailed: If it raised, or did not end in time.
        """
        ...

    async def aclose(self) -> None:
        """End what was opened."""
        ...


class ClassConnection:
    """A memory system that is an object of this process.

    Plain methods run in a thread, one call at a time; `async` ones beside each other.

    Args:
        system: The object.
        settings: What it says of itself; None to ask it.
        key: The setting that names it, as messages say it.
        tracebacks: The file that keeps what it raises; None for nowhere.
    """

    begun = 1
    declaring = 'settings = {{"declares": {}}} in the class'

    def __init__(
        self,
        system: MemorySystem,
        *,
        settings: Mapping[str, Any] | None = None,
        key: str = "memory",
        tracebacks: Path | None = None,
    ) -> None:
        self._system = system
        self._tracebacks = Tracebacks(tracebacks)
        self._caller = Caller()
        self._turn = asyncio.Lock()
        there = (name for name in (*METHODS, *OPTIONAL) if attribute(system, name, key, callable))
        self.can = frozenset(there)
        self.persistent = attribute(system, "persistent", key, bool)
        self.settings = dict(getattr(system, "settings", {})) if settings is None else settings

    async def call(self, method: str, *arguments: Any, timeout: float) -> MemoryReply:
        """Call a method of the object."""
        function, error = end_of(lambda: getattr(self._system, method))
        if error is not None:
            raise MemoryFailed(method, f"raised {described(error)}") from error
        # A plain method may keep state without locks, so one at a time; `async` ones expect others.
        in_thread = not inspect.iscoroutinefunction(function)
        async with self._turn if in_thread else nullcontext():
            # Inside the lock: waiting for another call is no time of the system.
            started = time.perf_counter()
            made = partial(function, *arguments)
            ended = await self._caller.call(made, timeout, in_thread=in_thread)
        if ended is None:
            raise MemoryFailed(method, f"{TIMED_OUT} {timeout:g} s")
        value, error = ended
        if error is not None:
            self._tracebacks.keep(error, about=f"memory, {method}")
            raise MemoryFailed(method, f"raised {described(error)}") from error
        return answered(method, value, time.perf_counter() - started)

    async def aclose(self) -> None:
        """Close the object, where it can be; what it raises changes no result."""
        if "close" in self.can:
            with suppress(MemoryFailed):
                # All results are written by now, so neither an error nor a hang may change them.
                await self.call("close", timeout=_CLOSING_TIME)
        self._caller.stop()


def named(method: str, arguments: Sequence[Any]) -> dict[str, Any]:
    """Return the arguments of a call by name and as plain JSON, as programs are sent them."""
    if method == "open":
        opening: Opening = arguments[0]
        return {**asdict(opening), "folder": str(opening.folder)}
    names = PARAMETERS.get(method, ("user",))
    row = dict(zip(names, arguments, strict=True))
    if method == "ingest":
        row["session"] = asdict(row["session"])
    return row
