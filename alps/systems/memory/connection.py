"""A connection to a memory system: each call is timed, ends, and names a cause if it fails."""

import asyncio
import inspect
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from alps.systems.base import described
from alps.systems.memory.protocol import Hit, MemorySystem, Opening, Session

METHODS = ("open", "ingest", "settle", "search", "reset")
TIMED_OUT = "no answer within"
OPTIONAL = ("memories", "forget", "respond", "size", "close")


class MemoryFailed(Exception):
    """A memory system failed in one stage; says in which, and why."""

    def __init__(self, stage: str, why: str) -> None:
        super().__init__(f"memory, {stage}: {why}")
        self.stage = stage


@dataclass(frozen=True)
class Answered:
    """What a call returned, and how many seconds it took."""

    value: Any
    seconds: float


class Connection(Protocol):
    """A memory system that is called over some transport.

    Attributes:
        can: The names of the methods that it has.
        persistent: Whether it finds again in its folder what it had settled.
        settings: What it says of itself; written into the manifest.
    """

    can: frozenset[str]
    persistent: bool
    settings: Mapping[str, Any]

    async def call(self, method: str, *arguments: Any, timeout: float) -> Answered:
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

    Plain methods run in threads, one call at a time; `async` ones beside each other.
    """

    def __init__(self, system: MemorySystem) -> None:
        self._system = system
        self._turn = asyncio.Lock()
        methods = (*METHODS, *OPTIONAL)
        self.can = frozenset(name for name in methods if callable(getattr(system, name, None)))
        self.persistent = bool(getattr(system, "persistent", False))
        self.settings: Mapping[str, Any] = dict(getattr(system, "settings", {}))

    async def call(self, method: str, *arguments: Any, timeout: float) -> Answered:
        """Call a method of the object."""
        function = getattr(self._system, method)
        try:
            if inspect.iscoroutinefunction(function):
                started = time.perf_counter()
                value = await asyncio.wait_for(function(*arguments), timeout)
            else:
                async with self._turn:
                    started = time.perf_counter()
                    value = await asyncio.wait_for(asyncio.to_thread(function, *arguments), timeout)
        except TimeoutError as error:
            raise MemoryFailed(method, f"{TIMED_OUT} {timeout:g} s") from error
        except Exception as error:
            raise MemoryFailed(method, f"raised {described(error)}") from error
        return Answered(value, time.perf_counter() - started)

    async def aclose(self) -> None:
        """Close the object, where it can be."""
        if "close" in self.can:
            await self.call("close", timeout=30)


def read_hits(value: Any) -> list[Hit]:
    """Read what a search returned: hits, or rows with `text` (or `content`) and an `id`.

    Raises:
        ValueError: If it is something else; names the place.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise ValueError(f"expected a list of hits, got {type(value).__name__}")
    return [_read_hit(row, place) for place, row in enumerate(value)]


def _read_hit(row: Any, place: int) -> Hit:
    if isinstance(row, Hit):
        row = asdict(row)
    if not isinstance(row, Mapping):
        raise ValueError(f"hits[{place}]: expected an object, got {type(row).__name__}")
    text = row.get("text", row.get("content"))
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"hits[{place}].text: expected a text that is not empty")
    if row.get("id") is None:
        raise ValueError(f"hits[{place}].id: missing")
    score = row.get("score")
    if score is not None and not isinstance(score, int | float):
        raise ValueError(f"hits[{place}].score: expected a number")
    created = row.get("created_at")
    sources = tuple(str(source) for source in row.get("sources") or ())
    kept = None if score is None else float(score)
    return Hit(str(row["id"]), text, kept, None if created is None else str(created), sources)


def session_row(session: Session) -> dict[str, Any]:
    """Return a session as programs and servers are sent it."""
    return asdict(session)


def opening_row(opening: Opening) -> dict[str, Any]:
    """Return an opening as programs are sent it."""
    return {**asdict(opening), "folder": str(opening.folder)}
