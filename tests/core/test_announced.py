"""Limits that a server announces with its answers: used up, awaited, and hardly passed."""

import asyncio
import math
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from alps.llm.client import Client, Endpoint
from alps.llm.types import Reply, Request
from tests.loopback import Answer, asked_over_http, serve
from tests.virtual_time import Bucket, NoLedger, Windows, in_virtual_time, rejection

MANY = 1_300


def judged(number: int, api_base: str | None = None) -> Request[None]:
    question = {"role": "user", "content": str(number)}
    return Request[None]("openai/judge", (question,), None, api_base=api_base)


@dataclass
class Window:
    """Takes `most` requests in `seconds`, and says with each answer what is left, and until when.

    What it rejects is told to come again after a second, which is too soon.
    """

    most: int
    seconds: float
    began: float | None = None
    taken: int = 0
    rejected: int = 0

    def __post_init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Answer:
        with self.lock:
            now = time.monotonic()
            if self.began is None or now >= self.began + self.seconds:
                self.began, self.taken = now, 0
            if self.taken >= self.most:
                self.rejected += 1
                return Answer(status=429, headers={"Retry-After": "1"})
            self.taken += 1
            told = {
                "x-ratelimit-remaining-requests": str(self.most - self.taken),
                "x-ratelimit-reset-requests": f"{self.began + self.seconds - now:.3f}s",
            }
            return Answer("Yes.", headers=told)


@pytest.mark.release
def test_a_window_that_is_used_up_is_awaited_and_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    window = Window(most=60, seconds=6.0)

    async def ask(url: str) -> list[str]:
        ledger: Any = NoLedger()
        client = Client(concurrency=8, ledger=ledger, cache=None)
        asking = (client.complete(judged(number, url)) for number in range(90))
        return [completion.outcome for completion in await asyncio.gather(*asking)]

    with serve(window) as server:
        assert asked_over_http(ask(server.url)) == ["ok"] * 90
    assert window.rejected <= 1


@dataclass
class Told(Windows):
    """Tells with its answers what is left of a window; lowers it at a time, if at all."""

    rounded: Any = float
    lowered_at: float = math.inf

    def __call__(self, now: float) -> Any:
        if now >= self.lowered_at:
            self.most = 300
        return super().__call__(now)

    def left(self, now: float) -> tuple[float, float]:
        until = self.seconds - (now + self.offset) % self.seconds
        return max(0, self.most - self.taken), self.rounded(until)


@dataclass
class ToldBucket(Bucket):
    """A bucket that tells how many requests it holds, and when it will be full."""

    def left(self, now: float) -> tuple[float, float]:
        return int(self.tokens), (self.most - self.tokens) / self.rate


def minutes_of(server: Any, latency: tuple[float, float]) -> list[Counter[bool]]:
    """Ask `MANY` questions; return by minute what was taken and what was rejected."""
    counts: dict[int, Counter[bool]] = {}
    drawn = random.Random(0)

    async def ask() -> None:
        endpoint, loop = Endpoint.of(concurrency=None, patience=1800.0), asyncio.get_running_loop()

        async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
            refused = server(loop.time())
            minute = int((loop.time() + getattr(server, "offset", 0.0)) // 60)
            counts.setdefault(minute, Counter())[refused is None] += 1
            told = server.left(loop.time())  # of when it was taken, and heard later
            await asyncio.sleep(0.02 if refused else drawn.uniform(*latency))
            if refused:
                raise rejection(1.0)
            endpoint.limiter.told(*told)
            return Reply("Yes.")

        ledger: Any = NoLedger()
        client = Client(concurrency=None, ledger=ledger, cache=None, send=send, endpoint=endpoint)
        await asyncio.gather(*(client.complete(judged(number)) for number in range(MANY)))

    random.seed(0)
    in_virtual_time(ask())
    return [counts.get(minute, Counter()) for minute in range(1 + max(counts))]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "server",
    [
        pytest.param(Told(600, 60), id="600 a minute"),
        pytest.param(Told(600, 60, 37), id="by the clock"),
        pytest.param(Told(600, 60, rounded=math.floor), id="seconds cut off"),
        pytest.param(Told(600, 60, rounded=math.ceil), id="seconds rounded up"),
        pytest.param(Told(100, 10), id="100 in 10 s"),
        pytest.param(Told(600, 60, lowered_at=50), id="lowered to 300"),
    ],
)
def test_announced_windows_are_used_and_not_passed(server: Told):
    minutes = minutes_of(server, (0.4, 1.8))
    assert sum(minute[False] for minute in minutes) <= 0.02 * MANY
    for minute in minutes[1:-1]:
        most = 300 if server.lowered_at < math.inf else 600
        assert minute[True] >= 0.9 * most


def test_a_bucket_that_tells_when_it_is_full_is_asked_as_fast_as_it_fills_up():
    minutes = minutes_of(ToldBucket(rate=10, most=600), (0.05, 0.1))
    assert sum(minute[True] for minute in minutes[:1]) >= 0.9 * 1_200
    assert sum(minute[False] for minute in minutes) <= 0.05 * MANY
