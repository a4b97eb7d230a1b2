import json
import re
from itertools import combinations

import pytest

from alps.data.release import GOLD, INPUT, RowPair
from alps.schema import CANONICAL_LABELS, Evidence
from alps.similarity import THRESHOLD, similarity
from tests.ability_rows import dialogue, gold, pairs, plain, target, user_text

ABILITIES = ("ability3", "ability4", "ability5")
PAIRS: dict[str, list[RowPair]] = {ability: pairs(ability) for ability in ABILITIES}
ALL = [pair for pairs in PAIRS.values() for pair in pairs]
EACH = pytest.mark.parametrize(
    "pair", [pytest.param(pair, id=pair.input["benchmark_id"]) for pair in ALL]
)
EACH_SESSION = pytest.mark.parametrize(
    "pair", [pytest.param(pair, id=pair.input["benchmark_id"]) for pair in PAIRS["ability5"]]
)
PER_ABILITY = pytest.mark.parametrize("ability", ABILITIES)
COUNTS = {
    "ability1": ("alps_pa_", 14),
    "ability2": ("alps_pf_", 20),
    "ability3": ("alps_vra_", 14),
    "ability4": ("alps_cf_", 14),
    "ability5": ("alps_ei_", 14),
}
"""What ids of an ability begin with, and how many records it has at least."""
EVERY_ABILITY = pytest.mark.parametrize("ability", COUNTS)

MOST_SHARED = 0.34
"""The largest share of a memory's words that its query may repeat."""


def queries(pair: RowPair) -> list[str]:
    return [item["query"] for item in pair.input["input"]["queries"]]


def words(text: str) -> set[str]:
    """Return the words of four letters or more; writing without spaces has none."""
    return set(re.findall(r"[^\W\d_\u3400-\u9fff]{4,}", text.casefold()))


def is_chinese(text: str) -> bool:
    letters = [c for c in text if c.isalpha()]
    return sum("\u3400" <= c <= "\u9fff" for c in letters) > len(letters) / 2


def is_english(text: str) -> bool:
    """Tell English by its letters: in the other languages of the samples one in a hundred or more
    is not ASCII.
    """
    letters = [c for c in text if c.isalpha()]
    return sum(not c.isascii() for c in letters) < len(letters) / 200


@EVERY_ABILITY
def test_there_are_enough_records_and_input_and_gold_stand_in_the_same_order(ability):
    prefix, least = COUNTS[ability]
    inputs, golds = plain(ability, INPUT), plain(ability, GOLD)
    assert len(inputs) >= least
    expected = [f"{prefix}{number:03d}" for number in range(1, len(inputs) + 1)]
    assert (
        [row["benchmark_id"] for row in inputs]
        == [row["benchmark_id"] for row in golds]
        == expected
    )


@EVERY_ABILITY
def test_rows_have_the_layout_of_the_release(ability):
    head = ["benchmark_id", "task", "ability", "session_id", "canonical_id"]
    for row, answer in zip(plain(ability, INPUT), plain(ability, GOLD), strict=True):
        assert list(row) == [*head, "stratum", "input"]
        assert list(row["input"]) == ["query", "queries", "model_input", "audit_context"]
        assert list(row["input"]["model_input"]) == ["query", "dialogue_history"]
        assert list(answer) == [*head, "gold"]
        assert list(answer["gold"]) == [
            "memory_key",
            "selected_memory",
            "extracted_memory",
            "conversation",
        ]
        assert [row[name] for name in head] == [answer[name] for name in head]
        assert (row["task"], row["ability"], row["canonical_id"]) == (
            "task4",
            ability,
            row["benchmark_id"],
        )


@PER_ABILITY
def test_no_person_occurs_twice_in_a_track(ability):
    sessions = [pair.input["session_id"] for pair in PAIRS[ability]]
    assert len(set(sessions)) == len(sessions)


@pytest.mark.parametrize("ability", ["ability3", "ability4"])
def test_at_least_four_records_are_not_english(ability):
    assert len([pair for pair in PAIRS[ability] if not is_english(user_text(pair))]) >= 4


@pytest.mark.parametrize("ability", ["ability3", "ability4"])
def test_the_target_does_not_always_stand_at_the_same_place(ability):
    assert len({gold(pair)["memory_key"] for pair in PAIRS[ability]}) >= 3


def test_constraints_are_labelled_as_such_and_of_all_three_kinds():
    labels = {target(pair)["label"] for pair in PAIRS["ability4"]}
    assert labels == {
        label for label in CANONICAL_LABELS if label.startswith("Constraints_and_Boundaries/")
    }


def test_emotional_sessions_are_seven_english_and_seven_chinese():
    strata = [pair.input["stratum"] for pair in PAIRS["ability5"]]
    assert min(strata.count("en"), strata.count("ch")) >= 7
    assert set(strata) == {"en", "ch"}


@EACH_SESSION
def test_an_emotional_session_is_written_in_its_language_queries_included(pair):
    is_language = {"en": is_english, "ch": is_chinese}[pair.input["stratum"]]
    assert is_language(user_text(pair))
    assert all(is_language(query) for query in queries(pair))


@EACH_SESSION
def test_an_emotional_session_has_five_queries_numbered_from_zero(pair):
    name, items = pair.input["benchmark_id"], pair.input["input"]["queries"]
    assert [item["query_id"] for item in items] == [f"{name}:{number}" for number in range(5)]
    assert {item["category"] for item in items} == {"Emotional Support"}


@EACH_SESSION
def test_the_queries_of_an_emotional_session_are_different_moments(pair):
    assert [both for both in combinations(queries(pair), 2) if similarity(*both) >= THRESHOLD] == []


@pytest.mark.parametrize("ability", ["ability3", "ability4"])
def test_the_other_abilities_have_one_query_each(ability):
    for pair in PAIRS[ability]:
        ids = [item["query_id"] for item in pair.input["input"]["queries"]]
        assert ids == [f"{pair.input['benchmark_id']}:1"]


@EACH
def test_the_first_query_stands_in_all_its_places(pair):
    row = pair.input["input"]
    assert row["query"] == row["model_input"]["query"] == row["queries"][0]["query"]
    assert all(query.strip() == query and query for query in queries(pair))


@EACH
def test_the_dialogue_is_the_same_everywhere_and_has_between_6_and_16_turns(pair):
    turns = pair.input["input"]["model_input"]["dialogue_history"]
    assert (
        turns == pair.input["input"]["audit_context"]["conversation"] == gold(pair)["conversation"]
    )
    assert 6 <= len(turns) <= 16
    assert all(turn.text.strip() for turn in dialogue(pair))


@EACH
def test_evidence_is_quoted_word_for_word_from_a_turn_of_the_user_and_that_turn_is_not_the_last(
    pair,
):
    evidence = Evidence.model_validate(target(pair)["evidence"])
    turns = dialogue(pair)
    assert evidence.session_id == pair.input["session_id"]
    assert evidence.utterance_index is not None
    assert evidence.utterance_index < max(i for i, turn in enumerate(turns) if turn.role == "user")
    assert turns[evidence.utterance_index].role == "user"
    assert evidence.text.strip()
    assert evidence.text in turns[evidence.utterance_index].text


@EACH
def test_the_target_is_one_of_the_memories(pair):
    memories = gold(pair)["extracted_memory"]
    assert 2 <= len(memories) <= 5
    assert [memory["memory_id"] for memory in memories] == [
        f"m{number}" for number in range(1, len(memories) + 1)
    ]
    assert list(target(pair)) == ["memory_id", "value", "label", "evidence"]
    assert {key: target(pair)[key] for key in ("memory_id", "value", "label")} in memories
    allowed = {None} if pair.input["ability"] == "ability5" else {target(pair)["memory_id"]}
    assert gold(pair)["memory_key"] in allowed


@EACH
def test_memories_are_english_with_canonical_labels_and_say_different_things(pair):
    memories = gold(pair)["extracted_memory"]
    assert {memory["label"] for memory in memories} <= set(CANONICAL_LABELS)
    values = [memory["value"] for memory in memories]
    assert all(is_english(value) for value in values)
    assert [both for both in combinations(values, 2) if similarity(*both) >= THRESHOLD] == []


@EACH
def test_no_query_quotes_the_memory(pair):
    value = words(target(pair)["value"])
    for query in queries(pair):
        assert len(value & words(query)) <= MOST_SHARED * len(value), query


@EACH
def test_input_holds_neither_the_memories_nor_their_labels(pair):
    assert "selected_memory" not in pair.input["input"]["model_input"]
    shown = json.dumps(pair.input["input"], ensure_ascii=False)
    assert not [
        memory["value"] for memory in gold(pair)["extracted_memory"] if memory["value"] in shown
    ]
    assert not [label for label in CANONICAL_LABELS if label in shown]


def test_no_two_records_have_the_same_dialogue_query_or_target():
    dialogues = [user_text(pair) for pair in ALL]
    asked = [query for pair in ALL for query in queries(pair)]
    assert len(set(dialogues)) == len(dialogues)
    assert len(set(asked)) == len(asked)
    values = [target(pair)["value"] for pair in ALL]
    assert [both for both in combinations(values, 2) if similarity(*both) >= THRESHOLD] == []
