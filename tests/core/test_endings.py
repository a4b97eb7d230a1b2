"""However a run ends, nothing that its program started goes on, not even what hid from the process
group.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.endtoend import (
    Finished,
    Process,
    end,
    finish,
    rows,
    run,
    start,
    start_cold,
    task1,
    wait_until,
)
from tests.few import few
from tests.loopback import Answer, serve
from tests.visitors import write_visitors

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="a subreaper and /proc are of Linux"
)

FAMILY = """
import json, os, subprocess, sys, time
ME = "import os, time; open(os.environ['FAMILY'], 'a').write\
(f'{os.getpid()}\\\\n'); time.sleep(600)"
KIND = sys.argv[1]
def child():
    if KIND == "child": subprocess.Popen([sys.executable, "-S", "-c", ME])
    if KIND == "session": subprocess.Popen([sys.executable, "-S", "-c", ME], start_new_session=True)
    if KIND == "daemon" and os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            os.open(os.devnull, os.O_RDWR)
            os.execv(sys.executable, [sys.executable, "-S", "-c", ME])
        os._exit(0)
    if KIND == "deaf":
        deaf = "import signal\\nfor n in (1, 2, 15): signal.signal(n, 1)\\n"
        subprocess.Popen([sys.executable, "-S", "-c", deaf + ME])
child()
while KIND != "none" and not os.path.exists(os.environ["FAMILY"]): time.sleep(0.01)
open(os.environ["FAMILY"], "a").write(f"{os.getpid()}\\n")
for line in sys.stdin:
    row = json.loads(line)
    while os.path.exists("stuck") and "visitor 0." not in line: time.sleep(0.02)
    print(json.dumps({"benchmark_id": row["benchmark_id"], "memory_items": []}), flush=True)
    exec(sys.argv[2])
"""
KINDS = ("child", "session", "daemon", "deaf")
ENDINGS = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGKILL: -9, signal.SIGTERM: 143}


def words_of(folder: Path, kind: str, after: str = "pass") -> tuple[str, ...]:
    write_visitors(folder / "data", 3)
    (folder / "family.py").write_text(FAMILY)
    command = f"model=program:{sys.executable} -S family.py {kind} '{after}'"
    rest = ("out=out", "concurrency=1", "env=FAMILY")
    return ("run", "task=extraction", "data=data", command, *rest)


@contextmanager
def started(folder: Path, kind: str, *, begin: Callable[..., Process]) -> Iterator[Process]:
    """Start a run whose program answers the first question alone while `stuck` is there."""
    (folder / "stuck").touch()
    process = begin(folder, *words_of(folder, kind), FAMILY=str(folder / "family"))
    try:
        yield process
    finally:
        end(process)


def resumed(folder: Path, kind: str, after: str = "pass") -> Finished:
    """Run the same command to its end; nothing of its program may be left."""
    (folder / "stuck").unlink(missing_ok=True)
    done = run(folder, *words_of(folder, kind, after), FAMILY=str(folder / "family"))
    assert done.returncode == 0, done.stderr
    assert all_gone(folder)
    return done


def has_answered(folder: Path) -> bool:
    predictions = folder / "out" / "predictions.jsonl"
    return predictions.exists() and predictions.stat().st_size > 0


def members(folder: Path) -> list[int]:
    path = folder / "family"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def state_of(process: int) -> list[str]:
    """Return what the system says of a process after its name: its state, its parent, and more."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def is_alive(process: int) -> bool:
    """Tell whether a process is there and no zombie: whoever inherits those reaps them in its own
    time.
    """
    try:
        return state_of(process)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_gone(folder: Path) -> bool:
    return not any(is_alive(process) for process in members(folder))


ENDED = [(signal.SIGTERM, kind) for kind in KINDS]
ENDED += [(number, "daemon") for number in list(ENDINGS)[:3]]


@pytest.mark.parametrize(("number", "kind"), few(ENDED, plain={2, 5, 6}))
@pytest.mark.release
def test_a_signal_ends_the_run_and_the_whole_family_of_its_program(tmp_path, number, kind):
    with started(tmp_path, kind, begin=start_cold if kind == "child" else start) as process:
        wait_until(lambda: len(members(tmp_path)) == 2 and has_answered(tmp_path))
        assert all(is_alive(member) for member in members(tmp_path))
        process.send_signal(number)
        first = finish(process)
    if number == signal.SIGKILL:  # nobody is left to wait for them: the keeper ends them by itself
        wait_until(lambda: all_gone(tmp_path))
    assert all_gone(tmp_path)
    assert first.returncode == ENDINGS[number], first
    if number != signal.SIGKILL:
        assert first.stdout == ""
        way = "interrupted; alps keeps finished records; to resume, repeat the same command"
        assert way in first.stderr
        assert "Traceback" not in first.stderr
    assert len(rows(tmp_path / "out" / "predictions.jsonl")) == 1
    resumed(tmp_path, kind)
    assert task1(tmp_path / "out")["scored"] == 3


@pytest.mark.parametrize(
    "after",
    few(["pass", "sys.exit(3)", "os.kill(os.getpid(), 9)", "os.closerange(0, 3)"], plain={2}),
)
def test_a_family_does_not_outlive_a_program_that_ends_or_dies_by_itself(tmp_path, after):
    resumed(tmp_path, "daemon", after)
    assert len(members(tmp_path)) >= 2


@pytest.mark.release
def test_who_kills_the_keeper_ends_the_program(tmp_path):
    with started(tmp_path, "none", begin=start_cold) as process:
        wait_until(lambda: len(members(tmp_path)) == 1)
        (program,) = members(tmp_path)
        keeper = int(state_of(program)[1])
        assert "keeper.py" in Path(f"/proc/{keeper}/cmdline").read_text()
        os.kill(keeper, signal.SIGKILL)
        wait_until(lambda: not is_alive(program))
        (tmp_path / "stuck").unlink()
        assert finish(process).returncode == 0
    assert all_gone(tmp_path)


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_calibration_ends_as_after_control_c(tmp_path, number):
    with serve(lambda _: Answer(delay=3)) as server:
        judge = ("judge=openai/slow", f"judge_api_base={server.url}")
        process = start(tmp_path, "calibrate", *judge, "labels=stress", "out=calibrated")
        try:
            wait_until(lambda: bool(server.requests))
            process.send_signal(number)
            process.send_signal(number)  # a sender that is in doubt sends two
            done = finish(process)
        finally:
            end(process)
    assert done.returncode == 128 + number, done
    assert "to resume, repeat the same command" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.release
def test_a_signal_that_is_ignored_stays_so(tmp_path):
    """As under nohup; a shell also has what it starts in the background ignore Ctrl-C."""
    numbers = (signal.SIGHUP, signal.SIGINT)

    def deaf(*words: str, **variables: str) -> Process:
        kept = [(number, signal.signal(number, signal.SIG_IGN)) for number in numbers]
        try:
            return start_cold(*words, **variables)
        finally:
            for number, before in kept:
                signal.signal(number, before)

    with started(tmp_path, "none", begin=deaf) as process:
        wait_until(lambda: len(members(tmp_path)) == 1)
        for number in numbers:
            process.send_signal(number)
        wait_until(lambda: has_answered(tmp_path))
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        done = finish(process)
    assert done.returncode == 143, done
    assert all_gone(tmp_path)


def test_a_signal_breaks_nothing_off_midway_where_control_c_is_ignored():
    """An exception out of nowhere hit the start of a thread now and then: the command then never
    ended.
    """
    script = (
        "import asyncio, os, signal, sys\n"
        "from alps.event_loop import run_loop\n"
        "from alps.cli import guarded\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "async def main():\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('went on', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "sys.exit(guarded(lambda: run_loop(main())))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "went on\n"
    assert done.returncode == 143
    assert "interrupted" in done.stderr
