"""An event loop whose clock moves only when everybody waits: hours pass in a moment."""

import asyncio
import itertools
import random
import selectors
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from unittest import mock

from alps.llm.client import Client
from alps.llm.ledger import Call, Totals
from alps.llm.types import Completion, Reply, Request, TransportError

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


@dataclass
class Outage:
    """Answers everything by `status` for a while, and hands on the rest."""

    status: int
    begins: float
    ends: float
    other: Callable[[float], Verdict] = lambda now: None

    def __call__(self, now: float) -> Verdict:
        return failure(self.status) if self.begins <= now < self.ends else self.other(now)


@dataclass(frozen=True)
class Fared:
    """How many requests were answered, lost and rejected, and the seconds that it took."""

    answered: int
    lost: int
    rejected: int
    seconds: float
    completions: tuple[Completion[Any], ...]


def asked(
    server: Callable[[float], Verdict],
    count: int,
    *,
    concurrency: int | None = None,
    latency: tuple[float, float] = (0.4, 1.8),
    workers: int = 400,
    seed: int = 0,
    **options: Any,
) -> Fared:
    """Ask a server `count` questions as the engine does."""
    drawn = random.Random(seed)
    ledger = NoLedger()

    async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        verdict = server(asyncio.get_running_loop().time())
        if verdict is not None:
            await asyncio.sleep(0.02)
            raise verdict
        await asyncio.sleep(drawn.uniform(*latency))
        return Reply("Yes.")

    async def all_of_them() -> Fared:
        client = Client(concurrency=concurrency, ledger=ledger, cache=None, send=send, **options)  # type: ignore[arg-type]
        waiting, completions = iter(range(count)), []

        async def work() -> None:
            for number in waiting:
                question = {"role": "user", "content": str(number)}
                completions.append(await client.complete(Request("openai/tiny", (question,), None)))

        await asyncio.gather(*(work() for _ in range(workers)))
        answered = sum(completion.outcome == "ok" for completion in completions)
        rejected = sum(call.status != 200 for call in ledger.calls)
        seconds = asyncio.get_running_loop().time()
        return Fared(answered, count - answered, rejected, seconds, tuple(completions))

    random.seed(seed)
    return in_virtual_time(all_of_them())
