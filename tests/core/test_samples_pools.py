"""The samples of retrieval: queries, the bank of memories, and the pools that are built of them."""

import json
import unicodedata
from collections import Counter
from statistics import fmean
from typing import Any

import pytest

from alps.data.pools import PoolSource, generated_memories, read_bank
from alps.data.release import GOLD, INPUT
from alps.errors import DataError
from alps.schema import CANONICAL_LABELS
from alps.similarity import THRESHOLD, similarity, similarity_matrix
from alps.text import fold
from tests.core.test_samples import SPLIT, Checks, failing, untrue
from tests.endtoend import rows


def is_own(it: tuple[Any, Any, Any]) -> bool:
    """Tell whether a query calls for a memory of its own user."""
    row, answer, memory = it
    chosen, session = answer["gold"]["selected_memory"], answer["session_id"]
    ids = (answer["gold"]["selected_memory_id"], chosen["value"], chosen["label"])
    found = (memory.memory_id, memory.value, memory.label)
    return ids == found and row["session_id"] == memory.session_id == session


QUERY_KEYS = {"benchmark_id", "task", "session_id", "canonical_id", "input"}
QUERY_CHECKS: Checks = {
    "it calls for a memory of its own user": is_own,
    "it does not say what its memory says": lambda it: (
        similarity(it[0]["input"]["query"], it[2].value) < 0.9
        and fold(it[2].value) not in fold(it[0]["input"]["query"])
    ),
    "it holds nothing but the query": lambda it: (
        (it[0]["input"].keys(), it[0].keys()) == ({"query"}, QUERY_KEYS)
    ),
}


def test_queries_and_memories_of_retrieval():
    folder = SPLIT.folder / "task3"
    bank = read_bank(folder / "bank.jsonl")
    by_id = {memory.memory_id: memory for memory in bank}
    queries = {row["benchmark_id"]: row for row in rows(folder / INPUT)}
    golds = {row["benchmark_id"]: row for row in rows(folder / GOLD)}
    values = [memory.value for memory in bank]
    alike = similarity_matrix(values, values)
    of_dialogues = [
        item["value"]
        for row in rows(SPLIT.folder / "task1" / GOLD)
        for item in row["gold"]["memory_items"]
    ]
    known = similarity_matrix(values, of_dialogues)
    chosen = Counter(row["gold"]["selected_memory_id"] for row in golds.values())
    gold, others = (
        [len(m.value) for m in bank if (m.memory_id in chosen) is side] for side in (True, False)
    )
    texts = [row["input"]["query"] for row in queries.values()]
    marked = [text for text in texts if not text.isascii()]
    scripts = {unicodedata.name(c).split()[0] for c in "".join(marked) if c.isalpha()}
    facts = {
        "enough": len(queries) >= 40 and len(bank) >= 300 and queries.keys() == golds.keys(),
        "of enough people": len({memory.session_id for memory in bank}) >= 60,
        "memories differ": all(alike[n][m] < THRESHOLD for n in range(len(bank)) for m in range(n)),
        "none repeats the gold of a dialogue": max(max(row) for row in known) < THRESHOLD,
        "every label occurs": {memory.label for memory in bank} == set(CANONICAL_LABELS),
        "no two queries call for one memory": max(chosen.values()) == 1,
        "gold can't be told by its length": 0.85 < fmean(gold) / fmean(others) < 1.15,
        "other languages": len(marked) >= 6 and {"CJK", "LATIN"} <= scripts,
    }
    assert untrue(facts) == []
    named = []
    for name, row in queries.items():
        memory = by_id[golds[name]["gold"]["selected_memory"]["memory_id"]]
        named.append((name, (row, golds[name], memory)))
    assert failing(named, QUERY_CHECKS) == []


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
    with pytest.raises(ValueError, match=r"at most \d+ memories can be generated"):
        generated_memories(1_000_000, 0)


BANK_ROW = {"memory_id": "b0", "session_id": "s", "value": "Owns a boat", "label": "x"}
BAD_ROWS = {
    "{": "not JSON",
    "[1]": "expected a JSON object, got list",
    json.dumps({**BANK_ROW, "memory_id": "b1", "value": " "}): "must be a non-empty text",
    json.dumps(BANK_ROW): "'b0' stands twice",
}


@pytest.mark.parametrize(("line", "said"), BAD_ROWS.items())
def test_a_bad_row_of_a_bank_is_named(tmp_path, line, said):
    path = tmp_path / "bank.jsonl"
    path.write_text(f"{json.dumps({**BANK_ROW, 'label': 'Possessions/Car'})}\n{line}\n")
    with pytest.raises(DataError, match=said) as error:
        read_bank(path)
    assert "line 2" in str(error.value)
