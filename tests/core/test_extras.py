import json

import pytest

from tests.endtoend import extraction, rows, run, task1
from tests.loopback import Answer, serve
from tests.visitors import good, is_judging, memory_items, values_of, visitor, write_visitors

COUNT = 6
SAID = ("supported", "unsupported", "not_about_user")


def payload(body):
    text = body["messages"][-1]["content"]
    return json.loads(text[text.index("{") :])


def is_checking(body):
    return '"kind": "support"' in body["messages"][-1]["content"]


def answer(body):
    if is_checking(body):
        items = payload(body)["items"]
        number = int(items[0]["value"].split()[1])
        said = [
            {"reason": "as told", "id": item["id"], "support": SAID[number % 3]} for item in items
        ]
        return Answer("no idea" if number == 5 else json.dumps({"items": said}))
    if is_judging(body):
        same = [
            {"reason": "the same", "gold": f"g{n}", "predicted": f"p{n}", "relation": "same"}
            for n in (1, 2)
        ]
        return Answer(json.dumps({"pairs": same}))
    number = visitor(body)
    return Answer(
        json.dumps(
            {"memory_items": memory_items(*values_of(number), f"Visitor {number} has a secret")}
        )
    )


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extras")
    write_visitors(folder / "data", COUNT)
    with serve(answer) as server:
        words = extraction(server.url, "out=out", "extras=judge")
        finished = run(folder, *words, OPENAI_API_KEY="none")
        asked = [body for body in server.requests if is_checking(body)]
    assert finished.returncode == 0, finished.stderr
    return folder, finished, asked


def test_the_unmatched_predictions_are_checked_against_the_dialogue(checked):
    _, _, asked = checked
    numbers = [payload(body)["items"] for body in asked]
    assert all([item["id"] for item in items] == ["p3"] for items in numbers)
    assert payload(asked[0])["dialogue"][0]["role"] == "user"


def test_what_the_judge_says_becomes_rates_over_the_records_it_checked(checked):
    folder, finished, _ = checked
    scores = task1(folder / "out")["scores"]
    assert scores["f1"]["value"] == pytest.approx(0.8)
    assert scores["hallucination_rate"]["value"] == pytest.approx(2 / 15)
    assert scores["misattribution_rate"]["value"] == pytest.approx(1 / 15)
    assert scores["unannotated_share"]["value"] == pytest.approx(2 / 5)
    assert scores["precision_supported"]["value"] == pytest.approx(12 / 15)
    assert finished.returncode == 0
    assert "hallucinated share" in run(folder, "show", "out").stdout


def test_a_check_that_failed_is_said_and_costs_no_score(checked):
    folder, finished, _ = checked
    track = task1(folder / "out")
    assert track["scored"] == COUNT
    assert track["unchecked"] == 1
    assert finished.returncode == 0
    shown = run(folder, "show", "out").stdout
    unchecked = "alps did not check whether the dialogue supports unmatched predictions"
    told = f"For 1 answer, {unchecked}, because the call to the judge failed."
    assert told in " ".join(shown.split())


def test_the_extras_of_a_record_say_what_supports_them(checked):
    folder, *_ = checked
    found = {row["benchmark_id"]: row["extra"] for row in rows(folder / "out" / "scores.jsonl")}
    assert found["visitor_01"] == [
        {"id": "p3", "value": "Visitor 1 has a secret", "support": "unsupported"}
    ]


def test_the_embedded_judge_does_not_read_dialogues_and_says_so(alps, tmp_path):
    assert alps("run", "task=extraction", "model=rules", "extras=judge", "out=out").returncode == 0
    score = task1(tmp_path / "out")["scores"]["hallucination_rate"]
    assert (score["value"], score["n"]) == (None, 0)
    assert "does not read dialogues" in score["unscored"]


@pytest.mark.release
def test_repeats_ask_the_system_and_the_judge_so_often(tmp_path):
    write_visitors(tmp_path / "data", 2)
    with serve(good) as server:
        words = extraction(server.url, "out=out", "repeats=3", "judge_repeats=2")
        finished = run(tmp_path, *words, OPENAI_API_KEY="none")
        asked = [is_judging(body) for body in server.requests]
    assert finished.returncode == 0, finished.stderr
    track = task1(tmp_path / "out")
    assert asked.count(False) == 2 * 3
    assert track["n"] == 6
    assert track["repeats"] == 3
    assert len(track["by_repeat"]["f1"]) == 3
    assert track["scores"]["judge_agreement"]["value"] == 1.0
    predictions = [
        (row["benchmark_id"], row["repeat"]) for row in rows(tmp_path / "out" / "predictions.jsonl")
    ]
    assert predictions == [(f"visitor_0{n}", repeat) for n in range(2) for repeat in range(3)]
    assert (
        asked.count(True) == 2 * 2
    )  # the same answers to the judge are one question, whoever gave them
