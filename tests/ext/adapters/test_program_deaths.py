import asyncio

import pytest

from alps.errors import UsageError
from alps.ext.adapters import process
from alps.schema import Prediction
from tests.programs import (
    NAMES,
    TASK,
    answered,
    ask,
    sample,
    system,
)


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
