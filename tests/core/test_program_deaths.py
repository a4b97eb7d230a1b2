import asyncio

import pytest

from alps.errors import UsageError
from alps.schema import Prediction
from alps.systems import process
from tests.programs import (
    HOLDING,
    NAMES,
    QUICK,
    TASK,
    answered,
    ask,
    is_let_go,
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
    assert predictions["b"].error == "the program died on this row (it closed its output), twice"


def test_a_program_that_dies_at_its_start_three_times_can_not_be_used(make, diary):
    asked = make("import no_such_module_at_all")
    with pytest.raises(
        UsageError,
        match=r"died 3 times before its first answer \(exit code 1\): ModuleNotFoundError",
    ) as error:
        ask(asked, *NAMES)
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


def test_the_row_on_which_the_program_hangs_is_empty_and_the_others_are_unaffected(
    make, diary, tmp_path, no_grace
):
    body = (
        HOLDING.format(lock=str(tmp_path / "lock"))
        + """
for name in rows():
    if name == "b": time.sleep(600)
    answer(name)
"""
    )
    predictions = ask(make(body, timeout=QUICK), "a", "b", "c", "d")
    assert no_grace()
    assert answered(predictions, "b")
    assert predictions["b"].outcome == "empty"
    assert predictions["b"].error == f"no answer within {QUICK:g} s"
    assert predictions["b"].raw is None
    assert diary.starts == 2
    assert is_let_go(tmp_path / "lock")


def test_a_row_that_was_passed_over_is_like_any_other_in_the_next_process(make, diary):
    body = """
again = os.path.exists(sys.argv[0] + ".again")
for name in rows():
    if name == "a" and again: time.sleep(600)
    if name == "c" and not again:
        open(sys.argv[0] + ".again", "w").close()
        sys.exit(1)
    if name != "a": answer(name)
"""
    predictions = ask(make(body, timeout=QUICK), "a", "b", "c")
    assert answered(predictions, "a")
    assert predictions["a"].outcome == "empty"
    assert diary.starts == 3


def test_time_runs_from_when_the_program_is_free_for_the_row(make):
    body = """
for name in rows():
    time.sleep(QUICK_SLEEP)
    answer(name)
""".replace("QUICK_SLEEP", str(QUICK / 5))
    assert answered(ask(make(body, timeout=QUICK, in_flight=6), *NAMES))


def test_a_skipped_row_does_not_cost_the_program_its_life(make, diary):
    body = """
for name in rows():
    if name != "b": answer(name)
note("goodbye")
"""
    predictions = ask(make(body, timeout=QUICK), *NAMES)
    assert answered(predictions, "b")
    assert predictions["b"].outcome == "empty"
    assert diary.lines.count("goodbye") == 1
    assert diary.starts == 1


def test_a_program_that_never_answers_stops_the_run_instead_of_scoring_zero(make, diary):
    with pytest.raises(
        UsageError, match=rf"no answer within {QUICK:g} s, 3 times: does it flush its output"
    ):
        ask(make("for name in rows(): time.sleep(600)", timeout=QUICK), *NAMES)
    assert diary.starts == 3


def test_a_single_row_on_which_it_hangs_is_empty(make):
    predictions = ask(make("for name in rows(): time.sleep(600)", timeout=0.3), "a")
    assert predictions["a"].error == "no answer within 0.3 s"
