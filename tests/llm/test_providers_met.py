"""The command against providers that are down, refuse for good, or find a request too long."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.endtoend import extraction, rows, run
from tests.loopback import Answer, serve
from tests.visitors import good, is_judging, visitor, write_visitors

KEY = {"OPENAI_API_KEY": "canary-met-openai"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_visitors(tmp_path / "data", 5)
    return tmp_path


@pytest.mark.parametrize(
    ("status", "message", "told"),
    [
        (
            400,
            "Invalid model name passed in model=tiny",
            "the first 3 requests failed alike, and none was answered",
        ),
        (402, "Insufficient Balance", "the account has no money or quota left"),
    ],
)
def test_an_error_that_stays_ends_the_run_with_one_line(
    folder: Path, status: int, message: str, told: str
):
    with serve(lambda _: Answer(status=status, error=message)) as endpoint:
        done = run(folder, *extraction(endpoint.url, "out=run", "concurrency=1"), **KEY)
        assert len(endpoint.requests) <= 5  # others are under way when the third fails
    assert done.returncode == 2
    lines = done.stderr.strip().splitlines()
    assert "Traceback" not in done.stderr
    assert told in lines[-1]
    assert message in lines[-1]


def test_patience_outlasts_an_outage(folder: Path):
    arrivals: list[float] = []

    def script(body: dict[str, Any]) -> Answer:
        arrivals.append(time.monotonic())
        return Answer(status=503) if arrivals[-1] - arrivals[0] < 4 else good(body)

    with serve(script) as endpoint:
        done = run(folder, *extraction(endpoint.url, "out=run", "patience=2min"), **KEY)
    assert done.returncode == 0, done.stderr
    assert {row["outcome"] for row in rows(folder / "run" / "predictions.jsonl")} == {"ok"}


def test_little_patience_is_over_soon(folder: Path):
    with serve(lambda _: Answer(status=503)) as endpoint:
        done = run(folder, *extraction(endpoint.url, "out=run", "patience=3s"), **KEY)
    assert done.returncode == 1, done.stderr
    assert {row["outcome"] for row in rows(folder / "run" / "predictions.jsonl")} == {"transport"}


@pytest.mark.parametrize("who", ["model", "judge"])
def test_what_is_too_long_is_asked_once_and_not_again_when_the_run_goes_on(folder: Path, who: str):
    lock, asked = threading.Lock(), []

    def script(body: dict[str, Any]) -> Answer:
        if visitor(body) == 3 and is_judging(body) == (who == "judge"):
            with lock:
                asked.append(who)
            return Answer(status=413)
        return good(body)

    with serve(script) as endpoint:
        words = extraction(endpoint.url, "out=run", "baseline_records=0", "max_failures=50%")
        first = run(folder, *words, **KEY)
        again = run(folder, *words, **KEY)
    assert (first.returncode, again.returncode) == (0, 0), (first.stderr, again.stderr)
    assert asked == [who]
    outcomes = {
        row["benchmark_id"]: row["outcome"] for row in rows(folder / "run" / "scores.jsonl")
    }
    assert outcomes["visitor_03"] == "too_long"
    assert "too_long" in first.stdout
