import json
import math
import re

import pytest

from alps.data.release import write_track
from alps.judges.embedded import LexicalJudge
from alps.llm.types import Reply
from alps.llm.understanding import understand
from alps.schema import Candidate, Prediction, RetrievalSample
from alps.systems import floor_systems
from alps.tasks import TaskOptions, load_task, load_tracks
from alps.tasks.retrieval import SIZES, read_answer, read_sample, score
from tests.endtoend import rows, write_rows
from tests.loopback import Answer, serve
from tests.submissions import DROPPED, changed
from tests.tracks import (
    alps_here,
    between,
    is_rating,
    llm,
    met,
    payload_of,
    pool_row,
    scores_of,
    track_of,
)

TASK = load_task("retrieval")
VALUES = tuple(
    f"Keeps {n} {animal}"
    for n, animal in enumerate(("geese", "newts", "owls", "bees", "cats", "yaks"), 2)
)
QUERY = "Who looks after them while I am away?"


def sample(values=VALUES, gold=2, **fields):
    return read_sample(*pool_row("r1", values, gold, **fields))


def answered(chosen, *ranking, answer="", name="r1"):
    given = {"selected_memory_id": chosen, "answer": answer, "reason": "", "ranking": list(ranking)}
    return Prediction(benchmark_id=name, track="task3_d100", outcome="ok", prediction=given)


def scored(prediction, asked=None, verdict=None):
    return score(asked or sample(), prediction, verdict or {"outcome": "ok"}, LexicalJudge()).scores


def write(folder, *pairs, size=100):
    write_track(folder / "data" / "dev" / "task3" / f"d{size}", pairs)
    return folder


def pairs(count, size=12):
    """Return pools of values that share no word; the gold stands in another place each time."""
    made = []
    for n in range(count):
        values = [f"Memory {n}-{k} of owner {k}" for k in range(size)]
        made.append(pool_row(f"r{n}", values, n % size, query=f"Query {n}?"))
    return made


def run(folder, *words):
    asked = ("run", "task=retrieval", f"data={folder / 'data'}", f"out={folder / 'out'}")
    ran = alps_here(*asked, *words)
    assert "Traceback" not in ran.err
    return ran


def run_served(folder, script, *words):
    """Run on a model that a script answers for; return what came of it and the requests."""
    with serve(script) as server:
        model, base, *_ = llm(server.url)
        return run(folder, model, base, *words), server.requests


def found_in(folder):
    return track_of(folder / "out", "task3_d100")


def chooses(pick, **fields):
    """Return a script of a model that picks a candidate of what it is shown."""

    def system(body):
        shown = json.loads(body["messages"][1]["content"])
        answer = {"reason": "so", "selected_memory_id": pick(shown), "answer": "", **fields}
        return Answer(json.dumps(answer))

    return system


def first_of(shown):
    return shown["candidates"][0]["id"]


def test_ids_are_opaque_in_the_order_of_the_pool_and_the_original_ones_are_gone():
    found = sample(ids=["m1", "m2", "m1", "m9", "m2", "m9"])
    assert [candidate.id for candidate in found.candidates] == [f"c00{n}" for n in range(1, 7)]
    assert [candidate.value for candidate in found.candidates] == list(VALUES)
    assert found.gold == "c003"


def test_the_gold_is_found_by_its_value_not_by_its_id():
    row, gold = pool_row("r1", VALUES, 2, ids=["m1"] * 6)
    assert read_sample(row, gold).gold == "c003"
    gold["gold"]["selected_memory_id"] = "m5"
    assert read_sample(row, gold).gold == "c003"


def test_values_that_stand_twice_are_kept_once_whatever_their_case_and_spaces():
    found = sample(["Keeps geese", "keeps  GEESE", "Owns a boat", "Keeps geese"], gold=3)
    values = {candidate.id: candidate.value for candidate in found.candidates}
    assert values == {"c001": "Keeps geese", "c002": "Owns a boat"}
    assert found.gold == "c001"


def test_the_mark_of_rejection_is_hidden_everywhere():
    found = sample([*VALUES[:2], "Owns a yacht [ERROR: only a joke]"], gold=2)
    assert (found.candidates[2].value, found.gold) == ("Owns a yacht", "c003")
    assert "ERROR" not in str(TASK.messages(found)) + str(TASK.input_row(found))


def test_a_thousand_and_one_candidates_have_ids_of_one_length():
    found = sample([f"Value {n}" for n in range(1001)], gold=1000)
    assert (found.candidates[0].id, found.gold) == ("c0001", "c1001")


def in_input(path, value):
    return lambda row, gold: changed(f"input.{path}", value)(row)


EMPTY_VALUE = "value must be a non-empty string"
NO_POOLS = {
    "another gold": (
        lambda row, gold: gold["gold"]["selected_memory"].update(value="Somebody else"),
        "not among the candidates",
    ),
    "an empty list": (in_input("candidate_memories", []), "the list is empty"),
    "no list": (in_input("candidate_memories", DROPPED), "candidate_memories"),
    "no value": (in_input("candidate_memories.0.value", DROPPED), "value"),
    "a null value": (in_input("candidate_memories.0.value", None), EMPTY_VALUE),
    "an empty value": (in_input("candidate_memories.0.value", " "), EMPTY_VALUE),
    "no gold": (lambda row, gold: gold["gold"].pop("selected_memory"), "selected_memory"),
    "no query": (in_input("query", DROPPED), "query"),
}


@pytest.mark.parametrize(("change", "said"), NO_POOLS.values(), ids=NO_POOLS)
def test_a_row_that_is_no_pool_is_named_on_one_line_with_its_field(tmp_path, change, said):
    row, gold = pool_row("r2", VALUES, 1)
    change(row, gold)
    write(tmp_path, pool_row("r1", VALUES, 2), (row, gold))
    error = run(tmp_path, "model=bm25").one_line
    assert ".jsonl, line 2" in error
    assert said in error


def test_what_a_system_is_shown_is_query_ids_and_values_and_nothing_that_tells_the_gold():
    row, gold = pool_row("r1", VALUES, 2, query=QUERY)
    found = read_sample(row, gold)
    pool = [{"id": f"c00{n}", "value": value} for n, value in enumerate(VALUES, start=1)]
    assert TASK.input_row(found) == {
        "benchmark_id": "r1",
        "task": "task3",
        "input": {"query": QUERY, "candidate_memories": pool},
    }
    system, user = TASK.messages(found)
    assert system["content"] == TASK.prompt.text
    assert json.loads(user["content"]) == {"candidates": pool, "query": QUERY}
    assert (TASK.messages(found), TASK.input_row(found)) == tuple(
        show(found.model_copy(update={"gold": None})) for show in (TASK.messages, TASK.input_row)
    )


def test_a_python_class_is_shown_no_gold_and_can_answer(tmp_path, monkeypatch):
    write(tmp_path, *pairs(3))
    (tmp_path / "choosing_class.py").write_text(
        "class Choosing:\n"
        "    def predict(self, sample):\n"
        "        assert sample.gold is None\n"
        "        return sample.candidates[0].id\n"
    )
    monkeypatch.chdir(tmp_path)
    run(tmp_path, "model=python:choosing_class:Choosing")
    assert found_in(tmp_path)["failed_predictions"] == {}
    assert math.isclose(found_in(tmp_path)["scores"]["recall_at_1"]["value"], 1 / 3)


def test_tracks_and_their_folders_are_those_of_the_release():
    found = load_tracks("retrieval", TaskOptions(distractors="all"))
    assert [(task.track, task.place, task.data.pool_size) for task in found] == [
        (f"task3_d{size}", f"task3/d{size}", size) for size in SIZES
    ]
    (one,) = load_tracks("retrieval", TaskOptions(distractors="700"))
    assert one.track == "task3_d700"


def test_pools_of_every_size_run_as_tracks_of_one_run_and_what_is_not_there_is_left_out_by_name(
    tmp_path,
):
    write(tmp_path, *pairs(4))
    write(tmp_path, *pairs(3, size=20), size=300)
    ran = run(tmp_path, "model=bm25", "distractors=all")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert ran.code == 0
    counts = {"task3_d100": 4, "task3_d300": 3}
    assert {name: track["n"] for name, track in summary["tracks"].items()} == counts
    assert set(summary["left_out"]) == {"task3_d500", "task3_d700", "task3_d1000"}
    assert "Left out: retrieval@1000" in ran.out
    expected = [track for track, count in counts.items() for _ in range(count)]
    assert [row["track"] for row in rows(tmp_path / "out" / "scores.jsonl")] == expected


@pytest.mark.parametrize(
    ("node", "chosen", "ranking"),
    [
        ({"selected_memory_id": "c002"}, "c002", []),
        ({"selected_memory_id": " c002\n", "reason": None}, "c002", []),
        ({"memory_id": "c002"}, "c002", []),
        ({"id": "c002"}, "c002", []),
        ("c002", "c002", []),
        ({"ranking": ["c003", "c001"]}, "c003", ["c003", "c001"]),
        ({"id": "c002", "ranking": ["c002", " c001", "c002"]}, "c002", ["c002", "c001"]),
        ({"id": "c002", "ranking": None, "answer": "so", "confidence": 0.9}, "c002", []),
    ],
)
def test_answers_are_read_tolerantly(node, chosen, ranking):
    read = read_answer(node).value
    assert (read["selected_memory_id"], read["ranking"]) == (chosen, ranking)
    assert {type(read[name]) for name in ("answer", "reason")} == {str}


NAMELESS = [{}, [], None, 7, "", " ", {"ranking": [1]}, {"answer": "x"}]
NAMELESS += [{"selected_memory_id": ["c001"]}, {"selected_memory_id": 3}]


@pytest.mark.parametrize("node", NAMELESS)
def test_what_names_no_memory_is_no_answer(node):
    with pytest.raises(ValueError, match=r"selected_memory_id|ranking"):
        read_answer(node)


def test_a_model_that_names_an_id_outside_the_pool_is_asked_again_and_then_fails_as_invalid(
    tmp_path,
):
    write(tmp_path, *pairs(2))

    def pick(shown):
        return "m4" if shown["query"] == "Query 0?" else shown["candidates"][1]["id"]

    ran, requests = run_served(tmp_path, chooses(pick), "max_failures=50%")
    bad = [body for body in requests if "Query 0?" in body["messages"][1]["content"]]
    track = found_in(tmp_path)
    assert (ran.code, len(bad), len(requests)) == (0, 3, 4)
    assert "'m4' is not among the ids" in bad[-1]["messages"][-1]["content"]
    assert track["failed_predictions"] == {"invalid": 1}
    assert track["scores"]["recall_at_1"]["value"] == 0.5
    assert scores_of(tmp_path / "out")["r0"]["outcome"] == "invalid"


def test_an_id_outside_the_pool_in_recorded_predictions_fails_that_record_alone(tmp_path):
    write(tmp_path, *pairs(5))
    picks = {"r0": ("m3", []), "r1": ("c002", []), "r2": ("c013", [])}
    picks |= {"r3": ("c004", ["c004", "m1"]), "r4": ("C001", [])}
    lines = []
    for name, (pick, ranking) in picks.items():
        lines.append({"benchmark_id": name, "selected_memory_id": pick, "ranking": ranking})
    run(tmp_path, f"model=predictions:{write_rows(tmp_path / 'mine.jsonl', lines)}")
    found = {
        name: (row["outcome"], row["scores"]["recall_at_1"])
        for name, row in scores_of(tmp_path / "out").items()
    }
    assert found == {**dict.fromkeys(picks, ("invalid", 0.0)), "r1": ("ok", 1.0)}


FIGURES = ("recall_at_1", "recall_at_5", "recall_at_10", "mrr")


@pytest.mark.parametrize(
    ("place", "at_1", "at_5", "at_10"),
    [(1, 1, 1, 1), (2, 0, 1, 1), (5, 0, 1, 1), (6, 0, 0, 1), (10, 0, 0, 1), (11, 0, 0, 0)],
)
def test_the_figures_of_a_ranking_follow_from_the_place_of_the_gold(place, at_1, at_5, at_10):
    asked = sample([f"Value {n}" for n in range(20)], gold=7)
    others = [candidate.id for candidate in asked.candidates if candidate.id != asked.gold]
    ranking = [*others[: place - 1], asked.gold, *others[place - 1 :]]
    expected = dict(zip(FIGURES, (at_1, at_5, at_10, 1 / place), strict=True))
    assert scored(answered(ranking[0], *ranking), asked) == expected
    without = [name for name in ranking if name != asked.gold][:12]
    assert scored(answered(without[0], *without), asked) == dict.fromkeys(FIGURES, 0.0)


@pytest.mark.parametrize("ranking", [(), ("c003",), ("c003", "c001")])
def test_a_choice_without_a_ranking_of_ten_has_recall_at_1_alone(ranking):
    asked = sample([f"Value {n}" for n in range(20)])
    assert scored(answered("c003", *ranking), asked) == {"recall_at_1": 1.0}
    # In a small pool a ranking of all is one.
    assert scored(answered("c001", "c001", "c003", "c002", "c004", "c005", "c006"))["mrr"] == 0.5


@pytest.mark.parametrize("outcome", ["empty", "refused", "truncated", "unparsable", "invalid"])
def test_a_failed_prediction_finds_nothing(outcome):
    failed = Prediction(benchmark_id="r1", track="task3_d100", outcome=outcome)
    found = score(sample(), failed, None, LexicalJudge())
    assert set(found.scores.values()) == {0.0}
    assert {"recall_at_1", "recall_at_5", "mrr"} <= found.scores.keys()
    assert "memory_used" not in found.scores


def test_a_model_that_gives_no_ranking_has_no_figure_of_one_even_where_it_failed(tmp_path):
    write(tmp_path, *pairs(3))

    def pick(shown):
        return "none" if shown["query"] == "Query 2?" else first_of(shown)

    ran, _ = run_served(tmp_path, chooses(pick))
    scores = found_in(tmp_path)["scores"]
    assert list(scores) == ["recall_at_1"]
    assert math.isclose(scores["recall_at_1"]["value"], 1 / 3)
    assert "recall@5" not in ran.out + alps_here("show", tmp_path / "out").out


def test_a_retriever_has_every_figure_of_its_ranking_its_speed_and_both_floors_with_the_difference(
    tmp_path,
):
    write(tmp_path, *pairs(6))
    ran = run(tmp_path, "model=rules")
    track = found_in(tmp_path)
    assert list(track["scores"]) == list(FIGURES)
    assert track["seconds_per_query"] > 0
    assert set(track["floors"]) == set(floor_systems(TASK))
    assert all("above" in floor for floor in track["floors"].values())
    shown = alps_here("show", tmp_path / "out").out
    assert "not comparable" not in shown
    assert "for debugging" not in ran.out
    assert re.search(r"recall@1 +\.\d{3}|recall@1 +1\.000", ran.out)


def answer_of(name, sample):
    return floor_systems(TASK)[name].answer_at_once(TASK, sample).prediction


def test_the_random_floor_chooses_alike_in_every_run_and_elsewhere_for_another_query():
    asked = [read_sample(*pool_row(f"r{n}", VALUES, 2)) for n in range(20)]
    first, again = ([answer_of("floor/random", one) for one in asked] for _ in range(2))
    assert first == again
    assert len({tuple(answer["ranking"]) for answer in first}) > 15


def test_an_llm_judge_is_asked_once_about_every_answer_with_the_gold_memory(tmp_path):
    write(tmp_path, *pairs(5))

    def system(body):
        shown = json.loads(body["messages"][1]["content"])
        number = int(shown["query"].split()[1].rstrip("?"))
        answer = "" if number == 3 else f"Answer {number} with what you keep."
        chosen = "none" if number == 4 else first_of(shown)
        return Answer(json.dumps({"reason": "", "selected_memory_id": chosen, "answer": answer}))

    def judge(body):
        return met("met" if payload_of(body)["query"] == "Query 0?" else "not_met")

    with serve(between(system, judge)) as server:
        ran = run(tmp_path, *llm(server.url))
    asked = sorted(
        (payload_of(body) for body in server.requests if is_rating(body)), key=lambda p: p["query"]
    )
    assert asked == [
        {
            "kind": "rubric",
            "rubric": "memory_used",
            "query": f"Query {n}?",
            "response": f"Answer {n} with what you keep.",
            "memory": f"Memory {n}-{n} of owner {n}",
            "dialogue": [],
        }
        for n in range(3)
    ]
    used = found_in(tmp_path)["scores"]["memory_used"]
    assert (used["value"], used["n"]) == (0.25, 4)  # the last query failed: nothing was used there
    assert "memory used in the answer" in ran.out
    assert "memory used in the answer" in alps_here("show", tmp_path / "out").out


def test_the_embedded_judge_has_no_such_figure(tmp_path):
    write(tmp_path, *pairs(2))
    ran, _ = run_served(tmp_path, chooses(first_of, answer="Something."))
    assert "memory used" not in ran.out + alps_here("show", tmp_path / "out").out
    assert "memory_used" not in found_in(tmp_path)["scores"]


def test_a_failed_verdict_on_the_use_leaves_the_record_scored_and_is_asked_again_on_resume(
    tmp_path,
):
    write(tmp_path, *pairs(2))
    system = chooses(first_of, answer="What you keep.")
    broken = True

    def judge(body):
        silent = broken and payload_of(body)["query"] == "Query 1?"
        return Answer("I can't tell") if silent else met()

    with serve(between(system, judge)) as server:
        first = run(tmp_path, *llm(server.url))
        track = found_in(tmp_path)
        shown = alps_here("show", tmp_path / "out").out
        asked, broken = len(server.requests), False
        second = run(tmp_path, *llm(server.url))
        again = server.requests[asked:]
        third = run(tmp_path, *llm(server.url))
    assert (first.code, second.code, third.code) == (0, 0, 0)
    assert (track["scored"], track["unscored"], track["unchecked"]) == (2, 0, 1)
    assert (track["scores"]["recall_at_1"]["n"], track["scores"]["memory_used"]["n"]) == (2, 1)
    unchecked = "For 1 answer, alps did not check whether the memory was used"
    assert f"{unchecked}, because the call to the judge failed." in " ".join(shown.split())
    assert [payload_of(body)["query"] for body in again] == ["Query 1?"]
    assert len(server.requests) == asked + 1
    track = found_in(tmp_path)
    assert (track["unchecked"], track["scores"]["memory_used"]["n"]) == (0, 2)


IDS = ("c001", "c002")
ONE, OTHER = (json.dumps({"selected_memory_id": name, "answer": "", "reason": ""}) for name in IDS)
CUT_OFF = '{"selected_memory_id": "c002", "answer": "They keep gee'
CHOICES = {
    "two in prose": (f"Draft: {ONE}. No, wait. Final: {OTHER}", "stop", "c002"),
    "two without a word between": (f"{ONE}\n{OTHER}", "stop", None),
    # The id is whole: what is cut off says nothing of which memory was chosen.
    "cut off behind the id": (CUT_OFF, "length", "c002"),
    "cut off within the id": (CUT_OFF[:27], "length", None),
    "cut off before the id": ('{"answer": "They keep gee', "length", None),
}


@pytest.mark.parametrize(("text", "finish", "chosen"), CHOICES.values(), ids=CHOICES)
def test_a_choice_counts_where_it_is_whole_and_alone(text, finish, chosen):
    pool = tuple(Candidate(id=name, value=name) for name in IDS)
    shown = {"benchmark_id": "b", "session_id": "s", "query": "q", "candidates": pool}
    asked = TASK.answer_to(RetrievalSample(**shown, gold="c002"))
    value = understand(Reply(text, finish), asked).value
    assert (value and value["selected_memory_id"]) == chosen


def test_the_schema_asks_for_the_keys_in_the_order_of_the_prompt():
    told = TASK.prompt.text.partition("its keys in this order:")[2]
    assert re.findall(r"`(\w+)`, ", told) == list(TASK.answer.schema.model_fields)
