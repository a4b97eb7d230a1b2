"""What the samples of extraction, update and retrieval hold: the layout, and no gold given away."""

import json
import re
from collections import Counter
from statistics import fmean
from typing import Any

import pytest

from alps.data.pools import PoolSource, generated_memories, read_bank
from alps.data.release import GOLD, INPUT, read_samples, read_track
from alps.errors import DataError
from alps.schema import CANONICAL_LABELS, UNMAPPED, ExtractionSample, Memory
from alps.similarity import THRESHOLD, similarity, similarity_matrix
from alps.tasks import load_task
from alps.text import fold, is_rejected
from tests.sample_rows import (
    SPLIT,
    alike,
    for_each,
    is_latin,
    is_right_to_left,
    letters_of,
    rows,
    user_text,
)

GRID = {0.95, 0.8, 0.65, 0.5}
SAMPLES: list[ExtractionSample] = list(
    read_samples(SPLIT.track("task1"), load_task("extraction").read_sample)
)
INPUTS = {row["benchmark_id"]: row for row in rows("task1", INPUT)}
GOLDS = {row["benchmark_id"]: row for row in rows("task1", GOLD)}
each_dialogue = for_each(SAMPLES, lambda sample: sample.benchmark_id)


def check_labels(memory: Memory) -> None:
    """A label is canonical, or unmapped with a suggestion that is none of the canonical ones."""
    if memory.label == UNMAPPED:
        assert memory.label_suggestion
        assert memory.label_suggestion not in CANONICAL_LABELS
    else:
        assert memory.label in CANONICAL_LABELS
        assert memory.label_suggestion is None


def test_dialogues_are_enough_of_several_kinds_and_in_one_order():
    assert len(SAMPLES) >= 12
    assert list(INPUTS) == list(GOLDS) == [sample.benchmark_id for sample in SAMPLES]
    assert len({sample.session_id for sample in SAMPLES}) == len(SAMPLES)
    assert all(sample.gold is not None for sample in SAMPLES)
    assert [sample.gold for sample in SAMPLES].count(()) >= 1
    assert any(sample.dialogue[0].role == "assistant" for sample in SAMPLES)


def test_both_types_of_memory_and_most_of_the_taxonomy_occur():
    memories = [memory for sample in SAMPLES for memory in sample.gold or ()]
    assert {memory.type for memory in memories} == {"direct", "indirect"}
    assert len({memory.label for memory in memories} & set(CANONICAL_LABELS)) >= 20


@each_dialogue
def test_gold_is_written_in_full_and_says_nothing_twice(sample):
    items = GOLDS[sample.benchmark_id]["gold"]["memory_items"]
    assert tuple(Memory.model_validate(item) for item in items) == sample.gold
    assert len({memory.memory_id for memory in sample.gold}) == len(sample.gold)
    assert {memory.confidence for memory in sample.gold} <= GRID
    for memory in sample.gold:
        assert memory.type
        assert not is_rejected(memory.value)
        check_labels(memory)
    assert alike([memory.value for memory in sample.gold]) == []


PAIRS = list(read_track(SPLIT.track("task2")))
each_update = for_each(PAIRS, lambda pair: pair.input["benchmark_id"])

# What the new dialogue says of somebody else: a word said there, and the English word a careless
# system would store; a dash where they are the same.
FOREIGN = """
coeliac - | budgies - | netball - | 拉二胡 erhu | vegan - | handball - | بنسلين penicillin
Emacs emacs | marathon - | Heuschnupfen hay_fever | parrot - | dentist - | ferret - | e-bike -
海南 hainan | 車禍 accident | gatos_persas persian | תאומים twins | postman - | scared_of_dogs dogs
água-viva jellyfish | baccarat - | titanium - | judo - | 消防士 firefighter | dinghy -
"""


def foreign_words() -> list[tuple[str, str]]:
    words = []
    for entry in FOREIGN.strip().replace("\n", " | ").split(" | "):
        said, stored = (word.replace("_", " ") for word in entry.split())
        words.append((said, said if stored == "-" else stored))
    return words


def old_memories(pair: Any) -> dict[str, dict[str, Any]]:
    return {item["memory_id"]: item for item in pair.input["input"]["memory"]}


def answer(pair: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = pair.gold["gold"]["answer"]
    return items


def added(pair: Any) -> list[dict[str, Any]]:
    return [item for item in answer(pair) if item["memory_id"].startswith("m_new_")]


def modified(pair: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return every modified memory behind the one it replaces."""
    old, suffix = old_memories(pair), "_updated"
    items = [item for item in answer(pair) if item["memory_id"].endswith(suffix)]
    return [(old[item["memory_id"].removesuffix(suffix)], item) for item in items]


def deleted(pair: Any) -> set[str]:
    kept = {item["memory_id"] for item in answer(pair)}
    return set(old_memories(pair)) - kept - {before["memory_id"] for before, _ in modified(pair)}


def new_words(pair: Any) -> str:
    return user_text(pair.input["input"]["new_dialogue"])


def is_english(text: str) -> bool:
    """Tell English by its letters and by the words that every English chat has."""
    letters, words = letters_of(text), re.findall(r"[a-z]+", text.lower())
    latin = sum(is_latin(letter) for letter in letters)
    common = sum(word in ("the", "and", "is", "it", "to") for word in words)
    return latin > 0.9 * len(letters) and common > len(words) / 20


def test_memories_of_continued_people_are_those_of_their_extraction_gold():
    known = {pair.input["session_id"]: pair for pair in read_track(SPLIT.track("task1"))}
    continued = [pair for pair in PAIRS if pair.input["session_id"] in known]
    assert len(continued) >= 12
    for pair in continued:
        first = known[pair.input["session_id"]]
        dialogue = pair.input["input"]["old_dialogue"]
        assert dialogue == first.input["input"]["dialogue"][: len(dialogue)]
        values = {item["value"] for item in (first.gold or {})["gold"]["memory_items"]}
        others = [item for item in old_memories(pair).values() if item["value"] not in values]
        assert len(others) <= 1


def test_changes_vary_and_a_few_records_withdraw_a_memory():
    shapes = Counter((len(modified(pair)), len(added(pair)), len(deleted(pair))) for pair in PAIRS)
    assert {mods for mods, _, _ in shapes} == {adds for _, adds, _ in shapes} == {0, 1, 2, 3}
    assert shapes[(0, 0, 0)] == 1
    assert sum(n for (mods, adds, gone), n in shapes.items() if adds and not (mods or gone)) == 1
    assert sum(n for (_, _, gone), n in shapes.items() if gone == 1) == 3
    assert all(gone <= 1 for _, _, gone in shapes)


def test_updates_are_in_several_languages_and_one_is_written_from_right_to_left():
    foreign = [pair for pair in PAIRS if not is_english(new_words(pair))]
    assert 5 <= len(foreign) < len(PAIRS)
    assert any(is_right_to_left(new_words(pair)) for pair in foreign)


@each_update
def test_memories_of_an_update_are_written_in_full_and_in_english(pair):
    for item in [*pair.input["input"]["memory"], *answer(pair)]:
        assert list(item) == list(Memory.model_fields)
        memory = Memory.model_validate(item)
        assert memory.type
        assert memory.confidence in GRID
        check_labels(memory)
    assert all(is_latin(item["value"]) for item in answer(pair))


@each_update
def test_what_did_not_change_is_identical_and_what_did_says_something_else(pair):
    old, ids = old_memories(pair), {item["memory_id"] for item in answer(pair)}
    for item in answer(pair):
        if item["memory_id"] in old:
            assert json.dumps(item) == json.dumps(old[item["memory_id"]])
    for before, after in modified(pair):
        assert before["memory_id"] not in ids
        assert similarity(before["value"], after["value"]) < 1
        assert fold(before["value"]) != fold(after["value"])


@each_update
def test_no_two_memories_of_an_update_say_nearly_the_same(pair):
    old = [item["value"] for item in old_memories(pair).values()]
    assert alike(old) == []
    assert alike([item["value"] for item in answer(pair)]) == []
    for item in added(pair):
        assert not [value for value in old if similarity(value, item["value"]) >= THRESHOLD]


@for_each(zip(PAIRS, foreign_words(), strict=True), lambda both: both[0].input["benchmark_id"])
def test_facts_about_somebody_else_are_said_but_not_taken_up(both):
    pair, (said, stored) = both
    assert said in new_words(pair)
    assert not [item["value"] for item in answer(pair) if stored in item["value"].lower()]


BANK = read_bank(SPLIT.folder / "task3" / "bank.jsonl")
BY_ID = {memory.memory_id: memory for memory in BANK}
QUERIES = {row["benchmark_id"]: row for row in rows("task3", INPUT)}
CHOSEN = {row["benchmark_id"]: row for row in rows("task3", GOLD)}
each_query = for_each(QUERIES, str)


def test_queries_and_memories_are_enough_and_no_two_queries_call_for_the_same_one():
    assert len(QUERIES) >= 40
    assert len(BANK) >= 300
    assert QUERIES.keys() == CHOSEN.keys()
    assert len({memory.session_id for memory in BANK}) >= 60
    assert {memory.label for memory in BANK} == set(CANONICAL_LABELS)
    called = Counter(row["gold"]["selected_memory_id"] for row in CHOSEN.values())
    assert max(called.values()) == 1


def test_no_memory_of_the_bank_says_what_another_or_the_gold_of_a_dialogue_says():
    values = [memory.value for memory in BANK]
    matrix = similarity_matrix(values, values)
    for n in range(len(values)):
        assert [values[m] for m in range(n) if matrix[n][m] >= THRESHOLD] == []
    golds = [item["value"] for row in GOLDS.values() for item in row["gold"]["memory_items"]]
    assert max(max(row) for row in similarity_matrix(values, golds)) < THRESHOLD


@each_query
def test_a_query_calls_for_a_memory_of_its_own_user_and_holds_nothing_else(name):
    row, gold = QUERIES[name], CHOSEN[name]["gold"]
    chosen = gold["selected_memory"]
    memory = BY_ID[gold["selected_memory_id"]]
    assert chosen["memory_id"] == memory.memory_id
    assert (memory.value, memory.label) == (chosen["value"], chosen["label"])
    assert row["session_id"] == memory.session_id == CHOSEN[name]["session_id"]
    assert row["input"].keys() == {"query"}
    assert row.keys() == {"benchmark_id", "task", "session_id", "canonical_id", "input"}
    query = row["input"]["query"]
    assert similarity(query, memory.value) < 0.9
    assert fold(memory.value) not in fold(query)


def test_gold_can_not_be_told_by_its_length():
    chosen = {row["gold"]["selected_memory_id"] for row in CHOSEN.values()}
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for memory in BANK:
        lengths[memory.memory_id in chosen].append(len(memory.value))
    assert 0.85 < fmean(lengths[True]) / fmean(lengths[False]) < 1.15


def test_pools_of_every_size_can_be_built_from_the_samples():
    source = PoolSource(SPLIT, seed=0)
    assert [source.generated_share(100), source.generated_share(300)] == [0.0, 0.0]
    assert 0 < source.generated_share(1000) < 0.5
    for row, _ in source.rows(1000):
        folded = [fold(item["value"]) for item in row["input"]["candidate_memories"]]
        assert len(folded) == len(set(folded)) == 1001


def test_generated_memories_are_distinct_and_a_seed_gives_them_again():
    some = generated_memories(1_500, 3)
    assert len({fold(memory.value) for memory in some}) == 1_500
    assert len({memory.memory_id for memory in some}) == 1_500
    assert all(memory.generated for memory in some)
    assert {memory.label for memory in some} <= set(CANONICAL_LABELS)
    assert generated_memories(200, 3) == some[:200]
    assert generated_memories(200, 4) != some[:200]
    first, second, *_ = (memory.value for memory in some)
    assert first == "Visits a stepbrother in Cusco every July"
    assert second == "Has an appointment with an optician in Tampere in October"


BAD_ROWS = {
    "{": "not JSON",
    "[1]": "expected a JSON object, got list",
    '{"memory_id": "b1", "session_id": "s", "value": " ", "label": "x"}': (
        "must be a non-empty text"
    ),
    '{"memory_id": "b0", "session_id": "s", "value": "v", "label": "x"}': "'b0' appears twice",
}


@pytest.mark.parametrize(("line", "said"), BAD_ROWS.items())
def test_a_bad_row_of_a_bank_is_named(tmp_path, line, said):
    path = tmp_path / "bank.jsonl"
    good = {"memory_id": "b0", "session_id": "s", "value": "Owns a boat", "label": "x"}
    path.write_text(f"{json.dumps(good)}\n{line}\n")
    with pytest.raises(DataError, match=said) as error:
        read_bank(path)
    assert "line 2" in str(error.value)
