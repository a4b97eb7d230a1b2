"""A process forked from the warm parent finds itself where one started by itself does."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.endtoend import environment, finish, results, start_cold, wait_until
from tests.visitors import write_visitors

PROBE = """
import asyncio, json, os, random, signal, socket, sys, threading, time

def facts():
    return {
        "folder": os.getcwd(),
        "words": sys.argv,
        "path": list(dict.fromkeys(sys.path)),
        "environment": dict(os.environ),
        "files": sorted(os.readlink(f"/proc/self/fd/{n}").partition(":")[0] for n in range(3)),
        "sockets": [n for n in os.listdir("/proc/self/fd") \
if os.path.realpath(f"/proc/self/fd/{n}").count("socket:")],
        "signals": [repr(signal.getsignal(n)).partition(" at ")[0] \
for n in sorted(signal.valid_signals())],
        "main": sys.modules["__main__"].__spec__.name,
        "streams": [(f.encoding, f.errors, f.line_buffering) \
for f in (sys.stdin, sys.stdout, sys.stderr)],
        "threads": [thread.name for thread in threading.enumerate()],
        "tests": [name for name in sys.modules if name.partition(".")[0] == "tests"],
        "limits": (os.umask(0o022), sys.getrecursionlimit(), os.getsid(0)),
    }

class Probe:
    def predict(self, sample):
        with open(os.environ["FACTS"], "w") as file:
            json.dump(facts(), file)
        with open(os.environ["DRAWS"], "a") as file:
            file.write(f"{os.getpid()} {random.random()}\\n")
        time.sleep(float(os.environ.get("SLEEP", "0")))
        return {"memory_items": []}
"""
WORDS = ("run", "task=extraction", "model=python:probe:Probe", "data=data")

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="there are warm processes on Linux only"
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_visitors(tmp_path / "data", 1)
    (tmp_path / "probe.py").write_text(PROBE)
    return tmp_path


def start_warm(folder: Path, *words: str, **variables: str) -> warm.WarmProcess:
    given = environment(folder, **variables)
    address = warm.address_for(given)
    if address is None:
        pytest.skip("all processes shall be cold")
    return warm.WarmProcess(address, words, folder, given)


def said(place: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((place / name).read_text()))


def test_a_warm_process_finds_everything_as_a_cold_one_does(place: Path) -> None:
    for begin in (start_warm, start_cold):
        name = begin.__name__
        more = {"FACTS": "facts", "DRAWS": "draws", "ODD": "ö\n", "TERM": "dumb"}
        finished = finish(begin(place, *WORDS, "out=out", **more))
        assert finished.returncode in (0, 1), finished
        (place / "facts").rename(place / name)
        (place / "out").rename(place / f"out of {name}")
        (place / f"{name} said").write_text(results(finished) + finished.stderr)
    warmly, coldly = said(place, "start_warm"), said(place, "start_cold")
    assert warmly == coldly
    assert (place / "start_warm said").read_text() == (place / "start_cold said").read_text()


def test_every_warm_process_has_a_number_and_a_seed_of_its_own(place: Path) -> None:
    begun = [
        start_warm(place, *WORDS, f"out=out{n}", FACTS=f"facts{n}", DRAWS="draws") for n in range(3)
    ]
    assert {finish(process).returncode for process in begun} == {0}
    pids, draws = zip(
        *(line.split() for line in (place / "draws").read_text().splitlines()), strict=True
    )
    assert sorted(map(int, pids)) == sorted(process.pid for process in begun)
    assert len(set(draws)) == 3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
def test_a_warm_process_takes_signals_and_tells_what_ended_it(
    place: Path, number: int, code: int
) -> None:
    process = start_warm(place, *WORDS, "out=out", FACTS="facts", DRAWS="draws", SLEEP="1")
    wait_until((place / "draws").exists)
    assert process.poll() is None
    process.send_signal(number)
    finished = finish(process)
    assert finished.returncode == code
    assert ("to resume, repeat the same command" in finished.stderr) == (code > 0)


@pytest.fixture
def ordinary(tmp_path: Path) -> dict[str, str]:
    if os.environ.get("ALPS_TESTS_COLD"):
        pytest.skip("all processes shall be cold")
    return environment(tmp_path)


def test_what_an_interpreter_reads_at_its_start_needs_a_start(ordinary: dict[str, str]) -> None:
    assert warm.address_for({**ordinary, "PYTHONUTF8": "1"}) is None
    assert warm.address_for({**ordinary, "LC_ALL": "C"}) is None
    # What litellm sets when it counts tokens needs none.
    address = warm.address_for(ordinary)
    assert warm.address_for({**ordinary, "TIKTOKEN_CACHE_DIR": "/x"}) == address is not None


@pytest.mark.release
def test_what_alps_sets_before_litellm_is_imported_needs_no_other_start(
    ordinary: dict[str, str],
) -> None:
    # In a process of its own: in this one they may be imported already.
    asked = "import os; before = set(os.environ); from alps.llm.wire import libraries; "
    asked += "libraries(); print(*set(os.environ) - before)"
    unset = {name: value for name, value in os.environ.items() if name not in warm.LOCAL}
    command = [sys.executable, "-c", asked]
    done = subprocess.run(command, env=unset, capture_output=True, text=True, check=True)
    read = {name for name in done.stdout.split() if name.startswith(warm.READ_AT_START)}
    assert read
    assert read <= set(warm.LOCAL)
    assert warm.address_for(ordinary) is not None


def test_the_environment_can_be_read_while_another_thread_changes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COMES_AND_GOES", "1")  # and is gone in the end
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            os.environ["COMES_AND_GOES"] = "1"
            del os.environ["COMES_AND_GOES"]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    changing = threading.Thread(target=change)
    changing.start()
    try:
        assert all(environment(Path())["COLUMNS"] == "80" for _ in range(1_000))
    finally:
        over.set()
        changing.join()
        sys.setswitchinterval(interval)
        os.environ["COMES_AND_GOES"] = "1"
