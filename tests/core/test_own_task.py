"""A task of one's own, whatever its metrics and baselines: it is scored to the end, or refused
before anything is paid.

`alps` runs in an empty folder with a module of the user's, as in docs/extending.md.
"""

from pathlib import Path

import pytest

from tests.endtoend import Finished, one_line, results, rows, run, summary, write_rows
from tests.few import few
from tests.loopback import Answer, serve

MODULE = """
from alps.judges.base import fingerprint_id
from alps.llm.types import AnswerType, Read
from alps.prompts import read_prompt
from alps.schema import Record
from alps.judges.rubric import RubricQuestion, read_rubric
from alps.tasks import Metric, MicroRatio, Needs, Scored, Task
from pathlib import Path

PROMPT = read_prompt("<!-- id: mood/1 -->\\nName the mood.", "moods.py")
RUBRIC = read_rubric(Path(__file__).with_name("fitting.md"))


class Sample(Record):
    benchmark_id: str
    session_id: str
    text: str
    gold: str | None


class Answer(Record):
    mood: str


def read_answer(node):
    if not isinstance(node, dict) or not isinstance(node.get("mood"), str):
        raise ValueError("expected a text `mood`")
    return Read(node["mood"])


async def judge(sample, prediction, judge, options):
    row = {"outcome": "ok", "judge": fingerprint_id(judge.fingerprint_for([RUBRIC])), "error": None}
    if RubricQuestion not in judge.answers:
        return row
    question = RubricQuestion(RUBRIC, sample.text, prediction.prediction["mood"], \
sample.gold, ())
    return row | (await judge.answer(question, about=sample.benchmark_id)).row()


def score(sample, prediction, verdict, judge):
    if verdict is None:
        return Scored({"exact": 0.0, "fitting": 0.0})
    scores = {"exact": float(prediction.prediction["mood"] == sample.gold)}
    return Scored(scores | ({"fitting": float(verdict["marks"]["met"])} \
if "marks" in verdict else {}))


def tracks(options):
    name = row = None
    return (
        Task(
            name="mood",
            track="mood",
            prompt=PROMPT,
            answer=AnswerType(schema=Answer, read=read_answer, partial=False),
            read_sample=lambda row, gold: Sample(**row, gold=gold["mood"] if gold else None),
            messages=lambda sample: ({"role": "user", "content": sample.text},),
            input_row=lambda sample: {"benchmark_id": sample.benchmark_id},
            to_prediction=lambda mood: {"mood": mood},
            has_gold=lambda sample: sample.gold is not None,
            judge=judge,
            likely=lambda sample: {"mood": "calm"},
            score=score,
            metrics=(METRICS),
            rubrics=(RUBRIC,),
            systems={SYSTEMS},
        ),
    )
"""
RUBRIC = """<!-- id: fitting/1 -->
Does the `response` fit the mood of the `query`? Reply {"reason": …, "verdict": "met" or "not_met"}.
"""
RATED = 'Metric("fitting", "fitting", headline=True, needs=Needs(rating=True)),'
NEEDING = 'Metric("exact", "exact", headline=True, needs=Needs({})),'
MICRO = '"m", "m", MicroRatio({"a": 1.0}, {"b": 1.0})'
EXACT = 'Metric("exact", "exact", headline=True),'
CALM = '"floor/calm": lambda sample: {"mood": "calm"}'
BROKEN = '"floor/calm": lambda sample: {"mood": 1 / 0}'

METRICS = {
    "rates": RATED,
    "relations": NEEDING.format('relations=frozenset(["narrower"])'),
    "support": NEEDING.format("support=True"),
    "ranking": NEEDING.format("ranking=True"),
    "optional": 'Metric("exact", "exact", headline=True, optional=True),',
    "optional that nobody has": 'Metric("nothing", "nothing", headline=True, optional=True),',
    "no headline": f'{RATED.replace("headline=True, ", "")} Metric("exact", "exact"),',
    "micro": RATED.replace('"fitting", "fitting"', MICRO),
}


def own_task(
    folder: Path,
    *,
    metrics: str = EXACT,
    systems: str = CALM,
    rows: int = 3,
    returned: str | None = None,
    system: str = "",
) -> Path:
    """Write the module, its rubric, a system, data and recorded answers of which each says `calm`,
    the first rightly. The tracks are what is `returned`, if anything is.
    """
    module = MODULE.replace("METRICS", metrics).replace("SYSTEMS", systems)
    module += "" if returned is None else AGAIN.replace("RETURNED", returned)
    (folder / "moods.py").write_text(module)
    (folder / "fitting.md").write_text(RUBRIC)
    (folder / "system.py").write_text(system)
    track = folder / "data" / "dev" / "mood"
    track.mkdir(parents=True)
    names = [f"m{number}" for number in range(rows)]
    files = {
        track / "model_input.jsonl": [
            {"benchmark_id": n, "session_id": n, "text": "Tea, and rain."} for n in names
        ],
        track / "reference_output.jsonl": [
            {"benchmark_id": n, "mood": "calm" if n == "m0" else "sad"} for n in names
        ],
        folder / "answers.jsonl": [{"benchmark_id": n, "mood": "calm"} for n in names],
    }
    for path, lines in files.items():
        write_rows(path, lines)
    return folder


def run_moods(folder: Path, *words: str, out: str = "out", **variables: str) -> Finished:
    where = ("data=data", f"out={out}")
    return run(folder, "run", "task=python:moods", *where, *words, **variables)


@pytest.mark.few(2)
@pytest.mark.parametrize("metrics", METRICS.values(), ids=METRICS)
def test_whatever_its_metrics_a_task_with_a_baseline_is_summarised_listed_and_reported(
    tmp_path, metrics
):
    folder = own_task(tmp_path, metrics=metrics)
    finished = run_moods(folder, "model=predictions:answers.jsonl")
    assert (finished.returncode, finished.stderr) == (0, ""), finished.stderr
    assert "floor/calm" in summary(folder / "out")["tracks"]["mood"]["floors"]
    rated_alone = all("rating=True" in metric for metric in metrics.split("Metric(")[1:])
    scored = 0 if rated_alone else 3  # the embedded judge rates nothing
    counts = f"{scored} scored, 0 failed, 0 unscored" if scored else "0 of 3 scored, 3 unscored"
    assert counts in finished.stdout
    again = run_moods(folder, "model=predictions:answers.jsonl")
    assert (again.returncode, results(again)) == (0, results(finished))
    assert run(folder, "ls", "out").returncode == 0
    assert run(folder, "report", "out").returncode == 0


def test_a_paid_judgement_of_a_rates_only_task_is_shown_beside_a_baseline_that_has_none(tmp_path):
    own_task(tmp_path, metrics=RATED)
    with serve(lambda body: Answer('{"reason": "it does", "verdict": "met"}')) as server:
        judge = ("judge=openai/scripted", f"judge_api_base={server.url}")
        finished = run_moods(
            tmp_path, "model=predictions:answers.jsonl", *judge, OPENAI_API_KEY="test"
        )
    assert finished.returncode == 0, finished.stderr
    track = summary(tmp_path / "out")["tracks"]["mood"]
    assert track["scores"]["fitting"]["value"] == 1.0
    # By an embedded judge, which rates nothing, or the run's.
    assert track["floors"]["floor/calm"]["scores"]["fitting"]["value"] in (None, 1.0)


def test_a_figure_that_needs_a_ranking_has_no_value_where_nothing_ranks(tmp_path):
    own_task(tmp_path, metrics=METRICS["ranking"])
    finished = run_moods(tmp_path, "model=predictions:answers.jsonl")
    assert summary(tmp_path / "out")["tracks"]["mood"]["scores"]["exact"]["value"] is None
    assert "exact no score, the system returns no ranking\n" in finished.stdout


def test_runs_are_compared_by_session_though_the_module_is_not_imported(tmp_path):
    own_task(tmp_path, rows=12)
    track = tmp_path / "data" / "dev" / "mood" / "model_input.jsonl"
    inputs = rows(track)
    for number, row in enumerate(inputs):
        row["session_id"] = f"s{number // 3}"
    write_rows(track, inputs)
    answers = [{"benchmark_id": row["benchmark_id"], "mood": "sad"} for row in inputs]
    write_rows(tmp_path / "other.jsonl", answers)
    assert run_moods(tmp_path, "model=predictions:answers.jsonl").returncode == 0
    assert run_moods(tmp_path, "model=predictions:other.jsonl", out="other").returncode == 0
    compared = run(tmp_path, "compare", "out", "other")
    assert "records as independent" not in " ".join(compared.stdout.split())
    imported = run(tmp_path, "compare", "out", "other", "task=python:moods")
    note = "Sessions are those that the data name"
    told = [line for line in compared.stdout.splitlines() if note not in line]
    assert note in compared.stdout
    assert [line for line in told if "add task=" not in line] == imported.stdout.splitlines()
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    without = run(tmp_path, "compare", "out", "other")
    assert "records as independent" in " ".join(without.stdout.split())


def test_a_baseline_that_raises_has_no_score_and_leaves_the_run_its_own(tmp_path):
    own_task(tmp_path, systems=BROKEN)
    finished = run_moods(tmp_path, "model=predictions:answers.jsonl")
    assert finished.returncode == 0, finished.stderr
    error = "floor/calm: raised ZeroDivisionError: division by zero"
    assert f"First error, {error}" in finished.stdout
    assert error in run(tmp_path, "show", "out").stdout
    track = summary(tmp_path / "out")["tracks"]["mood"]
    assert track["scores"]["exact"]["value"] == pytest.approx(1 / 3)
    assert track["floors"]["floor/calm"]["scores"]["exact"]["value"] is None
    assert "lambda sample: {" in (tmp_path / "out" / "tracebacks.log").read_text()


def test_a_baseline_that_raises_as_the_system_fails_every_prediction(tmp_path):
    own_task(tmp_path, systems=BROKEN)
    finished = run_moods(tmp_path, "model=floor/calm")
    assert finished.returncode == 1
    assert "invalid: raised ZeroDivisionError: division by zero" in finished.stderr


AGAIN = """
from dataclasses import replace

one = tracks


def tracks(options):
    return RETURNED
"""
RAISES = "replace(task, judge=lambda *words: 1 / 0)"
NO_TASKS = "tracks(options) must return one or more alps.tasks.Task"
PART_OF_METRIC = 'Metric("fitting", "fitting", rates=True),'
NO_RATES = "an unexpected keyword argument 'rates'; write needs=Needs(rating=…)"
NO_TITLE = "an unexpected keyword argument 'title'; write shown=Shown(title=…)"
TWICE = "two of its tasks have the same track"
SCORES = "[replace(task, score=lambda *words: {}) for task in one(options)]"
REFUSED = {
    "no metrics": ({"metrics": ""}, "track mood has no metrics"),
    "a score that is no number": (
        {"returned": SCORES.format('Scored({"exact": float("nan")})')},
        "its score returned nan for 'exact', expected a finite number",
    ),
    "a score of a misspelt metric": (
        {"returned": SCORES.format('Scored({"exacct": 1.0})')},
        "its score returned a value of 'exacct', which is no metric — did you mean 'exact'?",
    ),
    "a score that is none": (
        {"returned": SCORES.format('{"exact": 1.0}')},
        "its score returned dict, expected alps.tasks.Scored",
    ),
    "a score function that raises": (
        {"systems": '"floor/calm": lambda sample: {}'},
        "its score raised KeyError: 'mood' (moods.py, line ",
    ),
    "a judge function that raises": (
        {"returned": f"[{RAISES} for task in one(options)]"},
        "its judge raised ZeroDivisionError: division by zero (moods.py, line ",
    ),
    "tracks that raises": ({"systems": "**name"}, "tracks(options) raised TypeError"),
    "a keyword of Metric that is in a part now": ({"metrics": PART_OF_METRIC}, NO_RATES),
    "a keyword of Task that is in a part now": ({"systems": '}, title="Moods", **{'}, NO_TITLE),
    "no task": ({"returned": "()"}, NO_TASKS),
    "something else than tasks": ({"returned": "('mood',)"}, NO_TASKS),
    "two tasks of one name": ({"returned": "one(options) + one(options)"}, TWICE),
}
PLAIN = {"no metrics", "a keyword of Metric that is in a part now"}
PLAIN |= {"no task", "two tasks of one name", "a judge function that raises"}


@pytest.mark.parametrize(("changes", "told"), few(REFUSED, plain=PLAIN))
def test_what_is_wrong_with_the_module_is_one_line(tmp_path, changes, told):
    own_task(tmp_path, **changes)
    assert told in one_line(run_moods(tmp_path, "model=predictions:answers.jsonl"))


SEVERAL = "lambda *words: [task.read_sample(*words)]"
ALLOWED = {"no likely prediction": "likely=None", "lists of samples": f"read_sample={SEVERAL}"}


@pytest.mark.few(2)
@pytest.mark.parametrize("change", ALLOWED.values(), ids=ALLOWED)
def test_what_a_task_may_leave_out_or_give_more_of_is_no_mistake(tmp_path, change):
    own_task(tmp_path, returned=f"[replace(task, {change}) for task in one(options)]")
    for words in (("dry_run=yes",), ()):
        finished = run_moods(tmp_path, "model=floor/calm", *words)
        assert (finished.returncode, finished.stderr) == (0, ""), finished.stderr


RAISING = '''
class Raising:
    """Raises on the first `bad` records."""

    bad = 0

    def predict(self, sample):
        type(self).bad -= 1
        if self.bad >= 0:
            raise ValueError("first line\\nsecond line, " + "which is long, " * 20 + "and THE END")
        return {"mood": "calm"}


class One(Raising):
    bad = 1


class All(Raising):
    bad = 1_000
'''


def test_every_prediction_failed_is_exit_1_with_the_first_error_whole(tmp_path):
    own_task(tmp_path, system=RAISING)
    finished = run_moods(tmp_path, "model=python:system:All")
    assert finished.returncode == 1
    (line,) = finished.stderr.splitlines()
    assert line.startswith(
        "alps: 3 of 3 predictions failed: more than max_failures=5%; invalid: raised "
    )
    assert "and THE END (more in out/tracebacks.log)" in line
    assert "and THE END" in " ".join(run(tmp_path, "show", "out").stdout.split())
    log = (tmp_path / "out" / "tracebacks.log").read_text()
    assert "in predict\n" in log
    assert log.count("Traceback (most recent call last)") == 1


@pytest.mark.parametrize(("allowed", "code"), [("max_failures=34%", 0), ("max_failures=33%", 1)])
def test_failed_predictions_are_held_against_max_failures(tmp_path, allowed, code):
    own_task(tmp_path, system=RAISING)
    assert run_moods(tmp_path, "model=python:system:One", allowed).returncode == code


def test_failed_and_unscored_records_count_together(tmp_path):
    """One of ten failed and one without gold: 20 % of the run says nothing of the system."""
    own_task(tmp_path, rows=10, system=RAISING)
    gold = tmp_path / "data" / "dev" / "mood" / "reference_output.jsonl"
    gold.write_text("".join(gold.read_text().splitlines(keepends=True)[:-1]))
    assert run_moods(tmp_path, "model=python:system:One", "max_failures=20%").returncode == 0
    assert run_moods(tmp_path, "model=python:system:One", "max_failures=15%").returncode == 1


RAISES = "class Raises:\n    def predict(self, sample):\n        raise ValueError({})\n"


def test_a_traceback_names_no_key(tmp_path):
    own_task(tmp_path, system="import os\n" + RAISES.format("os.environ['SOME_API_KEY']"))
    key = "hunter2-hunter2-hunter2"
    finished = run_moods(tmp_path, "model=python:system:Raises", SOME_API_KEY=key)
    assert finished.returncode == 1
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file())
    assert "hunter2" not in f"{finished.stdout}{finished.stderr}{written.decode()}"


def test_what_a_failure_says_does_not_steer_the_terminal(tmp_path):
    own_task(tmp_path, system=RAISES.format(r"'a\x1b[2Jb\x07c'"))
    finished = run_moods(tmp_path, "model=python:system:Raises")
    assert "\x1b[2J" not in f"{finished.stdout}{finished.stderr}"
    assert "a?[2Jb?c" in finished.stderr
