"""What the samples of the five abilities hold: the layout, true evidence, no gold given away."""

import re

import pytest

from alps.data.release import GOLD, INPUT, RowPair, read_track
from alps.schema import CANONICAL_LABELS
from alps.similarity import THRESHOLD, similarity
from tests.sample_rows import SPLIT, alike, for_each, letters_of, rows, user_text

INTERACTION = "Preferences/Interaction_Preferences"
MOST_SHARED = 0.34
"""The largest share of a memory's words that its query may repeat."""
LEAST = {"pa": 14, "pf": 20, "vra": 14, "cf": 14, "ei": 14}
"""How many records each ability has at least, in the order of their numbers."""
PAIRS: dict[str, list[RowPair]] = {}
for number, of_name in enumerate(LEAST, start=1):
    PAIRS[of_name] = list(read_track(SPLIT.track(f"task4_ability{number}")))
ALL = [pair for pairs in PAIRS.values() for pair in pairs]
each = for_each(ALL, lambda pair: pair.input["benchmark_id"])
each_of_first = for_each(PAIRS["pa"] + PAIRS["pf"], lambda pair: pair.input["benchmark_id"])
each_of_last = for_each(
    PAIRS["vra"] + PAIRS["cf"] + PAIRS["ei"], lambda pair: pair.input["benchmark_id"]
)
each_session = for_each(PAIRS["ei"], lambda pair: pair.input["benchmark_id"])


def gold(pair):
    return pair.gold["gold"]


def target(pair):
    return gold(pair)["selected_memory"]


def turns_of(pair):
    return pair.input["input"]["model_input"]["dialogue_history"]


def said_by_user(pair):
    return user_text(turns_of(pair))


def queries(pair):
    return [item["query"] for item in pair.input["input"]["queries"]]


def is_english(text):
    """Tell English by its letters: elsewhere one in a hundred or more is not ASCII."""
    letters = [c for c in text if c.isalpha()]
    return sum(not c.isascii() for c in letters) < len(letters) / 200


def is_chinese(text):
    letters = letters_of(text)
    return sum("\u3400" <= c <= "\u9fff" for c in letters) > len(letters) / 2


def pieces(text):
    """Return words of four letters or more, and pairs of characters where there are no spaces."""
    folded = text.casefold()
    unspaced = re.findall(r"[\u3040-\u30ff\u3400-\u9fff]+", folded)
    words = set(re.findall(r"[^\W_\u3040-\u30ff\u3400-\u9fff]{4,}", folded))
    for run in unspaced:
        words |= {run[i : i + 2] for i in range(len(run) - 1)}
    return words


def words(text):
    """Return the words of four letters or more; writing without spaces has none."""
    return set(re.findall(r"[^\W\d_\u3400-\u9fff]{4,}", text.casefold()))


@pytest.mark.parametrize(("number", "name"), list(enumerate(LEAST, start=1)))
def test_records_are_enough_in_one_order_and_have_the_layout_of_the_release(number, name):
    ability = f"ability{number}"
    inputs, golds = rows(f"task4_{ability}", INPUT), rows(f"task4_{ability}", GOLD)
    assert len(inputs) >= LEAST[name]
    expected = [f"alps_{name}_{place:03d}" for place in range(1, len(inputs) + 1)]
    assert [row["benchmark_id"] for row in inputs] == expected
    head = ["benchmark_id", "task", "ability", "session_id", "canonical_id"]
    for row, answer in zip(inputs, golds, strict=True):
        assert list(row) == [*head, "stratum", "input"]
        assert list(row["input"]) == ["query", "queries", "model_input", "audit_context"]
        assert list(row["input"]["model_input"]) == ["query", "dialogue_history"]
        assert list(answer) == [*head, "gold"]
        parts = ["memory_key", "selected_memory", "extracted_memory", "conversation"]
        assert list(answer["gold"]) == parts
        assert [row[name] for name in head] == [answer[name] for name in head]
        assert (row["task"], row["ability"]) == ("task4", ability)
        assert row["canonical_id"] == row["benchmark_id"]


def test_preferences_come_in_both_kinds_mixed_and_personas_in_neither():
    kinds = [target(pair)["label"] == INTERACTION for pair in PAIRS["pf"]]
    assert min(kinds.count(True), kinds.count(False)) >= 9
    assert kinds not in (sorted(kinds), sorted(kinds, reverse=True))
    assert INTERACTION not in [target(pair)["label"] for pair in PAIRS["pa"]]


def test_constraints_are_labelled_as_such_and_of_all_three_kinds():
    kinds = {label for label in CANONICAL_LABELS if label.startswith("Constraints_and_Boundaries/")}
    assert {target(pair)["label"] for pair in PAIRS["cf"]} == kinds


@pytest.mark.parametrize("name", ["pa", "pf", "vra", "cf"])
def test_the_target_does_not_always_stand_at_the_same_place(name):
    assert len({gold(pair)["memory_key"] for pair in PAIRS[name]}) >= 3


@pytest.mark.parametrize("names", [("pa", "pf"), ("vra", "cf", "ei")])
def test_no_dialogue_query_or_target_stands_twice(names):
    pairs = [pair for name in names for pair in PAIRS[name]]
    asked = [query for pair in pairs for query in queries(pair)]
    assert len(set(asked)) == len(asked)
    assert len({said_by_user(pair) for pair in pairs}) == len(pairs)
    assert alike([target(pair)["value"] for pair in pairs]) == []


@each
def test_the_target_is_one_of_a_few_memories_that_differ(pair):
    memories, chosen = gold(pair)["extracted_memory"], target(pair)
    assert 2 <= len(memories) <= (6 if pair.input["ability"] in ("ability1", "ability2") else 5)
    ids = [memory["memory_id"] for memory in memories]
    assert ids == [f"m{n}" for n in range(1, len(memories) + 1)]
    assert {memory["label"] for memory in memories} <= set(CANONICAL_LABELS)
    assert list(chosen) == ["memory_id", "value", "label", "evidence"]
    assert {name: chosen[name] for name in ("memory_id", "value", "label")} in memories
    key = None if pair.input["ability"] == "ability5" else chosen["memory_id"]
    assert gold(pair)["memory_key"] == key
    assert alike([memory["value"] for memory in memories]) == []


@each_of_first
def test_the_query_does_not_repeat_the_memory_and_one_turn_says_it(pair):
    (query,), evidence = queries(pair), target(pair)["evidence"]
    holding = [n for n, turn in enumerate(turns_of(pair)) if evidence["text"] in turn["text"]]
    assert holding == [evidence["utterance_index"]]
    for told in (target(pair)["value"], evidence["text"]):
        shared = pieces(query) & pieces(told)
        assert len(shared) <= max(1, len(pieces(told)) / 5), shared
        assert similarity(query, told) < THRESHOLD / 2


@each_of_last
def test_no_query_quotes_the_memory_and_values_are_english(pair):
    value = words(target(pair)["value"])
    for query in queries(pair):
        assert len(value & words(query)) <= MOST_SHARED * len(value), query
    assert all(is_english(memory["value"]) for memory in gold(pair)["extracted_memory"])


@each_session
def test_an_emotional_session_has_five_queries_of_different_moments_in_its_language(pair):
    name, items = pair.input["benchmark_id"], pair.input["input"]["queries"]
    assert [item["query_id"] for item in items] == [f"{name}:{number}" for number in range(5)]
    assert {item["category"] for item in items} == {"Emotional Support"}
    assert alike(queries(pair)) == []
    is_language = {"en": is_english, "ch": is_chinese}[pair.input["stratum"]]
    assert is_language(said_by_user(pair))
    assert all(map(is_language, queries(pair)))
