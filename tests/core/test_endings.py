"""However a run ends, nothing that its program started goes on, not even what hid from the process
group.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.endtoend import end, finish, rows, run, start, start_cold, wait_until
from tests.few import few
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
    return (
        "run",
        "task=extraction",
        "data=data",
        command,
        "out=out",
        "concurrency=1",
        "env=FAMILY",
    )


def members(folder: Path) -> list[int]:
    path = folder / "family"
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def is_alive(process: int) -> bool:
    """Tell whether a process is there and no zombie: whoever inherits those reaps them in its own
    time.
    """
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_gone(folder: Path) -> bool:
    return not any(is_alive(process) for process in members(folder))


@pytest.mark.parametrize(
    ("number", "kind"),
    few(
        [
            *((signal.SIGTERM, kind) for kind in KINDS),
            *((number, "daemon") for number in list(ENDINGS)[:3]),
        ],
        plain={2, 5, 6},
    ),
)
@pytest.mark.release
def test_a_signal_ends_the_run_and_the_whole_family_of_its_program(tmp_path, number, kind):
    (tmp_path / "stuck").touch()
    words, family = words_of(tmp_path, kind), {"FAMILY": str(tmp_path / "family")}
    predictions = tmp_path / "out" / "predictions.jsonl"
    begin = start_cold if kind == "child" else start
    process = begin(tmp_path, *words, **family)
    try:
        wait_until(
            lambda: (
                len(members(tmp_path)) == 2
                and predictions.exists()
                and predictions.stat().st_size > 0
            )
        )
        assert all(is_alive(member) for member in members(tmp_path))
        process.send_signal(number)
        first = finish(process)
    finally:
        end(process)
    if number == signal.SIGKILL:  # nobody is left to wait for them: the keeper ends them by itself
        wait_until(lambda: all_gone(tmp_path))
    assert all_gone(tmp_path)
    assert first.returncode == ENDINGS[number], first
    if number != signal.SIGKILL:
        assert first.stdout == ""
        assert (
            "interrupted; alps keeps finished records; to resume, repeat the same command"
            in first.stderr
        )
        assert "Traceback" not in first.stderr
    assert len(rows(predictions)) == 1
    (tmp_path / "stuck").unlink()
    resumed = run(tmp_path, *words, **family)
    assert resumed.returncode == 0, resumed.stderr
    assert (
        json.loads((tmp_path / "out" / "summary.json").read_text())["tracks"]["task1"]["scored"]
        == 3
    )
    assert all_gone(tmp_path)


@pytest.mark.parametrize(
    "after",
    few(["pass", "sys.exit(3)", "os.kill(os.getpid(), 9)", "os.closerange(0, 3)"], plain={2}),
)
def test_a_family_does_not_outlive_a_program_that_ends_or_dies_by_itself(tmp_path, after):
    words, family = words_of(tmp_path, "daemon", after), {"FAMILY": str(tmp_path / "family")}
    done = run(tmp_path, *words, **family)
    assert done.returncode == 0, done.stderr
    assert len(members(tmp_path)) >= 2
    assert all_gone(tmp_path)


@pytest.mark.release
def test_who_kills_the_keeper_ends_the_program(tmp_path):
    (tmp_path / "stuck").touch()
    words, family = words_of(tmp_path, "none"), {"FAMILY": str(tmp_path / "family")}
    process = start_cold(tmp_path, *words, **family)
    try:
        wait_until(lambda: len(members(tmp_path)) == 1)
        keeper = int(
            Path(f"/proc/{members(tmp_path)[0]}/stat").read_text().rpartition(")")[2].split()[1]
        )
        assert "keeper.py" in Path(f"/proc/{keeper}/cmdline").read_text()
        os.kill(keeper, signal.SIGKILL)
        wait_until(lambda: not is_alive(members(tmp_path)[0]))
        (tmp_path / "stuck").unlink()
        assert finish(process).returncode == 0
    finally:
        end(process)
    assert all_gone(tmp_path)


@pytest.mark.few(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_calibration_ends_as_after_control_c(tmp_path, number):
    from tests.loopback import Answer, serve

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
    (tmp_path / "stuck").touch()
    words, family = words_of(tmp_path, "none"), {"FAMILY": str(tmp_path / "family")}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = start_cold(tmp_path, *words, **family)
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGINT, before)
    try:
        wait_until(lambda: len(members(tmp_path)) == 1)
        for number in (signal.SIGHUP, signal.SIGINT):
            process.send_signal(number)
        predictions = tmp_path / "out" / "predictions.jsonl"
        wait_until(lambda: predictions.exists() and predictions.stat().st_size > 0)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        done = finish(process)
    finally:
        end(process)
    assert done.returncode == 143, done
    assert all_gone(tmp_path)


def test_a_signal_breaks_nothing_off_midway_where_control_c_is_ignored():
    """An exception out of nowhere hit the start of a thread now and then: the command then never
    ended.
    """
    script = (
        "import asyncio, os, signal, sys\n"
        "from alps.event_loop import run_loop\n"
        "from alps.exit_codes import guarded\n"
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
