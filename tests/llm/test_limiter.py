"""How many requests run at once and when, in virtual time: places, 429s, pauses, waiters."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from alps.llm.limiter import Announced, Limiter
from tests.few import few
from tests.virtual_time import in_virtual_time

INFINITE = float("inf")


class Crowd:
    """Requests that stay for a while where the limiter lets them in."""

    def __init__(self, most: int) -> None:
        self.limiter = Limiter(most)
        self.running = self.peak = 0
        self.started: list[int] = []
        self.starts: list[float] = []

    async def enter(self, number: int, stay: Callable[[], Awaitable[Any]]) -> None:
        async with self.limiter:
            self.running += 1
            self.peak = max(self.peak, self.running)
            self.started.append(number)
            self.starts.append(asyncio.get_running_loop().time())
            try:
                await stay()
            finally:
                self.running -= 1

    async def all_enter(self, count: int, seconds: float = 0.001) -> None:
        entering = (self.enter(n, lambda: asyncio.sleep(seconds)) for n in range(count))
        await asyncio.gather(*entering)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


LEVELS: dict[str, tuple[int, list[str | float], float]] = {
    "nothing yet": (3, [], 3),
    "one at a time": (1, [], 1),
    "nothing, many places": (64, [], 64),
    "a 429 before any answer halves": (8, ["429"], 4),
    "a 429 after one answer": (8, ["ok", "429"], 4),
    "a 429 before the round was answered": (8, ["ok"] * 6 + ["429"], 4),
    "a 429 after a whole round gives way a little": (8, ["ok"] * 7 + ["429"], 6.8),
    "a 429 after many rounds": (8, ["ok"] * 20 + ["429"], 6.8),
    "a burst is one signal": (8, ["429"] * 8, 4),
    "a 429 after the burst": (8, ["429", 60, "429"], 2),
    "one is always allowed": (3, [60, "429"] * 10, 1),
    "answers allow no more than most": (3, ["ok"] * 100, 3),
    "answers regain every place": (8, ["429"] + ["ok"] * 60, 8),
}


@pytest.mark.parametrize(("most", "events", "allowed"), LEVELS.values(), ids=LEVELS)
def test_as_many_run_at_once_as_429s_and_answers_leave(most, events, allowed):
    async def crowded() -> Crowd:
        crowd = Crowd(most)
        for event in events:
            if event == "ok":
                crowd.limiter.succeeded()
            elif event == "429":
                crowd.limiter.throttled(None)
            else:
                await asyncio.sleep(event)
        assert crowd.limiter.allowed == pytest.approx(allowed)
        await crowd.all_enter(100)
        return crowd

    crowd = in_virtual_time(crowded())
    assert (crowd.peak, crowd.running) == (int(allowed), 0)
    assert crowd.started == list(range(100))  # who came first starts first


def test_it_grows_back_by_one_per_round_of_successes():
    async def recovering() -> list[float]:
        limiter = Limiter(8)
        limiter.throttled(None)
        heights = [limiter.allowed]
        for _ in range(6):
            for _ in range(int(limiter.allowed) + 1):
                limiter.succeeded()
            heights.append(limiter.allowed)
        return heights

    heights = in_virtual_time(recovering())
    assert (heights[0], heights[-1]) == (4, 8)
    assert all(before < after <= before + 1.3 for before, after in pairwise(heights) if before < 8)


@pytest.mark.parametrize(("running", "after"), [(3, 4), (4, 5)])
def test_it_grows_only_while_every_place_is_taken(running: int, after: int):
    async def at_work() -> float:
        limiter = Limiter(8)
        limiter.throttled(None)
        async with AsyncExitStack() as places:
            for _ in range(running):
                await places.enter_async_context(limiter)
            for _ in range(5):
                limiter.succeeded()
        return limiter.allowed

    assert int(in_virtual_time(at_work())) == after


@pytest.mark.parametrize("waits", [(0.12, 0.01), (0.01, 0.12), (0.12,)])
def test_nothing_starts_before_the_longest_time_the_server_asked_for(waits: tuple[float, ...]):
    async def paused() -> list[float]:
        crowd = Crowd(2)
        async with crowd.limiter:
            async with crowd.limiter:
                early = asyncio.ensure_future(crowd.all_enter(3))
                await settle()
                for wait in waits:
                    crowd.limiter.throttled(wait)
            late = asyncio.ensure_future(crowd.all_enter(3))
        await asyncio.gather(early, late)
        return crowd.starts

    starts = in_virtual_time(paused())
    assert len(starts) == 6
    assert 0.12 <= min(starts) <= max(starts) < 1


def test_after_a_pause_not_everything_starts_at_once():
    async def paused() -> list[float]:
        crowd = Crowd(64)
        crowd.limiter.throttled(3)
        await crowd.all_enter(32, seconds=9)
        return crowd.starts

    starts = in_virtual_time(paused())
    assert (len(starts), min(starts)) == (32, 3)
    assert max(starts.count(start) for start in starts) <= 2
    assert max(starts) < 4


def test_a_429_that_names_no_time_waits_for_the_one_that_answers_told():
    async def paused() -> list[float]:
        crowd = Crowd(8)
        crowd.limiter.told(0, 4)
        crowd.limiter.throttled(None)
        await crowd.all_enter(4)
        return crowd.starts

    assert min(in_virtual_time(paused())) == 4


def test_an_answer_that_comes_late_tells_of_no_more_than_is_left():
    limit = Announced()
    for left, seconds, now in ((10, 60, 0), (4, 57, 3), (7, 57, 3.1)):
        limit.told(left, seconds, now)
    assert limit.left(4) == 4


def test_a_request_that_has_its_place_and_has_not_started_waits_too():
    async def held() -> float:
        limiter = Limiter(2)
        async with limiter:
            limiter.throttled(5)
            await limiter.pause_over()
            return asyncio.get_running_loop().time()

    assert in_virtual_time(held()) == 5


@pytest.mark.parametrize("when", ["while it waits", "when its turn comes", "as it is let in"])
def test_a_waiter_that_is_cancelled_passes_its_place_on(when: str):
    async def one_leaves() -> list[int]:
        crowd, leave = Crowd(1), asyncio.Event()
        first = asyncio.ensure_future(crowd.enter(1, leave.wait))
        await settle()
        second, third = (asyncio.ensure_future(crowd.enter(n, settle)) for n in (2, 3))
        await settle()
        if when == "while it waits":
            second.cancel()
            await settle()
        elif when == "when its turn comes":
            first.add_done_callback(lambda _: second.cancel())
        leave.set()
        if when == "as it is let in":
            await asyncio.sleep(0)
            second.cancel()
        await asyncio.gather(first, third)
        await crowd.enter(4, settle)
        return crowd.started

    started = in_virtual_time(asyncio.wait_for(one_leaves(), 300))
    assert started[-2:] == [3, 4]
    assert started == [1, 3, 4] or when != "while it waits"


def test_a_waiter_cancelled_in_the_step_in_which_a_place_is_freed_passes_it_on():
    async def one_leaves() -> list[int]:
        crowd = Crowd(1)
        async with crowd.limiter:
            second, third = (asyncio.ensure_future(crowd.enter(n, settle)) for n in (2, 3))
            await settle()
        second.cancel()
        await third
        await crowd.enter(4, settle)
        return crowd.started

    assert in_virtual_time(asyncio.wait_for(one_leaves(), 300)) == [3, 4]


async def _raise() -> None:
    raise OSError("the line is dead")


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_requests_that_end_badly_leave_every_place_free(end: str):
    async def all_leave() -> int:
        crowd = Crowd(3)
        stay = _raise if end == "failed" else lambda: asyncio.sleep(9)
        tasks = [asyncio.ensure_future(crowd.enter(n, stay)) for n in range(20)]
        await settle()
        for task in tasks if end == "cancelled" else ():
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        crowd.peak = 0
        await crowd.all_enter(9)
        return crowd.peak

    assert in_virtual_time(all_leave()) == 3


@dataclass
class Full:
    """A server that takes a second for each request, and says 429 to what is beyond its places or
    its rate.
    """

    places: float = INFINITE
    rate: float = INFINITE
    asks: float | None = 1.0
    limiter: Limiter = field(default_factory=lambda: Limiter(64))
    taken: int = 0
    stock: float = field(init=False)
    filled: float = 0.0
    paused_until: float = -1.0
    early: int = 0
    starts: list[tuple[float, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stock = self.rate

    def takes(self, now: float) -> bool:
        self.stock, self.filled = min(self.rate, self.stock + (now - self.filled) * self.rate), now
        return self.taken < self.places and self.stock >= 1

    async def request(self) -> bool:
        async with self.limiter:
            await self.limiter.pause_over()
            now = asyncio.get_running_loop().time()
            self.early += now < self.paused_until
            self.starts.append((now, self.takes(now)))
            if not self.starts[-1][1]:
                self.paused_until = max(self.paused_until, now + (self.asks or 0))
                self.limiter.throttled(self.asks)
                return False
            self.stock -= 1
            self.taken += 1
            await asyncio.sleep(1)
            self.taken -= 1
            self.limiter.succeeded()
            return True

    async def work_off(self, count: int) -> float:
        left = iter(range(count))

        async def work() -> None:
            for _ in left:
                while not await self.request():
                    await asyncio.sleep(self.asks or 0.2)

        await asyncio.gather(*(work() for _ in range(128)))
        return asyncio.get_running_loop().time()


FULL: dict[str, Callable[[], Full]] = {
    "4 places": lambda: Full(places=4),
    "16 places": lambda: Full(places=16),
    "40 places": lambda: Full(places=40),
    "40 a second": lambda: Full(rate=40),
    "10 a second": lambda: Full(rate=10),
    "16 places, never says how long": lambda: Full(places=16, asks=None),
}


@pytest.mark.parametrize("make", few(FULL, plain={"16 places", "40 a second"}))
def test_a_full_server_is_kept_busy_and_hardly_ever_asked_in_vain(make: Callable[[], Full]):
    server = make()
    seconds = in_virtual_time(server.work_off(int(60 * min(server.places, server.rate))))
    later = [taken for start, taken in server.starts if start > 5]
    assert 60 / seconds >= 0.8
    assert later.count(False) / len(later) <= 0.05
    assert server.early == 0


def test_a_429_now_and_then_does_not_keep_the_run_small():
    server = Full()

    async def disturbed() -> float:
        working = asyncio.ensure_future(server.work_off(64 * 100))
        for _ in range(5):
            await asyncio.sleep(15.5)
            server.limiter.throttled(1)
        return await working

    assert 100 / in_virtual_time(disturbed()) >= 0.75


def test_a_level_that_failed_is_left_alone_for_a_while_and_then_tried_again():
    server = Full(places=16)
    in_virtual_time(server.work_off(16 * 100))
    refused = [start for start, taken in server.starts if not taken and start > 5]
    assert 2 <= len(refused) <= 10
