import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from alps.ext.adapters import process
from alps.ext.adapters.program import ProgramSystem
from alps.schema import Prediction
from tests.conftest import ROOT
from tests.programs import (
    HOLDING,
    PATIENT,
    TASK,
    Diary,
    answered,
    ask,
    facts,
    is_held,
    is_let_go,
    sample,
    system,
)

HALFWAY = """
def halfway():
    note("halfway")
    began = time.monotonic()
    while not os.path.exists(sys.argv[0] + ".greeting"):
        if time.monotonic() - began > 300: sys.exit(1)
        time.sleep(0.01)
"""


def _ask_greeting(asked: ProgramSystem, diary: Diary, *names: str) -> list[Prediction]:
    """Ask a program that goes on at `halfway()` only if the event loop is free to do something else
    then.
    """

    async def greet() -> None:
        while not diary.path.exists() or "halfway" not in diary.lines:
            await asyncio.sleep(0.01)
        diary.path.with_name("script.py.greeting").touch()

    async def greeted() -> list[Prediction]:
        greeting = asyncio.create_task(greet())
        try:
            return await asyncio.gather(*(asked.answer(TASK, sample(name)) for name in names))
        finally:
            greeting.cancel()
            await asked.aclose()

    return asyncio.run(greeted())


def test_a_flood_of_stderr_neither_blocks_nor_fills_anything(make, diary, tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hush-hush-hush")
    body = """
for name in rows():
    for number in range(500):
        sys.stderr.write(("x" * 99 + "\\n") * 1000)
        if number == 250: halfway()
    sys.stderr.write("my key is hush-hush-hush\\nthe end of " + name + "\\n")
    answer(name)
"""
    predictions = _ask_greeting(make(HALFWAY + body), diary, "a")
    assert facts(predictions[0]) == ["fact of a"]
    assert diary.starts == 1
    kept = (tmp_path / "stderr.log").read_text()
    assert kept.splitlines()[0] == "x" * 99
    assert 60_000 < len(kept) <= process.STDERR_KEPT
    assert kept.endswith("x\nmy key is [secret]\nthe end of a\n")


@pytest.mark.release
def test_lines_above_the_cap_are_garbage_and_long_ones_below_it_are_not(make, diary):
    body = """
for name in rows():
    if name == "a":
        sys.stdout.write('{"benchmark_id": "a", "memory_items": [], \
"reasoning": "' + "x" * 25_000_000)
        halfway()
        print("x" * 25_000_000 + '"}')
    elif name == "b": answer(name, reasoning="x" * 5_000_000)
    else: answer(name)
"""
    predictions = _ask_greeting(make(HALFWAY + body, timeout=8.0), diary, *"abc")
    assert [prediction.outcome for prediction in predictions] == ["empty", "ok", "ok"]
    assert any("is not an answer" in note for note in predictions[1].notes)
    assert len(str(predictions[1].raw)) > 5_000_000
    assert diary.starts == 1


def test_a_long_answer_is_heard_although_the_program_ended_meanwhile(make, diary):
    predictions = ask(make("answer(next(rows()), reasoning='x' * 5_000_000)"), "a")
    assert answered(predictions)
    assert diary.starts == 1


def test_a_flood_of_log_lines_on_stdout_is_survived(make):
    body = """
for name in rows():
    for number in range(20): sys.stdout.write("log line\\n" * 2_000)
    answer(name)
"""
    predictions = ask(make(body), "a", "b")
    assert answered(predictions)
    assert all(len(" ".join(prediction.notes)) < 300 for prediction in predictions.values())


def test_the_command_is_named_without_its_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hush-hush-hush")
    asked = system(f"{sys.executable} -c pass --key hush-hush-hush", tmp_path)
    assert asked.name == f"program:{Path(sys.executable).name}"
    assert asked.settings == {
        "command": f"{sys.executable} -c pass --key [secret]",
        "timeout": PATIENT,
    }


def test_a_program_ends_by_itself_when_its_input_ends(make, diary, tmp_path):
    body = """
for name in rows(): answer(name)
note("goodbye")
print("and a last word", file=sys.stderr)
"""
    assert answered(ask(make(body), "a"))
    assert diary.lines[-1] == "goodbye"
    assert (tmp_path / "stderr.log").read_text() == "and a last word\n"


def test_nothing_stays_behind_of_a_program_that_will_not_end(make, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "GRACE", 0.4)
    body = (
        HOLDING.format(lock=str(tmp_path / "lock"))
        + """
signal.signal(signal.SIGTERM, lambda *_: note("terminated"))
for name in rows(): answer(name)
while True: time.sleep(0.05)
"""
    )
    assert answered(ask(make(body), "a", "b"))
    assert is_let_go(tmp_path / "lock")
    assert "terminated" in (tmp_path / "diary").read_text()


def test_children_of_a_program_that_died_do_not_hold_up_the_run(make, tmp_path, no_grace):
    body = HOLDING.format(lock=str(tmp_path / "lock")) + "answer(next(rows()))"
    assert answered(ask(make(body), "a", "b"))
    assert no_grace()
    assert is_let_go(tmp_path / "lock")


def test_nothing_stays_behind_when_the_run_is_cancelled(make, tmp_path):
    asked = make(HOLDING.format(lock=str(tmp_path / "lock")) + 'note("ready")\ntime.sleep(60)')

    async def cancelled() -> None:
        under_way = asyncio.create_task(asked.answer(TASK, sample("a")))
        while not is_held(tmp_path / "lock"):
            await asyncio.sleep(0.02)
        under_way.cancel()
        with pytest.raises(asyncio.CancelledError):
            await under_way

    asyncio.run(cancelled())
    assert is_let_go(tmp_path / "lock")


def test_it_can_be_used_again_after_it_was_closed(make, diary):
    asked = make("for name in rows(): answer(name)")
    assert answered(ask(asked, "a", "b"))
    assert answered(ask(asked, "a", "c"))
    assert diary.starts == 2


PRIES = """
import json, os, sys
def parents():
    number = os.getpid()
    while number > 1:
        with open(f"/proc/{number}/stat") as file:
            number = int(file.read().rpartition(")")[2].split()[1])
        yield number
seen = []
for number in [*parents()][:2]:
    for name in ("environ", "mem"):
        try:
            with open(f"/proc/{number}/{name}", "rb") as file:
                seen.append(name if name == "mem" else file.read().count(b"sk-of-the-run"))
        except OSError:
            pass
for line in sys.stdin:
    row = json.loads(line)
    print(json.dumps({"benchmark_id": row["benchmark_id"], "memory_items": [{"value": f"{seen}"}]}))
    sys.stdout.flush()
"""
READS = "-sys_ptrace,-sys_admin,-perfmon"
UNPRIVILEGED = ("setpriv", f"--inh-caps={READS}", f"--bounding-set={READS}")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps processes apart")
@pytest.mark.skipif(
    os.getuid() == 0 and shutil.which("setpriv") is None, reason="root reads every process"
)
def test_a_program_reads_no_key_in_the_processes_above_it():
    with TemporaryDirectory() as folder:
        script = Path(folder, "pries.py")
        script.write_text(PRIES)
        words = ["run", "task=extraction", "limit=1", "baseline_records=0", f"out={folder}/out"]
        words += [f"model=program:{sys.executable} {script}", "max_failures=100%"]
        lowered = UNPRIVILEGED if os.getuid() == 0 else ()
        variables = {**os.environ, "OPENAI_API_KEY": "sk-of-the-run-0123456789", "HOME": folder}
        done = subprocess.run(
            [*lowered, sys.executable, "-m", "alps", *words],
            cwd=ROOT,
            env={**variables, "ALPS_CACHE": "off"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (row,) = Path(folder, "out", "predictions.jsonl").read_text().splitlines()
    # What it can read is its keeper, which has no key.
    assert json.loads(row)["prediction"]["memory_items"][0]["value"] == "[0, 'mem']"
