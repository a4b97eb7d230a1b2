import json
import subprocess
import sys

import pytest

from tests.endtoend import end, rows, run, task1

pytestmark = pytest.mark.real

PROGRAM = """
import json, sys
found = json.load(open("answers.json"))
for line in sys.stdin:
    row = json.loads(line)
    answer = found[json.dumps([turn["text"] for turn in row["input"]["dialogue"]])]
    items = answer["memory_items"] if answer else None
    print(json.dumps({"benchmark_id": row["benchmark_id"], "memory_items": items}), flush=True)
"""

CLASS = """
import json

class Replay:
    def __init__(self):
        self.found = json.load(open("answers.json"))

    def predict(self, sample):
        return self.found[json.dumps([turn.text for turn in sample.dialogue])] \
or {"memory_items": None}
"""

WAYS = {
    "program": f"model=program:{sys.executable} replay_program.py",
    "class": "model=python:replay_class:Replay",
    "predictions": "model=predictions:whole/predictions.jsonl",
}


@pytest.fixture(scope="module")
def ways(tmp_path_factory, sample):
    folder = tmp_path_factory.mktemp("ways")
    (folder / "replay_program.py").write_text(PROGRAM)
    (folder / "replay_class.py").write_text(CLASS)
    data = (f"data={sample / 'benchmark_data'}", "split=dev")
    replay = sample.parent / "tools" / "replay_server.py"
    server = subprocess.Popen([sys.executable, str(replay)], stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().strip()
        model = (
            "model=openai/replayed",
            f"api_base={address}",
            "out=whole",
            "max_failures=6%",
        )  # 5 of 84 are empty
        finished = run(folder, "run", "task=extraction", *model, *data, OPENAI_API_KEY="none")
        assert finished.returncode == 0, finished.stderr
        answers = {
            row["benchmark_id"]: row["prediction"]
            for row in rows(folder / "whole" / "predictions.jsonl")
        }
        inputs = rows(sample / "benchmark_data" / "dev" / "task1" / "model_input.jsonl")
        said = {
            json.dumps([turn["text"] for turn in row["input"]["dialogue"]]): row["benchmark_id"]
            for row in inputs
        }
        (folder / "answers.json").write_text(
            json.dumps({texts: answers[name] for texts, name in said.items()})
        )
        for name, words in WAYS.items():
            finished = run(
                folder, "run", "task=extraction", words, *data, f"out={name}", "max_failures=6%"
            )
            assert finished.returncode == 0, finished.stderr
    finally:
        end(server)
    return folder


@pytest.mark.parametrize("name", WAYS)
def test_every_way_in_gives_the_same_scores_for_the_same_predictions(ways, name):
    one, other = task1(ways / "whole"), task1(ways / name)
    assert other["n"] == one["n"] == 84
    assert other["scores"] == one["scores"]
    assert sum(other["failed_predictions"].values()) == sum(one["failed_predictions"].values()) == 5


def test_recorded_verdicts_judge_the_predictions_that_they_were_made_of(ways, sample):
    records = sample / "recorded" / "task1" / "records.jsonl"
    finished = run(
        ways, "score", "whole", f"judge=recorded:{records}", "out=recorded", "max_failures=1"
    )
    assert finished.returncode == 0, finished.stderr
    track = task1(ways / "recorded")
    reviewed = {row["benchmark_id"] for row in rows(records) if row["judge_output"]}
    judged = {
        row["benchmark_id"]
        for row in rows(ways / "recorded" / "verdicts.jsonl")
        if row["outcome"] == "ok"
    }
    answers = rows(ways / "whole" / "predictions.jsonl")
    other = {row["benchmark_id"] for row in answers if row["truncated"] or row["raw"] is None}
    assert (
        reviewed - judged == other
    )  # of two cut-off answers their judge saw an empty list, of five nothing was heard
    assert track["scored"] + track["unscored"] == 84
    assert set(track["failed_judgements"]) <= {"empty", "invalid"}
    assert json.loads((ways / "recorded" / "summary.json").read_text())["comparable"] is False
