import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from alps.llm.limiter import Limiter

T = TypeVar("T")


class Crowd:
    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter
        self.running = self.peak = 0
        self.started: list[int] = []

    async def enter(self, number: int, stay: Callable[[], Awaitable[Any]]) -> None:
        async with self.limiter:
            self.running += 1
            self.peak = max(self.peak, self.running)
            self.started.append(number)
            try:
                await stay()
            finally:
                self.running -= 1

    async def all_enter(self, count: int) -> None:
        await asyncio.gather(
            *(self.enter(number, lambda: asyncio.sleep(0.001)) for number in range(count))
        )


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def finish(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 300))


def advance(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    now = loop.time() + seconds
    monkeypatch.setattr(loop, "time", lambda: now)


@pytest.mark.parametrize("most", [0, -1])
def test_less_than_one_at_once_is_refused(most: int):
    with pytest.raises(ValueError, match=f"most must be >= 1, got {most}"):
        Limiter(most)


@pytest.mark.parametrize("most", [1, 3, 64])
def test_as_many_run_at_once_as_allowed_and_no_more(most: int):
    crowd = Crowd(Limiter(most))
    finish(crowd.all_enter(100))
    assert crowd.peak == most
    assert crowd.running == 0


def test_who_came_first_starts_first():
    crowd = Crowd(Limiter(2))
    finish(crowd.all_enter(10))
    assert crowd.started == list(range(10))


def test_a_429_halves_what_runs_at_once():
    async def throttled() -> Crowd:
        crowd = Crowd(Limiter(8))
        crowd.limiter.throttled(None)
        await crowd.all_enter(40)
        return crowd

    assert finish(throttled()).peak == 4


@pytest.mark.parametrize(("answered", "left"), [(1, 4), (6, 4), (7, 6.8), (20, 6.8)])
def test_a_429_halves_before_a_whole_round_was_answered_and_gives_way_a_little_after_it(
    answered: int, left: float
):
    async def throttled() -> float:
        limiter = Limiter(8)
        for _ in range(answered):
            limiter.succeeded()
        limiter.throttled(None)
        return limiter.allowed

    assert finish(throttled()) == pytest.approx(left)


def test_a_burst_of_429s_halves_once():
    async def burst() -> float:
        limiter = Limiter(8)
        for _ in range(8):
            limiter.throttled(None)
        return limiter.allowed

    assert finish(burst()) == 4


def test_a_429_after_the_burst_halves_again(monkeypatch: pytest.MonkeyPatch):
    async def two_bursts() -> float:
        limiter = Limiter(8)
        limiter.throttled(None)
        advance(asyncio.get_running_loop(), monkeypatch, 60)
        limiter.throttled(None)
        return limiter.allowed

    assert finish(two_bursts()) == 2


def test_one_request_is_always_allowed(monkeypatch: pytest.MonkeyPatch):
    async def many_bursts() -> float:
        limiter = Limiter(3)
        for _ in range(10):
            advance(asyncio.get_running_loop(), monkeypatch, 60)
            limiter.throttled(None)
        async with limiter:
            return limiter.allowed

    assert finish(many_bursts()) == 1


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

    heights = finish(recovering())
    assert heights[0] == 4
    assert heights[-1] == 8
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

    assert int(finish(at_work())) == after


def test_successes_never_allow_more_than_most():
    limiter = Limiter(3)
    for _ in range(100):
        limiter.succeeded()
    assert limiter.allowed == 3


def test_places_regained_are_used():
    async def recovered() -> Crowd:
        crowd = Crowd(Limiter(8))
        crowd.limiter.throttled(None)
        for _ in range(60):
            crowd.limiter.succeeded()
        await crowd.all_enter(40)
        return crowd

    assert finish(recovered()).peak == 8


def test_nothing_starts_before_the_time_the_server_asked_for():
    async def paused() -> list[float]:
        limiter, loop = Limiter(2), asyncio.get_running_loop()
        starts: list[float] = []

        async def one() -> None:
            async with limiter:
                starts.append(loop.time())

        async with limiter:
            async with limiter:
                early = [asyncio.ensure_future(one()) for _ in range(3)]
                await settle()
                limiter.throttled(0.1)
                asked = loop.time()
            late = [asyncio.ensure_future(one()) for _ in range(3)]
        await asyncio.gather(*early, *late)
        return [start - asked for start in starts]

    waited = finish(paused())
    assert len(waited) == 6
    assert min(waited) >= 0.1
    assert max(waited) < 1


@pytest.mark.parametrize(("first", "second"), [(0.12, 0.01), (0.01, 0.12)])
def test_the_longer_of_two_waits_counts(first: float, second: float):
    async def paused_twice() -> float:
        limiter, loop = Limiter(4), asyncio.get_running_loop()
        limiter.throttled(first)
        limiter.throttled(second)
        asked = loop.time()
        async with limiter:
            return loop.time() - asked

    assert 0.11 < finish(paused_twice()) < 1


def test_a_429_without_a_time_does_not_stop_the_others():
    async def throttled() -> bool:
        limiter = Limiter(4)
        limiter.throttled(None)
        async with asyncio.timeout(0.2), limiter:
            return True

    assert finish(throttled())


def test_a_waiter_that_is_cancelled_frees_its_place():
    async def one_leaves() -> list[int]:
        crowd, leave = Crowd(Limiter(1)), asyncio.Event()
        first = asyncio.ensure_future(crowd.enter(1, leave.wait))
        await settle()
        second, third = (asyncio.ensure_future(crowd.enter(number, settle)) for number in (2, 3))
        await settle()
        second.cancel()
        await settle()
        leave.set()
        await asyncio.wait_for(asyncio.gather(first, third), 300)
        await asyncio.wait_for(crowd.enter(4, settle), 300)
        return crowd.started

    assert finish(one_leaves()) == [1, 3, 4]


def test_a_waiter_cancelled_just_when_its_turn_comes_passes_the_place_on():
    async def one_leaves() -> list[int]:
        crowd, leave = Crowd(Limiter(1)), asyncio.Event()
        first = asyncio.ensure_future(crowd.enter(1, leave.wait))
        await settle()
        second, third = (asyncio.ensure_future(crowd.enter(number, settle)) for number in (2, 3))
        await settle()
        first.add_done_callback(lambda _: second.cancel())
        leave.set()
        await asyncio.wait_for(asyncio.gather(first, third), 300)
        await asyncio.wait_for(crowd.enter(4, settle), 300)
        return crowd.started

    assert finish(one_leaves())[-2:] == [3, 4]


def test_a_waiter_cancelled_in_the_same_step_as_it_is_let_in_passes_the_place_on():
    async def one_leaves() -> list[int]:
        crowd = Crowd(Limiter(1))
        async with crowd.limiter:
            second, third = (
                asyncio.ensure_future(crowd.enter(number, settle)) for number in (2, 3)
            )
            await settle()
        second.cancel()
        await asyncio.wait_for(third, 300)
        await asyncio.wait_for(crowd.enter(4, settle), 300)
        return crowd.started

    assert finish(one_leaves()) == [3, 4]


def test_all_waiters_cancelled_leave_every_place_free():
    async def all_leave() -> int:
        crowd = Crowd(Limiter(3))
        tasks = [
            asyncio.ensure_future(crowd.enter(number, lambda: asyncio.sleep(9)))
            for number in range(20)
        ]
        await settle()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        crowd.peak = 0
        await crowd.all_enter(9)
        return crowd.peak

    assert finish(all_leave()) == 3


def test_a_request_that_fails_gives_its_place_back():
    async def fail(crowd: Crowd) -> None:
        async def stumble() -> None:
            raise OSError("the line is dead")

        await asyncio.gather(
            *(crowd.enter(number, stumble) for number in range(10)), return_exceptions=True
        )
        crowd.peak = 0
        await crowd.all_enter(10)

    crowd = Crowd(Limiter(2))
    finish(fail(crowd))
    assert crowd.peak == 2
