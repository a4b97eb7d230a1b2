"""An event loop whose clock moves only when everybody waits: hours pass in a moment."""

import asyncio
import itertools
import selectors
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from unittest import mock

from alps.llm.ledger import Call, Totals
from alps.llm.types import TransportError

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("everybody waits for nothing")
        self.now += max(0.0, timeout)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def in_virtual_time(work: Awaitable[T], *, costs: float = 0.0005) -> T:
    """Run `work`; each request takes `costs` seconds of the processor, whatever it really takes.

    Requests start that far apart, so that by real seconds no two runs would be alike.
    """
    readings = itertools.count(step=costs)
    with (
        mock.patch.object(time, "process_time", readings.__next__),
        asyncio.Runner(loop_factory=_Loop) as runner,
    ):
        return runner.run(_awaited(work))


async def _awaited(work: Awaitable[T]) -> T:
    return await work


class NoLedger:
    """Keeps calls in memory."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.totals = Totals()

    def record(self, call: Call) -> None:
        self.calls.append(call)

    async def flushed(self) -> None:
        """Have nothing to write."""


Verdict = TransportError | None
"""What a server makes of a request: an error at once, or an answer after its latency."""


def rejection(retry_after: float | None = None) -> TransportError:
    return TransportError("slow down", transient=True, status=429, retry_after=retry_after)


def failure(status: int) -> TransportError:
    return TransportError("down", transient=True, status=status)


@dataclass
class Bucket:
    """Fills up by `rate` a second, to `most`."""

    rate: float
    most: float
    retry_after: float | None = None
    tokens: float = field(init=False)
    filled: float = 0.0

    def __post_init__(self) -> None:
        self.tokens = self.most

    def __call__(self, now: float) -> Verdict:
        self.tokens = min(self.most, self.tokens + (now - self.filled) * self.rate)
        self.filled = now
        if self.tokens < 1:
            return rejection(self.retry_after)
        self.tokens -= 1
        return None


@dataclass
class Windows:
    """Takes `most` requests in each window of `seconds`; the first is cut short by `offset`."""

    most: int
    seconds: float
    offset: float = 0.0
    retry_after: float | None = None
    window: int = -1
    taken: int = 0

    def __call__(self, now: float) -> Verdict:
        window = int((now + self.offset) // self.seconds)
        if window != self.window:
            self.window, self.taken = window, 0
        if self.taken >= self.most:
            return rejection(self.retry_after)
        self.taken += 1
        return None
