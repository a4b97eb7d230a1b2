"""Extraction, update and retrieval by a memory system: what it is told, and what is read of it."""

import json

import pytest

from alps.errors import UsageError
from alps.schema import Memory, RetrievalSample
from alps.tasks import load_task
from alps.tasks.base import TaskOptions
from alps.tasks.by_memory import Remembered, changes, places_of, ranking_of
from alps.tasks.record_parts import AnsweredRecord
from tests.endtoend import rows
from tests.ext.memory.stores import carried_out


def value(done, track, metric):
    return done.summary.tracks[track].scores[metric].value


@pytest.fixture(scope="module")
def bm25(tmp_path_factory):
    out = tmp_path_factory.mktemp("bm25")
    return carried_out(out, task="extraction,update,retrieval", memory="bm25", k=10)


@pytest.mark.release
def test_retrieval_by_a_memory_is_that_of_its_retriever(bm25, tmp_path):
    by_itself = carried_out(tmp_path, task="retrieval", model="bm25")
    # The bank is said by the user: the word before each candidate moves the ranking a little.
    found, wanted = (value(done, "task3_d100", "recall_at_1") for done in (bm25, by_itself))
    assert found == pytest.approx(wanted, abs=0.05)
    assert value(bm25, "task3_d100", "recall_at_10") > found > 0.15


def test_whole_turns_are_no_memories(bm25):
    assert value(bm25, "task1", "f1") < 0.05
    assert value(bm25, "task2", "f1_changed") < 0.05


def test_the_new_dialogue_is_told_once_the_old_memories_were_listed(bm25):
    found = {}
    for row in rows(bm25.folder / "memory.jsonl"):
        if row["phase"] == "memories" and row["sample"].startswith("task2 "):
            _, name, place = row["sample"].split(" ")
            found.setdefault(name, {})[place] = {hit["text"] for hit in row["hits"]}
    assert found
    for lists in found.values():
        assert lists["1"] < lists["2"]


def test_the_track_says_which_memory_answered_and_its_reader_did_not(bm25, tmp_path):
    assert bm25.summary.tracks["task1"].memory == "bm25"
    assert bm25.summary.tracks["task3_d100"].k == 10
    other = carried_out(tmp_path, task="extraction", memory="bm25", model="floor/empty")
    texts = []
    for folder in (bm25.folder, tmp_path):
        made = [row for row in rows(folder / "predictions.jsonl") if row["track"] == "task1"]
        texts.append({row["benchmark_id"]: row["prediction"] for row in made})
    assert texts[0] == texts[1]
    assert other.summary.tracks["task1"].scores["f1"] == bm25.summary.tracks["task1"].scores["f1"]


@pytest.mark.release
def test_rules_behind_a_memory_extract_what_they_extract_alone(tmp_path):
    alone = carried_out(tmp_path / "alone", task="extraction")
    stored = carried_out(tmp_path / "stored", task="extraction,retrieval", memory="rules", k=10)
    assert value(stored, "task1", "f1") == pytest.approx(value(alone, "task1", "f1"), abs=0.02)
    # A list of notes, in which nobody replies, is kept as it is.
    assert value(stored, "task3_d100", "recall_at_1") > 0.15


@pytest.mark.parametrize("memory", ["none", "last:3", "oracle", "placebo"])
def test_a_choice_among_turns_is_no_memory_that_could_be_asked(tmp_path, memory):
    with pytest.raises(UsageError, match="only tasks utilization, personamem, "):
        carried_out(tmp_path, task="extraction", memory=memory)


def held(*texts, first=1):
    return [Remembered(f"m{n}", text) for n, text in enumerate(texts, start=first)]


def old(*values):
    empty = dict.fromkeys(Memory.model_fields)
    found = []
    for n, text in enumerate(values, start=1):
        found.append(Memory(**{**empty, "memory_id": f"old{n}", "label": "x", "value": text}))
    return found


def test_what_changed_is_told_by_the_systems_ids_else_by_the_texts():
    before = held("Lives in Oslo", "Has a dog", "Plays chess")
    after = [before[1], Remembered("m1", "Moved to Bergen"), Remembered("m9", "Works as a nurse")]
    made = changes(old("Has a dog", "Lives in Oslo, Norway"), before, after)
    assert [(memory.action, memory.value, memory.replaces) for memory in made] == [
        ("retain", "Has a dog", None),
        ("modify", "Moved to Bergen", "old2"),
        ("add", "Works as a nurse", None),
        ("delete", "Plays chess", None),
    ]
    assert [memory.memory_id for memory in made] == [f"kept-{place}" for place in range(1, 5)]
    assert {memory.label for memory in made} == {"UNMAPPED"}
    # A system that gives new ids.
    before = held("Lives in a flat in Oslo", "Has a dog")
    after = held("has a dog", "Lives in a house in Oslo", "Works as a nurse", first=11)
    assert [memory.action for memory in changes((), before, after)] == ["retain", "modify", "add"]
    # A memory under an id of the data is not taken for theirs.
    (added,) = changes(old("Likes tea"), [], [Remembered("old1", "Likes tea")])
    assert added.memory_id != "old1"


def test_a_hit_is_the_candidate_that_it_repeats_contains_or_is_like_and_keeps_its_rank():
    values = ["Likes tea", "Likes green tea", "Works as a nurse in a hospital in Oslo"]
    hits = held("user: likes green tea", "Nurse, works in a hospital in Oslo", "Nothing of these")
    assert places_of(hits, values) == [1, 2, None]
    pool = {"c1": "Likes tea", "c2": "Has a dog"}
    found = held("Something else", "Has a dog", "Has a dog", "Likes tea")
    assert ranking_of(found, pool, 5) == ["-1", "c2", "-3", "c1", "-5"]


def test_a_place_without_a_candidate_is_shown_in_words():
    task = load_task("retrieval", TaskOptions(memory="bm25"))
    pool = [{"id": "c1", "value": "Likes tea"}, {"id": "c2", "value": "Has a dog"}]
    row = {"benchmark_id": "x", "session_id": "x", "query": "?", "candidates": pool, "gold": "c1"}
    sample = RetrievalSample.model_validate(row)
    answer = task.by_memory.answers.prediction(sample, [held("Something else", "Has a dog")])
    record = AnsweredRecord(sample, {"prediction": answer}, None, None)
    parts = {part.title: part for part in task.shown.record_parts(record)}
    shown = [(side.id, side.value, side.detail) for side in parts["Gold and choice"].sides]
    no_candidate = "not a candidate, or a duplicate of a higher hit"
    assert shown[1:] == [("–", no_candidate, "chosen: not the gold")]
    ranked = parts["The first 5 of the ranking"].sides
    assert [side.id for side in ranked] == ["–", "c2", "–", "–", "–"]


def test_the_summary_has_the_times_of_each_phase(bm25):
    phases = bm25.summary.phases
    diary = rows(bm25.folder / "memory.jsonl")
    for name in ("ingest", "settle", "search", "memories"):
        seconds = sorted(row["seconds"] for row in diary if row["phase"] == name)
        assert phases[name].calls == len(seconds)
        assert phases[name].seconds == pytest.approx(sum(seconds))
        assert seconds[0] <= phases[name].p50 <= phases[name].p95 <= phases[name].p99 <= seconds[-1]
    assert rows_of_summary(bm25)["phases"]["search"]["calls"] == phases["search"].calls


def rows_of_summary(done):
    return json.loads((done.folder / "summary.json").read_text())


def test_a_run_without_a_memory_system_has_no_phases(tmp_path):
    done = carried_out(tmp_path, task="utilization", memory="last:3", limit=2)
    assert "phases" not in rows_of_summary(done)


def test_the_right_candidate_stays_out_of_the_bank_where_its_dialogue_is_told():
    sample = RetrievalSample.model_validate(
        {
            "benchmark_id": "x",
            "session_id": "x",
            "query": "What shall I cook?",
            "candidates": [{"id": "c1", "value": "Vegan"}, {"id": "c2", "value": "Has a dog"}],
            "gold": "c1",
            "told": [{"role": "user", "text": "I have been vegan for years."}],
        }
    )
    by_memory = load_task("retrieval", TaskOptions(memory="bm25")).by_memory.answers
    told, bank = by_memory.history(sample).sessions
    assert [turn.text for turn in told] == ["I have been vegan for years."]
    assert [turn.text for turn in bank] == ["Has a dog"]
    assert by_memory.probes(sample)[0].turns == 2
    bare = sample.model_copy(update={"told": ()})
    assert [turn.text for turn in by_memory.history(bare).turns] == ["Vegan", "Has a dog"]
