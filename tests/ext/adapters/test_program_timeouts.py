"""Programs that leave rows unanswered for as long as they may: all are waited for at once."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from alps.errors import UsageError
from alps.ext.adapters import process
from alps.schema import Prediction
from tests.programs import (
    HOLDING,
    NAMES,
    PATIENT,
    QUICK,
    TASK,
    Diary,
    answered,
    sample,
    system,
    wait_for_release,
    written,
)

IGNORED = "ignored output that is not an answer: 'sorry, not b'"
NEVER = f"no answer within {QUICK:g} s, 3 times; flush the program's output"


@dataclass(frozen=True)
class Case:
    """A program, what it is asked, and what comes of the rows that it does not answer.

    `starts` is None where the time may be over before it has started.
    """

    body: str
    names: tuple[str, ...] = NAMES
    outcomes: tuple[tuple[str, str], ...] = ()
    in_flight: int = 4
    starts: int | None = 1
    timeout: float = QUICK
    env: tuple[str, ...] = ()


CASES = {
    "something else": Case(
        """
for name in rows():
    if name in "bf": print("sorry, not " + name)
    else: answer(name)
""",
        outcomes=(("b", "unparsable"), ("f", "unparsable")),
        in_flight=1,
        starts=2,
    ),
    "other output": Case(
        """
for name in rows():
    if name == "b": print("sorry, not " + name)
    else: answer(name)
""",
        outcomes=(("b", "empty"),),
    ),
    "the wrong id": Case(
        'for name in rows(): answer("stranger" if name == "c" else name)',
        ("a", "b", "c"),
        (("c", "unparsable"),),
    ),
    "a secret": Case(
        'for name in rows(): print("calling with " + os.environ["SOME_API_KEY"])',
        ("a",),
        (("a", "unparsable"),),
        env=("SOME_API_KEY",),
    ),
    "hangs": Case(
        HOLDING.format(lock="@lock@")
        + """
for name in rows():
    if name == "b": time.sleep(600)
    answer(name)
""",
        ("a", "b", "c", "d"),
        (("b", "empty"),),
        starts=2,
    ),
    "passed over": Case(
        """
again = os.path.exists(sys.argv[0] + ".again")
for name in rows():
    if name == "a" and again: time.sleep(600)
    if name == "c" and not again:
        open(sys.argv[0] + ".again", "w").close()
        sys.exit(1)
    if name != "a": answer(name)
""",
        ("a", "b", "c"),
        (("a", "empty"),),
        starts=3,
    ),
    "one after another": Case(
        f"""
for name in rows():
    time.sleep({QUICK / 5})
    answer(name)
""",
        in_flight=6,
    ),
    "skipped": Case(
        """
for name in rows():
    if name != "b": answer(name)
note("goodbye")
""",
        outcomes=(("b", "empty"),),
    ),
    "never": Case("for name in rows(): time.sleep(600)", starts=3),
    "a single row": Case(
        "for name in rows(): time.sleep(600)", ("a",), (("a", "empty"),), starts=None, timeout=0.3
    ),
}


@dataclass(frozen=True)
class Waited:
    """What came of a program, or the error that ended the run."""

    predictions: dict[str, Prediction]
    error: BaseException | None
    diary: Diary
    folder: Path


async def carry_out(folder: Path, case: Case) -> Waited:
    diary = Diary(folder / "diary")
    command = written(folder, diary, case.body.replace("@lock@", str(folder / "lock")))
    options: Any = {"timeout": case.timeout, "in_flight": case.in_flight, "env": case.env}
    asked = system(command, folder, **options)
    try:
        answers = (asked.answer(TASK, sample(name)) for name in case.names)
        found = await asyncio.gather(*answers)
    except UsageError as error:
        return Waited({}, error, diary, folder)
    finally:
        await asked.aclose()
    return Waited(dict(zip(case.names, found, strict=True)), None, diary, folder)


@pytest.fixture(scope="module")
def waited(tmp_path_factory):
    async def all_of_them() -> list[Waited]:
        folders = [tmp_path_factory.mktemp("program") for _ in CASES]
        pairs = zip(folders, CASES.values(), strict=True)
        return await asyncio.gather(*(carry_out(folder, case) for folder, case in pairs))

    began = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONUNBUFFERED", raising=False)
        patch.setenv("SOME_API_KEY", "hush-hush-hush")
        patch.setattr(process, "GRACE", PATIENT)
        found = asyncio.run(all_of_them())
    assert time.monotonic() - began < PATIENT  # what hangs is ended without any grace
    return dict(zip(CASES, found, strict=True))


@pytest.mark.parametrize("name", [name for name in CASES if name != "never"])
@pytest.mark.release
def test_a_row_without_an_answer_fails_by_its_kind_and_the_others_are_unaffected(waited, name):
    case, found = CASES[name], waited[name]
    missed = dict(case.outcomes)
    assert found.error is None
    assert answered(found.predictions, *missed)
    assert {row: found.predictions[row].outcome for row in missed} == missed
    assert all(found.predictions[row].prediction is None for row in missed)
    assert case.starts is None or found.diary.starts == case.starts


@pytest.mark.release
def test_what_was_said_instead_is_kept_without_secrets_or_noted_with_the_next_answer(waited):
    for row in "bf":
        prediction = waited["something else"].predictions[row]
        assert prediction.raw == f"sorry, not {row}"
        assert "no answer to this record" in str(prediction.error)
    assert IGNORED in waited["other output"].predictions["c"].notes
    assert "stranger" in str(waited["the wrong id"].predictions["c"].raw)
    assert waited["a secret"].predictions["a"].raw == "calling with [secret]"


def test_a_program_that_hangs_is_ended_with_its_children_and_one_that_skips_a_row_is_not(waited):
    hung = waited["hangs"].predictions["b"]
    assert (hung.error, hung.raw) == (f"no answer within {QUICK:g} s", None)
    wait_for_release(waited["hangs"].folder / "lock")
    assert waited["a single row"].predictions["a"].error == "no answer within 0.3 s"
    assert waited["skipped"].diary.lines.count("goodbye") == 1


def test_a_program_that_never_answers_stops_the_run_instead_of_scoring_zero(waited):
    assert NEVER in str(waited["never"].error)
    assert waited["never"].diary.starts == CASES["never"].starts
