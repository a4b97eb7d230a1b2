"""How many requests run at once and when: limits, 429s and outages in virtual time, so that hours
take no time.
"""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from alps.errors import QuotaError, UsageError
from alps.llm import Client, Request
from alps.llm.client import Endpoint
from alps.llm.limiter import Limiter
from alps.llm.retries import as_time, seconds_of
from alps.llm.types import Reply, TransportError
from tests.desk import EXTRACTED, GOOD, QUESTION, Desk
from tests.endtoend import one_line, run
from tests.loopback import serve
from tests.virtual_time import (
    Bucket,
    NoLedger,
    Outage,
    Verdict,
    Windows,
    asked,
    failure,
    in_virtual_time,
    rejection,
)
from tests.visitors import good, is_judging, write_visitors

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


@pytest.mark.parametrize("most", [0, -1])
def test_less_than_one_at_once_is_refused(most: int):
    with pytest.raises(ValueError, match=f"most must be >= 1, got {most}"):
        Limiter(most)


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


@pytest.mark.parametrize("make", FULL.values(), ids=FULL)
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


# What a client makes of servers without Retry-After, rate limits and outages

SERVERS: dict[str, tuple[Callable[[], Any], int, int, float]] = {
    "bucket": (lambda: Bucket(10, 10), 1_000, 150, 130),
    "bucket, Retry-After": (lambda: Bucket(10, 10, retry_after=1.0), 1_000, 150, 130),
    "600 a minute": (lambda: Windows(600, 60), 2_000, 600, 220),
    "60 a minute": (lambda: Windows(60, 60), 300, 300, 280),
    "60 a minute, by the clock": (lambda: Windows(60, 60, offset=40), 300, 300, 280),
    "60 a minute, Retry-After": (lambda: Windows(60, 60, 23, retry_after=60), 254, 66, 310),
    "529 for 90 s": (lambda: Outage(529, 10, 100, Bucket(10, 10)), 1_000, 200, 270),
    "503 for 300 s": (lambda: Outage(503, 2, 302), 600, 100, 390),
    "503 from the first request on": (lambda: Outage(503, 0, 300), 600, 120, 390),
}


@pytest.mark.parametrize("concurrency", [None, 64], ids=["auto", "64 at once"])
@pytest.mark.parametrize(("server", "count", "rejected", "seconds"), SERVERS.values(), ids=SERVERS)
def test_nothing_is_lost_and_little_is_rejected(server, count, rejected, seconds, concurrency):
    fared = asked(server(), count, concurrency=concurrency, workers=128 if concurrency else 400)
    assert fared.lost == 0
    assert fared.rejected <= rejected
    assert fared.seconds <= seconds


@pytest.mark.parametrize("concurrency", [None, 64], ids=["auto", "64 at once"])
def test_slow_answers_regain_their_places_in_time(concurrency: int | None):
    fared = asked(Bucket(10, 10), 2_000, concurrency=concurrency, latency=(10.0, 30.0))
    assert fared.lost == 0
    assert fared.seconds <= 800  # 64 at once with answers of 20 s take 630 without any limit


def outcomes_in(
    send: Any, count: int, *, workers: int = 8, concurrency: int | None = 4, **options: Any
) -> tuple[list[str], float]:
    """Return what came of each question, and the seconds that all of them took."""

    async def all_of_them() -> tuple[list[str], float]:
        asking: Any = {"concurrency": concurrency, "ledger": NoLedger(), "send": send, **options}
        client = Client(cache=None, **asking)
        waiting, heard = iter(range(count)), [""] * count

        async def work() -> None:
            for number in waiting:
                message = {"role": "user", "content": str(number)}
                completion = await client.complete(Request("openai/tiny", (message,), None))
                heard[number] = completion.outcome

        await asyncio.gather(*(work() for _ in range(workers)))
        return heard, asyncio.get_running_loop().time()

    return in_virtual_time(all_of_them())


def outcomes(send: Any, count: int, **options: Any) -> list[str]:
    return outcomes_in(send, count, **options)[0]


class Counted:
    """Counts the requests under way; with `serial`, they are answered one after another."""

    def __init__(self, *, serial: bool) -> None:
        self.under_way = self.most = 0
        self.serial, self.turn = serial, asyncio.Lock()

    async def __call__(self, request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        if self.serial:
            async with self.turn:
                await asyncio.sleep(0.1)
        else:
            await asyncio.sleep(1.0)
        self.under_way -= 1
        return Reply("Yes.")


@pytest.mark.parametrize(("count", "most", "at_once"), [(2_000, None, 200), (12, None, 12),
                                                        (2_000, 40, 40)])  # fmt: skip
def test_as_many_run_at_once_as_are_answered_as_soon(count: int, most: int | None, at_once: int):
    server = Counted(serial=False)
    outcomes(server, count, workers=400, concurrency=most)
    assert server.most == at_once


def test_no_more_run_at_once_where_they_would_wait_at_the_server():
    server = Counted(serial=True)
    outcomes(server, 1_000, workers=400, concurrency=None)
    assert server.most <= 64


class SlowLedger(NoLedger):
    """Its rows are flushed while the request that failed still has its place."""

    async def flushed(self) -> None:
        await asyncio.sleep(0.05)


def test_a_short_outage_is_over_soon_and_met_by_one_probe_at_a_time():
    sent: list[float] = []

    async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        sent.append(asyncio.get_running_loop().time())
        since = sent[-1] - sent[0]
        await asyncio.sleep(0.02)
        if since < 4:
            raise failure(503)
        return Reply("Yes.")

    assert outcomes(send, 5, workers=5, concurrency=None, ledger=SlowLedger()) == ["ok"] * 5
    assert len([when for when in sent[5:] if when - sent[0] < 4]) <= 3
    assert sent[-1] - sent[0] <= 12


def test_an_outage_that_outlasts_the_patience_costs_no_hours_and_few_requests():
    fared = asked(Outage(503, 0, 1e9), 1_000, patience=600.0)
    assert fared.answered == 0
    assert 600 <= fared.seconds <= 700
    assert fared.rejected <= 250
    errors = [str(one.error) for one in fared.completions]
    assert any("not asked: the endpoint has not answered for 10 min" in error for error in errors)
    fared = asked(Outage(503, 0, 1e9), 20, patience=45.0)
    assert any("has not answered for 45 s" in str(one.error) for one in fared.completions)


def test_records_after_the_outage_are_answered_though_it_outlasted_the_patience():
    fared = asked(Outage(503, 20, 400, Bucket(1, 1)), 400, patience=60.0, concurrency=8, workers=16)
    assert 0 < fared.answered < 400


def test_the_time_that_a_server_asks_for_takes_nothing_of_the_patience():
    refused = iter([rejection(60.0)] * 3)

    async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        for error in refused:
            raise error
        return Reply("Yes.")

    assert outcomes(send, 1, patience=100.0) == ["ok"]


def test_what_is_waited_for_is_said_once():
    said: list[str] = []
    assert asked(Outage(503, 0, 300), 100, notice=said.append).lost == 0
    (line,) = said
    assert line.startswith("openai/tiny has not answered for ")
    assert "patience=" in line


def always_raising(error: TransportError, tries: list[str], seconds: float = 0.0) -> Any:
    async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        await asyncio.sleep(seconds)
        if messages[0]["content"] == "0":
            tries.append("0")
            raise error
        return Reply("Yes.")

    return send


HUNG = TransportError("no answer within 120 s", transient=True, status=408)
UNREADABLE = TransportError("unreadable", transient=True, status=200, billed=True)


@pytest.mark.parametrize(
    ("error", "least", "most", "count"),
    [(failure(500), 8, 9, 500), (HUNG, 3, 3, 1), (UNREADABLE, 3, 3, 1)],
    ids=["fails while others are answered", "hung, may be billed", "unreadable, may be billed"],
)
def test_one_request_that_always_fails_is_given_up_in_time(error, least, most, count):
    tries: list[str] = []
    assert outcomes(always_raising(error, tries, 1.0), count)[0] == "transport"
    assert least <= len(tries) <= most


def test_a_timeout_in_hundreds_of_requests_takes_little_of_the_throughput():
    met: set[str] = set()
    took = 0.0

    async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        nonlocal took
        number = messages[0]["content"]
        hangs = int(number) % 400 == 200 and number not in met
        met.add(number)
        seconds = 15.0 if hangs else 1.0
        await asyncio.sleep(seconds)
        took += seconds
        if hangs:
            raise TransportError("no answer within 15 s", transient=True, status=408)
        return Reply("Yes.")

    fared, seconds = outcomes_in(send, 6_000, workers=64, concurrency=64)
    assert set(fared) == {"ok"}
    assert seconds <= 1.15 * took / 64


def test_a_server_at_which_too_many_wait_is_asked_less():
    places: list[asyncio.Semaphore] = []

    async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        if not places:
            places.append(asyncio.Semaphore(16))
        try:
            async with asyncio.timeout(15), places[0]:
                await asyncio.sleep(1.0)
        except TimeoutError as error:
            raise TransportError("late", transient=True, status=408) from error
        return Reply("Yes.")

    # 240 are answered in time.
    assert set(outcomes(send, 3_000, workers=512, concurrency=512)) == {"ok"}


def test_one_request_that_hangs_holds_up_none_of_the_others(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("alps.llm.retries._backoff", lambda _: 0.0)
    answered: list[int] = []

    async def send(request: Request[Any], _: object) -> Reply:
        if request.repeat == 3:
            await asyncio.Event().wait()
        answered.append(request.repeat)
        return Reply(GOOD, "stop")

    requests = [Request("any/model", QUESTION, EXTRACTED, repeat=n) for n in range(40)]
    completions = desk.ask_all(*requests, send=send, concurrency=4, timeout=0.2)
    assert [n for n, completion in enumerate(completions) if completion.outcome != "ok"] == [3]
    assert len(answered) == 39
    assert max(n for n, row in enumerate(desk.rows) if row["outcome"] == "ok") < len(desk.rows) - 2


def failing_alike(status: int, **changes: Any) -> Any:
    async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        text = f"BadRequestError: Invalid model name (request req_{messages[0]['content']}7)"
        raise TransportError(text, transient=False, status=status, **changes)

    return send


def test_errors_that_stay_end_the_run_and_those_of_single_records_do_not():
    alike = r"'openai/tiny': the first 3 requests failed alike.*Invalid model name"
    with pytest.raises(UsageError, match=alike):
        outcomes(failing_alike(400), 20)
    with pytest.raises(QuotaError):
        outcomes(failing_alike(402, fatal=QuotaError("no money left")), 20)
    for kind in ("too_long", "refused"):
        assert outcomes(failing_alike(400, **{kind: True}), 20) == [kind] * 20


def test_errors_after_an_answer_end_no_run():
    async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        if messages[0]["content"] == "0":
            return Reply("Yes.")
        await asyncio.sleep(1.0)
        raise TransportError("bad", transient=False, status=400)

    assert outcomes(send, 6) == ["ok", *["transport"] * 5]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.5, "0.5 s"), (90, "90 s"), (1800, "30 min"), (5400, "90 min"), (86400, "24 h"),
     (1e7, "2777.8 h")],
)  # fmt: skip
def test_a_time_is_written_as_it_is_read(seconds, said):
    assert as_time(seconds) == said
    assert seconds_of(said) == pytest.approx(seconds, rel=1e-4)


# Limits of requests a minute, that the user names or that only rejections or answers tell

MANY, MOST = 1_500, 600


@dataclass
class Sliding:
    """Takes `most` requests in any `seconds`."""

    most: int
    seconds: float
    taken: deque[float] = field(default_factory=deque)

    def __call__(self, now: float) -> Verdict:
        while self.taken and self.taken[0] <= now - self.seconds:
            self.taken.popleft()
        if len(self.taken) >= self.most:
            return rejection(1.0)
        self.taken.append(now)
        return None

    def left(self) -> int:
        return self.most - len(self.taken)

    def opens_in(self, now: float) -> float:
        return self.taken[0] + self.seconds - now


@dataclass
class Fixed(Windows):
    """Takes `most` requests in each window of `seconds`, and knows what is left of it."""

    def left(self) -> int:
        return self.most - self.taken

    def opens_in(self, now: float) -> float:
        return self.seconds - (now + self.offset) % self.seconds


def asked_together(send: Any, endpoint: Endpoint, count: int, clients: int = 1) -> Any:
    """Ask all the questions at once, shared out among the clients of one endpoint."""
    shared: Any = {"concurrency": None, "ledger": NoLedger(), "cache": None, "send": send}
    asking = [Client(endpoint=endpoint, **shared) for _ in range(clients)]
    questions = []
    for number in range(count):
        question = Request[None]("openai/m", ({"role": "user", "content": str(number)},), None)
        questions.append(asking[number % clients].complete(question))
    return asyncio.gather(*questions)


LIMITS: dict[str, Callable[[], Any]] = {
    "any minute": lambda: Sliding(MOST, 60),
    "minutes by the clock": lambda: Windows(MOST, 60, 37),
    "a small bucket": lambda: Bucket(rate=10, most=10),
}


@pytest.mark.parametrize("server", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("clients", [1, 4])
def test_a_limit_that_is_known_is_used_and_not_passed_though_no_answer_tells_it(server, clients):
    drawn, times, takes, rejected = random.Random(0), [], server(), []

    async def ask() -> None:
        endpoint, loop = Endpoint.of(concurrency=None, patience=1800.0), asyncio.get_running_loop()
        for least in (2 * MOST, MOST, None):  # the least of several holds
            endpoint.limiter.keep_to(least)

        async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
            times.append(loop.time())
            refused = takes(loop.time())
            await asyncio.sleep(drawn.uniform(0.4, 1.8))
            if refused:
                rejected.append(refused)
                raise refused
            return Reply("Yes.")

        await asked_together(send, endpoint, MANY, clients)

    in_virtual_time(ask())
    assert len(rejected) <= 0.02 * MANY
    assert (len(times) - 1) / (times[-1] - times[0]) >= 0.9 * MOST / 60


def minutes_of(
    server: Any,
    retry_after: str,
    *,
    tells: bool,
    latency: tuple[float, float],
    costs: float = 0.0005,
) -> list[Counter[bool]]:
    """Ask 2,500 questions; return by minute how many requests were taken and rejected."""
    drawn, minutes = random.Random(0), [Counter[bool]() for _ in range(60)]

    async def ask() -> None:
        endpoint, loop = Endpoint.of(concurrency=None, patience=1800.0), asyncio.get_running_loop()

        async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
            refused = server(loop.time())
            minutes[int(loop.time() // 60)][refused is None] += 1
            left, wait = server.left(), server.opens_in(loop.time())
            await asyncio.sleep(0.02 if refused else drawn.uniform(*latency))
            if tells:
                endpoint.limiter.told(left, wait)
            if refused:
                asks = {"when it opens": wait, "a second": 1.0, "nothing": None}
                raise rejection(asks[retry_after])
            return Reply("Yes.")

        await asked_together(send, endpoint, 2_500)

    random.seed(0)
    in_virtual_time(ask(), costs=costs)
    return [minute for minute in minutes if minute]


@pytest.mark.parametrize(
    ("retry_after", "latency"),
    [("when it opens", (0.4, 1.8)), ("a second", (2.0, 6.0)), ("nothing", (2.0, 6.0))],
)
@pytest.mark.parametrize(
    ("server", "passed"),
    [(lambda: Fixed(MOST, 60), 0.02), (lambda: Sliding(MOST, 60), 0.06)],
    ids=["minutes by the clock", "any minute"],
)
def test_a_limit_that_only_rejections_tell_is_found_used_and_hardly_passed(
    server, passed, retry_after, latency
):
    minutes = minutes_of(server(), retry_after, tells=False, latency=latency)
    # The first minute finds the limit, and the fifth is left with what is over.
    assert sum(minute[True] for minute in minutes[1:4]) >= 0.9 * 3 * MOST
    assert max(minute.total() for minute in minutes[1:4]) <= (1 + passed) * MOST
    assert sum(minute[False] for minute in minutes) <= 0.05 * 2_500


@pytest.mark.parametrize(
    ("retry_after", "latency", "costs"),
    [("when it opens", (0.4, 1.8), 0.0005), ("a second", (2.0, 6.0), 0.0005),
     ("nothing", (0.4, 1.8), 0.004)],
)  # fmt: skip
def test_a_sliding_minute_that_answers_tell_is_used_and_hardly_passed(retry_after, latency, costs):
    server = Sliding(MOST, 60)
    minutes = minutes_of(server, retry_after, tells=True, latency=latency, costs=costs)
    assert sum(minute[True] for minute in minutes[1:4]) >= 0.9 * 3 * MOST
    assert sum(minute[False] for minute in minutes) <= 0.05 * 2_500


@pytest.mark.parametrize("engine", [(), ("engine=processes", "workers=2")], ids=["one", "several"])
def test_a_judge_is_asked_no_faster_than_the_user_says_and_the_model_as_before(tmp_path, engine):
    write_visitors(tmp_path / "data", 12)
    asked: dict[bool, list[float]] = {True: [], False: []}

    def answer(body: dict[str, Any]) -> Any:
        asked[is_judging(body)].append(time.monotonic())
        return good(body)

    with serve(answer) as model, serve(answer) as judge:
        done = run(
            tmp_path, "run", "task=extraction", "data=data", "model=openai/m", "judge=openai/j",
            f"api_base={model.url}", f"judge_api_base={judge.url}", "judge_requests_per_minute=240",
            "baseline_records=0", "out=out", *engine, OPENAI_API_KEY="none",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    judged, answered = sorted(asked[True]), sorted(asked[False])
    assert (len(judged), len(answered)) == (12, 12)
    # A step of a quarter of a second after each but the first of every worker, who share the limit;
    # but for what a late timer may catch up with.
    assert judged[-1] - judged[0] >= (12 - max(1, len(engine))) * 0.25 - 0.2


@pytest.mark.parametrize("setting", ["requests_per_minute=60", "judge_requests_per_minute=60"])
def test_a_limit_of_what_is_not_asked_is_refused(tmp_path, setting):
    refused = run(tmp_path, "run", "task=extraction", "model=rules", "data=samples", setting)
    assert setting.partition("=")[0] in one_line(refused)
