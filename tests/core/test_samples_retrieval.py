import json
import unicodedata
from collections import Counter
from statistics import fmean

import pytest

from alps.data.pools import PoolSource, generated_memories, read_bank
from alps.data.release import open_split
from alps.errors import DataError
from alps.schema import CANONICAL_LABELS
from alps.similarity import THRESHOLD, similarity, similarity_matrix
from alps.text import fold
from tests.endtoend import rows

SPLIT = open_split("samples", None)
FOLDER = SPLIT.folder / "task3"
BANK = read_bank(FOLDER / "bank.jsonl")
BY_ID = {memory.memory_id: memory for memory in BANK}
QUERIES = {row["benchmark_id"]: row for row in rows(FOLDER / "model_input.jsonl")}
GOLD = {row["benchmark_id"]: row for row in rows(FOLDER / "reference_output.jsonl")}
EACH = pytest.mark.parametrize("name", QUERIES)


def test_there_are_enough_queries_and_memories():
    assert len(QUERIES) >= 40
    assert len(BANK) >= 300
    assert QUERIES.keys() == GOLD.keys()
    assert len({memory.session_id for memory in BANK}) >= 60


def test_no_memory_of_the_bank_says_what_another_says():
    values = [memory.value for memory in BANK]
    matrix = similarity_matrix(values, values)
    alike = [
        (values[n], values[m])
        for n in range(len(values))
        for m in range(n)
        if matrix[n][m] >= THRESHOLD
    ]
    assert alike == []


def test_no_memory_of_the_bank_repeats_the_gold_of_a_dialogue():
    dialogues = rows(SPLIT.folder / "task1" / "reference_output.jsonl")
    values = [item["value"] for row in dialogues for item in row["gold"]["memory_items"]]
    matrix = similarity_matrix([memory.value for memory in BANK], values)
    assert max(max(row) for row in matrix) < THRESHOLD


def test_labels_are_canonical_and_every_one_occurs():
    assert {memory.label for memory in BANK} == set(CANONICAL_LABELS)


@EACH
def test_a_query_calls_for_a_memory_of_its_own_user(name):
    chosen = GOLD[name]["gold"]["selected_memory"]
    assert GOLD[name]["gold"]["selected_memory_id"] == chosen["memory_id"]
    memory = BY_ID[chosen["memory_id"]]
    assert (memory.value, memory.label, memory.session_id) == (
        chosen["value"],
        chosen["label"],
        GOLD[name]["session_id"],
    )
    assert QUERIES[name]["session_id"] == memory.session_id


@EACH
def test_a_query_does_not_say_what_its_memory_says(name):
    query, value = QUERIES[name]["input"]["query"], GOLD[name]["gold"]["selected_memory"]["value"]
    assert similarity(query, value) < 0.9
    assert fold(value) not in fold(query)


@EACH
def test_a_query_holds_nothing_but_the_query(name):
    assert QUERIES[name]["input"].keys() == {"query"}
    assert QUERIES[name].keys() == {"benchmark_id", "task", "session_id", "canonical_id", "input"}


def test_no_two_queries_call_for_the_same_memory():
    assert max(Counter(row["gold"]["selected_memory_id"] for row in GOLD.values()).values()) == 1


def test_gold_can_not_be_told_by_its_length():
    chosen = {row["gold"]["selected_memory_id"] for row in GOLD.values()}
    gold, others = [
        [len(m.value) for m in BANK if (m.memory_id in chosen) is side] for side in (True, False)
    ]
    assert 0.85 < fmean(gold) / fmean(others) < 1.15


def test_some_queries_are_in_other_languages():
    marked = [n for n, row in QUERIES.items() if not row["input"]["query"].isascii()]
    scripts = {
        unicodedata.name(c).split()[0]
        for n in marked
        for c in QUERIES[n]["input"]["query"]
        if c.isalpha()
    }
    assert len(marked) >= 6
    assert {"CJK", "LATIN"} <= scripts


def test_pools_of_every_size_can_be_built_from_the_samples():
    source = PoolSource(SPLIT, seed=0)
    assert [source.generated_share(100), source.generated_share(300)] == [0.0, 0.0]
    assert 0 < source.generated_share(1000) < 0.5
    for row, _ in source.rows(1000):
        folded = [fold(item["value"]) for item in row["input"]["candidate_memories"]]
        assert len(folded) == len(set(folded)) == 1001


def test_generated_memories_are_distinct_and_a_seed_gives_them_again():
    some = generated_memories(1_500, 3)
    assert (
        len({fold(memory.value) for memory in some})
        == len({memory.memory_id for memory in some})
        == 1_500
    )
    assert all(memory.generated for memory in some)
    assert {memory.label for memory in some} <= set(CANONICAL_LABELS)
    assert generated_memories(200, 3) == some[:200]
    assert generated_memories(200, 4) != some[:200]
    with pytest.raises(ValueError, match=r"at most \d+ memories can be generated"):
        generated_memories(1_000_000, 0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "expected a JSON object, got list"),
        (
            '{"memory_id": "b1", "session_id": "s", "value": " ", "label": "x"}',
            "must be a non-empty text",
        ),
        ('{"memory_id": "b0", "session_id": "s", "value": "v", "label": "x"}', "'b0' stands twice"),
    ],
)
def test_a_bad_row_of_a_bank_is_named(tmp_path, line, said):
    path = tmp_path / "bank.jsonl"
    good = {
        "memory_id": "b0",
        "session_id": "s",
        "value": "Owns a boat",
        "label": "Possessions/Car",
    }
    path.write_text(f"{json.dumps(good)}\n{line}\n")
    with pytest.raises(DataError, match=said) as error:
        read_bank(path)
    assert "line 2" in str(error.value)
