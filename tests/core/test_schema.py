"""Memories as models write them: what is read, what is noted, what is refused, and how gold that
was rejected is shown.
"""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from alps.schema import CANONICAL_LABELS, UNMAPPED, ExtractionSample, Memory, read_memories
from alps.text import is_rejected, shown_value
from tests.builders import memory

TWELVE = (
    *("memory_id", "type", "label", "label_suggestion", "value", "reasoning", "evidence"),
    *("confidence", "time_scope", "emotion", "preference_attitude", "updated_at"),
)
REPRODUCIBLY = settings(max_examples=100, deadline=None, derandomize=True, database=None)


def item(value: Any = "Plays the cello", **fields: Any) -> dict[str, Any]:
    whole = {"memory_id": "m1", "type": "direct", "label": "Preferences/Music"}
    return {**whole, "value": value, "confidence": 0.8, **fields}


def read_one(**fields: Any) -> tuple[Memory, tuple[str, ...]]:
    read = read_memories({"memory_items": [item(**fields)]})
    (only,) = read.memories
    return only, read.notes


# Where the list stands

ITEMS = [item()]
PLACES: dict[str, tuple[Any, str]] = {
    "the regular key": ({"memory_items": ITEMS}, ""),
    "a bare list": (ITEMS, "a bare list"),
    "memories": ({"memories": ITEMS}, "`memories`"),
    "updated_memories": ({"updated_memories": ITEMS}, "`updated_memories`"),
    "existing_memories": ({"existing_memories": ITEMS}, "`existing_memories`"),
    "beside another list": ({"existing_memories": ITEMS, "tags": ["a"]}, "`existing_memories`"),
    "items": ({"items": ITEMS}, "`items`"),
    "answer": ({"answer": ITEMS}, "`answer`"),
    "an unheard-of key": ({"facts_found": ITEMS}, "`facts_found`"),
    "a wrapper": ({"result": {"memory_items": ITEMS}}, "wrapped in `result`"),
    "a wrapper under a list key": ({"answer": {"items": ITEMS}}, "wrapped in `answer`"),
    "a wrapper in a wrapper": ({"a": {"b": {"memories": ITEMS}}}, "wrapped in `b`"),
    "a single memory": (item(), "a single memory without a list"),
    "a plain text": (["Plays the cello"], "a plain text instead of an object"),
    "beside an older list": ({"memories": [item("old")], "memory_items": ITEMS}, ""),
}


@pytest.mark.parametrize(("node", "note"), PLACES.values(), ids=PLACES)
def test_a_list_is_found_where_models_put_it_and_the_place_is_noted(node, note):
    read = read_memories(node)
    assert [m.value for m in read.memories] == ["Plays the cello"]
    assert any(note in text for text in read.notes) or not note
    assert read.notes == () or node != PLACES["the regular key"][0]
    assert read.memories[0].label == (UNMAPPED if node == ["Plays the cello"] else item()["label"])


def test_a_second_list_of_memories_is_not_dropped_in_silence():
    read = read_memories({"memory_items": [], "memories": ITEMS})
    assert read.memories or any("memories" in note for note in read.notes)


def test_an_empty_list_is_a_legitimate_answer():
    for node in ([], {"memory_items": []}, {"memories": []}, {"result": {"memory_items": []}}):
        assert read_memories(node).memories == ()


NO_LISTS: dict[str, Any] = {
    "null": None,
    "a text": "no memories",
    "a number": 3,
    "an empty object": {},
    "a null list": {"memory_items": None},
    "a text in place of the list": {"memory_items": "none found"},
    "a list of something else": {"tags": ["a", "b"]},
    "two lists under unheard-of keys": {"first": ITEMS, "second": ITEMS},
}
NO_VALUES: list[list[Any]] = [
    [{"label": "Preferences/Food"}],
    [{"value": None}, {"value": " \n "}],
    [1, 2.5, None, True, ["a"]],
    ["", "  "],
    [{"value": []}, {"value": {}}],
    [{"value": [" "]}],
]


@pytest.mark.parametrize("node", NO_LISTS.values(), ids=NO_LISTS)
def test_what_holds_no_list_of_memories_is_an_error(node):
    with pytest.raises(ValueError, match="memory_items"):
        read_memories(node)


def test_a_list_where_no_item_has_a_value_is_an_error():
    for items in NO_VALUES:
        with pytest.raises(ValueError, match=f"none of the {len(items)} items has a value"):
            read_memories({"memory_items": items})


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ({"label": "x"}, "without a value"),
        ({"value": "  "}, "without a value"),
        ({"value": [" "]}, "without a value"),
        (7, "that is int"),
        (None, "that is NoneType"),
        (["Plays"], "that is list"),
    ],
)
def test_an_item_that_says_nothing_is_left_out_with_a_note(broken, what):
    read = read_memories({"memory_items": [broken, item()]})
    assert [m.value for m in read.memories] == ["Plays the cello"]
    assert any(f"left out: an item {what}" in text for text in read.notes)


# What a field may say: how it is written, what is read of it, and a part of its note

FIELDS: list[tuple[str, Any, Any, str]] = [
    ("value", {"hobby": "cello", "since": 2019}, "hobby: cello; since: 2019", "value is an object"),
    ("value", ["cello", "viola"], "cello, viola", "value is list"),
    ("value", 42, "42", "value is int"),
    ("value", {"pets": ["cat", "dog"]}, "pets: cat, dog", "value is an object"),
    ("value", "  Plays  the cello\n", "Plays  the cello", ""),
    *(("type", said, said.strip().lower(), "") for said in (" Direct ", "INDIRECT", "direct")),
    *(
        ("type", said, None, "unknown type")
        for said in ("user", "fact", "habit", "", 3, True, {"kind": "direct"}, ["direct"])
    ),
    *(("confidence", said, pytest.approx(float(said)), "") for said in (0, 1, 0.65, "0.8")),
    *(("confidence", said, kept, "") for said, kept in (("80%", 0.8), ("100%", 1.0))),
    *(
        ("confidence", said, None, "confidence")
        for said in (1.01, -0.1, 95, "950%", "high", "", True, False, [0.5], {"value": 0.5})
    ),
    *(("confidence", said, None, "read as null") for said in (float("nan"), float("inf"), "nan")),
    *(("label", said, UNMAPPED, "") for said in (None, "", "  ")),
    ("label", "Work/Tooling/Editor", "Work/Tooling/Editor", ""),
    *(("evidence", said, None, "") for said in (None, "", "  ")),
]


@pytest.mark.parametrize(("field", "said", "kept", "note"), FIELDS)
def test_a_field_is_read_in_every_form_or_noted(field, said, kept, note):
    read, notes = read_one(**{field: said})
    assert getattr(read, field) == kept
    assert any(note in text for text in notes) if note else "unknown type" not in str(notes)


@pytest.mark.parametrize("field", ["type", "confidence"])
def test_a_missing_type_or_confidence_becomes_null_with_a_note(field):
    whole = item()
    del whole[field]
    read = read_memories([whole])
    assert getattr(read.memories[0], field) is None
    assert f"missing {field}" in read.notes


def test_a_lone_surrogate_from_a_broken_escape_does_not_cost_the_answer():
    broken = r'{"memory_items": [{"value": "Loves \ud83d cats", "type": "direct"}]}'
    assert "cats" in read_memories(json.loads(broken)).memories[0].value


def test_every_id_is_unique_and_an_item_without_one_gets_it_from_its_place():
    read = read_memories([item("a"), item("b"), item("c"), item("d", memory_id="m1~2")])
    assert [m.value for m in read.memories] == ["a", "b", "c", "d"]
    assert len({m.memory_id for m in read.memories}) == 4
    assert any("duplicate id 'm1' renamed" in note for note in read.notes)
    for ids, kept in (({}, "p1"), ({"memory_id": ""}, "p1"), ({"id": "a7"}, "a7")):
        assert read_memories([{"value": "v", **ids}]).memories[0].memory_id == kept
    assert read_memories([item(memory_id=12)]).memories[0].memory_id == "12"


CELLO = "I play the cello"
EVIDENCE: list[tuple[dict[str, Any], str]] = [
    ({"evidence": CELLO}, CELLO),
    ({"evidence_text": CELLO}, CELLO),
    ({"evidence": None, "evidence_text": CELLO}, CELLO),
    ({"evidence": {"text": " I play "}}, "I play"),
    ({"evidence": {"utterance_index": 4}}, ""),
    ({"evidence": ["I play", "the cello"]}, "I play, the cello"),
]


def test_evidence_is_read_in_every_form_and_keeps_its_session_and_its_turn():
    for fields, text in EVIDENCE:
        evidence = read_one(**fields)[0].evidence
        assert evidence is not None, fields
        assert evidence.text == text
    evidence = read_one(evidence={"session_id": 31, "utterance_index": 4, "text": "q"})[0].evidence
    assert evidence is not None
    assert (evidence.session_id, evidence.utterance_index, evidence.text) == ("31", 4, "q")


@pytest.mark.parametrize("index", ["3", -1, 2.5, True, [1]])
def test_evidence_with_a_bad_index_keeps_its_text_and_notes_the_index(index):
    read, notes = read_one(evidence={"utterance_index": index, "text": CELLO})
    assert read.evidence is not None
    assert (read.evidence.utterance_index, read.evidence.text) == (None, CELLO)
    assert any("utterance_index" in note for note in notes)


def test_notes_are_counted_short_and_name_fields_that_memories_do_not_have():
    assert any("importance" in note for note in read_one(importance="high")[1])
    assert max(map(len, read_one(type="x" * 5_000)[1])) < 100
    two = [item("a", memory_id="1", type="user"), item("b", memory_id="2", type="user")]
    assert read_memories({"memory_items": two}).notes == ("2 × unknown type 'user' read as null",)


def nested(depth: int, *, around: Any, wrap: Any) -> Any:
    for _ in range(depth):
        around = wrap(around)
    return around


DEEP = nested(3_000, around=[], wrap=lambda node: [node])
WRAPPERS = nested(3_000, around={"memory_items": []}, wrap=lambda node: {"a": node})


@pytest.mark.parametrize(
    "node", [WRAPPERS, [item(value=DEEP)], [item(type=DEEP)]], ids=["wrappers", "value", "type"]
)
def test_endless_nesting_is_not_a_crash(node):
    try:
        read = read_memories(node)
    except ValueError:
        return
    assert all(m.value for m in read.memories)


# The strict schema

BEFORE = {"session_id": None, "utterance_index": -1, "text": "q"}
REFUSED: list[dict[str, Any]] = [
    *({"value": ""}, {"type": "user"}, {"confidence": 1.5}, {"confidence": float("nan")}),
    *({"importance": "high"}, {"evidence": BEFORE}),
]


def test_the_strict_schema_wants_the_twelve_fields_and_refuses_all_else():
    whole = memory("v", evidence={"session_id": "s", "utterance_index": 0, "text": "q"})
    row = json.loads(whole.model_dump_json())
    assert tuple(row) == TWELVE
    for field in TWELVE:
        with pytest.raises(ValidationError, match=field):
            Memory.model_validate({name: row[name] for name in TWELVE if name != field})
    for change in REFUSED:
        with pytest.raises(ValidationError):
            Memory.model_validate(row | change)
    sample = {"benchmark_id": "b", "session_id": "s", "gold": None}
    with pytest.raises(ValidationError, match="role"):
        ExtractionSample.model_validate({**sample, "dialogue": [{"role": "tool", "text": "t"}]})


def test_the_taxonomy_has_its_34_paths_each_once():
    assert len(set(CANONICAL_LABELS)) == len(CANONICAL_LABELS) == 34
    assert UNMAPPED not in CANONICAL_LABELS


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    LEAVES | st.sampled_from(["direct", " ", "80%"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
ITEM = st.dictionaries(st.sampled_from([*TWELVE, "id", "evidence_text"]), JSON, max_size=8)
VALUED = st.builds(lambda fields, value: {**fields, "value": value}, ITEM, JSON)
ANY_ITEMS = st.lists(VALUED | ITEM | JSON, max_size=5)
LIST_KEY = st.sampled_from(["memory_items", "memories", "updated_memories", "answer", "facts"])
NODE = ANY_ITEMS | JSON | VALUED | st.dictionaries(LIST_KEY, ANY_ITEMS, max_size=2)


@REPRODUCIBLY
@given(NODE)
def test_any_json_is_read_or_refused_and_what_was_read_is_read_back_as_it_was_written(node):
    try:
        read = read_memories(node)
    except ValueError:
        return
    written = json.loads(json.dumps({"memory_items": [m.model_dump() for m in read.memories]}))
    again = read_memories(written)
    assert again.memories == read.memories
    missing = {"missing type", "missing confidence"}
    assert {note.rpartition("× ")[2] for note in again.notes} <= missing
    assert tuple(Memory.model_validate(row) for row in written["memory_items"]) == read.memories


@pytest.mark.release
@REPRODUCIBLY
@given(ANY_ITEMS)
def test_no_item_disappears_without_a_note(items):
    try:
        read = read_memories({"memory_items": items})
    except ValueError:
        return
    counts = [note.rpartition(" × ") for note in read.notes if "left out" in note]
    assert len(read.memories) + sum(int(count or 1) for count, _, _ in counts) == len(items)
    assert len({m.memory_id for m in read.memories}) == len(read.memories)


# Gold that was rejected

CAT = "Owns a cat"
MARKS = {
    "one mark": " [ERROR: not said by the user]",
    "over two lines": "\n[ERROR: not said\nby the user]  ",
    "a mark that is cut off": " [ERROR: cut off",
    "brackets inside the mark": " [ERROR: label [Possessions/Car] is wrong]",
    "two marks": " [ERROR: not said] [ERROR: not about the user]",
    "a mark inside the mark": " [ERROR: see [ERROR: not said]]",
    "a mark with brackets that is cut off": " [ERROR: label [Possessions/Car] is",
}


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_the_mark_of_rejected_gold_is_counted_and_never_shown(mark):
    for value in (CAT, "Sees [ERROR: 404] daily"):
        assert is_rejected(value + mark)
        assert shown_value(value + mark) == value


@pytest.mark.parametrize(
    "value", [CAT, "Sees [ERROR: 404] in the log", "Sees [ERROR: 404] on [site]", "Fixes an ERROR"]
)
def test_a_value_that_only_speaks_of_errors_is_not_rejected(value):
    assert not is_rejected(value)
    assert shown_value(value) == value


def test_a_value_that_is_nothing_but_the_mark_is_still_shown():
    assert shown_value("[ERROR: no value]") == "[ERROR: no value]"


def test_a_run_of_white_space_in_a_value_does_not_hang():
    began = time.process_time()
    shown_value("a" + " " * 30_000 + "b")
    assert time.process_time() - began < 0.3
