"""Programs as systems: what they are shown, what counts as their answer, how they die and end."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from alps.errors import UsageError
from alps.ext.adapters import process
from alps.ext.adapters.program import ProgramSystem
from alps.schema import Prediction
from tests.conftest import ROOT
from tests.programs import (
    HOLDING,
    NAMES,
    PATIENT,
    QUICK,
    TASK,
    Diary,
    answered,
    ask,
    facts,
    is_held,
    sample,
    system,
    wait_for_release,
)


def test_the_program_is_shown_the_dialogue_and_nothing_else(make, diary):
    predictions = ask(make("for name in rows(): answer(name)"), *NAMES)
    assert answered(predictions)
    rows = [json.loads(line) for line in diary.lines if line != "start"]
    turns = [{"role": "user", "text": "I am a"}, {"role": "assistant", "text": "ok"}]
    assert rows[0] == {"benchmark_id": "a", "task": "task1", "input": {"dialogue": turns}}
    assert [row["benchmark_id"] for row in rows] == list(NAMES)
    assert diary.starts == 1
    raw = json.dumps({"benchmark_id": "a", "memory_items": [{"value": "fact of a"}]})
    assert predictions["a"].raw == raw
    assert predictions["a"].track == "task1"
    assert "missing type" in predictions["a"].notes


# What a program does, and how often it is started for it.
ANSWERING = {
    "out of order": (
        """
names = []
for name in rows():
    names.append(name)
    if len(names) == 3:
        for name in reversed(names): answer(name)
        names = []
""",
        1,
    ),
    "many at once, and logs on stdout": (
        """
names = []
for name in rows():
    print("read " + name)
    names.append(name)
    if len(names) == 4: break
for name in reversed(names):
    time.sleep(0.1)
    answer(name)
for name in rows(): answer(name)
""",
        1,
    ),
    "one row and ends": ("answer(next(rows()))", len(NAMES)),
    "dies once on each of two rows": (
        """
for name in rows():
    if name in "be" and not os.path.exists(sys.argv[0] + name):
        open(sys.argv[0] + name, "w").close()
        sys.exit(1)
    answer(name)
""",
        3,
    ),
}


@pytest.mark.parametrize(("body", "starts"), ANSWERING.values(), ids=ANSWERING)
def test_every_row_is_answered_and_the_program_started_only_where_it_ended(
    make, diary, body, starts
):
    assert answered(ask(make(body), *NAMES))
    assert diary.starts == starts


def test_no_more_rows_than_allowed_are_under_way(make, diary):
    body = """
os.set_blocking(0, False)
buffer, owed, most, answers = b"", [], 0, 0
while answers < 6:
    ready, _, _ = select.select([0], [], [], 0.1)
    if ready:
        buffer += os.read(0, 65536)
        *lines, buffer = buffer.split(b"\\n")
        owed += [json.loads(line)["benchmark_id"] for line in lines]
        most = max(most, len(owed))
    elif owed:
        answer(owed.pop())
        answers += 1
note(f"most {most}")
"""
    assert answered(ask(make(body, in_flight=3), *NAMES))
    assert "most 3" in diary.lines


def test_garbage_before_the_right_answer_is_noted(make):
    body = """
for name in rows():
    if name == "b": print("thinking about b")
    answer(name)
"""
    predictions = ask(make(body), *NAMES)
    assert answered(predictions)
    note = "ignored output that is not an answer: 'thinking about b'"
    assert [name for name in NAMES if note in predictions[name].notes] == ["b"]


@pytest.mark.few(1)
@pytest.mark.parametrize("in_flight", [1, 4])
def test_a_program_that_logs_to_stdout_loses_nothing(make, diary, in_flight):
    body = """
print("loading the model")
print(json.dumps({"level": "info", "items_seen": 0}))
for name in rows():
    print(f"DEBUG: row {name}")
    print(json.dumps({"step": 1}))
    print([])
    time.sleep(0.15)
    answer(name)
    print("done")
    print()
"""
    predictions = ask(make(body, timeout=QUICK, in_flight=in_flight), "a", "b", "c")
    assert answered(predictions)
    assert diary.starts == 1
    assert any("is not an answer" in note for note in predictions["c"].notes)


def test_json_that_is_no_answer_is_not_taken_for_one(make):
    lines = ['{"value_of_loss": 0.1}', "17", '"text"', "null", "[]", '{"benchmark_id": null}']
    body = f"""
lines = {lines!r}
for name in rows():
    print(lines.pop())
    answer(name)
"""
    predictions = ask(make(body, in_flight=1), *NAMES)
    assert answered(predictions)
    for prediction in predictions.values():
        assert any("is not an answer" in note for note in prediction.notes)


def test_answers_to_rows_that_do_not_wait_are_never_joined(make):
    body = """
for name in rows():
    answer("stranger")
    answer(name)
    answer(name, memory_items=[{"value": "second thoughts"}])
"""
    predictions = ask(make(body, in_flight=2), *NAMES)
    assert answered(predictions)
    assert all("ignored" in "".join(predictions[name].notes) for name in NAMES)


def test_an_answer_without_memories_is_invalid_and_an_empty_list_is_not(make):
    body = """
for name in rows():
    if name == "a": print(json.dumps({"benchmark_id": name, "status": "failed"}))
    elif name == "b": answer(name, memory_items=[])
    elif name == "c": answer(name, memory_items=[{"label": "Preferences/Food"}])
    else: answer(name)
"""
    predictions = ask(make(body), *NAMES)
    assert answered(predictions, "a", "b", "c")
    assert facts(predictions["b"]) == []
    for name in "ac":
        assert predictions[name].outcome == "invalid"
        assert predictions[name].prediction is None
        assert predictions[name].raw
        assert predictions[name].error
    assert json.loads(str(predictions["a"].raw)) == {"benchmark_id": "a", "status": "failed"}


def test_numeric_ids_a_byte_order_mark_and_an_unfinished_last_line_are_read(make):
    body = """
for name in rows():
    sys.stdout.write("\\ufeff" + json.dumps({"benchmark_id": int(name), "memory_items": []}) \
+ "\\r\\n")
    if name == "2": break
sys.stdout.write(json.dumps({"benchmark_id": "3", "memory_items": [{"value": "last"}]}))
"""
    predictions = ask(make(body), "1", "2", "3")
    assert [facts(predictions[name]) for name in "123"] == [[], [], ["last"]]


def test_the_same_sample_twice_at_once_is_asked_twice(make, diary):
    asked = make("for name in rows(): answer(name)")

    async def twice() -> list[Prediction]:
        try:
            return await asyncio.gather(*(asked.answer(TASK, sample("a")) for _ in range(3)))
        finally:
            await asked.aclose()

    predictions = asyncio.run(twice())
    assert [facts(prediction) for prediction in predictions] == [["fact of a"]] * 3
    assert len(diary.lines) == 1 + 3
    assert not any("ignored" in note for prediction in predictions for note in prediction.notes)


def test_the_row_on_which_the_program_dies_twice_is_empty_and_the_others_are_unaffected(
    make, diary
):
    body = """
for name in rows():
    if name == "b":
        print("one\\ncan't do b", file=sys.stderr)
        sys.exit(3)
    answer(name)
"""
    predictions = ask(make(body), *NAMES)
    assert answered(predictions, "b")
    assert predictions["b"].outcome == "empty"
    told = "the program died twice on this record (exit code 3): can't do b"
    assert predictions["b"].error == told
    assert diary.starts == 3


def test_a_row_on_which_it_dies_is_told_from_older_rows_that_it_still_works_on(make):
    body = """
import threading
def work(name):
    time.sleep(0.15)
    answer(name)
for name in rows():
    if name == "c": os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=work, args=(name,)).start()
"""
    predictions = ask(make(body), "a", "b", "c", "d")
    assert answered(predictions, "c")
    assert predictions["c"].outcome == "empty"
    assert "killed by SIGKILL" in str(predictions["c"].error)


def test_a_program_that_closes_its_output_is_dead(make, monkeypatch):
    monkeypatch.setattr(process, "GRACE", 0.2)
    body = """
for name in rows():
    if name == "b":
        os.close(1)
        time.sleep(600)
    answer(name)
"""
    predictions = ask(make(body), "a", "b", "c")
    assert answered(predictions, "b")
    assert predictions["b"].error == "the program died twice on this record (it closed its output)"


@pytest.mark.release
def test_a_program_that_can_be_started_no_more_stops_the_run_instead_of_scoring_zero(make, diary):
    body = """
if os.path.exists(sys.argv[0] + ".gone"): sys.exit("the GPU is gone")
for name in rows():
    if name == "c":
        open(sys.argv[0] + ".gone", "w").close()
        os.abort()
    answer(name)
"""
    with pytest.raises(
        UsageError, match=r"died 10 times in a row \(exit code 1\): the GPU is gone"
    ):
        ask(make(body), *NAMES, *"ghijkl")
    assert diary.starts == 11


def test_a_program_that_dies_before_its_first_answer_three_times_can_not_be_used(make, diary):
    asked = make('for name in rows(): sys.exit("KeyError: dialog")')
    finished: list[Prediction] = []

    async def all_of_them() -> None:
        async def one(name: str) -> None:
            finished.append(await asked.answer(TASK, sample(name)))

        await asyncio.gather(*(one(name) for name in NAMES))

    with pytest.raises(
        UsageError, match=r"died 3 times before its first answer \(exit code 1\): KeyError: dialog"
    ):
        asyncio.run(all_of_them())
    assert diary.starts == 3
    assert finished == []


def test_a_single_row_on_which_it_dies_is_empty(make):
    predictions = ask(make("for name in rows(): sys.exit(4)"), "a")
    assert predictions["a"].error == "the program died twice on this record (exit code 4)"


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("no-such-program-at-all --x", "no-such-program-at-all: command not found"),
        ("'unclosed", "no closing quotation"),
        ("", "the command is empty; name a program"),
        ("  ", "the command is empty; name a program"),
    ],
)
def test_a_command_that_is_none(command, complaint, tmp_path):
    with pytest.raises(UsageError, match=complaint) as error:
        system(command, tmp_path)
    assert str(error.value).startswith("model=program:")


def test_a_file_that_is_no_program(tmp_path):
    (tmp_path / "broken").write_text("#!/no/such/interpreter\n")
    (tmp_path / "broken").chmod(0o755)
    with pytest.raises(UsageError, match="can't be started: No such file or directory"):
        ask(system(str(tmp_path / "broken"), tmp_path), "a", "b")


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
    assert answered(ask(make("answer(next(rows()), reasoning='x' * 5_000_000)"), "a"))
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
    wait_for_release(tmp_path / "lock")
    assert "terminated" in (tmp_path / "diary").read_text()


def test_children_of_a_program_that_died_do_not_hold_up_the_run(make, tmp_path, no_grace):
    body = HOLDING.format(lock=str(tmp_path / "lock")) + "answer(next(rows()))"
    assert answered(ask(make(body), "a", "b"))
    assert no_grace()
    wait_for_release(tmp_path / "lock")


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
    wait_for_release(tmp_path / "lock")


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
