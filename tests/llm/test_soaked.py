"""What a long run over a troubled server rests on: the limiter by a clock that needs no time, one
hang, two Ctrl-C.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from alps.llm.limiter import Limiter
from alps.llm.types import Reply, Request, TransportError
from tests.desk import EXTRACTED, GOOD, QUESTION, Desk
from tests.endtoend import end, finish, rows, run_cold, start_cold, task1, wait_until
from tests.visitors import write_visitors

T = TypeVar("T")


class _Selector:
    """Waits for nothing: the clock of its loop is put forward instead."""

    def __init__(self, loop: "Clockwork", selector: Any) -> None:
        self.loop, self.selector = loop, selector

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "nothing would ever happen again"
        self.loop.now += timeout
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.selector, name)


class Clockwork(asyncio.SelectorEventLoop):
    """A loop whose time passes only while all sleep, and then at once."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__()
        self._selector = _Selector(self, self._selector)

    def time(self) -> float:
        return self.now


def by_clockwork(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=Clockwork) as runner:
        return runner.run(asyncio.wait_for(work, 1_000))


@dataclass
class Full:
    """A server that takes a second for each request, and says 429 to what is beyond its places or
    its rate.
    """

    places: float = float("inf")
    rate: float = float("inf")
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


SERVERS: dict[str, Callable[[], Full]] = {
    "4 places": lambda: Full(places=4),
    "16 places": lambda: Full(places=16),
    "40 places": lambda: Full(places=40),
    "40 a second": lambda: Full(rate=40),
    "10 a second": lambda: Full(rate=10),
    "16 places, never says how long": lambda: Full(places=16, asks=None),
}


@pytest.mark.parametrize("name", SERVERS)
def test_a_full_server_is_kept_busy_and_hardly_ever_asked_in_vain(name: str):
    server = SERVERS[name]()
    capacity = min(server.places, server.rate)
    seconds = by_clockwork(server.work_off(int(60 * capacity)))
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

    assert 100 / by_clockwork(disturbed()) >= 0.75


def test_after_a_pause_not_everything_starts_at_once():
    async def paused() -> list[float]:
        limiter, loop = Limiter(64), asyncio.get_running_loop()
        starts: list[float] = []

        async def one() -> None:
            async with limiter:
                starts.append(loop.time())
                await asyncio.sleep(9)

        limiter.throttled(3)
        await asyncio.gather(*(one() for _ in range(32)))
        return starts

    starts = by_clockwork(paused())
    assert (len(starts), min(starts)) == (32, 3)
    assert max(starts.count(start) for start in starts) <= 2
    assert max(starts) < 4


def test_a_level_that_failed_is_left_alone_for_a_while_and_then_tried_again():
    async def probed() -> list[float]:
        server = Full(places=16)
        await server.work_off(16 * 100)
        return [start for start, taken in server.starts if not taken and start > 5]

    refused = by_clockwork(probed())
    assert 2 <= len(refused) <= 10


def test_a_request_that_has_its_place_and_has_not_started_waits_too():
    async def held() -> float:
        limiter, loop = Limiter(2), asyncio.get_running_loop()
        async with limiter:
            limiter.throttled(5)
            await limiter.pause_over()
            return loop.time()

    assert by_clockwork(held()) == 5


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


def test_what_waits_for_its_turn_starts_after_the_time_a_429_asked_for(desk: Desk):
    sent: list[float] = []

    async def send(*_: Any) -> Reply:
        sent.append(asyncio.get_running_loop().time())
        if len(sent) == 1:
            raise TransportError("slow down", transient=True, status=429, retry_after=0.3)
        return Reply(GOOD, "stop")

    requests = [Request("any/model", QUESTION, EXTRACTED, repeat=n) for n in range(6)]
    completions = desk.ask_all(*requests, send=send, concurrency=1)
    assert {completion.outcome for completion in completions} == {"ok"}
    assert sent[1] - sent[0] >= 0.3


SLOW = """
import asyncio, pathlib

class Slow:
    settings = {"version": 1}

    async def predict(self, sample):
        if pathlib.Path("stuck").exists() and "visitor 0." not in sample.dialogue[0].text:
            pathlib.Path("waiting").touch()
            await asyncio.sleep(60)
        return [{"value": "Lives in Lyon", "type": "direct"}]
"""


def test_ctrl_c_twice_ends_the_run_at_once_and_the_same_command_completes_it(tmp_path):
    write_visitors(tmp_path / "data", 12)
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    (tmp_path / "stuck").touch()
    words = (
        "run",
        "task=extraction",
        "model=python:slow:Slow",
        "data=data",
        "concurrency=2",
        "out=out",
    )
    predictions = tmp_path / "out" / "predictions.jsonl"
    process = start_cold(tmp_path, *words)
    try:
        wait_until(lambda: (tmp_path / "waiting").exists() or process.poll() is not None)
        wait_until(lambda: predictions.read_bytes().endswith(b"\n") or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)  # two that wait together are one
        process.send_signal(signal.SIGINT)
        first = finish(process, timeout=200)
    finally:
        end(process)
    done = rows(predictions)
    (tmp_path / "stuck").unlink()
    resumed = run_cold(tmp_path, *words)
    said = [line for line in first.stderr.splitlines() if line]
    assert (first.returncode, first.stdout, len(said)) == (130, "", 1), first.stderr
    assert "the same command resumes it" in said[0]
    assert [row["benchmark_id"] for row in done] == ["visitor_00"]
    assert resumed.returncode == 0, resumed.stderr
    assert task1(tmp_path / "out")["scored"] == 12
