"""Exports, opened by the libraries that they are for."""

import csv
import json
import re
import shutil
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from alps.data.release import write_track
from alps.errors import UsageError
from alps.ext.export.formats import ExportSettings, export_runs
from tests.endtoend import edit_json, extraction, one_line, rows, run, summary, task1
from tests.loopback import Answer, serve
from tests.report_runs import make_hard_run
from tests.visitors import good, is_judging, visitor, write_visitors

COUNT = 4


def ran(folder, *words, **variables):
    """Run a command that succeeds, and return what it printed."""
    done = run(folder, *words, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of a model and a judge, and one of the embedded extractor on the same dialogues."""
    folder = tmp_path_factory.mktemp("exported")
    write_visitors(folder / "data", COUNT)
    with serve(good) as server:
        ran(folder, *extraction(server.url, "out=model"), OPENAI_API_KEY="none")
    ran(folder, "run", "task=extraction", "model=rules", "data=data", "out=rules")
    return folder


def exported(folder, form, *runs):
    """Export in this process: the libraries take seconds to import, and tests need them, too."""
    out = folder / form
    # The runs say data=data, which is a folder here.
    with chdir(folder):
        export_runs([Path(name) for name in runs], ExportSettings(format=form, out=str(out)))
    return out


def csv_tables(folder, *runs):
    """Export runs by the command; return the data frames of their records and of their scores."""
    import pandas as pd

    told = ran(folder, "export", *runs, "format=csv", "out=csv")
    assert told == "wrote csv/records.csv\nwrote csv/scores.csv\n"
    return [pd.read_csv(folder / "csv" / f"{name}.csv") for name in ("records", "scores")]


def assert_is_whole(records, scores, folder):
    """Hold two data frames of pandas against the files of the run."""
    by_id = {row["benchmark_id"]: row for row in rows(folder / "model" / "scores.jsonl")}
    own = records[records.run == "model"]
    assert list(own.record_id) == list(by_id)
    assert list(own.score_f1) == [row["scores"]["f1"] for row in by_id.values()]
    assert list(own.session) == [f"session_{number:02}" for number in range(COUNT)]
    assert set(own.system) == {"openai/scripted"}
    assert set(own.outcome) == {"ok"}
    assert set(own.slice_script) == {"Latin"}
    calls = rows(folder / "model" / "calls.jsonl")
    sent = {"generate": own.prompt_tokens, "judge": own.judge_prompt_tokens}
    for purpose, column in sent.items():
        of_calls = [call["prompt_tokens"] for call in calls if call["purpose"] == purpose]
        assert column.sum() == sum(of_calls) > 0
    assert (own.seconds > 0).all()
    assert set(records.run) == {"model", "rules"}
    f1 = scores[(scores.run == "model") & (scores.metric == "f1") & ~scores.baseline]
    figure = summary(folder / "model")["tracks"]["task1"]["scores"]["f1"]
    assert f1[["value", "low", "high", "n"]].values.tolist() == [
        [figure["value"], figure["low"], figure["high"], figure["n"]]
    ]
    assert f1.headline.all()
    floors = scores[(scores.run == "rules") & scores.baseline]
    assert set(floors.system) == {
        *("floor/empty", "floor/content-free", "floor/content-free-fluent", "floor/excerpts")
    }


@pytest.mark.release
def test_pandas_reads_csv(folder):
    assert_is_whole(*csv_tables(folder, "model", "rules"), folder)


def test_pandas_reads_parquet(folder):
    import pandas as pd

    out = exported(folder, "parquet", "model", "rules")
    records, scores = pd.read_parquet(out / "records.parquet"), out / "scores.parquet"
    assert_is_whole(records, pd.read_parquet(scores), folder)
    assert str(records.prompt_tokens.dtype) == "float64"
    assert json.loads(records.answer[0])["memory_items"]


def test_datasets_reads_hf(folder):
    from datasets import load_from_disk

    out = exported(folder, "hf", "model", "rules")
    tables = [load_from_disk(out / name) for name in ("records", "scores")]
    assert_is_whole(*(table.to_pandas() for table in tables), folder)


def test_inspect_reads_its_log(folder):
    log_of = pytest.importorskip("inspect_ai.log", reason="pip install 'alps-eval[inspect]'")
    (path,) = exported(folder, "inspect", "model").iterdir()
    log = log_of.read_eval_log(path)
    assert log.status == "success"
    assert log.eval.task == "alps/extraction"
    assert log.eval.model == "openai/scripted"
    f1 = next(score for score in log.results.scores if score.name == "f1")
    figure = summary(folder / "model")["tracks"]["task1"]["scores"]["f1"]
    shown = {name: metric.value for name, metric in f1.metrics.items()}
    assert shown == {"mean": figure["value"], "ci_low": figure["low"], "ci_high": figure["high"]}
    first = log.samples[0]
    assert first.id == "visitor_00"
    assert "I am visitor 0." in first.input[0].text
    assert first.target == ["Visitor 0 lives in Lyon", "Visitor 0 keeps a beagle"]
    assert "Lyon" in first.output.completion
    assert first.scores["f1"].value == rows(folder / "model" / "scores.jsonl")[0]["scores"]["f1"]
    assert first.model_usage["openai/scripted"].input_tokens > 0


@pytest.mark.release
def test_mlflow_reads_its_file_store(folder, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="pip install 'alps-eval[mlflow]'")
    out = exported(folder, "mlflow", "model", "rules")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = mlflow.MlflowClient(out.as_uri())
    (experiment,) = client.search_experiments()
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert sorted(runs) == ["model", "rules"]
    model = runs["model"]
    assert model.info.status == "FINISHED"
    f1 = summary(folder / "model")["tracks"]["task1"]["scores"]["f1"]
    assert model.data.metrics["task1/f1"] == f1["value"]
    assert model.data.metrics["task1/f1_ci_low"] == f1["low"]
    assert "task1/floor_empty/f1" in runs["rules"].data.metrics
    taken = summary(folder / "model")["calls"]
    for name in ("prompt_tokens", "completion_tokens", "cost"):
        assert model.data.metrics.get(f"calls/{name}") == taken[name]
    assert model.data.params["judge"] == "openai/scripted-judge"
    files = [folder / "model" / name for name in ("manifest.json", "summary.json")]
    times = [int(file.stat().st_mtime * 1000) for file in files]
    assert [model.info.start_time, model.info.end_time] == times
    (logged,) = client.get_metric_history(model.info.run_id, "task1/f1")
    assert logged.timestamp == model.info.end_time
    files = {file.path for file in client.list_artifacts(model.info.run_id)}
    assert {"manifest.json", "summary.json", "records.parquet", "scores.parquet"} <= files


@pytest.mark.release
def test_wandb_writes_an_offline_run_and_asks_nobody(folder, monkeypatch):
    pytest.importorskip("wandb", reason="pip install 'alps-eval[wandb]'")
    (written,) = (exported(folder, "wandb", "model") / "wandb").glob("offline-run-*/*.wandb")
    # Its own reader went with version 0.30, and `wandb sync` needs an account.
    content = written.read_bytes()
    f1 = summary(folder / "model")["tracks"]["task1"]["scores"]["f1"]
    for text in ("task1/f1", json.dumps(f1["value"]), "openai/scripted-judge"):
        assert text.encode() in content
    # A number is no text: else runs could not be put in order by it.
    assert re.search(rb"seed..\x010", content)


@pytest.mark.parametrize("form", ["mlflow", "wandb"])
def test_a_library_that_is_not_installed_is_named_with_its_extra(
    folder, tmp_path, monkeypatch, form
):
    monkeypatch.setitem(sys.modules, form, None)
    told = f"format={form} needs {form}: pip install 'alps-eval[{form}]'"
    with pytest.raises(UsageError, match=re.escape(told)):
        export_runs([folder / "rules"], ExportSettings(format=form, out=str(tmp_path / "out")))


def test_runs_that_tables_could_not_tell_apart_are_refused(folder):
    same = one_line(run(folder, "export", "model", "./model", "format=csv", "out=same"))
    assert same == "alps: model: named twice\n"
    shutil.copytree(folder / "model", folder / "of-others" / "model")
    other = one_line(run(folder, "export", "model", "of-others/model", "format=csv", "out=other"))
    assert other == "alps: of-others/model: has the same name as model; rename one of the folders\n"


def test_figures_of_groups_have_rows_of_their_own(tmp_path):
    words = ("task=forgetting", "model=rules", "memory=bm25", "limit=12", "out=forgot")
    ran(tmp_path, "run", *words)
    records, scores = csv_tables(tmp_path, "forgot")
    groups = scores[scores.slice == "kind"].set_index("group")
    assert dict(records.slice_kind.value_counts()) == dict(groups.n)


def test_a_model_that_answered_twice_has_no_tokens_for_one_answer(tmp_path):
    write_visitors(tmp_path / "data", 1)
    with serve(good) as server:
        words = extraction(server.url, "repeats=2", "out=twice")
        ran(tmp_path, *words, OPENAI_API_KEY="none")
    records, _ = csv_tables(tmp_path, "twice")
    assert list(records.repeat) == [0, 1]
    assert records.prompt_tokens.isna().all()


def test_data_that_went_away_leave_their_columns_empty(tmp_path):
    write_visitors(tmp_path / "data", 2)
    ran(tmp_path, "run", "task=extraction", "model=rules", "data=data", "out=gone")
    write_track(tmp_path / "data" / "dev" / "task1", [])
    records, _ = csv_tables(tmp_path, "gone")
    assert records.session.isna().all()
    assert records.score_f1.notna().all()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("model", "format=xls", "out=a"), "format=xls: must be 'csv', 'parquet', 'hf'"),
        (("model", "format=csv"), "out= is missing (folder to write)"),
        (("model", "format=csv", "out=data"), "out=data: already exists"),
        (("nothing", "format=csv", "out=a"), "nothing: no such run folder"),
        (("format=csv", "out=a"), "name at least one run"),
    ],
)
def test_what_cannot_be_exported_is_one_line(folder, words, told):
    assert told in one_line(run(folder, "export", *words))


def inspect_logs(folder, *words):
    """Export runs as logs of Inspect, and read these by track."""
    log_of = pytest.importorskip("inspect_ai.log", reason="pip install 'alps-eval[inspect]'")
    ran(folder, "export", *words, "format=inspect", "out=logs")
    logs = [log_of.read_eval_log(path) for path in (folder / "logs").iterdir()]
    return {log.eval.metadata["track"]: log for log in logs}


@pytest.mark.release
def test_inspect_counts_records_and_their_repeats_and_leads_with_the_headline(tmp_path):
    words = ("task=update,utilization", "ability=pf", "model=rules", "limit=2", "repeats=2")
    ran(tmp_path, "run", *words, "out=twice")
    logs = inspect_logs(tmp_path, "twice")
    tracks = summary(tmp_path / "twice")["tracks"]
    assert {
        name: (log.eval.dataset.samples, log.eval.config.epochs) for name, log in logs.items()
    } == (dict.fromkeys(tracks, (2, 2)))
    # The embedded judge rates no utilization: answered, and without a figure.
    assert {log.results.completed_samples for log in logs.values()} == {4}
    update, rated = logs["task2"], logs["task4_ability2"]
    first = update.results.scores[0]
    figure = tracks["task2"]["scores"]["f1_changed"]
    assert (first.name, first.metrics["mean"].value) == ("f1_changed", figure["value"])
    assert list(update.samples[0].scores)[:2] == ["outcome", "f1_changed"]
    assert not rated.results.scores[0].metrics


@pytest.mark.release
def test_inspect_tells_who_said_what_in_a_chat(tmp_path):
    words = ("task=personamem", "parser=authors", "model=oracle", "limit=2", "out=chats")
    ran(tmp_path, "run", *words)
    (log,) = inspect_logs(tmp_path, "chats").values()
    for sample in log.samples:
        *shown, answer = sample.messages
        assert {message.role for message in shown} == {"system", "user", "assistant"}
        assert answer.role == "assistant"
        asked = shown[1:] if shown[0].role == "system" else shown
        assert [message.text for message in sample.input] == [one.text for one in asked]


@pytest.mark.release
def test_inspect_has_an_error_where_nothing_was_heard_and_the_tokens_of_all(tmp_path):
    write_visitors(tmp_path / "data", 3)

    def script(body):
        lost = not is_judging(body) and visitor(body) == 1
        return Answer("no", status=400) if lost else good(body)

    with serve(script) as server:
        words = extraction(server.url, "max_failures=100%", "out=lossy")
        ran(tmp_path, *words, OPENAI_API_KEY="none")
    (log,) = inspect_logs(tmp_path, "lossy").values()
    errors = {sample.id: sample.error for sample in log.samples}
    assert [name for name, error in errors.items() if error] == ["visitor_01"]
    assert (log.results.total_samples, log.results.completed_samples) == (3, 2)
    sent = sum(
        sample.model_usage["openai/scripted"].input_tokens
        for sample in log.samples
        if sample.model_usage
    )
    assert log.stats.model_usage["openai/scripted"].input_tokens == sent > 0


def test_scores_say_who_judged_the_baselines_and_what_is_uncertain_about_them(tmp_path):
    ends = {"value": 0.4, "low": 0.3, "high": 0.5}
    counts = {"labelled": 9, "judged": 9, "n": 9, "outside": False, "calibration": {}}
    corrected = {"method": "ppi", "status": "corrected", **ends, **counts}
    corrected |= {"notes": ["the judge failed its calibration under pa"], "outside": True}
    card = make_hard_run(tmp_path)
    edit_json(
        card / "summary.json",
        lambda content: content["tracks"]["task1"]["scores"]["f1"].update(corrected=corrected),
    )
    _, scores = csv_tables(tmp_path, "hard-run")
    # Recorded verdicts are of the system alone.
    assert set(scores[scores.baseline].judge) == {"lexical"}
    assert set(scores[~scores.baseline].judge) == {summary(card)["judge"]}
    (f1,) = scores[(scores.metric == "f1") & ~scores.baseline & scores.slice.isna()].itertuples()
    assert (f1.corrected, f1.corrected_low, f1.corrected_high) == (0.4, 0.3, 0.5)
    doubts = "the judge failed its calibration under pa; the interval extends beyond the scale"
    assert f1.corrected_note == doubts
    figure = task1(card)["scores"]["f1"]
    assert (f1.worst_case, f1.best_case) == (figure["worst_case"], figure["best_case"])
    assert f1.worst_case < f1.value


def test_sizes_of_the_context_have_figures_and_no_calls_of_the_others(tmp_path):
    def choose(_):
        return Answer('{"reason": "It fits.", "choice": "a"}')

    with serve(choose) as server:
        model = ("model=openai/scripted", f"api_base={server.url}")
        words = ("task=personamem", *model, "limit=2", "max_context_tokens=100,1000", "out=sizes")
        ran(tmp_path, "run", *words, OPENAI_API_KEY="none")
    records, scores = csv_tables(tmp_path, "sizes")
    curve = summary(tmp_path / "sizes")["tracks"]["personamem"]["curve"]
    shown = scores[scores.slice == "max_context_tokens"].set_index("group")
    expected = {"area": curve["area"]["value"]}
    for point in curve["points"]:
        expected[str(point["max_context_tokens"])] = point["score"]["value"]
    assert dict(shown.value) == expected
    assert len(records) == 2
    assert records.prompt_tokens.isna().all()


def test_inspect_reads_the_logs_of_runs_with_odd_names(folder, tmp_path):
    log_of = pytest.importorskip("inspect_ai.log", reason="pip install 'alps-eval[inspect]'")
    shutil.copytree(folder / "rules", tmp_path / "c#bot? 50%41")
    out = exported(tmp_path, "inspect", "c#bot? 50%41")
    (listed,) = log_of.list_eval_logs(str(out))
    log = log_of.read_eval_log(listed)
    assert log.eval.metadata["run"] == "c#bot? 50%41"


def test_no_cell_of_a_csv_export_is_a_formula(tmp_path):
    ids = {"benchmark_id": "=cmd|' /C calc'!A0", "session_id": "@SUM(1+9)", "task": "task1"}
    said = "=HYPERLINK(1); I am vegetarian;\t=2+3"
    dialogue = {**ids, "input": {"dialogue": [{"role": "user", "text": said}]}}
    gold = {**ids, "gold": {"memory_items": []}}
    write_track(tmp_path / "data" / "dev" / "task1", [(dialogue, gold)])
    ran(tmp_path, "run", "task=extraction", "model=rules", "data=data", "out==1+1")
    csv_tables(tmp_path, "./=1+1")
    cells = []
    for path in (tmp_path / "csv").glob("*.csv"):
        for separator in ",;\t":
            with path.open(encoding="utf-8", newline="") as file:
                for row in csv.reader(file, delimiter=separator):
                    cells += row
    assert "'=1+1" in cells
    assert "'@SUM(1+9)" in cells
    assert not [cell for cell in cells if cell.lstrip()[:1] in ("=", "+", "@")]
