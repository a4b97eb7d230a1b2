"""Predictions that are judged again: those that lie in the folder now, and no others."""

import json
import shutil

import pytest

from tests.endtoend import one_line, run, task1
from tests.tracks import alps_here

ANSWERS = {
    "right": "Allergic to cashews; walnuts are fine to eat",
    "wrong": "Collects the stamps of Peru",
}


def f1(folder):
    return task1(folder)["scores"]["f1"]["value"]


def command(*words, code=0):
    ran = alps_here(*words)
    assert ran.code == code, ran.err
    return ran


def names_in(folder):
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with the runs `right` and `wrong`, made in this process."""
    monkeypatch.chdir(tmp_path)
    for name, value in ANSWERS.items():
        row = {"benchmark_id": "alps_ext_001", "memory_items": [{"value": value}]}
        (tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n")
        command("run", "task=extraction", "model=predictions:mine.jsonl", "limit=1", f"out={name}")
    return tmp_path


@pytest.mark.release
def test_other_predictions_do_not_get_the_scores_of_those_that_were_judged_there_before(here):
    assert run(here, "score", "right", "judge=lexical", "out=judged").returncode == 0
    assert f1(here / "judged") == f1(here / "right") > f1(here / "wrong") == 0
    said = one_line(run(here, "score", "wrong", "judge=lexical", "out=judged"))
    assert said.startswith("alps: judged holds another run: predictions is ")
    assert run(here, "score", "right", "judge=lexical", "out=judged").returncode == 0


def test_a_run_that_has_changed_since_is_judged_anew(here):
    # The file of its answers is not asked for again.
    (here / "mine.jsonl").unlink()
    command("score", "right", "judge=lexical")
    shutil.copy(here / "wrong" / "predictions.jsonl", here / "right")
    command("score", "right", "judge=lexical")
    judged = sorted(here.glob("right--*"))
    assert sorted(map(f1, judged)) == [0, f1(here / "right")]


def test_predictions_that_no_manifest_vouches_for_are_somebodys(here):
    theirs, copied = (here / name / "predictions.jsonl" for name in ("wrong", "judged"))
    copied.parent.mkdir()
    copied.write_bytes(theirs.read_bytes())
    ran = command("score", "right", "judge=lexical", "out=judged", code=2)
    assert "judged/predictions.jsonl: not a run folder" in ran.one_line
    assert copied.read_bytes() == theirs.read_bytes()
    assert names_in(copied.parent) == {"predictions.jsonl"}


def test_the_same_predictions_that_came_before_a_manifest_are_judged(here):
    (here / "judged").mkdir()
    shutil.copy(here / "right" / "predictions.jsonl", here / "judged")
    command("score", "right", "judge=lexical", "out=judged")
    assert f1(here / "judged") == f1(here / "right") > f1(here / "wrong")


def test_a_judge_that_is_refused_leaves_no_predictions(here):
    words = ("score", "right", "judge=openai/none-such", "max_cost=1", "out=judged")
    assert "its price is unknown" in one_line(run(here, *words, OPENAI_API_KEY="none"))
    assert "predictions.jsonl" not in names_in(here / "judged")


def test_a_run_that_lacks_answers_is_not_judged_and_one_that_lacks_its_summary_is(here):
    (here / "right" / "summary.json").unlink()
    command("score", "right", "judge=lexical", "out=judged")
    assert f1(here / "judged") > 0
    (here / "right" / "predictions.jsonl").write_text("")
    said = command("score", "right", "judge=lexical", "out=again", code=2).one_line
    assert said.startswith("alps: right: not finished; to finish it, repeat the same alps run")
    assert not (here / "again").exists()


def test_nothing_is_put_into_the_folder_of_a_calibration(here):
    command("calibrate", "judge=lexical", "labels=stress", "out=calibrated")
    ran = command("score", "right", "out=calibrated", code=2)
    assert "calibrated holds another run" in ran.one_line
    assert "predictions.jsonl" not in names_in(here / "calibrated")


def test_a_folder_that_was_claimed_before_the_predictions_came_gets_them(here):
    command("score", "right", "judge=lexical", "out=judged")
    for path in (here / "judged").iterdir():
        if path.name != "manifest.json":
            path.unlink()
    command("score", "right", "judge=lexical", "out=judged")
    assert f1(here / "judged") == f1(here / "right")
