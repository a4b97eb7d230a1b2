"""Predictions that are judged again: those that lie in the folder now, and no others."""

import json

import pytest

from tests.endtoend import one_line, run, task1

RIGHT, WRONG = "Allergic to cashews; walnuts are fine to eat", "Collects the stamps of Peru"


def write_answer(folder, value):
    row = {"benchmark_id": "alps_ext_001", "memory_items": [{"value": value}]}
    (folder / "mine.jsonl").write_text(json.dumps(row) + "\n")


def predicted(folder, value, out):
    write_answer(folder, value)
    finished = run(folder, "run", "task=extraction", "model=predictions:mine.jsonl", "limit=1", f"out={out}")
    assert finished.returncode == 0, finished.stderr
    return folder / out


@pytest.fixture
def two(tmp_path):
    return predicted(tmp_path, RIGHT, "right"), predicted(tmp_path, WRONG, "wrong")


def f1(folder):
    return task1(folder)["scores"]["f1"]["value"]


def test_other_predictions_do_not_get_the_scores_of_those_that_were_judged_there_before(two, tmp_path):
    right, wrong = two
    assert run(tmp_path, "score", "right", "judge=lexical", "out=judged").returncode == 0
    assert f1(tmp_path / "judged") == f1(right) > f1(wrong) == 0
    said = one_line(run(tmp_path, "score", "wrong", "judge=lexical", "out=judged"))
    assert said.startswith("alps: judged holds another run: predictions is ")
    assert run(tmp_path, "score", "right", "judge=lexical", "out=judged").returncode == 0


def test_a_run_that_has_changed_since_is_judged_anew(two, tmp_path):
    right, wrong = two
    assert run(tmp_path, "score", "right", "judge=lexical").returncode == 0
    (right / "predictions.jsonl").write_bytes((wrong / "predictions.jsonl").read_bytes())
    assert run(tmp_path, "score", "right", "judge=lexical").returncode == 0
    judged = sorted(tmp_path.glob("right--*"))
    assert sorted(map(f1, judged)) == [0, f1(right)]
