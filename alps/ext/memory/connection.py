"""A connection to a memory system: each call is timed, ends, and names a cause if it fails."""

import asyncio
import inspect
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from alps.ext.adapters.python_class import Caller, attribute, end_of
from alps.ext.memory.answers import read_answer
from alps.ext.memory.protocol import MemorySystem, Opening
from alps.schema import Outcome
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


class MemoryFailed(Exception):
    """A memory system failed in one stage; says in which, and why.

    Its outcome is `invalid`, or that of a model which it asked and which was not heard.
    """

    def __init__(self, stage: str, why: str, *, outcome: Outcome = "invalid") -> None:
        super().__init__(f"memory, {stage}: {why}")
        self.stage, self.why, self.outcome = stage, why, outcome


@dataclass(frozen=True)
class MemoryReply:
    """What a call returned, by type as `read_answer` gives it, and how many seconds it took."""

    value: Any
    seconds: float


def answered(method: str, value: Any, seconds: float) -> MemoryReply:
    """Return what a call returned, by type; every connection ends a call with it.

    Raises:
        MemoryFailed: If it is not of the type.
    """
    try:
        return MemoryReply(read_answer(method, value), seconds)
    except ValueError as error:
        raise MemoryFailed(method, one_line(str(error))) from error


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
        in_thread = not inspect.iscoroutinefunction(function)
        async with self._turn if in_thread else nullcontext():
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
