"""What is typed wrongly, or would change nothing, is said in plain words; what is printed fits
where it is printed.
"""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from alps.cli import cli, guarded
from alps.errors import UsageError
from alps.ext.calibration.page import write_calibration_page
from alps.ext.calibration.settings import GATES, CalibrateSettings
from alps.run.scores import RecordScores
from alps.run.session import refuse_without_effect
from alps.settings import JudgeSettings, RunSettings, parse_words
from alps.systems import resolve_system
from alps.tasks import Scored, load_task
from tests.endtoend import environment, rows, write_rows

NOBODY = "api_base=http://127.0.0.1:9/v1"
RULES = "task=extraction model=rules"
LLM = f"task=extraction model=openai/mine {NOBODY}"


def told(*words: str, **variables: str) -> str:
    done = CliRunner().invoke(cli, words, env=variables)
    assert done.exit_code == 0, done.output
    return done.output


def without_effect(words: str, *, settings: type = RunSettings) -> str:
    """Return why a setting is refused that would change nothing; empty: none is."""
    try:
        refuse_without_effect(parse_words(words.split(), settings))
    except UsageError as error:
        return str(error)
    return ""


def test_what_a_gate_is_unless_given_stands_in_its_help():
    shown = " ".join(CliRunner().invoke(cli, ["calibrate", "--help"]).output.split())
    for name, value in vars(GATES).items():
        told = CalibrateSettings.model_fields[f"gate_{name}"].description
        assert f"gate_{name}= {told} [{value:g}]" in shown


UNHEEDED = {
    "temperature=0.3 would change nothing: model=rules is not a litellm model": (
        f"{RULES} temperature=0.3"
    ),
    "api_base= would change nothing: model=rules is not a litellm": f"{RULES} {NOBODY}",
    "judge= is missing, so the judge is lexical": f"{LLM} judge_{NOBODY}",
    "judge_repeats=3 would change nothing: judge=lexical is no": (
        f"{LLM} judge=lexical judge_repeats=3"
    ),
    "max_tokens=9 would change nothing": "task=extraction model=predictions:a max_tokens=9",
    "structured=json would change nothing: model=rules is no": f"{RULES} structured=json",
    "judge_structured=json would change nothing: judge=lexical": (
        f"{LLM} judge=lexical judge_structured=json"
    ),
    "judge_structured=json would change nothing: judge= is missing, so": (
        f"{RULES} judge_structured=json"
    ),
}


@pytest.mark.parametrize(("told", "words"), UNHEEDED.items(), ids=UNHEEDED)
def test_a_setting_that_nobody_heeds_is_refused(told, words):
    assert told in without_effect(words)


def test_a_setting_that_nobody_heeds_is_refused_by_every_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text('task = "extraction"\nmodel = "rules"\ntop_p = 0.5\n')
    told("run", *RULES.split(), "limit=1", "out=finished")
    calibrating = "calibrate judge=lexical labels=stress judge_temperature=1"
    for words, said in (
        ("run config=a.toml", "top_p=0.5 would change nothing"),
        ("score finished judge_repeats=3", "judge_repeats=3 would change nothing"),
        ("score finished judge_structured=json", "judge_structured=json would change nothing"),
        (calibrating, "judge_temperature=1.0 would change"),
    ):
        assert said in str(CliRunner().invoke(cli, words.split()).exception)


def test_a_setting_that_is_heeded_is_taken():
    for words in (f"{LLM} temperature=0.3", f"{RULES} judge=openai/x judge_repeats=3", RULES):
        assert without_effect(words) == ""
    # A run is judged again without what its model heeded.
    assert without_effect("judge=lexical", settings=JudgeSettings) == ""


@pytest.mark.release
def test_a_terminal_without_our_signs_gets_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told("run", *RULES.split(), "limit=2", "out=x")
    given = environment(tmp_path, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    done = subprocess.run(
        [sys.executable, "-m", "alps", "show", "x"],
        cwd=tmp_path,
        env=given,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"No score (-): judge lexical cannot tell 'narrower' from 'same'." in done.stdout


@pytest.mark.release
def test_tables_keep_to_a_narrow_terminal_and_leave_no_blanks_in_a_pipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    narrow = told("run", "task=all", "model=rules", "limit=3", "out=x", COLUMNS="60").splitlines()
    assert max(map(len, narrow)) <= 60
    assert "…" not in "".join(narrow)
    assert not any(line.endswith(" ") for line in narrow)
    assert any(line.split()[:2] == ["extraction,", "F1"] for line in narrow)
    assert max(map(len, told("ls", ".", COLUMNS="200").splitlines())) <= 120


def test_answers_that_were_cut_off_are_told_in_the_table_for_the_record_and_on_the_page(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    told("run", "task=utilization", "ability=pa", "model=rules", "limit=2", "out=whole")
    answers = rows(tmp_path / "whole/predictions.jsonl")
    answers[0]["truncated"] = True
    write_rows(tmp_path / "cut.jsonl", answers)
    model = ("model=predictions:cut.jsonl", "limit=2", "out=cut")
    told("run", "task=utilization", "ability=pa", *model)
    assert "\n1 answer was cut off at max_tokens.\n" in told("show", "cut")
    assert "the answer was cut off at max_tokens" in told("show", "cut", "1")
    assert "cut off" not in told("show", "cut", "2")
    told("report", "cut", "out=cut.html")
    page = (tmp_path / "cut.html").read_text(encoding="utf-8")
    assert "1 answer was cut off at max_tokens." in page


ELSEWHERE = "not a system for utilization, only for extraction, update, retrieval"


@pytest.mark.parametrize(
    ("model", "task", "said"),
    [
        ("predictions:", "extraction", "names no file; write predictions:FILE"),
        ("oracle", "utilization", ELSEWHERE),
        ("python:os:getcwd", "extraction", "getcwd has no method 'predict' (calling"),
    ],
)
def test_a_system_that_is_none_is_told_without_a_wrong_hint(model, task, said):
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        resolve_system(model, load_task(task))
    assert "did you mean" not in str(caught.value)


@pytest.fixture
def calibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    told("calibrate", "judge=lexical", "labels=stress", "out=runs/cal")
    return tmp_path / "runs" / "cal"


def test_a_calibration_is_no_run_for_any_command(calibrated):
    for words in ("show cal 1", "report runs/cal", "compare cal cal", "score cal"):
        said = str(CliRunner().invoke(cli, words.split()).exception)
        assert "a calibration, not a run; see" in said
    assert "Not runs: cal (a calibration)" in told("ls")


def test_the_page_of_a_calibration_by_derived_labels_names_no_people_who_gave_them(calibrated):
    page = " ".join((calibrated / "calibration.html").read_text(encoding="utf-8").split())
    assert "77 known answers" in page
    assert "The labels are known answers, not human labels;" in page
    assert "that people labelled" not in page
    assert "is valid only for this fingerprint" in page
    assert not re.search("[0-9a-f]{64}", page.partition("<body>")[2])


def test_the_page_of_recorded_verdicts_binds_no_judge(calibrated):
    row = json.loads((calibrated / "calibration.json").read_text(encoding="utf-8"))
    for name in ("expires", "pinned", "judge_fingerprint"):
        del row[name]
    page = write_calibration_page(row, calibrated / "recorded.html").read_text(encoding="utf-8")
    assert "the fingerprint of the recorded verdicts" in page
    assert "only for this fingerprint" not in page


def bare_manifest(folder: Path, **settings: str) -> None:
    folder.mkdir(parents=True)
    manifest = {"settings": settings, "data": {}, "judge": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_runs_that_differ_in_their_conditions_alone_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("task=utilization", "ability=pa", "model=rules", "limit=1", "out=runs/a")
    told("run", *words, "memory=oracle", "max_context_tokens=2000")
    bare_manifest(tmp_path / "runs" / "b", task="nix")
    listed = " ".join(told("ls").split())
    assert "ability pa · memory oracle · context 2000" in listed
    assert "Unreadable: runs/b" in listed


NO_RUN = "no run here (manifest.json is missing); name a run in it, such as runs/a"
SUBMITTING = ("leaderboard", "submit", "runs/a", "name=x", "date=tomorrow")
NO_FOLDERS = {
    ("show", "", "1"): "name a run, not ''",
    ("show", "runs", "1"): NO_RUN,
    ("calibrate", "judge=lexical", "labels=runs"): "labels=runs: not a label folder",
    SUBMITTING: "date=tomorrow: must be a date, such as",
}


@pytest.mark.parametrize(("words", "said"), NO_FOLDERS.items(), ids=map(" ".join, NO_FOLDERS))
def test_a_folder_of_another_kind_is_told_as_one(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bare_manifest(tmp_path / "runs" / "a", task="update")
    assert said in str(CliRunner().invoke(cli, words).exception)


def test_a_home_that_is_not_known_is_one_line(capsys):
    def ask() -> None:
        raise RuntimeError("Could not determine home directory.")

    assert guarded(ask) == 2
    assert "your home folder is unknown; set HOME" in capsys.readouterr().err


DISKS = {
    errno.ENOSPC: "free some space, then run the same command again",
    errno.EROFS: "change its permissions, or choose another path",
    errno.EACCES: "change its permissions, or choose another path",
}


@pytest.mark.parametrize(("number", "mend"), DISKS.items())
def test_a_file_that_cannot_be_written_is_told_with_what_mends_it(number, mend, capsys):
    def write() -> None:
        raise OSError(number, os.strerror(number), "pools/a.jsonl")

    assert guarded(write) == 2
    assert f"pools/a.jsonl: {os.strerror(number)}; {mend}\n" in capsys.readouterr().err


def test_gold_that_is_marked_as_rejected_is_counted_once_however_often_it_was_answered():
    board = RecordScores(load_task("extraction").metrics)
    for repeat in range(3):
        board.add(0, "a", Scored({"f1": 1.0}, {"rejected_gold": 2}), repeat=repeat)
        board.add(1, "b", Scored({"f1": 0.0}, {"rejected_gold": 1}), repeat=repeat)
    assert (board.total("rejected_gold"), board.total_once("rejected_gold")) == (9, 3)
