"""HaluMem's levels besides questions: what a memory stores of a session, and holds of a change."""

import json

import pytest

from alps.ext.histories.authors import extraction_score, update_score
from alps.ext.histories.levels.halumem_extraction import points_of
from alps.ext.histories.points import Point, PointsSample
from alps.tasks import load_task
from alps.tasks.base import TaskOptions
from tests.endtoend import rows
from tests.ext.histories.sets import judged_by, run
from tests.loopback import Answer, serve
from tests.tracks import alps_here, payload_of, track_of

KEPT = (Point("a", 0.9), Point("b", 0.1))
WRONG = (Point("c", 0.5, wrong=True),)


def sample(*points):
    return PointsSample("u:s1", "u", None, None, 1, 0, 2, "", points)


def marks(covered, stated):
    found = {f"covered {n}": mark for n, mark in enumerate(covered)}
    for n, (mark, included) in enumerate(stated):
        found |= {f"stated {n} mark": mark, f"stated {n} included": 2 * included}
    return found


STORED = {
    "all of it": (KEPT, [2, 2], [(2, True), (2, True)], 1.0, {"weighted": 1.0, "included": 2}),
    "half, and nothing else": (KEPT, [2, 0], [(2, True)], 2 / 3, {"weighted": 0.9}),
    "a part is not covered, and has half a weight": (
        KEPT, [1, 0], [(1, True)], 0.0, {"covered": 0, "weighted": 0.45, "included_right": 0.5}
    ),
    "what no point is about counts for accuracy alone": (
        KEPT, [2, 2], [(2, True), (0, False)], 1.0, {"stored": 2, "stored_right": 1, "included": 1}
    ),
    "nothing": (KEPT, [], [], 0.0, {"points": 2, "stored": 0}),
    "a false memory is kept": ((*KEPT, *WRONG), [2, 2, 1], [(2, True)], 1.0, {"left_out": 0}),
    "a false memory is left out": ((*KEPT, *WRONG), [2, 2, 0], [(2, True)], 1.0, {"left_out": 1}),
    "a memory that failed stored nothing and resisted nothing": (
        (*KEPT, *WRONG), [], None, 0.0, {"left_out": 0, "wrong": 1}
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("points", "covered", "stated", "f1", "counts"), STORED.values(), ids=STORED
)
def test_what_was_stored_of_a_session_is_scored_as_by_the_authors(
    points, covered, stated, f1, counts
):
    texts = None if stated is None else ["m"] * len(stated)
    scores, counted = extraction_score(sample(*points), texts, marks(covered, stated or ()))
    assert scores["f1"] == pytest.approx(f1)
    assert {name: counted[name] for name in counts} == pytest.approx(counts)


HELD = {
    "the new state": (["new"], {"changed": 3}, {"correct": 1.0, "correct_found": 1.0}),
    "something else": (["x"], {"changed": 0}, {"hallucination": 1.0, "correct_found": 0.0}),
    "the old state": (["old"], {"changed": 1}, {"omission": 1.0, "correct_found": 0.0}),
    "none of these": (["x"], {"changed": 2}, {"other": 1.0, "correct_found": 0.0}),
    "nothing found: omitted, and left out by the authors": ([], {"changed": 1}, {"omission": 1.0}),
}


@pytest.mark.parametrize(("texts", "given", "expected"), HELD.values(), ids=HELD)
def test_a_change_has_one_outcome(texts, given, expected):
    scores, _ = update_score(sample(KEPT[0]), texts, given)
    rates = {name: scores[name] for name in ("correct", "hallucination", "omission", "other")}
    assert sum(rates.values()) == 1
    assert {name: scores[name] for name in expected} == expected
    assert ("correct_found" in scores) == ("correct_found" in expected)


def test_a_change_of_a_memory_that_failed_is_neither_right_nor_made_up():
    scores, _ = update_score(sample(KEPT[0]), None, {})
    assert set(scores.values()) == {0.0}


def test_points_are_read_with_what_they_replace_and_distractors_have_none():
    point = {"memory_content": "x", "memory_source": "primary", "is_update": "True"}
    point |= {"original_memories": ["w"], "importance": 0.7}
    wrong = {**point, "memory_source": "interference", "is_update": "False", "importance": None}
    session = {"end_time": "Jun 03, 2030, 14:20:00", "memory_points": [point, wrong]}
    sessions = [session, {**session, "is_generated_qa_session": True}]
    first, second = points_of({"sessions": sessions})
    assert first[1] == (Point("x", 0.7, False, ("w",)), Point("x", 0.0, True))
    assert (first[0], second) == ("2030-06-03T14:20:00+00:00", None)


def samples_of(name):
    return list(load_task(name).data.open_records("samples", TaskOptions()).samples())


def test_the_sample_has_sessions_and_changes():
    sessions, changes = samples_of("halumem_extraction"), samples_of("halumem_update")
    assert [one.benchmark_id for one in sessions if one.session_id == "u-1"] == [
        "u-1:s1", "u-1:s2", "u-1:s4"
    ]  # fmt: skip
    assert any(point.wrong for one in sessions for point in one.points)
    assert {one.points[0].before for one in changes} == {
        ("Ida rows on Sundays.",), ("Arash bakes rye bread for two restaurants.",)
    }  # fmt: skip


def script(body):
    """Judge as somebody who takes turns of the user for what the points say of them."""
    payload = payload_of(body)
    known = {
        "Ida rows on Sundays.": "I now row on Sundays",
        "Ida rows on Saturdays.": "Rowing is on Saturdays",
        "Ida's son Jo plays the drums.": "My son Jo has begun",
        "Ida plays the drums herself.": "never said",
        "Arash bakes rye bread for two restaurants.": "I bake rye bread",
        "Arash runs two restaurants.": "Running two restaurants",
        "Arash bakes for three restaurants.": "third restaurant ordered",
    }
    if payload["rubric"] == "covered":
        said = {"mark": 2 * (known[payload["memory"]] in payload["response"])}
    elif payload["rubric"] == "stated":
        about = any(text in payload["response"] for text in known.values())
        said = {"mark": 2, "included": "yes" if about else "no"}
    else:
        new = payload["memory"].partition("\n")[0].removeprefix("new: ")
        said = {"outcome": "correct" if known[new] in payload["response"] else "omission"}
    return Answer(json.dumps({"reason": "scripted", **said}))


def test_a_memory_of_turns_is_judged_on_both_levels(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    with serve(script) as server:
        for name in ("halumem_extraction", "halumem_update"):
            done = run(tmp_path / name, name, "k=2", *judged_by(server), "judge_check=no")
            assert done.code == 0, done.err
    stored = track_of(tmp_path / "halumem_extraction", "halumem_extraction")["scores"]
    expected = {"recall": 1.0, "weighted_recall": 1.0, "target_accuracy": 1.0, "accuracy": 1.0}
    expected |= {"authors_f1": 1.0, "f1": 1.0, "resistance": 0.5}
    assert {name: stored[name]["value"] for name in expected} == expected
    held = track_of(tmp_path / "halumem_update", "halumem_update")["scores"]
    assert held["correct"]["value"] == 1.0
    shown = alps_here("show", tmp_path / "halumem_extraction", "u-1:s2").out
    assert "Rowing is on Saturdays" in shown
    assert "Ida rows on Saturdays." in shown


def test_a_history_is_ingested_once_for_all_samples_of_it(tmp_path):
    assert run(tmp_path / "out", "halumem_extraction").code == 0
    calls = rows(tmp_path / "out" / "memory.jsonl")
    ingested = [(one["user"], one["session"]) for one in calls if one["phase"] == "ingest"]
    assert len(ingested) == len(set(ingested)) == 6
    listed = [one for one in calls if one["phase"] == "memories"]
    assert len(listed) == 8  # after five sessions, and before those that are not the first
    assert not any("Saturdays" in hit["text"] for hit in listed[0]["hits"])


def test_what_keeps_no_memories_is_refused(tmp_path):
    done = alps_here("run", "task=halumem_update", "data=samples", "model=rules", f"out={tmp_path}")
    assert "needs a memory system" in done.one_line
