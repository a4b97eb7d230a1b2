"""The Python API, in scripts and in the running event loop of a notebook."""

import asyncio
import html
import re
import subprocess
import sys
import threading
import time

import pytest

import alps
from tests.endtoend import run as run_command
from tests.loopback import Answer, serve

SMALL = {"task": "extraction,utilization", "model": "rules", "data": "samples", "limit": 4}
EXTRACTION = {**SMALL, "task": "extraction"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALPS_CACHE", "off")


def test_the_public_names_are_these():
    assert alps.__all__ == sorted(alps.__all__)
    assert set(dir(alps)) == {
        *("AlpsError", "Judge", "MemorySystem", "Metric", "Record", "Run", "Score", "System"),
        *("Task", "__version__", "aevaluate", "calibrate", "compare", "evaluate", "open_run"),
    }
    assert all(getattr(alps, name) is not None for name in dir(alps))
    assert set(dir(alps)) - set(alps.__all__) == {"MemorySystem", "calibrate"}


def test_a_run_has_the_scores_and_the_folder_of_the_command_and_is_a_table(tmp_path):
    run = alps.evaluate(**SMALL, out=tmp_path / "ours")
    words = [f"{name}={value}" for name, value in SMALL.items()]
    assert run_command(tmp_path, "run", *words, "out=theirs").returncode == 0
    ours, theirs = ((tmp_path / name / "summary.json").read_text() for name in ("ours", "theirs"))
    assert ours == theirs
    f1 = run.scores["task1"]["f1"]
    assert f1.n == 4
    assert 0 <= f1.low <= f1.value <= f1.high <= 1
    assert run.scores["task4_ability1"]["pa"].value is None
    assert "cannot rate answers" in run.scores["task4_ability1"]["pa"].unscored
    page = run._repr_html_()
    assert f"<td>{f1.value:.3f}</td><td>[{f1.low:.3f}, {f1.high:.3f}]</td><td>4</td>" in page
    assert "judge lexical cannot rate answers by a rubric" in page


def test_records_are_a_table_for_pandas_and_a_data_set():
    run = alps.evaluate(**EXTRACTION, out="run")
    records = list(run.records())
    assert len(records) == 4
    table = run.to_pandas()
    assert list(table["id"]) == [record.id for record in records]
    assert list(table["f1"]) == [record.scores["f1"] for record in records]
    assert table["f1"].mean() == pytest.approx(run.scores["task1"]["f1"].value)
    data = run.to_dataset()
    assert data.num_rows == 4
    assert data.column_names == list(table.columns)


def test_it_works_in_a_running_event_loop_as_notebooks_have_one(tmp_path):
    async def cell():
        first = alps.evaluate(**EXTRACTION, out="one")
        second = await alps.aevaluate(**{**EXTRACTION, "model": "floor/empty"}, out="two")
        calibrated = alps.calibrate(judge="lexical", labels="stress", out="calibrated")
        return first, second, calibrated

    first, second, calibrated = asyncio.run(cell())
    assert first.scores["task1"]["f1"].n == second.scores["task1"]["f1"].n == 4
    assert calibrated.reports
    compared = alps.compare(first, "two")
    assert {side.model for side in compared.sides} == {"rules", "floor/empty"}


def test_several_runs_at_once_do_not_disturb_each_other():
    async def cell():
        models = ("rules", "oracle", "floor/empty")
        given = [{**EXTRACTION, "model": name, "out": name} for name in models]
        return await asyncio.gather(*(alps.aevaluate(**settings) for settings in given))

    rules, oracle, nothing = asyncio.run(cell())
    assert nothing.scores["task1"]["f1"].value < rules.scores["task1"]["f1"].value
    assert oracle.scores["task1"]["f1"].value == 1.0


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5}, {"ability": "ei"}, {"env": "HOME"}])
def test_what_the_command_refuses_is_refused_in_the_same_words(tmp_path, settings):
    given = {"task": "extraction", "model": "rules", "data": "samples", **settings}
    if not settings:
        given["limti"] = 3
    done = run_command(tmp_path, "run", *(f"{name}={value}" for name, value in given.items()))
    assert done.returncode == 2
    with pytest.raises(alps.AlpsError) as refused:
        alps.evaluate(**given)
    assert done.stderr.strip() == f"alps: {refused.value}"


@pytest.mark.release
def test_a_run_that_is_cancelled_is_ended_and_resumed(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not-needed")
    asked, before = threading.Event(), threading.active_count()

    def slowly(body):
        asked.set()
        return Answer("[]", delay=1)

    async def cell(**settings):
        work = asyncio.ensure_future(alps.aevaluate(**settings))
        while not asked.is_set() and not work.done():
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    with serve(slowly) as server:
        model = {"model": "openai/slow", "api_base": server.url, "concurrency": 1}
        settings = {"task": "extraction", "data": "samples", **model, "out": "run"}
        asyncio.run(cell(**settings))
        stopped = len(server.requests)
        time.sleep(1.5)
        assert len(server.requests) == stopped < 26
    assert threading.active_count() < before + 8
    assert alps.open_run("run").scores == {}


def test_a_notebook_shows_a_plot_of_the_headline_and_reprs_are_one_line_with_it():
    oracle = alps.evaluate(**{**EXTRACTION, "model": "oracle"}, out="oracle")
    page = oracle._repr_html_()
    (plot,) = re.findall(r"<svg .*?</svg>", page)
    # The score is at the right end of its axis, the baseline at the left one.
    assert re.findall(r'<circle cx="([\d.]+)"', plot) == ["190.0", "490.0"]
    assert "1.000 [" in plot
    assert page.index("<svg") < page.index("<table")
    rules = alps.evaluate(**EXTRACTION, out="rules")
    assert re.fullmatch(r"<Run extraction: rules, F1 \.\d+ \[.*\], n 4, lexical>", repr(rules))
    f1, strict = (rules.scores["extraction"][name] for name in ("f1", "f1_strict"))
    assert repr(f1) == f"<Score {f1.value:.3f} [{f1.low:.3f}, {f1.high:.3f}], n 4>"
    assert repr(strict) == f"<Score –: {strict.unscored}>"
    compared = repr(alps.compare(rules, oracle))
    assert re.fullmatch(r"<Comparison extraction: oracle \+\.\d+ F1 over rules, [^\n]+>", compared)


def test_a_notebook_shows_comparisons_and_calibrations_as_the_command_prints_them(tmp_path):
    run = alps.evaluate(**EXTRACTION, out="run")
    baseline = alps.evaluate(task="extraction", model="floor/empty", limit=4, out="baseline")
    printed = run_command(tmp_path, "compare", "run", "baseline").stdout
    assert alps.compare(run, baseline)._repr_html_() == f"<pre>{html.escape(printed)}</pre>"
    calibrated = alps.calibrate(judge="lexical", labels="stress", out="calibrated")
    words = ("calibrate", "judge=lexical", "labels=stress", "out=again")
    printed = run_command(tmp_path, *words).stdout
    table = calibrated._repr_html_().removeprefix("<pre>").removesuffix("</pre>")
    assert html.escape(printed).startswith(table.rstrip())
    assert "lexical on matching: FAIL, do not rank systems by F1 with it" in table


def test_more_failures_than_allowed_are_a_warning(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text(
        "class Broken:\n    def predict(self, row):\n        1 / 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match="predictions failed.*more than max_failures"):
        run = alps.evaluate(**{**EXTRACTION, "model": "python:broken:Broken"}, out="run")
    assert run.summary["tracks"]["task1"]["failed_predictions"] == {"invalid": 4}


def test_to_import_the_package_imports_nothing_heavy():
    heavy = "m for m in ('litellm', 'scipy', 'pydantic') if m in sys.modules"
    script = f"import alps, sys; print([{heavy}])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_a_run_shows_its_headline_on_one_line_and_is_asked_by_the_names_people_read(tmp_path):
    run = alps.evaluate(task="extraction", model="rules", out=str(tmp_path / "one"))
    score = run.scores["task1"]["f1"]
    assert run.scores["extraction"] is not None
    assert run.scores["extraction"]["f1"] == run.scores["Extraction"]["f1"] == score
    assert "extraction" in run.scores
    assert "update" not in run.scores
    assert list(run.scores) == ["task1"]
    assert repr(run) == "<Run extraction: rules, F1 .069 [.015, .201], n 26, lexical>"
    assert repr(next(run.records())).startswith("<Record extraction/")
    with pytest.raises(KeyError, match="no task 'updat'; known: extraction"):
        run.scores["updat"]
    with pytest.raises(KeyError, match=r"no metric 'f2' — did you mean 'f1'\?; known: f1, "):
        run.scores["extraction"]["f2"]


@pytest.mark.release
def test_a_task_that_has_several_tracks_is_named_alone_where_a_run_has_one(tmp_path):
    settings = {"model": "bm25", "limit": 2}
    run = alps.evaluate(task="retrieval@300", out=str(tmp_path / "three"), **settings)
    assert run.scores["retrieval"] == run.scores["retrieval@300"] == run.scores["task3_d300"]
    settings |= {"task": "retrieval", "distractors": "300"}
    same = alps.evaluate(out=str(tmp_path / "three"), **settings)
    assert same.summary == run.summary, "both words mean the same run"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"modle": "rules"}, r"unknown key 'modle' — did you mean 'model'.$"),
        ({}, "model= is missing"),
        (
            {"task": "constraints", "ability": "pa", "model": "rules"},
            "this name means ability=cf, not pa",
        ),
        ({"task": "retrieval@100,retrieval@300", "model": "rules"}, "several tasks of retrieval"),
        ({"model": "rules", "dry_run": True}, "only the command estimates costs: alps run"),
        ({"model": "rules", "limit": True}, "limit=True: must be a number, not yes or no"),
        ({"model": threading.Event}, "such as python:threading:Event$"),
        ({"model": "rules", "config": "none.toml"}, "config=none.toml: No such file"),
    ],
    ids=[
        "misspelt",
        "missing",
        "another ability",
        "a task twice",
        "a dry run",
        "a yes for a number",
        "a class",
        "no file",
    ],
)
def test_settings_that_are_missing_misspelt_or_at_odds_are_named(settings, said):
    with pytest.raises(alps.AlpsError, match=said):
        alps.evaluate(**{"task": "extraction", **settings})
