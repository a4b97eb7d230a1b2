import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from alps.schema import CANONICAL_LABELS, UNMAPPED, ExtractionSample, Memory, read_memories
from tests.builders import memory

TWELVE = [
    "memory_id",
    "type",
    "label",
    "label_suggestion",
    "value",
    "reasoning",
    "evidence",
    "confidence",
    "time_scope",
    "emotion",
    "preference_attitude",
    "updated_at",
]
REPRODUCIBLY = settings(max_examples=150, deadline=None, derandomize=True, database=None)


def item(value: Any = "Plays the cello", **fields: Any) -> dict[str, Any]:
    return {
        "memory_id": "m1",
        "type": "direct",
        "label": "Preferences/Music",
        "value": value,
        "confidence": 0.8,
        **fields,
    }


def read_one(**fields: Any) -> tuple[Memory, tuple[str, ...]]:
    read = read_memories({"memory_items": [item(**fields)]})
    (only,) = read.memories
    return only, read.notes


def test_a_regular_answer_is_read_without_a_note():
    read = read_memories({"memory_items": [item()]})
    assert [m.value for m in read.memories] == ["Plays the cello"]
    assert read.notes == ()


@pytest.mark.parametrize(
    ("node", "note"),
    [
        pytest.param([item()], "a bare list", id="a bare list"),
        pytest.param({"memories": [item()]}, "`memories`", id="memories"),
        pytest.param({"updated_memories": [item()]}, "`updated_memories`", id="updated_memories"),
        pytest.param(
            {"existing_memories": [item()]}, "`existing_memories`", id="existing_memories"
        ),
        pytest.param(
            {"existing_memories": [item()], "tags": ["a"]},
            "`existing_memories`",
            id="beside another list",
        ),
        pytest.param({"items": [item()]}, "`items`", id="items"),
        pytest.param({"answer": [item()]}, "`answer`", id="answer"),
        pytest.param({"facts_found": [item()]}, "`facts_found`", id="an unheard-of key"),
        pytest.param({"result": {"memory_items": [item()]}}, "wrapped in `result`", id="a wrapper"),
        pytest.param(
            {"answer": {"items": [item()]}}, "wrapped in `answer`", id="a wrapper under a list key"
        ),
        pytest.param(
            {"a": {"b": {"memories": [item()]}}}, "wrapped in `b`", id="a wrapper in a wrapper"
        ),
        pytest.param(item(), "a single memory without a list", id="a single memory"),
    ],
)
def test_a_list_is_found_where_models_put_it_and_the_place_is_noted(node, note):
    read = read_memories(node)
    assert [m.value for m in read.memories] == ["Plays the cello"]
    assert any(note in text for text in read.notes)


def test_the_regular_key_wins_over_another_list():
    read = read_memories({"memories": [item("old")], "memory_items": [item("new")]})
    assert [m.value for m in read.memories] == ["new"]


def test_a_second_list_of_memories_is_not_dropped_in_silence():
    read = read_memories({"memory_items": [], "memories": [item()]})
    assert read.memories or any("memories" in note for note in read.notes)


@pytest.mark.parametrize(
    "node", [[], {"memory_items": []}, {"memories": []}, {"result": {"memory_items": []}}]
)
def test_an_empty_list_is_a_legitimate_answer(node):
    assert read_memories(node).memories == ()


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(None, id="null"),
        pytest.param("no memories", id="a text"),
        pytest.param(3, id="a number"),
        pytest.param({}, id="an empty object"),
        pytest.param({"memory_items": None}, id="a null list"),
        pytest.param({"memory_items": "none found"}, id="a text in place of the list"),
        pytest.param({"tags": ["a", "b"]}, id="a list of something else"),
        pytest.param({"first": [item()], "second": [item()]}, id="two lists under unheard-of keys"),
    ],
)
def test_what_holds_no_list_of_memories_is_an_error(node):
    with pytest.raises(ValueError, match="memory_items"):
        read_memories(node)


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([{"label": "Preferences/Food"}], id="no value"),
        pytest.param([{"value": None}, {"value": " \n "}], id="null and blank values"),
        pytest.param([1, 2.5, None, True, ["a"]], id="no objects"),
        pytest.param(["", "  "], id="blank texts"),
        pytest.param([{"value": []}, {"value": {}}], id="empty containers"),
        pytest.param([{"value": [" "]}], id="a list of blanks"),
    ],
)
def test_a_list_where_no_item_has_a_value_is_an_error(items):
    with pytest.raises(ValueError, match=f"none of the {len(items)} items has a value"):
        read_memories({"memory_items": items})


@pytest.mark.parametrize(
    ("broken", "note"),
    [
        pytest.param({"label": "x"}, "left out: an item without a value", id="no value"),
        pytest.param({"value": "  "}, "left out: an item without a value", id="a blank value"),
        pytest.param({"value": [" "]}, "left out: an item without a value", id="a list of blanks"),
        pytest.param(7, "left out: an item that is int", id="a number"),
        pytest.param(None, "left out: an item that is NoneType", id="null"),
        pytest.param(["Plays"], "left out: an item that is list", id="a list"),
    ],
)
def test_an_item_that_says_nothing_is_left_out_with_a_note(broken, note):
    read = read_memories({"memory_items": [broken, item()]})
    assert [m.value for m in read.memories] == ["Plays the cello"]
    assert any(note in text for text in read.notes)


def test_a_plain_text_is_read_as_a_value():
    read = read_memories({"memory_items": ["Plays the cello"]})
    assert read.memories[0].value == "Plays the cello"
    assert read.memories[0].label == UNMAPPED
    assert "a plain text instead of an object" in read.notes


@pytest.mark.parametrize(
    ("value", "text", "note"),
    [
        pytest.param(
            {"hobby": "cello", "since": 2019},
            "hobby: cello; since: 2019",
            "value is an object",
            id="an object",
        ),
        pytest.param(["cello", "viola"], "cello, viola", "value is list", id="a list of texts"),
        pytest.param(42, "42", "value is int", id="a number"),
        pytest.param(
            {"pets": ["cat", "dog"]},
            "pets: cat, dog",
            "value is an object",
            id="a list in an object",
        ),
    ],
)
def test_a_value_that_is_not_a_text_is_flattened_with_a_note(value, text, note):
    read, notes = read_one(value=value)
    assert read.value == text
    assert any(note in given for given in notes)


def test_a_value_loses_only_the_white_space_around_it():
    assert read_one(value="  Plays  the cello\n")[0].value == "Plays  the cello"


def test_a_lone_surrogate_from_a_broken_escape_does_not_cost_the_answer():
    broken = json.loads(
        r'{"memory_items": [{"value": "Loves \ud83d cats", "type": "direct", "confidence": 0.8}]}'
    )
    assert "cats" in read_memories(broken).memories[0].value


@pytest.mark.parametrize(
    ("given_type", "kept"), [(" Direct ", "direct"), ("INDIRECT", "indirect"), ("direct", "direct")]
)
def test_a_type_is_read_whatever_its_case(given_type, kept):
    read, notes = read_one(type=given_type)
    assert read.type == kept
    assert not any("unknown type" in note for note in notes)


@pytest.mark.parametrize(
    "given_type", ["user", "fact", "habit", "", 3, True, {"kind": "direct"}, ["direct"]]
)
def test_an_unknown_type_becomes_null_with_a_note(given_type):
    read, notes = read_one(type=given_type)
    assert read.type is None
    assert any(note.startswith("unknown type") for note in notes)


@pytest.mark.parametrize("field", ["type", "confidence"])
def test_a_missing_type_or_confidence_becomes_null_with_a_note(field):
    whole = item()
    del whole[field]
    read = read_memories([whole])
    assert getattr(read.memories[0], field) is None
    assert f"missing {field}" in read.notes


@pytest.mark.parametrize(
    ("given_confidence", "kept"),
    [(0, 0.0), (1, 1.0), (0.65, 0.65), ("0.8", 0.8), ("80%", 0.8), ("100%", 1.0)],
)
def test_a_confidence_is_read_as_a_number_or_a_share(given_confidence, kept):
    assert read_one(confidence=given_confidence)[0].confidence == pytest.approx(kept)


@pytest.mark.parametrize(
    "given_confidence",
    [
        1.01,
        -0.1,
        95,
        "950%",
        "high",
        "",
        True,
        False,
        [0.5],
        {"value": 0.5},
        float("nan"),
        float("inf"),
        "nan",
    ],
)
def test_a_confidence_that_is_no_share_becomes_null_with_a_note(given_confidence):
    read, notes = read_one(confidence=given_confidence)
    assert read.confidence is None
    assert any("confidence" in note and "read as null" in note for note in notes)


def test_duplicate_ids_are_renamed_with_a_note_so_that_every_id_is_unique():
    read = read_memories([item("a"), item("b"), item("c"), item("d", memory_id="m1~2")])
    assert [m.value for m in read.memories] == ["a", "b", "c", "d"]
    assert len({m.memory_id for m in read.memories}) == 4
    assert any("duplicate id 'm1' renamed" in note for note in read.notes)


@pytest.mark.parametrize(
    ("ids", "read_ids"),
    [
        pytest.param({}, "p1", id="none"),
        pytest.param({"memory_id": ""}, "p1", id="empty"),
        pytest.param({"id": "a7"}, "a7", id="under id"),
        pytest.param({"memory_id": 12}, "12", id="a number"),
    ],
)
def test_an_item_without_an_id_gets_one_from_its_place(ids, read_ids):
    assert read_memories([{"value": "v", **ids}]).memories[0].memory_id == read_ids


@pytest.mark.parametrize("label", [None, "", "  "])
def test_a_missing_label_is_unmapped(label):
    assert read_one(label=label)[0].label == UNMAPPED


def test_a_label_outside_the_taxonomy_is_kept_as_it_is():
    assert read_one(label="Work/Tooling/Editor")[0].label == "Work/Tooling/Editor"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param({"evidence": "I play the cello"}, "I play the cello", id="a text"),
        pytest.param({"evidence_text": "I play the cello"}, "I play the cello", id="evidence_text"),
        pytest.param(
            {"evidence": None, "evidence_text": "I play"},
            "I play",
            id="evidence_text beside a null evidence",
        ),
        pytest.param(
            {"evidence": {"text": " I play "}}, "I play", id="an object with a text alone"
        ),
        pytest.param({"evidence": {"utterance_index": 4}}, "", id="an object without a text"),
        pytest.param(
            {"evidence": ["I play", "the cello"]}, "I play, the cello", id="a list of quotes"
        ),
    ],
)
def test_evidence_is_read_in_every_form(fields, text):
    evidence = read_one(**fields)[0].evidence
    assert evidence is not None
    assert evidence.text == text


@pytest.mark.parametrize("evidence", [None, "", "  "])
def test_evidence_that_says_nothing_is_null(evidence):
    assert read_one(evidence=evidence)[0].evidence is None


def test_evidence_keeps_its_session_and_its_turn():
    evidence = read_one(evidence={"session_id": 31, "utterance_index": 4, "text": "q"})[0].evidence
    assert evidence is not None
    assert (evidence.session_id, evidence.utterance_index, evidence.text) == ("31", 4, "q")


@pytest.mark.parametrize("index", ["3", -1, 2.5, True, [1]])
def test_evidence_with_a_bad_index_keeps_its_text_and_notes_the_index(index):
    read, notes = read_one(evidence={"utterance_index": index, "text": "I play the cello"})
    assert read.evidence is not None
    assert read.evidence.utterance_index is None
    assert read.evidence.text == "I play the cello"
    assert any("utterance_index" in note for note in notes)


def test_a_field_that_memories_do_not_have_is_dropped_with_a_note():
    _, notes = read_one(importance="high")
    assert any("importance" in note for note in notes)


def test_equal_notes_are_counted():
    read = read_memories(
        {
            "memory_items": [
                item("a", memory_id="1", type="user"),
                item("b", memory_id="2", type="user"),
            ]
        }
    )
    assert read.notes == ("2 × unknown type 'user' read as null",)


def test_a_note_about_a_long_value_is_short():
    _, notes = read_one(type="x" * 5_000)
    assert max(map(len, notes)) < 100


def nested_list(depth: int) -> list[Any]:
    node: list[Any] = []
    for _ in range(depth):
        node = [node]
    return node


def nested_wrapper(depth: int) -> dict[str, Any]:
    node: dict[str, Any] = {"memory_items": []}
    for _ in range(depth):
        node = {"a": node}
    return node


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(nested_wrapper(3_000), id="wrappers"),
        pytest.param([item(value=nested_list(3_000))], id="a value"),
        pytest.param([item(type=nested_list(3_000))], id="a type"),
    ],
)
def test_endless_nesting_is_not_a_crash(node):
    try:
        read = read_memories(node)
    except ValueError:
        return
    assert all(m.value for m in read.memories)


def test_a_written_memory_has_exactly_the_twelve_fields():
    assert list(
        json.loads(
            memory(
                "v", evidence={"session_id": "s", "utterance_index": 0, "text": "q"}
            ).model_dump_json()
        )
    ) == (TWELVE)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"value": ""}, id="an empty value"),
        pytest.param({"type": "user"}, id="an unknown type"),
        pytest.param({"confidence": 1.5}, id="a confidence above one"),
        pytest.param({"confidence": float("nan")}, id="a confidence that is no number"),
        pytest.param({"importance": "high"}, id="an unknown field"),
        pytest.param(
            {"evidence": {"session_id": None, "utterance_index": -1, "text": "q"}},
            id="a turn before the first",
        ),
    ],
)
def test_the_strict_schema_refuses(change):
    with pytest.raises(ValidationError):
        Memory.model_validate(memory("v").model_dump() | change)


@pytest.mark.parametrize("field", TWELVE)
def test_the_strict_schema_wants_every_field(field):
    row = memory("v").model_dump()
    del row[field]
    with pytest.raises(ValidationError, match=field):
        Memory.model_validate(row)


def test_a_dialogue_with_an_unknown_role_is_refused():
    row = {
        "benchmark_id": "b",
        "session_id": "s",
        "dialogue": [{"role": "tool", "text": "t"}],
        "gold": None,
    }
    with pytest.raises(ValidationError, match="role"):
        ExtractionSample.model_validate(row)


def test_the_taxonomy_has_its_34_paths_each_once():
    assert len(set(CANONICAL_LABELS)) == len(CANONICAL_LABELS) == 34
    assert UNMAPPED not in CANONICAL_LABELS


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["direct", " ", "80%"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
ITEM = st.dictionaries(st.sampled_from([*TWELVE, "id", "evidence_text"]), JSON, max_size=8)
VALUED = st.builds(lambda fields, value: {**fields, "value": value}, ITEM, JSON)
ITEMS = st.lists(VALUED | ITEM | JSON, max_size=5)
LIST_KEY = st.sampled_from(["memory_items", "memories", "updated_memories", "answer", "facts"])
NODE = ITEMS | JSON | VALUED | st.dictionaries(LIST_KEY, ITEMS, max_size=2)


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
    assert {note.rpartition("× ")[2] for note in again.notes} <= {
        "missing type",
        "missing confidence",
    }
    assert tuple(Memory.model_validate(row) for row in written["memory_items"]) == read.memories


@REPRODUCIBLY
@given(ITEMS)
def test_no_item_disappears_without_a_note(items):
    try:
        read = read_memories({"memory_items": items})
    except ValueError:
        return
    counts = [note.rpartition(" × ") for note in read.notes if "left out" in note]
    assert len(read.memories) + sum(int(count or 1) for count, _, _ in counts) == len(items)
    assert len({m.memory_id for m in read.memories}) == len(read.memories)
