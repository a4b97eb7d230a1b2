"""Limits of requests a minute: that the user names, and that only rejections or answers tell."""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from alps.llm.client import Client, Endpoint
from alps.llm.types import Reply, Request
from tests.endtoend import one_line, run
from tests.few import few
from tests.loopback import serve
from tests.virtual_time import Bucket, NoLedger, Verdict, Windows, in_virtual_time, rejection
from tests.visitors import good, is_judging, write_visitors

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


@pytest.mark.few(1)
@pytest.mark.parametrize("server", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("clients", few([1, 4], plain={1}))
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
def test_a_limit_that_only_rejections_tell_is_found_used_and_hardly_passed(
    server, passed, retry_after, latency
):
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
    "engine",
    few({"one": ((),), "several": (("engine=processes", "workers=2"),)}, plain={"one"}),
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
