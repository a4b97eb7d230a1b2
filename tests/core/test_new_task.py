"""A new task is a module of its own, its data, and its name in the list of tasks: nothing else.

A throw-away task, the year that a memory is from, is added to a copy of `tasks/` and `data/`; all
other folders are the project's own. The real commands then run, score, show, compare, audit, pack
and publish it.
"""

import json
import re
import shutil

import pytest

from tests import warm
from tests.conftest import ROOT
from tests.endtoend import begin, environment, finish, run

MODULE = '''"""Year: one memory in, the year that it is from out."""

import re
from typing import Any

from alps.llm.types import AnswerType, Read
from alps.prompts import read_prompt
from alps.schema import Record
from alps.tasks.base import PublicAnswers, Row, Scored, Shown, Task, TaskOptions
from alps.tasks.metrics import Metric
from alps.tasks.record_parts import FAILED, Highlight, ScoredAnswer
from alps.tasks.record_parts import AnsweredRecord, Facts, RecordPart, Passage

PROMPT = read_prompt("<!-- id: year/1 -->\\nName the year that the memory is from.", "year")
METRICS = (
    Metric("accuracy", "right years", headline=True, judged=False),
    Metric("decade_accuracy", "right decades", judged=False),
)
_YEAR = re.compile(r"\\b(?:19|20)\\d\\d\\b")


class YearSample(Record):
    benchmark_id: str
    session_id: str
    memory: str
    gold: str | None


class YearAnswer(Record):
    year: str


def read_sample(row: Row, gold: Row | None) -> YearSample:
    return YearSample(
        benchmark_id=row["benchmark_id"],
        session_id=row["session_id"],
        memory=row["input"]["memory"],
        gold=gold["gold"]["year"] if gold is not None else None,
    )


def messages(sample: YearSample) -> tuple[Row, ...]:
    system = {"role": "system", "content": PROMPT.text}
    return system, {"role": "user", "content": sample.memory}


def input_row(sample: YearSample) -> dict[str, Any]:
    return {
        "benchmark_id": sample.benchmark_id,
        "task": "task5",
        "input": {"memory": sample.memory},
    }


def read_answer(node: object) -> Read[str]:
    year = node.get("year") if isinstance(node, dict) else None
    if not isinstance(year, str) or not _YEAR.fullmatch(year):
        raise ValueError("`year` must be a year, as 2021")
    return Read(year)


def score(sample: YearSample, prediction: Any, verdict: Row | None, judge: Any) -> Scored:
    year = (prediction.prediction or {}).get("year", "")
    scores = {
        "accuracy": float(year == sample.gold),
        "decade_accuracy": float(year[:3] == (sample.gold or "")[:3]),
    }
    return Scored(scores, {"years": 1}, {"year": year})


def first_year(sample: YearSample) -> dict[str, Any]:
    named = _YEAR.search(sample.memory)
    return {"year": named[0] if named else "2000"}


def newest(sample: YearSample) -> dict[str, Any]:
    return {"year": "2024"}


def record_parts(record: AnsweredRecord) -> list[RecordPart]:
    """Show the memory, its year and the answer."""
    gold, year = record.of_sample("gold") or "unknown", record.answer.get("year", "none")
    years = (("right year", gold), ("answer", year))
    return [Passage("Memory", record.of_sample("memory") or ""), Facts("Years", years)]


def wrong_year(answer: ScoredAnswer) -> tuple[float, ...] | None:
    if answer.value("accuracy") != 0:
        return None
    return (1 - (answer.value("decade_accuracy") or 0),)


def tracks(options: TaskOptions) -> tuple[Task, ...]:
    return (
        Task(
            name="year",
            track="task5",
            prompt=PROMPT,
            answer=AnswerType(schema=YearAnswer, read=read_answer, partial=False),
            read_sample=read_sample,
            messages=messages,
            input_row=input_row,
            to_prediction=lambda year: {"year": year},
            has_gold=lambda sample: sample.gold is not None,
            score=score,
            metrics=METRICS,
            systems={"rules": first_year, "floor/newest": newest},
            shown=Shown(
                record_parts=record_parts,
                highlights=(FAILED, Highlight("wrong years", 5, wrong_year)),
            ),
            public=PublicAnswers(choice=lambda answer: (answer["year"], ())),
        ),
    )
'''
MEMORIES = {
    "y1": ("Moved to Porto in 2019", "2019"),
    "y2": ("Finished school in 2008 and took a year off", "2008"),
    "y3": ("Has kept bees since 2024", "2024"),
    "y4": ("Sold the boat in 1998, five years after buying it in 1993", "1998"),
    "y5": ("In 2015 told of the summer of 2011, when the cat came", "2011"),
    "y6": ("Started to learn the cello in 2021", "2021"),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Return a folder whose package `alps` has a task more; only `tasks` and `data` are copies."""
    root = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("__pycache__")
    package = root / "alps"
    package.mkdir()
    for path in (ROOT / "alps").iterdir():
        if path.name not in ("__pycache__", "tasks", "data"):
            (package / path.name).symlink_to(path.resolve())
    for name in ("tasks", "data"):
        shutil.copytree(ROOT / name, package / name, ignore=ignored)
    (package / "tasks" / "year.py").write_text(MODULE)
    registry = package / "tasks" / "registry.py"
    last = '    "forgetting": ("memory",),\n'
    text = registry.read_text()
    assert text.count(last) == 1
    registry.write_text(text.replace(last, f'{last}    "year": (),\n'))
    folder = package / "data" / "samples" / "dev" / "task5"
    folder.mkdir()
    inputs, golds = "", ""
    for name, (memory, year) in MEMORIES.items():
        about = {"benchmark_id": name, "session_id": f"s_{name}", "task": "task5"}
        inputs += json.dumps({**about, "input": {"memory": memory}}) + "\n"
        golds += json.dumps({**about, "gold": {"year": year}}) + "\n"
    (folder / "model_input.jsonl").write_text(inputs)
    (folder / "reference_output.jsonl").write_text(golds)
    return root


@pytest.fixture(scope="module")
def begun(tree):
    """Return how a command of that tree is started: from a warm parent, where there is one."""
    variables = {"PYTHONPATH": str(tree)}
    if not warm.is_used():
        yield lambda here, words, given: begin(here, words, given | variables, cold=True)
        return
    home = warm.Home(light=True, **variables)
    yield lambda here, words, given: warm.WarmProcess(home.place.address, words, here, given)
    home.close()


@pytest.fixture(scope="module")
def command(begun, tmp_path_factory):
    """Return `alps` of that tree, run in a folder of its own."""
    here = tmp_path_factory.mktemp("here")

    def told(*words, code=0, **variables):
        done = finish(begun(here, words, environment(here, **variables)))
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    told.folder = here
    return told


@pytest.fixture(scope="module")
def ran(command):
    """Return what two runs of the task print."""
    rules = command("run", "task=year", "model=rules", "data=samples", "out=rules")
    command("run", "task=year", "model=floor/newest", "data=samples", "out=newest")
    assert rules.startswith("year: right years .833 [")
    return command("show", "rules")


def test_the_score_stands_beside_the_trivial_baseline_and_no_judge_is_named(ran):
    assert re.search(r"right years +\.833 ", ran)
    assert re.search(r"right decades +1\.000 ", ran)
    assert re.search(r"floor/newest +\.167 .* \.667 ", ran)
    assert "judged by" not in ran
    assert "not comparable" not in ran


COMMANDS = {
    "a run of all tasks": (
        ("run", "task=all", "model=rules", "limit=1", "data=samples", "out=all"),
        [" extraction, F1 ", " year, right years "],
    ),
    "a record": (
        ("show", "rules", "y5"),
        ["In 2015 told of the summer", "right year", "2011", "right years .000"],
    ),
    "two runs": (("compare", "rules", "newest"), ["right years", ".667"]),
    "an audit": (("data", "audit", "data=samples"), ["9 tasks"]),
}


@pytest.mark.parametrize(("words", "said"), COMMANDS.values(), ids=COMMANDS)
def test_every_command_knows_it(command, ran, words, said):
    printed = command(*words)
    assert [part for part in said if part not in printed] == []


def test_a_system_of_another_task_is_no_system_of_this_one(command):
    assert command("run", "task=year", "model=bm25", code=2) == ""


def test_a_report_page_has_its_section(command, ran):
    command("report", "rules", "newest", "out=report.html")
    page = (command.folder / "report.html").read_text()
    parts = ("year", "right years", "right decades", "floor/newest", "wrong years", "In 2015 told")
    assert [part for part in parts if part not in page] == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("alps run task=y", ["year"]),
        ("alps run task=year model=", ["rules", "floor/newest"]),
        ("alps run task=year,update model=ru", ["rules"]),
    ],
)
def test_tab_knows_its_name_and_its_systems(command, line, words):
    answered = command(COMP_WORDS=line, _ALPS_COMPLETE="bash_complete").split()
    assert answered[: len(words)] == words


@pytest.fixture(scope="module")
def site(command, ran):
    """Return the site of two submissions of the task."""
    for source, name in (("rules", "Year rules"), ("newest", "floor/newest")):
        packed = (f"name={name}", f"out=submissions/{source}-2026-01-02", "date=2026-01-02")
        command("leaderboard", "submit", source, *packed)
    command("leaderboard", "build", "submissions=submissions", "out=site")
    return command.folder / "site"


def test_a_submission_of_it_is_verified(command, site):
    told = command("leaderboard", "verify", "submissions/rules-2026-01-02")
    assert "alps recomputed 1 of 1 tasks" in told
    assert "consistent" in told


def test_a_forged_score_is_refused(command, site, tmp_path):
    forged = tmp_path / "rules-2026-01-02"
    shutil.copytree(command.folder / "submissions" / "rules-2026-01-02", forged)
    card = forged / "submission.json"
    card.write_text(card.read_text().replace('"value": 0.8333333333333334', '"value": 0.9', 1))
    told = command("leaderboard", "verify", str(forged), code=1)
    assert "recomputed 0.8333333333" in " ".join(told.split())


WITHOUT_IT = {
    "show": ("show", "rules"),
    "report": ("report", "rules"),
    "compare": ("compare", "rules", "newest"),
    "export": ("export", "rules", "format=csv", "out=table"),
    "score": ("score", "rules", "out=again"),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("words", WITHOUT_IT.values(), ids=WITHOUT_IT)
def test_where_the_task_is_not_installed_its_run_is_named(command, ran, words):
    done = run(command.folder, *words)
    what = "rules was made with task=year, a task of an extension that is not installed"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"alps: {what}; install it again")


def test_where_the_task_is_not_installed_a_site_names_its_submission(command, site):
    done = run(command.folder, "leaderboard", "build", "submissions=submissions", "out=other")
    said = done.stderr.splitlines()[-1]
    where = "submissions/newest-2026-01-02/submission.json, tracks.task5"
    assert said.startswith(f"alps: {where}: is neither a task of this version nor of an installed")
    assert (done.returncode, (command.folder / "other").exists()) == (2, False)


def test_the_site_has_its_board_its_tab_and_its_records(site):
    board = (site / "year.html").read_text()
    assert "Year rules" in board
    assert "right years" in board
    assert "year.html" in (site / "index.html").read_text()
    record = (site / "records" / "task5" / "y5.html").read_text()
    assert "Year rules" in record
    assert "2015" in record
