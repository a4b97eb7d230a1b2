"""Trivial baselines under the judge of the run: who judges them, on how many records, and what it
costs.
"""

import json

import pytest

from tests.endtoend import extraction, rows, run, summary, task1
from tests.loopback import Answer, serve
from tests.visitors import is_judging, memory_items, values_of, visitor, write_visitors

COUNT, DRAWN = 8, 3
FLUENT = "The user has interests and preferences"


def obliging(body):
    """Answer as a model that finds both memories, and as a judge that takes «x» for the first gold
    memory.
    """
    if not is_judging(body):
        return Answer(json.dumps({"memory_items": memory_items(*values_of(visitor(body)))}))
    text = body["messages"][1]["content"]
    payload = json.loads(text[text.index("{") :])
    gold = sorted(item["id"] for item in payload["gold"])
    predicted = sorted(payload["predicted"], key=lambda item: item["id"])
    if FLUENT in (item["value"] for item in predicted):
        return Answer(json.dumps({"pairs": []}))
    named = predicted[:1] if predicted[0]["value"] == "x" else predicted
    pairs = [
        {"reason": "", "gold": name, "predicted": item["id"], "relation": "same"}
        for name, item in zip(gold, named, strict=False)
    ]
    return Answer(json.dumps({"pairs": pairs}))


def judged(body):
    text = body["messages"][1]["content"]
    return is_judging(body) and ('"value": "x"' in text or FLUENT in text)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("baselines")
    write_visitors(folder / "data", COUNT)
    with serve(obliging) as server:
        words = extraction(server.url, "out=out", f"baseline_records={DRAWN}")
        first = run(folder, *words, OPENAI_API_KEY="none", ALPS_CACHE="off")
        asked = [body for body in server.requests if judged(body)]
        before = (folder / "out" / "summary.json").read_bytes()
        total = len(server.requests)
        again = run(folder, *words, OPENAI_API_KEY="none", ALPS_CACHE="off")
        later = len(server.requests) - total
        other = run(folder, *extraction(server.url, "out=other"), OPENAI_API_KEY="none")
    assert (first.returncode, again.returncode, other.returncode) == (0, 0, 0), first.stderr
    return folder, first, asked, before, later


def test_the_judge_of_the_run_judges_baselines_on_the_records_that_were_drawn(finished):
    folder, first, asked, _, _ = finished
    floors = task1(folder / "out")["floors"]
    assert {floor["judge"] for floor in floors.values()} == {"openai/scripted-judge"}
    assert len(asked) == 2 * DRAWN
    assert floors["floor/content-free"]["scores"]["f1"]["n"] == DRAWN
    assert floors["floor/content-free"]["scores"]["f1"]["value"] == pytest.approx(
        2 / 3
    )  # one of two, and one copy
    assert floors["floor/content-free-fluent"]["scores"]["f1"]["value"] == 0
    assert "judged by openai/scripted-judge" in first.stdout


def test_an_empty_list_costs_nothing_and_is_scored_on_every_record(finished):
    folder, *_ = finished
    empty = task1(folder / "out")["floors"]["floor/empty"]
    assert (empty["scores"]["f1"]["n"], empty["scores"]["f1"]["value"]) == (COUNT, 0)


def test_the_difference_is_taken_on_the_records_that_both_have(finished):
    folder, *_ = finished
    above = task1(folder / "out")["floors"]["floor/content-free"]["above"]
    assert (above["n"], above["value"]) == (DRAWN, pytest.approx(1 - 2 / 3))


def test_verdicts_on_baselines_are_kept_and_not_asked_again(finished):
    folder, _, _, before, later = finished
    kept = [
        (row["benchmark_id"], row["baseline"]) for row in rows(folder / "out" / "baselines.jsonl")
    ]
    # Fixed items of two kinds, and excerpts; nothing is asked of an empty list.
    assert len(kept) == len(set(kept)) == 3 * DRAWN
    assert kept == sorted(kept)
    assert later == 0
    floors = [
        json.loads(text)["tracks"]["task1"]["floors"]
        for text in (before, (folder / "out" / "summary.json").read_bytes())
    ]
    assert floors[0] == floors[1]


def test_no_records_no_calls(finished):
    folder, *_ = finished
    floors = summary(folder / "other")["tracks"]["task1"]["floors"]
    assert floors["floor/content-free"]["scores"]["f1"] | {"unscored": None} == {
        "value": None,
        "low": None,
        "high": None,
        "n": 0,
        "unscored": None,
    } | {
        key: value
        for key, value in floors["floor/content-free"]["scores"]["f1"].items()
        if key == "reason"
    }


def test_a_dry_run_counts_them(tmp_path):
    write_visitors(tmp_path / "data", COUNT)
    words = extraction("http://127.0.0.1:9/v1", "dry_run=yes", f"baseline_records={DRAWN}")
    told = run(tmp_path, *words, OPENAI_API_KEY="none")
    assert told.returncode == 0, told.stderr
    (line,) = (line for line in told.stdout.splitlines() if ", baselines " in line)
    assert line.partition(", baselines ")[2].split()[:3] == ["up", "to", str(6 * DRAWN)]
