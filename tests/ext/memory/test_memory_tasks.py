"""Extraction, update and retrieval by a memory system: what it is told, and what is read of it."""

import asyncio
import json
from dataclasses import asdict

import pytest

from alps.errors import UsageError
from alps.ext.memory.built_in import Turns
from alps.ext.memory.connection import ClassConnection
from alps.ext.memory.journal import Diary
from alps.ext.memory.part import admitted, check_estimable
from alps.ext.memory.protocol import Opening
from alps.ext.memory.reader import Direct
from alps.ext.memory.store import Store
from alps.parsing import parse_settings
from alps.run.source import open_data
from alps.run.start import run
from alps.schema import Memory, RetrievalSample
from alps.settings import RunSettings
from alps.systems.embedded import Unheard
from alps.tasks import load_task
from alps.tasks.base import TaskOptions
from alps.tasks.by_memory import Remembered, changes, places_of, ranking_of
from alps.tasks.record_parts import AnsweredRecord
from tests.endtoend import rows


def carried_out(out, **words):
    settings = {"model": "rules", "out": str(out), "data": "samples", **words}
    return run(parse_settings(settings, RunSettings))


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
    with pytest.raises(UsageError, match="only task utilization uses "):
        carried_out(tmp_path, task="extraction", memory=memory)


def held(*texts, first=1):
    return [Remembered(f"m{n}", text) for n, text in enumerate(texts, start=first)]


def old(*values):
    empty = dict.fromkeys(Memory.model_fields)
    found = []
    for n, text in enumerate(values, start=1):
        found.append(Memory(**{**empty, "memory_id": f"old{n}", "label": "x", "value": text}))
    return found


def said(made):
    return [(memory.action, memory.value, memory.replaces) for memory in made]


def test_what_changed_is_told_by_the_systems_ids_where_it_keeps_them():
    before = held("Lives in Oslo", "Has a dog", "Plays chess")
    after = [before[1], Remembered("m1", "Moved to Bergen"), Remembered("m9", "Works as a nurse")]
    known = old("Has a dog", "Lives in Oslo, Norway")
    assert said(changes(known, before, after)) == [
        ("retain", "Has a dog", None),
        ("modify", "Moved to Bergen", "old2"),
        ("add", "Works as a nurse", None),
        ("delete", "Plays chess", None),
    ]


def test_what_changed_is_told_by_the_texts_where_a_system_gives_new_ids():
    before = held("Lives in a flat in Oslo", "Has a dog")
    after = held("has a dog", "Lives in a house in Oslo", "Works as a nurse", first=11)
    assert [memory.action for memory in changes((), before, after)] == ["retain", "modify", "add"]


def test_a_memory_under_an_id_of_the_data_is_not_taken_for_theirs():
    made = changes(old("Likes tea"), [], [Remembered("old1", "Likes tea")])
    assert made[0].memory_id != "old1"


def test_a_hit_is_the_candidate_that_it_repeats_contains_or_is_like():
    values = ["Likes tea", "Likes green tea", "Works as a nurse in a hospital in Oslo"]
    hits = held("user: likes green tea", "Nurse, works in a hospital in Oslo", "Nothing of these")
    assert places_of(hits, values) == [1, 2, None]


def test_a_hit_that_is_no_candidate_keeps_its_rank():
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


class Unlisted(Turns):
    """Finds turns, and can't list them."""

    memories = None

    def __init__(self):
        super().__init__("bm25")


def store_of(system, folder, task, **words):
    settings = parse_settings({"task": task, "model": "rules", **words}, RunSettings)
    tracks = open_data(settings).tracks

    def samples():
        for track in tracks:
            for sample in track.samples():
                yield track.task, sample

    opening = Opening(folder / "memory", None, None, 0, {})
    diary, connection = Diary(folder / "memory.jsonl"), ClassConnection(system)
    options = {"k": 5, "timeout": 10.0}
    return Store("own", connection, opening, diary, samples, **options), list(samples())


def answers(store, asked):
    async def each():
        direct = Direct(Unheard("rules"), store)
        try:
            return [await direct.answer(task, sample) for task, sample in asked]
        finally:
            await store.aclose()

    return asyncio.run(each())


def test_a_system_that_lists_nothing_is_refused_where_the_list_is_the_answer(tmp_path):
    store, asked = store_of(Unlisted(), tmp_path, "extraction,retrieval", memory="bm25", limit=1)
    assert all(check.passed for check in asyncio.run(admitted(store, "before")))
    with pytest.raises(UsageError) as refused:
        check_estimable(store, [task for task, _ in asked])
    assert str(refused.value) == (
        "memory=own has no method `memories`, so extraction can't be estimated; set task=retrieval"
    )
    extracted, found = answers(store, asked)
    # Not estimable is not 0: such a record is unscored.
    assert extracted.outcome == "transport"
    assert found.outcome == "ok"


class Watched(Turns):
    """Keeps what it is told."""

    def __init__(self):
        super().__init__("bm25")
        self.told = []

    def ingest(self, user, session):
        self.told.append(json.dumps([user, asdict(session)]))
        super().ingest(user, session)


def test_a_run_that_goes_on_tells_and_asks_nothing_again(tmp_path):
    tasks = "extraction,update,retrieval"
    first = answers(*store_of(Watched(), tmp_path, tasks, memory="bm25", limit=3))
    system = Watched()
    assert answers(*store_of(system, tmp_path, tasks, memory="bm25", limit=3)) == first
    assert system.told == []


def test_a_system_is_told_dialogues_and_nothing_of_the_data(tmp_path):
    system = Watched()
    store, asked = store_of(system, tmp_path, "extraction,update", memory="bm25", limit=4)
    answers(store, asked)
    told = "\n".join(system.told)
    for task, sample in asked:
        said = [turn.text for turn in task.by_memory.answers.history(sample).turns]
        assert all(json.dumps(text)[1:-1] in told for text in said)
        assert sample.benchmark_id not in told
        assert sample.session_id not in told
        for memory in sample.gold:
            assert memory.value in "".join(said) or memory.value not in told


def test_a_system_is_told_candidates_without_their_ids(tmp_path):
    system = Watched()
    store, asked = store_of(system, tmp_path, "retrieval", memory="bm25", limit=2)
    answers(store, asked)
    for told, (_, sample) in zip(system.told, asked, strict=True):
        assert sample.benchmark_id not in told
        for candidate in sample.candidates:
            assert json.dumps(candidate.value)[1:-1] in told
            assert f'"{candidate.id}"' not in told


class Empty(Turns):
    def __init__(self):
        super().__init__("bm25", lambda session: ())


class Broken(Turns):
    def __init__(self):
        super().__init__("bm25")

    def memories(self, user):
        raise OSError("the index is gone")


@pytest.mark.parametrize(
    ("system", "task", "outcome", "error"),
    [
        (Empty(), "extraction", "ok", None),
        (Empty(), "retrieval", "empty", "memory, search: no hits"),
        (Broken(), "update", "invalid", "memory, memories: raised OSError: the index is gone"),
    ],
)
def test_nothing_found_and_a_failure_are_two_things(tmp_path, system, task, outcome, error):
    (made,) = answers(*store_of(system, tmp_path, task, memory="bm25", limit=1))
    assert (made.outcome, made.error) == (outcome, error)


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
