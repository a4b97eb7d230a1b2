"""Little programs under test: how they are written, started and asked."""

import asyncio
import fcntl
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from alps.ext.adapters import process
from alps.ext.adapters.program import ProgramSystem
from alps.schema import ExtractionSample, Prediction
from alps.systems import System
from alps.tasks import load_task
from tests.builders import extraction_sample, memory
from tests.endtoend import wait_until

TASK = load_task("extraction")
PATIENT, QUICK = 300.0, 4.0
"""Seconds allowed for what must happen, and for what must not: the latter pass in every run.

A program of a few lines starts and answers within the latter on a machine whose cores are shared by
ten busy processes.
"""
NAMES = ("a", "b", "c", "d", "e", "f")
PRELUDE = """
import fcntl, json, os, select, signal, subprocess, sys, time
with open({diary!r}, "a") as file:
    file.write("start\\n")
def note(text):
    with open({diary!r}, "a") as file:
        file.write(text + "\\n")
def answer(name, **fields):
    print(json.dumps({{"benchmark_id": name, "memory_items": \
[{{"value": "fact of " + name}}], **fields}}))
def rows():
    for line in sys.stdin:
        row = json.loads(line)
        note(line.rstrip())
        yield row["benchmark_id"]
"""

Make = Callable[..., ProgramSystem]


class Diary:
    """What the processes of a test wrote down."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines()

    @property
    def starts(self) -> int:
        return self.lines.count("start")


def written(folder: Path, diary: Diary, body: str) -> str:
    """Write a program, a prelude and the given body; return its command."""
    script = folder / "script.py"
    script.write_text(PRELUDE.format(diary=str(diary.path)) + body)
    return f"{sys.executable} -S {shlex.quote(str(script))}"


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "diary")


@pytest.fixture
def make(tmp_path: Path, diary: Diary, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a system whose program is a prelude and the given body."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)

    def made(
        body: str, *, timeout: float = PATIENT, in_flight: int = 4, env: tuple[str, ...] = ()
    ) -> ProgramSystem:
        command = written(tmp_path, diary, body)
        return system(command, tmp_path, timeout=timeout, in_flight=in_flight, env=env)

    return made


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Make the grace of processes long; return what tells that none was waited for since."""
    monkeypatch.setattr(process, "GRACE", PATIENT)
    began = time.monotonic()
    return lambda: time.monotonic() - began < PATIENT


def system(
    command: str,
    folder: Path,
    *,
    timeout: float = PATIENT,
    in_flight: int = 4,
    env: tuple[str, ...] = (),
) -> ProgramSystem:
    log = folder / "stderr.log"
    return ProgramSystem(command, timeout=timeout, stderr_path=log, in_flight=in_flight, env=env)


def sample(name: str) -> ExtractionSample:
    return extraction_sample([memory("a secret of the gold")], f"I am {name}", benchmark_id=name)


def ask(asked: System, *names: str) -> dict[str, Prediction]:
    async def all_of_them() -> list[Prediction]:
        try:
            return await asyncio.gather(*(asked.answer(TASK, sample(name)) for name in names))
        finally:
            await asked.aclose()

    predictions = asyncio.run(all_of_them())
    assert [prediction.benchmark_id for prediction in predictions] == list(names)
    return {prediction.benchmark_id: prediction for prediction in predictions}


def facts(prediction: Prediction) -> list[str]:
    assert (prediction.outcome, prediction.track) == ("ok", TASK.track), prediction
    assert prediction.prediction is not None
    return [item["value"] for item in prediction.prediction["memory_items"]]


def answered(predictions: dict[str, Prediction], *but: str) -> bool:
    return all(
        facts(predictions[name]) == [f"fact of {name}"] for name in predictions if name not in but
    )


def is_held(path: Path) -> bool:
    """Tell whether a process that locked `path`, or a child of it, is still there."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def wait_for_release(path: Path) -> None:
    """Wait until nothing that a process started holds `path`."""
    wait_until(lambda: not is_held(path))


HOLDING = """
lock = open({lock!r}, "a")
fcntl.flock(lock, fcntl.LOCK_EX)
os.set_inheritable(lock.fileno(), True)
child = subprocess.Popen(
    ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], close_fds=False, \
stdin=subprocess.DEVNULL
)
"""
