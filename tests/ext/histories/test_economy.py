"""What right answers took: dollars, seconds, and the turn from which a memory costs less."""

import json
import re

import numpy as np
import pytest

from alps.ext.histories.part import NEVER, TURNS, turn_of
from alps.ext.looking.report_page import write_report
from alps.run.opened import open_run
from tests.endtoend import rows, write_rows
from tests.ext.histories.sets import judged_by, read_by, run
from tests.loopback import Answer, serve
from tests.tracks import alps_here, is_rating, met, payload_of

HISTORIES, SESSIONS = 8, 6
PRICES = """
["openai/reader"]
input = 10
cached_input = {cached}
output = 10
["openai/keeper"]
input = 20
output = 20
["openai/judge"]
input = 1000
output = 1000
"""


def turn(ingested, each, first, again):
    return float(turn_of(*map(np.array, (ingested, each, first, again))))


EVEN = {
    "ingest costs nothing, and each turn less": ((0.0, 1.0, 5.0, 2.0), 1),
    "cheaper at once, ingest paid by the first reading": ((3.0, 1.0, 5.0, 2.0), 1),
    "as dear at turn 4, so cheaper from the fifth": ((7.0, 1.0, 5.0, 2.0), 5),
    "cheaper during turn 4": ((6.5, 1.0, 5.0, 2.0), 4),
    "each turn costs what reading again costs": ((0.0, 2.0, 5.0, 2.0), np.inf),
    "each turn is dearer": ((0.0, 3.0, 50.0, 2.0), np.inf),
}


@pytest.mark.parametrize(("costs", "expected"), EVEN.values(), ids=EVEN)
def test_the_turn_is_the_first_from_which_all_later_ones_cost_less(costs, expected):
    assert turn(*costs) == expected
    ingested, each, first, again = costs
    for n in range(1, 40):
        less = ingested + n * each < first + (n - 1) * again
        assert less == (n >= expected) or again <= each


def write_set(folder):
    """Write histories of some length; half of the questions are about the first session."""
    sessions, questions = [], []
    for user in range(HISTORIES):
        for number in range(SESSIONS):
            said = [f"In town {user}-{number} I met {'a friend of mine ' * (5 + user)}", "Nice."]
            messages = [{"text": said[0]}, {"role": "assistant", "text": said[1]}]
            at = f"2030-0{number + 1}-03T14:00"
            sessions.append({"history": f"u{user}", "at": at, "messages": messages})
        for number in range(1 + user % 2):
            asked = f"Which town was visit {number}, user {user}?"
            question = {"id": f"u{user}q{number}", "history": f"u{user}", "question": asked}
            questions.append({**question, "answer": f"town {user}-{number}", "evidence": ["1:1"]})
    folder.mkdir()
    for name, made in (("histories", sessions), ("questions", questions)):
        write_rows(folder / f"{name}.jsonl", made)


def script(body):
    """Keep a short memory of each session; answer the question rightly; judge by the words."""
    first = body["messages"][0]["content"]
    if first.startswith("You maintain the memory"):
        said = re.split(r"(?:^|\n)(?:user|assistant): ", body["messages"][-1]["content"])
        return Answer(json.dumps([one.partition(" I met")[0] for one in said if one]))
    payload = payload_of(body)
    if is_rating(body):
        return met("met" if payload["memory"] in payload["response"] else "not_met")
    visit, user = re.findall(r"\d", payload["question"])
    return Answer(f"town {user}-{visit}" if visit == "0" else "no idea")


def ran(folder, server, *words, cached="5"):
    prices = folder.parent / f"{folder.name}.toml"
    prices.write_text(PRICES.format(cached=cached), encoding="utf-8")
    asked = (*read_by(server), *judged_by(server), "judge_check=no")
    keys = {"OPENAI_API_KEY": "test", "ALPS_PRICES": str(prices), "ALPS_CACHE": "off"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in keys.items():
            patch.setenv(name, value)
        done = run(folder, "histories", f"data={folder.parent / 'set'}", *asked, *words)
    assert done.code == 0, done.err
    return done.out


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("economy")
    write_set(folder / "set")
    with serve(script) as server:
        keeping = ("memory=llm", "memory_llm=openai/keeper", "memory_embedder=hash")
        out = ran(folder / "kept", server, *keeping, f"memory_llm_api_base={server.url}")
        ran(folder / "found", server, "memory=bm25", "k=2")
        ran(folder / "whole", server, "memory=full")
        ran(folder / "dear", server, "memory=bm25", "k=2", cached="0.0001")
    return folder, out


def took(folder):
    return open_run(folder).summary.parts["histories"]["histories"]["economy"]


@pytest.mark.release
def test_dollars_and_seconds_are_those_of_memory_and_reader_for_each_right_answer(runs):
    folder, out = runs
    kept = folder / "kept"
    calls = [one for one in rows(kept / "memory_calls.jsonl") if one["phase"] != "admission"]
    assert sum(one["cost"] > 0 for one in calls) == HISTORIES * SESSIONS
    answers = rows(kept / "answers.jsonl")
    spent = sum(one["cost"] for one in (*calls, *answers))
    economy, right = took(kept), HISTORIES
    assert economy["dollars"]["value"] == pytest.approx(spent / right)
    low, high = economy["dollars"]["low"], economy["dollars"]["high"]
    assert low < economy["dollars"]["value"] < high
    journal = rows(kept / "memory.jsonl")
    phases = ("ingest", "settle", "search")
    seconds = [one["seconds"] for one in journal if one.get("phase") in phases]
    seconds += [one["seconds"] for one in answers]
    assert economy["seconds"]["value"] == pytest.approx(sum(seconds) / right)
    assert re.search(r"a right answer cost \$0\.\d+ and [\d.]+ s", " ".join(out.split()))


def test_a_reader_of_the_whole_history_costs_what_its_calls_did(runs):
    folder, _ = runs
    calls = rows(folder / "whole" / "calls.jsonl")
    spent = sum(one["cost"] for one in calls if one["purpose"] == "generate")
    economy = took(folder / "whole")
    assert economy["dollars"]["value"] == pytest.approx(spent / HISTORIES)
    assert economy.get("even") is None


def test_the_turn_follows_from_metered_tokens_and_prices(runs):
    folder, _ = runs
    for name in ("kept", "found"):
        even = took(folder / name)["even"]
        answers = rows(folder / name / "answers.jsonl")
        cost = sum(one["cost"] for one in answers) / len(answers)
        assert even["each"] == pytest.approx(cost)
        assert even["first"] - even["again"] == pytest.approx(even["tokens"] * (1e-5 - 5e-6))
        ingested = rows(folder / name / "memory_calls.jsonl") if name == "kept" else []
        ingested = [one["cost"] for one in ingested if one["phase"] == "ingest"]
        assert even["ingested"] == pytest.approx(sum(ingested) / HISTORIES)
        expected = turn(*(even[key] for key in ("ingested", "each", "first", "again")))
        assert even["turn"] == expected
        if name == "kept":
            assert even["low"] < even["turn"] < even["high"]
        else:
            assert (even["turn"], even["low"]) == (1, None)
        for spot, n in zip(even["curve"], TURNS, strict=True):
            assert spot["memory"]["value"] == pytest.approx(even["ingested"] / n + even["each"])
            whole = (even["first"] + (n - 1) * even["again"]) / n
            assert spot["whole"] == pytest.approx(whole)


def test_prompts_that_cost_next_to_nothing_once_cached_make_no_memory_pay(runs):
    folder, _ = runs
    even = took(folder / "dear")["even"]
    assert (even["turn"], even["again"] < even["each"]) == (NEVER, True)
    shown = " ".join(alps_here("show", str(folder / "dear")).out.split())
    assert "turn from which memory costs less than the whole never – history" in shown


def test_the_whole_prompt_is_what_a_run_with_the_whole_history_sends(runs):
    folder, _ = runs
    calls = rows(folder / "whole" / "calls.jsonl")
    sent = [one["prompt_tokens"] for one in calls if one["purpose"] == "generate"]
    even = took(folder / "found")["even"]
    answered = rows(folder / "found" / "answers.jsonl")
    completion = sum(one["completion_tokens"] for one in answered) / len(answered)
    guessed = even["first"] / 1e-5 - completion
    assert guessed == pytest.approx(sum(sent) / len(sent), rel=0.25)


def test_pages_draw_the_curve_and_comparisons_have_its_points(runs):
    folder, _ = runs
    page = write_report([folder / "kept", folder / "found"], folder / "page.html")
    text = page.read_text(encoding="utf-8")
    assert "Cost of memory and of the whole history" in text
    assert "Cost over turns" in text
    assert text.count("costs less from turn") == 2
    compared = alps_here("compare", folder / "kept", folder / "found", "format=json")
    track = json.loads(compared.out)["tracks"]["histories"]
    assert track["economy"]["A"]["even"]["turn"] == took(folder / "kept")["even"]["turn"]
    table = alps_here("compare", folder / "kept", folder / "found", "metrics=all").out
    assert "mean cost per turn over the first n turns" in table
    assert "B history" in table
