import asyncio
import fcntl
import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alps.errors import UsageError
from alps.schema import ExtractionSample, Prediction
from alps.systems import process, program
from alps.systems.program import ProgramSystem
from alps.tasks import load_task
from tests.builders import extraction_sample, memory

TASK = load_task("extraction")
PATIENT, QUICK = 30.0, 1.2
NAMES = ("a", "b", "c", "d", "e", "f")
PRELUDE = """
import fcntl, json, os, select, signal, subprocess, sys, time
with open({diary!r}, "a") as file:
    file.write("start\\n")
def note(text):
    with open({diary!r}, "a") as file:
        file.write(text + "\\n")
def answer(name, **fields):
    print(json.dumps({{"benchmark_id": name, "memory_items": [{{"value": "fact of " + name}}], **fields}}))
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


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "diary")


@pytest.fixture
def make(tmp_path: Path, diary: Diary, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a system whose program is a prelude and the given body."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)

    def made(body: str, *, timeout: float = PATIENT, in_flight: int = 4) -> ProgramSystem:
        script = tmp_path / "script.py"
        script.write_text(PRELUDE.format(diary=str(diary.path)) + body)
        return system(f"{sys.executable} -S {shlex.quote(str(script))}", tmp_path, timeout=timeout, in_flight=in_flight)

    return made


def system(command: str, folder: Path, *, timeout: float = PATIENT, in_flight: int = 4) -> ProgramSystem:
    stderr_path = folder / "stderr.log"
    return ProgramSystem(
        command, task=TASK, to_row=TASK.input_row, timeout=timeout, stderr_path=stderr_path, in_flight=in_flight
    )


def sample(name: str) -> ExtractionSample:
    return extraction_sample([memory("a secret of the gold")], f"I am {name}", benchmark_id=name)


def ask(asked: ProgramSystem, *names: str) -> dict[str, Prediction]:
    async def all_of_them() -> list[Prediction]:
        try:
            return await asyncio.gather(*(asked.predict(sample(name)) for name in names))
        finally:
            await asked.aclose()

    predictions = asyncio.run(all_of_them())
    assert [prediction.benchmark_id for prediction in predictions] == list(names)
    return {prediction.benchmark_id: prediction for prediction in predictions}


def facts(prediction: Prediction) -> list[str]:
    assert prediction.outcome == "ok", prediction
    assert prediction.prediction is not None
    return [item["value"] for item in prediction.prediction["memory_items"]]


def answered(predictions: dict[str, Prediction], *but: str) -> bool:
    return all(facts(predictions[name]) == [f"fact of {name}"] for name in predictions if name not in but)


def is_held(path: Path) -> bool:
    """Tell whether a process that locked `path`, or a child of it, is still there."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def is_let_go(path: Path) -> bool:
    deadline = time.monotonic() + 2.0
    while is_held(path) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_held(path)


HOLDING = """
lock = open({lock!r}, "a")
fcntl.flock(lock, fcntl.LOCK_EX)
os.set_inheritable(lock.fileno(), True)
child = subprocess.Popen(
    ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], close_fds=False, stdin=subprocess.DEVNULL
)
"""


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


def test_answers_out_of_order_are_joined_by_id(make):
    body = """
names = []
for name in rows():
    names.append(name)
    if len(names) == 3:
        for name in reversed(names): answer(name)
        names = []
"""
    assert answered(ask(make(body), *NAMES))


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
    note = "output that is no answer was ignored: 'thinking about b'"
    assert [name for name in NAMES if note in predictions[name].notes] == ["b"]


def test_garbage_instead_of_an_answer_is_unparsable_and_does_not_hold_up_the_others(make):
    body = """
for name in rows():
    if name in "bcf": print("sorry, not " + name)
    else: answer(name)
"""
    began = time.monotonic()
    predictions = ask(make(body, timeout=3.0, in_flight=2), *NAMES)
    assert time.monotonic() - began < 2.7
    assert answered(predictions, "b", "c", "f")
    for name in "bcf":
        assert predictions[name].outcome == "unparsable"
        assert predictions[name].raw == f"sorry, not {name}"
        assert predictions[name].prediction is None
        assert "no answer to this row" in str(predictions[name].error)


def test_garbage_does_not_take_the_place_of_the_rows_to_come(make, diary):
    body = """
for name in rows():
    if name in "bdf": print("sorry, not " + name)
    else: answer(name)
"""
    predictions = ask(make(body, timeout=3.0, in_flight=2), *NAMES, "g")
    assert answered(predictions, "b", "d", "f")
    assert [predictions[name].raw for name in "bdf"] == ["sorry, not b", "sorry, not d", "sorry, not f"]
    assert diary.starts == 1


def test_several_lines_of_garbage_are_kept_and_end_no_run(make):
    body = """
for name in rows():
    print("{\\n  'benchmark_id': '" + name + "'")
    time.sleep(60)
"""
    predictions = ask(make(body, timeout=0.3), "a", "b", "c")
    for name, prediction in predictions.items():
        assert prediction.outcome == "unparsable"
        assert prediction.raw == "{\n'benchmark_id': '" + name + "'"


def test_it_is_learned_that_a_program_logs_to_stdout(make, diary):
    body = """
for name in rows():
    print("slowly thinking")
    time.sleep(0.25)
    answer(name)
"""
    assert answered(ask(make(body, timeout=2.0, in_flight=1), "a", "b", "c"))
    assert diary.starts == 2


def test_an_answer_after_the_input_ended_still_counts(make, diary):
    body = """
print("loading")
for name in rows():
    time.sleep(0.4)
    answer(name)
"""
    predictions = ask(make(body, timeout=2.0), "a")
    assert answered(predictions)
    assert diary.starts == 1


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
    assert any("is no answer" in note for note in predictions["c"].notes)


def test_a_concurrent_program_that_logs_to_stdout_loses_nothing(make, diary):
    body = """
names = []
for name in rows():
    print("read " + name)
    names.append(name)
    if len(names) == 4: break
for name in reversed(names):
    time.sleep(0.1)
    answer(name)
for name in rows(): answer(name)
"""
    assert answered(ask(make(body), *NAMES))
    assert diary.starts == 1


def test_an_answer_without_id_belongs_to_the_only_row_under_way(make):
    body = 'for name in rows(): print(json.dumps({"memory_items": [{"value": "fact of " + name}]}))'
    predictions = ask(make(body, in_flight=1), "a", "b")
    assert answered(predictions)
    assert any("without benchmark_id" in note for note in predictions["b"].notes)


def test_an_answer_without_id_is_never_guessed_between_several_rows(make):
    body = """
names = [name for _, name in zip(range(3), rows())]
print(json.dumps({"memory_items": [{"value": "whose"}]}))
for name in names[1:]: answer(name)
for name in rows(): pass
"""
    predictions = ask(make(body, timeout=3.0, in_flight=3), "a", "b", "c")
    assert answered(predictions, "a")
    assert predictions["a"].outcome == "unparsable"
    assert "whose" in str(predictions["a"].raw)


@pytest.mark.parametrize("line", ['{"value_of_loss": 0.1}', "17", '"text"', "null", "[]", '{"benchmark_id": null}'])
def test_json_that_is_no_answer_is_not_taken_for_one(make, line):
    body = f"""
for name in rows():
    print({line!r})
    answer(name)
"""
    predictions = ask(make(body, in_flight=1), "a", "b")
    assert answered(predictions)
    assert any("is no answer" in note for note in predictions["a"].notes)


def test_answers_to_rows_that_do_not_wait_are_never_joined(make):
    body = """
for name in rows():
    answer("stranger")
    answer(name)
    answer(name, memory_items=[{"value": "second thoughts"}])
"""
    predictions = ask(make(body, in_flight=2), *NAMES)
    assert answered(predictions)
    strays = [name for name in NAMES if any("not waiting" in note for note in predictions[name].notes)]
    assert strays == list(NAMES)


def test_an_answer_with_the_wrong_id_alone_leaves_the_row_unparsable(make):
    body = """
for name in rows(): answer("stranger" if name == "b" else name)
"""
    predictions = ask(make(body, timeout=3.0), "a", "b", "c")
    assert answered(predictions, "b")
    assert predictions["b"].outcome == "unparsable"
    assert "stranger" in str(predictions["b"].raw)


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
    body = r"""
for name in rows():
    sys.stdout.write("\ufeff" + json.dumps({"benchmark_id": int(name), "memory_items": []}) + "\r\n")
    if name == "2": break
sys.stdout.write(json.dumps({"benchmark_id": "3", "memory_items": [{"value": "last"}]}))
"""
    predictions = ask(make(body), "1", "2", "3")
    assert [facts(predictions[name]) for name in "123"] == [[], [], ["last"]]


def test_the_same_sample_twice_at_once_is_asked_twice(make, diary):
    asked = make("for name in rows(): answer(name)")

    async def twice() -> list[Prediction]:
        try:
            return await asyncio.gather(*(asked.predict(sample("a")) for _ in range(3)))
        finally:
            await asked.aclose()

    predictions = asyncio.run(twice())
    assert [facts(prediction) for prediction in predictions] == [["fact of a"]] * 3
    assert len(diary.lines) == 1 + 3
    assert not any("not waiting" in note for prediction in predictions for note in prediction.notes)


def test_the_row_on_which_the_program_dies_twice_is_empty_and_the_others_are_unaffected(make, diary):
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
    assert predictions["b"].error == "the program died on this row (exit code 3), twice: can't do b"
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


def test_one_death_is_forgiven(make, diary):
    body = """
for name in rows():
    if name in "be" and not os.path.exists(name):
        open(name, "w").close()
        sys.exit(1)
    answer(name)
""".replace("os.path.exists(name)", "os.path.exists(sys.argv[0] + name)").replace(
        "open(name", "open(sys.argv[0] + name"
    )
    assert answered(ask(make(body), *NAMES))
    assert diary.starts == 3


def test_a_program_that_answers_one_row_and_ends_is_started_for_every_row(make, diary):
    assert answered(ask(make("answer(next(rows()))"), *NAMES))
    assert diary.starts == len(NAMES)


def test_a_program_that_closes_its_output_is_dead(make, monkeypatch):
    monkeypatch.setattr(program, "GRACE", 0.2)
    body = """
for name in rows():
    if name == "b":
        os.close(1)
        time.sleep(60)
    answer(name)
"""
    predictions = ask(make(body), "a", "b", "c")
    assert answered(predictions, "b")
    assert predictions["b"].error == "the program died on this row (it closed its output), twice"


@pytest.mark.parametrize("names", [NAMES, ("a",)])
def test_a_program_that_dies_before_it_reads_a_row_three_times_can_not_be_used(make, diary, names):
    asked = make("import no_such_module_at_all")
    with pytest.raises(
        UsageError, match=r"died 3 times before it read a row \(exit code 1\): ModuleNotFoundError"
    ) as error:
        ask(asked, *names)
    assert "\n" not in str(error.value)
    assert diary.starts == 3
    with pytest.raises(UsageError):
        ask(asked, "a")


def test_a_program_that_can_be_started_no_more_stops_the_run_instead_of_scoring_zero(make, diary):
    body = """
if os.path.exists(sys.argv[0] + ".gone"): sys.exit("the GPU is gone")
for name in rows():
    if name == "c":
        open(sys.argv[0] + ".gone", "w").close()
        os.abort()
    answer(name)
"""
    with pytest.raises(UsageError, match=r"before it read a row \(exit code 1\): the GPU is gone"):
        ask(make(body), *NAMES)
    assert diary.starts == 4


def test_a_program_that_dies_before_its_first_answer_three_times_can_not_be_used(make, diary):
    asked = make('for name in rows(): sys.exit("KeyError: dialog")')
    finished: list[Prediction] = []

    async def all_of_them() -> None:
        async def one(name: str) -> None:
            finished.append(await asked.predict(sample(name)))

        await asyncio.gather(*(one(name) for name in NAMES))

    with pytest.raises(UsageError, match=r"died 3 times before its first answer \(exit code 1\): KeyError: dialog"):
        asyncio.run(all_of_them())
    assert diary.starts == 3
    assert finished == []


def test_a_single_row_on_which_it_dies_is_empty(make):
    predictions = ask(make("for name in rows(): sys.exit(4)"), "a")
    assert predictions["a"].error == "the program died on this row (exit code 4), twice"


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("no-such-program-at-all --x", "no-such-program-at-all: command not found"),
        ("'unclosed", "no closing quotation"),
        ("", "names no program"),
        ("  ", "names no program"),
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


def test_the_row_on_which_the_program_hangs_is_empty_and_the_others_are_unaffected(make, diary, tmp_path):
    body = (
        HOLDING.format(lock=str(tmp_path / "lock"))
        + """
for name in rows():
    if name == "b": time.sleep(60)
    answer(name)
"""
    )
    began = time.monotonic()
    predictions = ask(make(body, timeout=QUICK), "a", "b", "c", "d")
    assert time.monotonic() - began < QUICK + 1.5
    assert answered(predictions, "b")
    assert predictions["b"].outcome == "empty"
    assert predictions["b"].error == "no answer within 1.2 s"
    assert predictions["b"].raw is None
    assert diary.starts == 2
    assert is_let_go(tmp_path / "lock")


def test_a_row_that_was_passed_over_is_like_any_other_in_the_next_process(make, diary):
    body = """
again = os.path.exists(sys.argv[0] + ".again")
for name in rows():
    if name == "a" and again: time.sleep(60)
    if name == "c" and not again:
        open(sys.argv[0] + ".again", "w").close()
        sys.exit(1)
    if name != "a": answer(name)
"""
    predictions = ask(make(body, timeout=0.6), "a", "b", "c")
    assert answered(predictions, "a")
    assert predictions["a"].outcome == "empty"
    assert diary.starts == 3


def test_time_runs_from_when_the_program_is_free_for_the_row(make):
    body = """
for name in rows():
    time.sleep(0.15)
    answer(name)
"""
    assert answered(ask(make(body, timeout=0.7, in_flight=6), *NAMES))


def test_a_skipped_row_does_not_cost_the_program_its_life(make, diary):
    body = """
for name in rows():
    if name != "b": answer(name)
note("goodbye")
"""
    predictions = ask(make(body, timeout=0.6), *NAMES)
    assert answered(predictions, "b")
    assert predictions["b"].outcome == "empty"
    assert diary.lines.count("goodbye") == 1
    assert diary.starts == 1


def test_a_program_that_never_answers_stops_the_run_instead_of_scoring_zero(make, diary):
    with pytest.raises(UsageError, match=r"no answer within 0.2 s, 3 times: does it flush its output"):
        ask(make("for name in rows(): time.sleep(60)", timeout=0.2), *NAMES)
    assert diary.starts == 3


def test_a_single_row_on_which_it_hangs_is_empty(make):
    predictions = ask(make("for name in rows(): time.sleep(60)", timeout=0.3), "a")
    assert predictions["a"].error == "no answer within 0.3 s"


async def _with_ticks(work: Any) -> tuple[Any, float]:
    """Return what `work` gives, and the longest time that the event loop was away meanwhile."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - began)

    ticker = asyncio.create_task(tick())
    try:
        return await work, longest
    finally:
        ticker.cancel()


def test_a_flood_of_stderr_neither_blocks_nor_fills_anything(make, tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hush-hush-hush")
    body = """
for name in rows():
    for number in range(500): sys.stderr.write(("x" * 99 + "\\n") * 1000)
    sys.stderr.write("my key is hush-hush-hush\\nthe end of " + name + "\\n")
    answer(name)
"""
    asked = make(body)

    async def flooded() -> list[Prediction]:
        try:
            return [await asked.predict(sample("a"))]
        finally:
            await asked.aclose()

    (predictions, longest) = asyncio.run(_with_ticks(flooded()))
    assert facts(predictions[0]) == ["fact of a"]
    assert longest < 0.5
    kept = (tmp_path / "stderr.log").read_text()
    assert kept.splitlines()[0] == "x" * 99
    assert 60_000 < len(kept) <= process.STDERR_KEPT
    assert kept.endswith("x\nmy key is [secret]\nthe end of a\n")


def test_lines_above_the_cap_are_garbage_and_long_ones_below_it_are_not(make):
    body = """
for name in rows():
    if name == "a": answer(name, reasoning="x" * 50_000_000)
    elif name == "b": answer(name, reasoning="x" * 5_000_000)
    else: answer(name)
"""
    asked = make(body, timeout=10.0)

    async def flooded() -> list[Prediction]:
        try:
            return await asyncio.gather(*(asked.predict(sample(name)) for name in "abc"))
        finally:
            await asked.aclose()

    (predictions, longest) = asyncio.run(_with_ticks(flooded()))
    assert [prediction.outcome for prediction in predictions] == ["unparsable", "ok", "ok"]
    assert len(str(predictions[0].raw)) == 20_000
    assert len(str(predictions[1].raw)) > 5_000_000
    assert longest < 0.5


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


def test_secrets_in_garbage_are_not_kept(make, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hush-hush-hush")
    body = 'for name in rows(): print("calling with " + os.environ["SOME_API_KEY"])'
    predictions = ask(make(body, timeout=2.0), "a")
    assert predictions["a"].raw == "calling with [secret]"


def test_the_command_is_named_without_its_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "hush-hush-hush")
    asked = system(f"{sys.executable} -c pass --key hush-hush-hush", tmp_path)
    assert asked.name == f"program:{Path(sys.executable).name}"
    assert asked.settings == {"command": f"{sys.executable} -c pass --key [secret]"}


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
    monkeypatch.setattr(program, "GRACE", 0.2)
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


def test_children_of_a_program_that_died_do_not_hold_up_the_run(make, tmp_path):
    body = HOLDING.format(lock=str(tmp_path / "lock")) + "answer(next(rows()))"
    began = time.monotonic()
    assert answered(ask(make(body), "a", "b"))
    assert time.monotonic() - began < 2.0
    assert is_let_go(tmp_path / "lock")


def test_nothing_stays_behind_when_the_run_is_cancelled(make, tmp_path):
    asked = make(HOLDING.format(lock=str(tmp_path / "lock")) + 'note("ready")\ntime.sleep(60)')

    async def cancelled() -> None:
        under_way = asyncio.create_task(asked.predict(sample("a")))
        while not is_held(tmp_path / "lock"):
            await asyncio.sleep(0.02)
        under_way.cancel()
        with pytest.raises(asyncio.CancelledError):
            await under_way

    asyncio.run(cancelled())
    assert is_let_go(tmp_path / "lock")


def test_nothing_stays_behind_after_control_c(tmp_path):
    script, lock = tmp_path / "script.py", tmp_path / "lock"
    script.write_text(PRELUDE.format(diary=str(tmp_path / "diary")) + HOLDING.format(lock=str(lock)) + "list(rows())")
    run = f"""
import asyncio
from pathlib import Path
from tests.test_program import sample, system
async def run():
    asked = system("{sys.executable} -S {script}", Path({str(tmp_path)!r}))
    try:
        await asked.predict(sample("a"))
    finally:
        await asked.aclose()
try:
    asyncio.run(run())
except KeyboardInterrupt:
    print("interrupted")
"""
    running = subprocess.Popen([sys.executable, "-c", run], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not is_held(lock):
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    output, complaints = running.communicate(timeout=20)
    assert (output, complaints) == ("interrupted\n", "")
    assert is_let_go(lock)


def test_it_can_be_used_again_after_it_was_closed(make, diary):
    asked = make("for name in rows(): answer(name)")
    assert answered(ask(asked, "a", "b"))
    assert answered(ask(asked, "a", "c"))
    assert diary.starts == 2
