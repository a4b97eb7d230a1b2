import json
import re
import unicodedata
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from alps.data.release import GOLD, INPUT, open_split, read_track
from alps.schema import CANONICAL_LABELS, UNMAPPED, Memory
from alps.similarity import THRESHOLD, similarity
from alps.text import fold

SPLIT = open_split("samples", None)
FOLDER: Path = SPLIT.track("task2")
PAIRS = list(read_track(FOLDER))
EACH = pytest.mark.parametrize(
    "pair", [pytest.param(pair, id=pair.input["benchmark_id"]) for pair in PAIRS]
)

# What the new dialogue says of somebody else: a word said there, and the English word a careless
# system would store.
FOREIGN = {
    "alps_upd_001": ("coeliac", "coeliac"),
    "alps_upd_002": ("budgies", "budgies"),
    "alps_upd_003": ("netball", "netball"),
    "alps_upd_004": ("拉二胡", "erhu"),
    "alps_upd_005": ("vegan", "vegan"),
    "alps_upd_006": ("handball", "handball"),
    "alps_upd_007": ("بنسلين", "penicillin"),
    "alps_upd_008": ("Emacs", "emacs"),
    "alps_upd_009": ("marathon", "marathon"),
    "alps_upd_010": ("Heuschnupfen", "hay fever"),
    "alps_upd_011": ("parrot", "parrot"),
    "alps_upd_012": ("dentist", "dentist"),
    "alps_upd_013": ("ferret", "ferret"),
    "alps_upd_014": ("e-bike", "e-bike"),
    "alps_upd_015": ("海南", "hainan"),
    "alps_upd_016": ("車禍", "accident"),
    "alps_upd_017": ("gatos persas", "persian"),
    "alps_upd_018": ("תאומים", "twins"),
    "alps_upd_019": ("postman", "postman"),
    "alps_upd_020": ("scared of dogs", "dogs"),
    "alps_upd_021": ("água-viva", "jellyfish"),
    "alps_upd_022": ("baccarat", "baccarat"),
    "alps_upd_023": ("titanium", "titanium"),
    "alps_upd_024": ("judo", "judo"),
    "alps_upd_025": ("消防士", "firefighter"),
    "alps_upd_026": ("dinghy", "dinghy"),
}


def old_memories(pair: Any) -> dict[str, dict[str, Any]]:
    return {item["memory_id"]: item for item in pair.input["input"]["memory"]}


def answer(pair: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = pair.gold["gold"]["answer"]
    return items


def added(pair: Any) -> list[dict[str, Any]]:
    return [item for item in answer(pair) if item["memory_id"].startswith("m_new_")]


def modified(pair: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return every modified memory behind the one it replaces."""
    old = old_memories(pair)
    suffix = "_updated"
    items = [item for item in answer(pair) if item["memory_id"].endswith(suffix)]
    return [(old[item["memory_id"].removesuffix(suffix)], item) for item in items]


def deleted(pair: Any) -> set[str]:
    kept = {item["memory_id"] for item in answer(pair)}
    return set(old_memories(pair)) - kept - {before["memory_id"] for before, _ in modified(pair)}


def user_text(turns: list[dict[str, str]]) -> str:
    return "\n".join(turn["text"] for turn in turns if turn["role"] == "user")


def is_english(text: str) -> bool:
    """Tell English by its letters and by the words that every English chat has."""
    prose = re.sub(r"```.*?(```|\Z)", "", text, flags=re.DOTALL)
    letters = [c for c in prose if c.isalpha()]
    latin = sum(unicodedata.name(c).startswith("LATIN") for c in letters)
    words = re.findall(r"[a-z]+", prose.lower())
    return (
        latin > 0.9 * len(letters)
        and sum(word in ("the", "and", "is", "it", "to") for word in words) > len(words) / 20
    )


def test_there_are_enough_records_and_every_one_has_gold() -> None:
    assert len(PAIRS) >= 24
    assert all(pair.gold is not None for pair in PAIRS)


def test_input_and_gold_stand_in_the_same_order() -> None:
    ids = [
        [json.loads(line)["benchmark_id"] for line in (FOLDER / name).read_bytes().splitlines()]
        for name in (INPUT, GOLD)
    ]
    assert ids[0] == ids[1] == [f"alps_upd_{number:03d}" for number in range(1, len(PAIRS) + 1)]


def test_sessions_are_those_of_one_person_each() -> None:
    assert len({pair.input["session_id"] for pair in PAIRS}) == len(PAIRS)


def test_memories_of_continued_people_are_those_of_their_extraction_gold() -> None:
    known = {pair.input["session_id"]: pair for pair in read_track(SPLIT.track("task1"))}
    continued = [pair for pair in PAIRS if pair.input["session_id"] in known]
    assert len(continued) >= 12
    for pair in continued:
        first = known[pair.input["session_id"]]
        dialogue = pair.input["input"]["old_dialogue"]
        assert dialogue == first.input["input"]["dialogue"][: len(dialogue)]
        values = {item["value"] for item in (first.gold or {})["gold"]["memory_items"]}
        assert (
            len([item for item in old_memories(pair).values() if item["value"] not in values]) <= 1
        )


def test_changes_vary_and_a_few_records_withdraw_a_memory() -> None:
    shapes = Counter((len(modified(pair)), len(added(pair)), len(deleted(pair))) for pair in PAIRS)
    assert {mods for mods, _, _ in shapes} == {0, 1, 2, 3}
    assert {adds for _, adds, _ in shapes} == {0, 1, 2, 3}
    assert shapes[(0, 0, 0)] == 1
    assert (
        sum(count for (mods, adds, gone), count in shapes.items() if adds and not mods and not gone)
        == 1
    )
    assert sum(count for (_, _, gone), count in shapes.items() if gone == 1) == 3
    assert all(gone <= 1 for _, _, gone in shapes)


def test_most_modified_values_are_not_close_to_the_old_ones() -> None:
    figures = [
        similarity(before["value"], after["value"])
        for pair in PAIRS
        for before, after in modified(pair)
    ]
    assert sum(figure < THRESHOLD for figure in figures) > len(figures) * 0.9


def test_several_languages_are_spoken_and_one_is_written_from_right_to_left() -> None:
    foreign = [p for p in PAIRS if not is_english(user_text(p.input["input"]["new_dialogue"]))]
    assert len(foreign) >= 5
    assert len(foreign) < len(PAIRS)
    texts = [user_text(pair.input["input"]["new_dialogue"]) for pair in foreign]
    assert any(
        sum(unicodedata.bidirectional(c) in ("R", "AL") for c in text) > len(text) / 2
        for text in texts
    )


def test_facts_about_somebody_else_are_known_for_every_record() -> None:
    assert list(FOREIGN) == [pair.input["benchmark_id"] for pair in PAIRS]


@EACH
def test_rows_have_the_layout_of_the_release_and_leak_nothing(pair: Any) -> None:
    keys = ["benchmark_id", "task", "session_id", "canonical_id"]
    assert list(pair.input) == [*keys, "stratum", "input"]
    assert list(pair.gold) == [*keys, "gold"]
    assert list(pair.input["input"]) == ["old_dialogue", "new_dialogue", "memory"]
    assert {key: pair.input[key] for key in keys} == {key: pair.gold[key] for key in keys}
    assert pair.input["task"] == "task2"
    assert pair.input["canonical_id"] == pair.input["benchmark_id"]
    shown = json.dumps(pair.input, ensure_ascii=False)
    changed = added(pair) + [after for _, after in modified(pair)]
    assert not [item["value"] for item in changed if item["value"] in shown]


@EACH
def test_dialogues_and_lists_have_the_size_they_should(pair: Any) -> None:
    record = pair.input["input"]
    assert 6 <= len(record["old_dialogue"]) <= 16
    assert 8 <= len(record["new_dialogue"]) <= 16
    assert 4 <= len(record["memory"]) <= 10
    assert all(turn["text"].strip() for turn in record["old_dialogue"] + record["new_dialogue"])


@EACH
def test_every_memory_is_written_in_full(pair: Any) -> None:
    for item in [*pair.input["input"]["memory"], *answer(pair)]:
        assert list(item) == list(Memory.model_fields)
        memory = Memory.model_validate(item)
        assert memory.type
        assert memory.confidence in (0.95, 0.8, 0.65, 0.5)
        if memory.label == UNMAPPED:
            assert memory.label_suggestion
        else:
            assert memory.label in CANONICAL_LABELS
            assert memory.label_suggestion is None


@EACH
def test_ids_are_unique_and_name_what_was_done(pair: Any) -> None:
    old = [item["memory_id"] for item in pair.input["input"]["memory"]]
    assert old == [f"m{number}" for number in range(1, len(old) + 1)]
    ids = [item["memory_id"] for item in answer(pair)]
    assert len(set(ids)) == len(ids)
    assert [item["memory_id"] for item in added(pair)] == [
        f"m_new_{n}" for n in range(1, len(added(pair)) + 1)
    ]
    assert set(ids) <= set(old) | {f"{name}_updated" for name in old} | {
        item["memory_id"] for item in added(pair)
    }


@EACH
def test_what_did_not_change_is_identical_to_the_old_memory(pair: Any) -> None:
    old = old_memories(pair)
    for item in answer(pair):
        if item["memory_id"] in old:
            assert json.dumps(item) == json.dumps(old[item["memory_id"]])


@EACH
def test_a_modified_memory_says_something_else_and_the_old_one_is_gone(pair: Any) -> None:
    ids = {item["memory_id"] for item in answer(pair)}
    for before, after in modified(pair):
        assert before["memory_id"] not in ids
        assert similarity(before["value"], after["value"]) < 1
        assert fold(before["value"]) != fold(after["value"])


@EACH
def test_evidence_is_quoted_word_for_word_from_a_user_turn_of_the_right_dialogue(pair: Any) -> None:
    record = pair.input["input"]
    turns = record["old_dialogue"] + record["new_dialogue"]
    old = old_memories(pair)
    for item in [*old.values(), *answer(pair)]:
        evidence = item["evidence"]
        index = evidence["utterance_index"]
        assert evidence["session_id"] == pair.input["session_id"]
        # Indices count on through the new dialogue.
        assert (index < len(record["old_dialogue"])) == (item["memory_id"] in old)
        assert turns[index]["role"] == "user"
        assert evidence["text"].strip()
        assert evidence["text"] in turns[index]["text"]


@EACH
def test_no_two_memories_of_a_record_say_nearly_the_same(pair: Any) -> None:
    for values in (
        [item["value"] for item in answer(pair)],
        [item["value"] for item in old_memories(pair).values()],
    ):
        assert [both for both in combinations(values, 2) if similarity(*both) >= THRESHOLD] == []


@EACH
def test_what_is_new_is_not_already_in_the_old_list(pair: Any) -> None:
    old = [item["value"] for item in old_memories(pair).values()]
    assert not [
        (v, item["value"])
        for item in added(pair)
        for v in old
        if similarity(v, item["value"]) >= THRESHOLD
    ]


@EACH
def test_facts_about_somebody_else_are_said_but_not_taken_up(pair: Any) -> None:
    said, stored = FOREIGN[pair.input["benchmark_id"]]
    assert said in user_text(pair.input["input"]["new_dialogue"])
    assert not [item["value"] for item in answer(pair) if stored in item["value"].lower()]


@EACH
def test_gold_values_are_english(pair: Any) -> None:
    for item in answer(pair):
        assert all(unicodedata.name(c).startswith("LATIN") for c in item["value"] if c.isalpha())
