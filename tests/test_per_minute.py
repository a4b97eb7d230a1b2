"""Limits of requests a minute that the user names: kept, used, and shared by all who ask."""

import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest

from alps.llm import Client, Request
from alps.llm.client import Endpoint
from alps.llm.types import Reply
from tests.endtoend import one_line, run
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


@pytest.mark.parametrize(
    "server",
    [
        pytest.param(lambda: Sliding(MOST, 60), id="any minute"),
        pytest.param(lambda: Windows(MOST, 60, 37), id="minutes by the clock"),
        pytest.param(lambda: Bucket(rate=10, most=10), id="a small bucket"),
    ],
)
@pytest.mark.parametrize("clients", [1, 4])
def test_a_limit_that_is_known_is_used_and_not_passed_though_no_answer_tells_it(server, clients):
    drawn, times, takes = random.Random(0), [], server()

    async def ask() -> int:
        endpoint, loop = Endpoint.of(concurrency=None, patience=1800.0), asyncio.get_running_loop()
        endpoint.limiter.keep_to(2 * MOST)
        endpoint.limiter.keep_to(MOST)  # the least of several
        endpoint.limiter.keep_to(None)
        rejected = 0

        async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
            nonlocal rejected
            times.append(loop.time())
            refused = takes(loop.time())
            await asyncio.sleep(drawn.uniform(0.4, 1.8))
            if refused:
                rejected += 1
                raise refused
            return Reply("Yes.")

        ledger: Any = NoLedger()
        asking = [
            Client(concurrency=None, ledger=ledger, cache=None, send=send, endpoint=endpoint)
            for _ in range(clients)
        ]
        questions = []
        for number in range(MANY):
            question = Request[None]("openai/m", ({"role": "user", "content": str(number)},), None)
            questions.append(asking[number % clients].complete(question))
        await asyncio.gather(*questions)
        return rejected

    assert in_virtual_time(ask()) <= 0.02 * MANY
    assert (len(times) - 1) / (times[-1] - times[0]) >= 0.9 * MOST / 60


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
    # Eleven steps of a quarter of a second, but for what a late timer may catch up with.
    assert judged[-1] - judged[0] >= 11 * 0.25 - 0.2


@pytest.mark.parametrize("setting", ["requests_per_minute=60", "judge_requests_per_minute=60"])
def test_a_limit_of_what_is_not_asked_is_refused(tmp_path, setting):
    refused = run(tmp_path, "run", "task=extraction", "model=rules", "data=samples", setting)
    assert setting.partition("=")[0] in one_line(refused)
