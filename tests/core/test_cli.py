import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from click.testing import CliRunner

from alps import __version__
from alps.cli import cli
from alps.settings import AuditSettings, JudgeSettings, RunSettings
from tests.endtoend import end, environment, finish, one_line, run, start, start_cold
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


def test_help_lists_the_commands(alps):
    shown = alps("--help")
    assert shown.returncode == 0
    assert {"run", "score"} <= {
        line.split()[0] for line in shown.stdout.splitlines() if line.startswith("  ")
    }


@pytest.mark.parametrize("command", ["run", "score"])
def test_every_command_explains_itself_with_an_example(alps, command):
    shown = alps(command, "--help")
    assert shown.returncode == 0
    assert f"alps {command} " in shown.stdout.partition("\n")[2]


@pytest.mark.parametrize(
    "words", [("--help",), ("run", "--help"), ("score", "--help")], ids=" ".join
)
def test_help_keeps_its_lines_as_they_are_written(alps, words):
    lines = alps(*words).stdout.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "\\b" not in "".join(lines)
    assert any(line.strip().startswith("alps ") for line in lines)


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        pytest.param(["run"], RunSettings, id="run"),
        pytest.param(["score"], JudgeSettings, id="score: behind the run"),
        pytest.param(["data", "audit"], AuditSettings, id="data audit: in a group"),
    ],
)
def test_the_help_of_a_command_lists_its_settings_with_their_defaults(words, settings):
    shown = CliRunner().invoke(cli, [*words, "--help"]).output
    listed = re.findall(r"^  ([a-z_]+)= ", shown.partition("Settings:")[2], re.MULTILINE)
    assert sorted(listed) == sorted(settings.model_fields)
    told = " ".join(shown.split())
    for name, field in settings.model_fields.items():
        assert f" {name}= {field.description}" in told


def test_a_setting_that_must_be_given_comes_first_and_a_default_stands_in_brackets():
    told = " ".join(
        CliRunner().invoke(cli, ["run", "--help"]).output.partition("Settings:")[2].split()
    )
    assert told.startswith("task= ")
    assert "release layout [samples] split=" in told
    assert "without one request [no]" in told
    assert "[None]" not in told


def test_the_version_is_shown(alps):
    assert alps("--version").stdout.strip().endswith(__version__)


def test_help_imports_nothing_heavy(tmp_path):
    loaded = modules_after(tmp_path, "--help")
    assert loaded.isdisjoint({*HEAVY, "numpy", "pydantic", "scipy", "rich"})


def test_a_run_without_a_model_imports_no_client_and_no_data_library(tmp_path):
    loaded = modules_after(tmp_path, *RUN, "limit=2")
    assert "pydantic" in loaded
    assert loaded.isdisjoint(HEAVY)


MISTAKES = {
    "model key": (("run", "task=extraction", "modle=rules"), "'model'"),
    "task key": (("run", "taks=extraction", "model=rules"), "'task'"),
    "task": (("run", "task=extractoin", "model=rules"), "'extraction'"),
    "data": ((*RUN[:3], "data=sample"), "'samples'"),
    "model": (("run", "task=extraction", "model=ruls"), "'rules'"),
    "judge": ((*RUN, "judge=lexcial"), "'lexical'"),
    "endpoint key": ((*RUN, "judge_api_bsae=x"), "'judge_api_base'"),
    "key without a value": ((*RUN, "limit"), "'limit'"),
    "command": (("rnu", "task=extraction", "model=rules"), "'run'"),
    "another command": (("scroe", "folder"), "'score'"),
    "a command that was removed": (("transport", "one", "two"), "was removed: audit"),
    "split": ((*RUN[:3], "data=data", "split=devv"), "'dev'"),
    "words for a number": ((*RUN, "temperature=hot"), "temperature=hot"),
    "not finite": ((*RUN, "temperature=nan"), "temperature=nan"),
    "nothing to do": ((*RUN, "limit=0"), "limit=0"),
    "half a record": ((*RUN, "limit=1.5"), "limit=1.5"),
    "more than all": ((*RUN, "max_failures=200%"), "max_failures=200%"),
    "a share in words": ((*RUN, "max_failures=some"), "max_failures=some"),
    "a key twice": ((*RUN, "model=oracle"), "model: given twice"),
    "an option in another style": ((*RUN, "--limit", "3"), "--limit"),
    "a split that is not there": ((*RUN, "split=test"), "split=test"),
    "no task": (("run", "model=rules"), "task= is missing"),
    "no model": (("run", "task=extraction"), "model= is missing"),
    "a folder without data": ((*RUN[:3], "data=holiday"), "data=holiday"),
    "several splits": ((*RUN[:3], "data=splits"), "dev, validation"),
    "a file for a folder": ((*RUN, "out=file"), "file"),
    "no predictions": (
        ("run", "task=extraction", "model=predictions:nowhere.jsonl"),
        "nowhere.jsonl",
    ),
    "unreadable predictions": (
        (*RUN[:2], "model=predictions:bad.jsonl", "data=data"),
        "bad.jsonl, line 1",
    ),
    "no run to score": (("score", "holiday", "judge=lexical"), "holiday"),
    "no run at all": (("score",), "RUN"),
}


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "holiday").mkdir()
    (folder / "file").write_text("a file")
    (folder / "bad.jsonl").write_text('{"benchmark_id": "visitor_00", "memory_items": 7}\n')
    write_visitors(folder / "data", 2)
    for split in ("dev", "validation"):
        write_visitors(folder / "splits", 1, split=split)
    with ThreadPoolExecutor(2) as pool:
        yield (
            folder,
            {name: pool.submit(run, folder, *words) for name, (words, _) in MISTAKES.items()},
        )


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_that_says_where_it_is(mistakes, name):
    assert MISTAKES[name][1] in one_line(mistakes[1][name].result())


def test_a_mistake_leaves_no_run_folder_behind(mistakes):
    folder, futures = mistakes
    wait(futures.values())
    assert not (folder / "runs").exists()


def test_predictions_that_were_mended_are_taken_by_the_same_command(alps, tmp_path):
    words = ("run", "task=extraction", "model=predictions:mine.jsonl", "data=data")
    write_visitors(tmp_path / "data", 1)
    (tmp_path / "mine.jsonl").write_text('{"benchmark_id": "visitor_00", "memory_items": 7}\n')
    assert "mine.jsonl, line 1" in one_line(alps(*words))
    (tmp_path / "mine.jsonl").write_text('{"benchmark_id": "visitor_00", "memory_items": []}\n')
    assert alps(*words).returncode == 0


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        pytest.param("model_input", lambda row: "{", "not JSON", id="not JSON"),
        pytest.param(
            "model_input",
            lambda row: {**row, "benchmark_id": 7},
            "benchmark_id",
            id="id is a number",
        ),
        pytest.param(
            "model_input",
            lambda row: {**row, "benchmark_id": "visitor_00"},
            "twice",
            id="id stands twice",
        ),
        pytest.param("model_input", lambda row: {**row, "input": {}}, "dialogue", id="no dialogue"),
        pytest.param(
            "model_input",
            lambda row: {**row, "input": {"dialogue": [{"role": "ghost", "text": "boo"}]}},
            "dialogue.0.role",
            id="unknown role",
        ),
        pytest.param(
            "reference_output",
            lambda row: {**row, "gold": {"memory_items": [{"label": "x"}]}},
            "value",
            id="gold without a value",
        ),
        pytest.param(
            "reference_output",
            lambda row: {**row, "benchmark_id": "other"},
            "other",
            id="orphan gold",
        ),
    ],
)
def test_a_bad_row_names_its_file_line_and_field(alps, tmp_path, name, damage, said):
    write_visitors(tmp_path / "data", 3)
    path = tmp_path / "data" / "dev" / "task1" / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    bad = damage(json.loads(lines[1]))
    lines[1] = bad if isinstance(bad, str) else json.dumps(bad)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    error = one_line(alps(*RUN[:3], "data=data", "out=out"))
    assert f"{name}.jsonl, line 2" in error
    assert said in error
    assert not (tmp_path / "out").exists()


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    process = start_cold(tmp_path, *RUN)
    process.stdout.close()
    process.stdout = None
    finished = finish(process)
    assert finished.stderr == ""


@pytest.mark.parametrize(
    "text", ['{"alps": ', "{}", "[]"], ids=["half a manifest", "foreign", "a list"]
)
def test_scoring_a_run_whose_manifest_is_damaged_is_one_line(alps, tmp_path, text):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "manifest.json").write_text(text)
    assert "folder" in one_line(alps("score", "folder", "judge=lexical"))


PROVIDERS = {
    "no key": (("model=openai/gpt-4.1-mini",), {}, "OPENAI_API_KEY"),
    "an empty key": (("model=openai/gpt-4.1-mini",), {"OPENAI_API_KEY": ""}, "OPENAI_API_KEY"),
    "no key for the judge": (
        ("model=rules", "judge=anthropic/claude-sonnet-4-5"),
        {},
        "ANTHROPIC_API_KEY",
    ),
    "unknown provider": (("model=opnai/gpt-4.1-mini",), {}, "provider/model"),
    "address without http": (("model=openai/my-model", "api_base=localhost:1/v1"), {}, "api_base"),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    started = {}
    for name, (words, variables, _) in PROVIDERS.items():
        folder = tmp_path_factory.mktemp("refused")
        started[name] = (
            folder,
            start(folder, "run", "task=extraction", *words, "limit=1", "out=out", **variables),
        )
    yield started
    for _, process in started.values():
        end(process)


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_model_that_cannot_be_asked_is_refused_before_anything_is_written(refused, name):
    folder, process = refused[name]
    assert PROVIDERS[name][2] in one_line(finish(process, timeout=200))
    assert not (folder / "out").exists()
