"""A system that is asked again, as its answer was lost, gets the verdict on what it says now."""

import json
import sys

import pytest

from tests.endtoend import contents, damage_file, garbage_in_the_middle, rows, task1
from tests.tracks import alps_here
from tests.visitors import write_visitors

REPLAY = """
import json
from pathlib import Path

class Replay:
    def predict(self, sample):
        number = int(sample.dialogue[0].text.split()[3].rstrip("."))
        return json.loads(Path("answers.json").read_text())[f"visitor_{number:02}"]
"""
RUN = ("run", "task=extraction", "data=data")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with a system that says what `answers.json` holds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "replay_now", raising=False)
    (tmp_path / "replay_now.py").write_text(REPLAY)
    write_visitors(tmp_path / "data", 3)
    return tmp_path


def carry_out(out):
    ran = alps_here(*RUN, "model=python:replay_now:Replay", "max_failures=50%", f"out={out}")
    assert ran.code == 0, ran.err


def all_right(here):
    """Let the system say what is right, as the oracle does."""
    assert alps_here(*RUN, "model=oracle", "out=oracle").code == 0
    predicted = rows(here / "oracle" / "predictions.jsonl")
    said = {row["benchmark_id"]: row["prediction"] for row in predicted}
    (here / "answers.json").write_text(json.dumps(said))
    return said


def no_prediction(lines):
    """Make of the second record's row what is JSON, but no answer."""
    lines[1] = json.dumps({**json.loads(lines[1]), "prediction": ["?"]}).encode() + b"\n"


def no_outcome(lines):
    """Leave out of the second record's row what came of it."""
    row = json.loads(lines[1])
    del row["outcome"]
    lines[1] = json.dumps(row).encode() + b"\n"


def wrong(items):
    return [{"value": f"collects the stamps of Peru, volume {n}"} for n, _ in enumerate(items)]


THE_SAME = "the same"
ANSWERS = {
    "as many, all wrong": lambda items: {"memory_items": wrong(items)},
    "fewer": lambda items: {"memory_items": items[:1]},
    "none": lambda items: {"memory_items": []},
    "no list": lambda items: {"memory_items": None},
    THE_SAME: lambda items: {"memory_items": items},
}


@pytest.mark.few(4)
@pytest.mark.parametrize("damage", [garbage_in_the_middle, no_prediction, no_outcome])
@pytest.mark.parametrize("now", ANSWERS)
def test_the_answer_that_comes_now_is_judged(here, damage, now):
    said = all_right(here)
    carry_out("resumed")
    assert task1(here / "resumed")["scores"]["f1"]["value"] == 1
    second = list(said)[1]
    said[second] = ANSWERS[now](said[second]["memory_items"])
    (here / "answers.json").write_text(json.dumps(said))
    damage_file(here / "resumed" / "predictions.jsonl", damage)
    carry_out("resumed")
    carry_out("fresh")
    assert contents(here / "resumed") == contents(here / "fresh")
    assert (task1(here / "resumed")["scores"]["f1"]["value"] == 1) == (now == THE_SAME)
