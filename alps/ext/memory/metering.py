"""Metering of a memory system: its model requests are counted by phase.

Calls of one phase run beside each other and never beside those of another, so a request belongs to
the phase that is under way. What a system asks in the background, once its call has returned,
counts for the phase that is under way by then.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from alps.ext.memory import CALLS
from alps.ext.memory.connection import MemoryConnection, MemoryFailed, MemoryReply
from alps.ext.memory.protocol import MeteredEndpoint
from alps.ext.memory.proxy import Behind, Metered, Proxy
from alps.jsonl import Appender
from alps.schema import UNHEARD


class Phases:
    """Lets calls of one phase at a time through, in the order in which they come."""

    def __init__(self) -> None:
        self.current = ""
        self._under_way = 0
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()

    async def enter(self, phase: str) -> None:
        """Wait for a turn; `leave` must follow."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((phase, turn))
        self._go_on()
        try:
            await turn
        # The turn may have come in the same moment; kept, it would block every other phase.
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """End a turn."""
        self._under_way -= 1
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting:
            phase, turn = self._waiting[0]
            # In order: later calls of the current phase don't overtake, or others would starve.
            if self._under_way and phase != self.current and not turn.cancelled():
                break
            self._waiting.popleft()
            if not turn.cancelled():
                self.current = phase
                self._under_way += 1
                turn.set_result(None)


class Meter:
    """Models of a memory system, and their usage, which is kept in the run folder."""

    def __init__(self, llm: Behind | None, embedder: Behind | None, *, folder: Path) -> None:
        self.phases = Phases()
        self._behind = llm, embedder
        self._file = Appender(folder / CALLS)
        self._unheard: list[MemoryFailed] = []
        self._proxy = Proxy(llm, embedder, note=self._note, about=lambda: self.phases.current)

    @property
    def endpoints(self) -> tuple[MeteredEndpoint | None, MeteredEndpoint | None]:
        """The LLM and the embedder that a system is given."""
        llm, embedder = self._behind
        return self._endpoint(llm), self._endpoint(embedder)

    @property
    def settings(self) -> Mapping[str, str]:
        """The names of the models, for the manifest."""
        llm, embedder = self._behind
        named = {"llm": llm, "embedder": embedder}
        return {name: behind.model for name, behind in named.items() if behind is not None}

    def _endpoint(self, behind: Behind | None) -> MeteredEndpoint | None:
        if behind is None:
            return None
        return MeteredEndpoint(self._proxy.api_base, self._proxy.key, behind.shown)

    def _note(self, metered: Metered) -> None:
        self._file.append({"phase": self.phases.current, **asdict(metered)})
        if metered.outcome in UNHEARD:
            why = f"no response from its model {metered.model} ({metered.outcome})"
            self._unheard.append(MemoryFailed(self.phases.current, why, outcome=metered.outcome))

    async def during(
        self, phase: str, connection: MemoryConnection, *call: Any, timeout: float
    ) -> MemoryReply:
        """Make a call of a system as part of a phase.

        Raises:
            AlpsError: If no later request of its can be answered.
            MemoryFailed: If it failed, or a model that it asked was not heard, whatever it made of
                that.
        """
        await self._proxy.start()
        await self.phases.enter(phase)
        before = len(self._unheard)
        try:
            answered = await connection.call(*call, timeout=timeout)
        except MemoryFailed as failed:
            raise self._cause(before) or failed from failed
        finally:
            self.phases.leave()
        # A system may swallow the failure and store nothing, which would be scored as its own.
        if (cause := self._cause(before)) is not None:
            raise cause
        return answered

    def _cause(self, before: int) -> Exception | None:
        """Return why the models failed a call that began when `before` requests had failed."""
        if self._proxy.fatal is not None:
            return self._proxy.fatal
        # Of calls at once nobody knows whose request failed. All of them stay unscored and are made
        # again when the run goes on.
        return self._unheard[-1] if len(self._unheard) > before else None

    async def aclose(self) -> None:
        """Answer no more requests."""
        await self._proxy.aclose()
        self._file.close()


class MeteredConnection:
    """A connection whose calls are metered: all as one phase, or each as that of its method."""

    def __init__(
        self, connection: MemoryConnection, meter: Meter, phase: str | None = None
    ) -> None:
        self._connection, self._meter, self._phase = connection, meter, phase
        self.declaring = connection.declaring
        self._look()

    def _look(self) -> None:
        """Take over what the system says of itself, which it may learn from a call."""
        system = self._connection
        self.can, self.persistent = system.can, system.persistent
        self.settings: Mapping[str, Any] = {**system.settings, **self._meter.settings}

    @property
    def begun(self) -> int:
        """How often the system was started."""
        return self._connection.begun

    async def call(self, method: str, *arguments: Any, timeout: float) -> MemoryReply:
        """Call a method of the system."""
        phase = self._phase or method
        try:
            return await self._meter.during(
                phase, self._connection, method, *arguments, timeout=timeout
            )
        finally:
            self._look()

    async def aclose(self) -> None:
        """Close the system, and the models that it was given."""
        try:
            await self._connection.aclose()
        finally:
            await self._meter.aclose()
