"""Scripts of a sample on a memory system: ingest, delete, reopen, search."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from alps.ext.memory.connection import (
    MemoryConnection,
    MemoryFailed,
    MemoryReply,
    require_ready,
)
from alps.ext.memory.journal import Diary
from alps.ext.memory.protocol import Hit, Opening, session_of, stamp
from alps.llm.secrets import masked
from alps.schema import Turn
from alps.tasks.by_memory import Forget, Ingest, Search, Step

# A program that crashes at the same step each time would else be started for ever.
_ATTEMPTS = 5
"""How often a script is carried out while the system ends and is begun anew."""


class Gate:
    """Lets users ingest and search in parallel, but not while a system is reopened."""

    def __init__(self) -> None:
        self._inside = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Wait until nobody has exclusive use."""
        async with self._changed:
            self._inside += 1
        try:
            yield
        finally:
            async with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait for all others, and keep them waiting."""
        async with self._changed:
            # The lock stays held: all who want to enter wait until the system is open again.
            await self._changed.wait_for(lambda: self._inside == 0)
            yield


@dataclass
class _ScriptRun:
    """How far a script has come.

    Attributes:
        key: Of its sample.
        begun: Of which beginning of the system what it was told is.
        told: The turns that each user has told.
        sessions: The numbers of the sessions that those are of.
        changes: How often each user told or deleted something.
    """

    key: str
    begun: int
    told: defaultdict[str, list[Turn]] = field(default_factory=lambda: defaultdict(list))
    sessions: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    changes: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        return " ".join(turn.text for turns in self.told.values() for turn in turns)


class BegunAnewError(Exception):
    """The system ended and was begun anew, and may have lost what it was told."""


class Scripts:
    """Carries out scripts once each; all other calls of the system pass `gate`, too.

    Attributes:
        opening: What the system was opened with, set before the first script.
    """

    opening: Opening

    def __init__(
        self, connection: MemoryConnection, diary: Diary, *, k: int, timeout: float
    ) -> None:
        self.gate = Gate()
        self._connection, self._diary = connection, diary
        self._k, self._timeout = k, timeout
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._failed: dict[str, MemoryFailed] = {}

    def found(self, key: str, steps: Sequence[Step]) -> list[list[Hit]] | None:
        """Return what each search of the sample `key` found; None until all were made."""
        found = []
        for name in _names(key, steps):
            hits = self._diary.hits(name)
            if hits is None:
                return None
            found.append(hits)
        return found

    async def play(self, key: str, steps: Sequence[Step]) -> list[list[Hit]]:
        """Run or resume a script, and return the hits of each search.

        Raises:
            MemoryFailed: If the system failed at a step.
        """
        async with self._locks[key]:
            # The same sample of a second repeat would feed a failed user once more.
            if key in self._failed:
                raise self._failed[key]
            try:
                await self._play(key, steps)
            except MemoryFailed as failed:
                self._failed[key] = failed
                raise
        found = self.found(key, steps)
        assert found is not None
        return found

    async def _play(self, key: str, steps: Sequence[Step]) -> None:
        for attempt in range(_ATTEMPTS):
            with suppress(BegunAnewError):
                run = _ScriptRun(key, self._connection.begun)
                await self._begin(run, steps, again=attempt > 0)
                await self._carry_out(run, steps)
                return
        raise MemoryFailed(
            "open", f"the program ended {_ATTEMPTS} times during ingest and search of one user"
        )

    async def _begin(self, run: _ScriptRun, steps: Sequence[Step], *, again: bool) -> None:
        """Have users forgotten of whom the system may know a part, which would be told twice."""
        if not (again or self._diary.goes_on):
            return
        for number in sorted({step.user for step in steps if isinstance(step, Ingest)}):
            user = self._user(run, number)
            if self._kept(user) == 0:
                async with self._beside(run):
                    await self._call("reset", user)

    async def _carry_out(self, run: _ScriptRun, steps: Sequence[Step]) -> None:
        names = _names(run.key, steps)
        for step in steps:
            if isinstance(step, Search):
                await self._search(run, next(names), step)
            elif isinstance(step, Ingest | Forget):
                await self._change(run, step)
            # Without files a system would be empty after it, which it never claimed to survive.
            elif self._connection.persistent:
                async with self.gate.alone():
                    answered = await self._call("open", self.opening)
                self._diary.note("open", "", answered.seconds)

    @asynccontextmanager
    async def _beside(self, run: _ScriptRun) -> AsyncIterator[None]:
        """Let users be told and asked beside each other, and notice where the system ended."""
        async with self.gate.beside():
            if self._connection.persistent:
                run.begun = self._connection.begun
            try:
                yield
            except MemoryFailed as failed:
                # What a system that was begun anew does not know is no failure at this user.
                if run.begun != self._connection.begun:
                    raise BegunAnewError from failed
                raise
            if run.begun != self._connection.begun:
                raise BegunAnewError

    def _user(self, run: _ScriptRun, number: int = 0) -> str:
        return self._diary.user(f"{run.key} {number}")

    def _kept(self, user: str) -> int:
        """Return how many changes of a user the system has kept from before it was begun."""
        return self._diary.settlings(user) if self._connection.persistent else 0

    async def _change(self, run: _ScriptRun, step: Ingest | Forget) -> None:
        """Have a user tell or delete something, and wait until it has come into effect."""
        user = self._user(run, step.user if isinstance(step, Ingest) else 0)
        # Without the method a user can only say it, as a user of the product would.
        asked = isinstance(step, Ingest) or "forget" not in self._connection.can
        if asked:
            run.told[user] += step.turns
            run.sessions[user].add(step.session)
        run.changes[user] += 1
        # Settled before a kill: sent again, a deleted fact could come back or be stored twice.
        if run.changes[user] <= self._kept(user):
            return
        async with self._beside(run):
            if isinstance(step, Forget) and not asked:
                changed = await self._call("forget", user, step.what)
            else:
                session = session_of(step.turns, step.session - 1)
                changed = await self._call("ingest", user, session)
            settled = await self._call("settle", user, self._timeout)
        require_ready(settled.value, self._timeout)
        if asked:
            self._diary.note("ingest", user, changed.seconds, session=f"s{step.session}")
        else:
            self._diary.note("forget", user, changed.seconds)
        told = len(run.told[user])
        self._diary.note_settled(user, settled.seconds, told, len(run.sessions[user]))

    async def _search(self, run: _ScriptRun, name: str, step: Search) -> None:
        if self._diary.hits(name) is not None:
            return
        user = self._user(run)
        at = stamp(max(run.sessions[user]), 0)
        async with self._beside(run):
            answered = await self._call("search", user, step.query, self._k, at)
        hits = hits_of(answered.value, lambda: f"{step.query} {run.text()}")
        self._diary.note_hits(name, user, answered.seconds, hits)

    async def _call(self, method: str, *arguments: Any) -> MemoryReply:
        return await self._connection.call(method, *arguments, timeout=self._timeout)


def _names(key: str, steps: Sequence[Step]) -> Iterator[str]:
    """Yield what each search of a script is called in the diary."""
    searches = [step for step in steps if isinstance(step, Search)]
    for number in range(1, len(searches) + 1):
        yield f"{key} {number}"


def hits_of(hits: Sequence[Hit], known: Callable[[], str]) -> list[Hit]:
    """Return hits without keys of the environment that `known` texts don't have."""
    # A system may repeat a key that stands in its environment.
    return [replace(hit, text=masked(hit.text, known)) for hit in hits]
