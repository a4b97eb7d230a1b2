"""What a run says does not depend on which of its records was finished first."""

import json

import pytest

from tests.endtoend import contents, damage_file, one_line, rows, run

FAILING = """
import asyncio, json
from alps.data.release import open_split

path = open_split("samples", None).track("task1") / "model_input.jsonl"
DIALOGUES = [json.loads(line)["input"]["dialogue"][0]["text"] \
for line in path.read_text(encoding="utf-8").splitlines()]

class {name}:
    async def predict(self, sample):
        place = DIALOGUES.index(sample.dialogue[0].text) + 1
        await asyncio.sleep({delay})
        if place % 3 == 0:
            raise ValueError(f"{{place}} can't be answered")
        return [{{"value": f"Owns {{place}} cats", "confidence": 7 + place}}]
"""
WORDS = ("run", "task=extraction", "limit=9", "concurrency=9", "max_failures=40%", "out=out")


def finished(folder, delay):
    folder.mkdir()
    (folder / "mine.py").write_text(FAILING.format(name="Mine", delay=delay))
    done = run(folder, *WORDS, "model=python:mine:Mine")
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.fixture(scope="module")
def in_order(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("order") / "forwards", "place / 50")


def test_the_summary_is_the_same_where_the_last_record_is_finished_first(in_order, tmp_path):
    backwards = finished(tmp_path / "backwards", "(9 - place) / 50")
    summary = json.loads((backwards / "summary.json").read_text())["tracks"]["task1"]
    assert summary["failed_predictions"] == {"invalid": 3}
    assert "3 can't be answered" in summary["errors"]["invalid"]
    assert len(summary["notes"]) > 1
    assert contents(backwards) == contents(in_order)


def test_answers_that_came_in_time_are_not_mixed_with_those_of_another_time(in_order):
    other = run(in_order.parent, *WORDS, "model=python:mine:Mine", "timeout=5")
    assert "out holds another run: system.timeout is 120.0 there, 5.0 here" in one_line(other)


def no_outcome(lines):
    lines[1] = (
        json.dumps(
            {key: value for key, value in json.loads(lines[1]).items() if key != "outcome"}
        ).encode()
        + b"\n"
    )


def odd_outcome(lines):
    lines[1] = (
        lines[1]
        .replace(b'"outcome": "ok"', b'"outcome": "fine"')
        .replace(b'"outcome":"ok"', b'"outcome":"fine"')
    )


def a_list_for_an_answer(lines):
    lines[1] = json.dumps({**json.loads(lines[1]), "prediction": [1, 2]}).encode() + b"\n"


def a_word_for_memories(lines):
    lines[1] = (
        json.dumps({**json.loads(lines[1]), "prediction": {"memory_items": "none"}}).encode()
        + b"\n"
    )


@pytest.mark.parametrize(
    "damage", [no_outcome, odd_outcome, a_list_for_an_answer, a_word_for_memories]
)
def test_a_row_that_is_no_prediction_is_asked_again(in_order, tmp_path, damage):
    folder = finished(tmp_path / "again", "place / 50").parent
    before = (folder / "out" / "predictions.jsonl").read_bytes()
    damage_file(folder / "out" / "predictions.jsonl", damage)
    assert (folder / "out" / "predictions.jsonl").read_bytes() != before
    again = run(folder, *WORDS, "model=python:mine:Mine")
    assert (again.returncode, again.stderr) == (0, "")
    assert contents(folder / "out") == contents(in_order)
    assert len(rows(folder / "out" / "predictions.jsonl")) == 9
