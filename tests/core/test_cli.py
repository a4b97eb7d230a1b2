import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from alps.cli import cli
from alps.ext.datasets.settings import AuditSettings
from alps.settings import JudgeSettings, RunSettings
from tests.endtoend import environment, finish, one_line, run, start_cold
from tests.visitors import write_visitors

RUN = ("run", "task=extraction", "model=rules", "data=samples")
HEAVY = ("litellm", "instructor", "sklearn", "datasets", "pandas")
PROBE = """
import sys
from alps.cli import main
try:
    main()
finally:
    print("\\n".join(sys.modules), file=sys.stderr)
"""


def modules_after(folder, *words):
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        pytest.param(["run"], RunSettings, id="run"),
        pytest.param(["score"], JudgeSettings, id="score: behind the run"),
        pytest.param(["data", "audit"], AuditSettings, id="data audit: in a group"),
    ],
)
def test_the_help_of_a_command_lists_its_settings_with_their_defaults(words, settings):
    shown = CliRunner().invoke(cli, [*words, "--help", "all"]).output
    listed = re.findall(r"^  ([a-zA-Z_.]+)= ", shown, re.MULTILINE)
    typed = {}
    for name, field in settings.model_fields.items():
        table, is_table, text = field.description.partition(".NAME=VALUE: ")
        typed[f"{table}.NAME" if is_table else name] = text or field.description
    assert sorted(listed) == sorted(typed)
    told = " ".join(shown.split())
    for name, text in typed.items():
        assert f" {name}= {text}" in told


def test_help_imports_nothing_heavy_and_a_run_without_a_model_no_client_and_no_scipy(tmp_path):
    helping = modules_after(tmp_path, "--help")
    assert helping.isdisjoint({*HEAVY, "numpy", "pydantic", "scipy", "rich"})
    running = modules_after(tmp_path, *RUN)
    assert "pydantic" in running
    assert running.isdisjoint({*HEAVY, "scipy"})


def test_predictions_that_were_mended_are_taken_by_the_same_command(alps, tmp_path):
    words = ("run", "task=extraction", "model=predictions:mine.jsonl", "data=data")
    write_visitors(tmp_path / "data", 1)
    (tmp_path / "mine.jsonl").write_text('{"benchmark_id": "visitor_00", "memory_items": 7}\n')
    assert "mine.jsonl, line 1" in one_line(alps(*words))
    (tmp_path / "mine.jsonl").write_text('{"benchmark_id": "visitor_00", "memory_items": []}\n')
    assert alps(*words).returncode == 0


def test_an_empty_key_is_a_missing_one(tmp_path):
    words = ("run", "task=extraction", "model=openai/gpt-4.1-mini", "limit=1", "out=out")
    assert "OPENAI_API_KEY" in one_line(run(tmp_path, *words, OPENAI_API_KEY=""))
    assert not (tmp_path / "out").exists()


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    process = start_cold(tmp_path, *RUN)
    process.stdout.close()
    process.stdout = None
    finished = finish(process)
    assert finished.stderr == ""


def test_a_sweep_counts_the_unscored_as_the_list_of_runs_does(tmp_path):
    (tmp_path / "plan.toml").write_text(
        'data = "samples"\n[matrix]\nmodel = ["floor/generic"]\ntask = ["utilization"]\n'
    )
    done = run(tmp_path, "sweep", "plan.toml")
    assert "n 140, 140 unscored" in " ".join(run(tmp_path, "ls").stdout.split())
    assert "140 unscored" in done.stderr, done.stderr
    assert " 0 unscored" not in done.stderr
    assert "share a letter" not in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "text", ['{"alps": ', "{}", "[]"], ids=["half a manifest", "foreign", "a list"]
)
def test_scoring_a_run_whose_manifest_is_damaged_is_one_line(alps, tmp_path, text):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "manifest.json").write_text(text)
    assert "folder" in one_line(alps("score", "folder", "judge=lexical"))
