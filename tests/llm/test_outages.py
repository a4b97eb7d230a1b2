"""What a client makes of outages and of rate limits, told or not: in virtual time, so that hours
take no time.
"""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from alps.errors import QuotaError, UsageError
from alps.llm.client import Client, Endpoint
from alps.llm.retries import as_time, seconds_of
from alps.llm.types import Completion, Reply, Request, TransportError
from tests.desk import EXTRACTED, GOOD, QUESTION
from tests.endtoend import one_line, run
from tests.few import few
from tests.loopback import serve
from tests.virtual_time import (
    Bucket,
    NoLedger,
    Verdict,
    Windows,
    failure,
    in_virtual_time,
    rejection,
)
from tests.visitors import good, is_judging, write_visitors

Answering = Callable[[str], Awaitable[None]]
"""What a server does with a question: answers it in time, or raises."""


def now() -> float:
    return asyncio.get_running_loop().time()


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
    """What came of each question, how many requests were rejected, and the seconds that it took."""

    completions: list[Completion[Any]]
    rejected: int
    seconds: float

    @property
    def outcomes(self) -> list[str]:
        return [completion.outcome for completion in self.completions]

    @property
    def lost(self) -> int:
        return len(self.completions) - self.outcomes.count("ok")


def fared_with(
    answer: Answering,
    count: int,
    *,
    workers: int = 8,
    clients: int = 1,
    costs: float = 0.0005,
    **options: Any,
) -> Fared:
    """Ask `count` questions as the engine does."""
    asking: Any = {"concurrency": 4, "ledger": NoLedger(), **options}

    async def send(_: Request[Any], messages: list[dict[str, str]]) -> Reply:
        await answer(messages[0]["content"])
        return Reply("Yes.")

    async def all_of_them() -> Fared:
        asked_by = [Client(cache=None, send=send, **asking) for _ in range(clients)]
        waiting, heard = iter(range(count)), dict[int, Completion[Any]]()

        async def work() -> None:
            for number in waiting:
                message = {"role": "user", "content": str(number)}
                request = Request[None]("openai/tiny", (message,), None)
                heard[number] = await asked_by[number % clients].complete(request)

        await asyncio.gather(*(work() for _ in range(workers)))
        rejected = sum(call.status != 200 for call in asking["ledger"].calls)
        return Fared([heard[number] for number in range(count)], rejected, now())

    return in_virtual_time(all_of_them(), costs=costs)


def asked(
    server: Callable[[float], Verdict],
    count: int,
    *,
    latency: tuple[float, float] = (0.4, 1.8),
    **options: Any,
) -> Fared:
    """Ask a server that makes a verdict of the time alone."""
    drawn = random.Random(0)

    async def answer(_: str) -> None:
        verdict = server(now())
        await asyncio.sleep(0.02 if verdict else drawn.uniform(*latency))
        if verdict:
            raise verdict

    random.seed(0)
    return fared_with(answer, count, **{"concurrency": None, "workers": 400, **options})


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


@pytest.mark.few(1)
@pytest.mark.parametrize("concurrency", few([None, 64], plain={0}))
@pytest.mark.parametrize(
    ("server", "count", "rejected", "seconds"),
    few(SERVERS, plain={"bucket", "60 a minute, Retry-After", "503 for 300 s"}),
)
def test_nothing_is_lost_and_little_is_rejected(server, count, rejected, seconds, concurrency):
    fared = asked(server(), count, concurrency=concurrency, workers=128 if concurrency else 400)
    assert fared.lost == 0
    assert fared.rejected <= rejected
    assert fared.seconds <= seconds


@pytest.mark.parametrize("concurrency", few([None, 64], plain={0}))
def test_slow_answers_regain_their_places_in_time(concurrency: int | None):
    fared = asked(Bucket(10, 10), 2_000, concurrency=concurrency, latency=(10.0, 30.0))
    assert fared.lost == 0
    assert fared.seconds <= 800  # 64 at once with answers of 20 s take 630 without any limit


def outcomes(answer: Answering, count: int, **options: Any) -> list[str]:
    return fared_with(answer, count, **options).outcomes


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("count", "most", "serial", "least_at_once", "most_at_once"),
    [
        (2_000, None, False, 200, 200),
        (12, None, False, 12, 12),
        (2_000, 40, False, 40, 40),
        (1_000, None, True, 1, 64),  # they would wait at the server
    ],
)
def test_as_many_run_at_once_as_are_answered_soon(count, most, serial, least_at_once, most_at_once):
    under_way: set[str] = set()
    at_once, turn = [0], asyncio.Lock()

    async def answer(number: str) -> None:
        under_way.add(number)
        at_once.append(len(under_way))
        if serial:
            async with turn:
                await asyncio.sleep(0.1)
        else:
            await asyncio.sleep(1.0)
        under_way.remove(number)

    outcomes(answer, count, workers=400, concurrency=most)
    assert least_at_once <= max(at_once) <= most_at_once


class SlowLedger(NoLedger):
    """Its rows are flushed while the request that failed still has its place."""

    async def flushed(self) -> None:
        await asyncio.sleep(0.05)


def test_a_short_outage_is_over_soon_and_met_by_one_probe_at_a_time():
    sent: list[float] = []

    async def answer(_: str) -> None:
        sent.append(now())
        since = sent[-1] - sent[0]
        await asyncio.sleep(0.02)
        if since < 4:
            raise failure(503)

    assert outcomes(answer, 5, workers=5, concurrency=None, ledger=SlowLedger()) == ["ok"] * 5
    assert len([when for when in sent[5:] if when - sent[0] < 4]) <= 3
    assert sent[-1] - sent[0] <= 12


def test_an_outage_that_outlasts_the_patience_costs_no_hours_and_few_requests():
    fared = asked(Outage(503, 0, 1e9), 1_000, patience=600.0)
    assert "ok" not in fared.outcomes
    assert 600 <= fared.seconds <= 700
    assert fared.rejected <= 250
    errors = [str(one.error) for one in fared.completions]
    assert any("not sent: the endpoint has not answered for 10 min" in error for error in errors)
    fared = asked(Outage(503, 0, 1e9), 20, patience=45.0)
    assert any("has not answered for 45 s" in str(one.error) for one in fared.completions)


def test_records_after_the_outage_are_answered_though_it_outlasted_the_patience():
    fared = asked(Outage(503, 20, 400, Bucket(1, 1)), 400, patience=60.0, concurrency=8, workers=16)
    assert 0 < fared.lost < 400


def test_the_time_that_a_server_asks_for_takes_nothing_of_the_patience():
    refused = iter([rejection(60.0)] * 3)

    async def answer(_: str) -> None:
        for error in refused:
            raise error

    assert outcomes(answer, 1, patience=100.0) == ["ok"]


def test_what_is_waited_for_is_said_once():
    said: list[str] = []
    assert asked(Outage(503, 0, 300), 100, notice=said.append).lost == 0
    (line,) = said
    assert line.startswith("openai/tiny has not answered for ")
    assert "patience=" in line


HUNG = TransportError("no answer within 120 s", transient=True, status=408)
UNREADABLE = TransportError("unreadable", transient=True, status=200, billed=True)


@pytest.mark.parametrize(
    ("error", "least", "most", "count"),
    [(failure(500), 8, 9, 500), (HUNG, 3, 3, 1), (UNREADABLE, 3, 3, 1)],
    ids=["fails while others are answered", "hung, may be billed", "unreadable, may be billed"],
)
def test_one_request_that_always_fails_is_given_up_in_time(error, least, most, count):
    asked_for = Counter[str]()

    async def answer(number: str) -> None:
        asked_for[number] += 1
        await asyncio.sleep(1.0)
        if number == "0":
            raise error

    assert outcomes(answer, count)[0] == "transport"
    assert least <= asked_for["0"] <= most


@pytest.mark.release
def test_a_timeout_in_hundreds_of_requests_takes_little_of_the_throughput():
    met: set[str] = set()
    took = 0.0

    async def answer(number: str) -> None:
        nonlocal took
        hangs = int(number) % 400 == 200 and number not in met
        met.add(number)
        seconds = 15.0 if hangs else 1.0
        await asyncio.sleep(seconds)
        took += seconds
        if hangs:
            raise TransportError("no answer within 15 s", transient=True, status=408)

    fared = fared_with(answer, 6_000, workers=64, concurrency=64)
    assert set(fared.outcomes) == {"ok"}
    assert fared.seconds <= 1.15 * took / 64


@pytest.mark.release
def test_a_server_at_which_too_many_wait_is_asked_less():
    places = asyncio.Semaphore(16)

    async def answer(_: str) -> None:
        try:
            async with asyncio.timeout(15), places:
                await asyncio.sleep(1.0)
        except TimeoutError as error:
            raise TransportError("late", transient=True, status=408) from error

    # 240 are answered in time.
    assert set(outcomes(answer, 3_000, workers=512, concurrency=512)) == {"ok"}


@pytest.mark.release
def test_one_request_that_hangs_holds_up_none_of_the_others(desk, monkeypatch):
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


def failing_alike(status: int, **changes: Any) -> Answering:
    async def answer(number: str) -> None:
        text = f"BadRequestError: Invalid model name (request req_{number}7)"
        raise TransportError(text, transient=False, status=status, **changes)

    return answer


def test_errors_that_stay_end_the_run_and_those_of_single_records_do_not():
    alike = r"'openai/tiny': the first 3 requests failed with the same error.*Invalid model name"
    assert outcomes(failing_alike(400), 2) == ["transport"] * 2
    for count in (3, 20):
        with pytest.raises(UsageError, match=alike):
            outcomes(failing_alike(400), count)
    with pytest.raises(QuotaError):
        outcomes(failing_alike(402, fatal=QuotaError("no money left")), 20)
    for kind in ("too_long", "refused"):
        assert outcomes(failing_alike(400, **{kind: True}), 20) == [kind] * 20

    async def bad_after_an_answer(number: str) -> None:
        if number != "0":
            await asyncio.sleep(1.0)
            raise TransportError("bad", transient=False, status=400)

    assert outcomes(bad_after_an_answer, 6) == ["ok", *["transport"] * 5]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.5, "0.5 s"), (90, "90 s"), (1800, "30 min"), (5400, "90 min"), (86400, "24 h"),
     (1e7, "2777.8 h")],
)  # fmt: skip
def test_a_time_is_written_as_it_is_read(seconds, said):
    assert as_time(seconds) == said
    assert seconds_of(said) == pytest.approx(seconds, rel=1e-4)


# Limits of requests a minute: that the user names, and that only rejections or answers tell

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


def all_at_once(answer: Answering, count: int, endpoint: Endpoint, **options: Any) -> list[str]:
    return outcomes(answer, count, workers=count, concurrency=None, endpoint=endpoint, **options)


LIMITS: dict[str, Callable[[], Any]] = {
    "any minute": lambda: Sliding(MOST, 60),
    "minutes by the clock": lambda: Windows(MOST, 60, 37),
    "a small bucket": lambda: Bucket(rate=10, most=10),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("server", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("clients", few([1, 4], plain={1}))
def test_a_limit_that_is_known_is_used_and_not_passed_though_no_answer_tells_it(server, clients):
    drawn, times, takes, rejected = random.Random(0), [], server(), []
    endpoint = Endpoint.of(concurrency=None, patience=1800.0)
    for least in (2 * MOST, MOST, 3 * MOST, None):  # the least of several holds
        endpoint.limiter.keep_to(least)

    async def answer(_: str) -> None:
        times.append(now())
        refused = takes(now())
        await asyncio.sleep(drawn.uniform(0.4, 1.8))
        if refused:
            rejected.append(refused)
            raise refused

    all_at_once(answer, MANY, endpoint, clients=clients)
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
    endpoint = Endpoint.of(concurrency=None, patience=1800.0)

    async def answer(_: str) -> None:
        refused = server(now())
        minutes[int(now() // 60)][refused is None] += 1
        left, wait = server.left(), server.opens_in(now())
        await asyncio.sleep(0.02 if refused else drawn.uniform(*latency))
        if tells:
            endpoint.limiter.told(left, wait)
        if refused:
            asks = {"when it opens": wait, "a second": 1.0, "nothing": None}
            raise rejection(asks[retry_after])

    random.seed(0)
    all_at_once(answer, 2_500, endpoint, costs=costs)
    return [minute for minute in minutes if minute]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("retry_after", "latency"),
    few(
        [("when it opens", (0.4, 1.8)), ("a second", (2.0, 6.0)), ("nothing", (2.0, 6.0))],
        plain={2},
    ),
)
@pytest.mark.parametrize(
    ("server", "passed"),
    [(lambda: Fixed(MOST, 60), 0.02), (lambda: Sliding(MOST, 60), 0.06)],
    ids=["minutes by the clock", "any minute"],
)
def test_a_limit_that_only_rejections_tell_is_found_and_used(server, passed, retry_after, latency):
    minutes = minutes_of(server(), retry_after, tells=False, latency=latency)
    # The first minute finds the limit, and the fifth is left with what is over.
    assert sum(minute[True] for minute in minutes[1:4]) >= 0.9 * 3 * MOST
    assert max(minute.total() for minute in minutes[1:4]) <= (1 + passed) * MOST
    assert sum(minute[False] for minute in minutes) <= 0.05 * 2_500


@pytest.mark.release
@pytest.mark.parametrize(
    ("retry_after", "latency", "costs"),
    few(
        [
            ("when it opens", (0.4, 1.8), 0.0005),
            ("a second", (2.0, 6.0), 0.0005),
            ("nothing", (0.4, 1.8), 0.004),
        ],
        plain={2},
    ),
)
def test_a_sliding_minute_that_answers_tell_is_used_and_hardly_passed(retry_after, latency, costs):
    server = Sliding(MOST, 60)
    minutes = minutes_of(server, retry_after, tells=True, latency=latency, costs=costs)
    assert sum(minute[True] for minute in minutes[1:4]) >= 0.9 * 3 * MOST
    assert sum(minute[False] for minute in minutes) <= 0.05 * 2_500


@pytest.mark.parametrize(
    "engine", few({"one": ((),), "several": (("engine=processes", "workers=2"),)}, plain={"one"})
)
@pytest.mark.release
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
    # Eleven steps of a quarter of a second, but for what a late timer may catch up with.
    assert judged[-1] - judged[0] >= 11 * 0.25 - 0.2


@pytest.mark.parametrize("setting", ["requests_per_minute=60", "judge_requests_per_minute=60"])
def test_a_limit_of_what_is_not_asked_is_refused(tmp_path, setting):
    refused = run(tmp_path, "run", "task=extraction", "model=rules", "data=samples", setting)
    assert setting.partition("=")[0] in one_line(refused)
