import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alps.data.release import (
    GOLD,
    INPUT,
    open_split,
    read_samples,
    read_track,
    track_hash,
    write_track,
)
from alps.errors import DataError, UsageError
from alps.tasks import TaskOptions, load_task
from tests.builders import TRACK, memory
from tests.tracks import target_row

TASK = load_task("extraction")
Row = dict[str, Any]


def input_row(name: str, *turns: tuple[str, str], **fields: Any) -> Row:
    said = [
        {"role": role, "text": text}
        for role, text in turns or (("user", "Hello"), ("assistant", "Hi"))
    ]
    return {"benchmark_id": name, "session_id": f"s-{name}", "input": {"dialogue": said}, **fields}


def gold_row(name: str, *values: str) -> Row:
    items = [
        memory(value, memory_id=f"m{n}").model_dump() for n, value in enumerate(values, start=1)
    ]
    return {"benchmark_id": name, "gold": {"memory_items": items}}


def lines(path: Path, *rows: Row | str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for row in rows:
            text = row if isinstance(row, str | bytes) else json.dumps(row, ensure_ascii=False)
            file.write((text if isinstance(text, bytes) else text.encode()) + b"\n")


def samples(folder: Path) -> list[Any]:
    return list(read_samples(folder, TASK.read_sample))


def said_of(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        samples(folder)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_what_was_written_is_read_back_joined_by_id(tmp_path):
    inputs = [input_row("b"), input_row("a"), input_row("ü/ß 猫")]
    golds = [gold_row("b", "Owns a cat"), gold_row("a"), gold_row("ü/ß 猫", "有一只猫")]
    assert write_track(tmp_path, zip(inputs, golds, strict=True)) == 3
    pairs = list(read_track(tmp_path))
    assert [pair.input for pair in pairs] == inputs
    assert [pair.gold for pair in pairs] == golds
    assert [pair.line for pair in pairs] == [pair.gold_line for pair in pairs] == [1, 2, 3]


def test_writing_what_was_read_gives_the_same_bytes(tmp_path):
    odd = input_row(
        "a",
        ("user", 'Line\u2028separator, \\ " 猫 \U0001f436 \x00'),
        note={"nested": [1, 2.5, None, True]},
    )
    write_track(tmp_path / "one", [(odd, gold_row("a", "有一只猫")), (input_row("b"), None)])
    pairs = [(pair.input, pair.gold) for pair in read_track(tmp_path / "one")]
    write_track(tmp_path / "two", pairs)
    for name in (INPUT, GOLD):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert track_hash(tmp_path / "one") == track_hash(tmp_path / "two")


def test_the_hash_of_a_track_changes_with_a_letter_of_either_file(tmp_path):
    write_track(tmp_path / "a", [(input_row("a"), gold_row("a", "Owns a cat"))])
    write_track(tmp_path / "b", [(input_row("a", ("user", "hello")), gold_row("a", "Owns a cat"))])
    write_track(tmp_path / "c", [(input_row("a"), gold_row("a", "Owns a bat"))])
    write_track(tmp_path / "d", [(input_row("a"), None)])
    assert len({track_hash(tmp_path / name) for name in "abcd"}) == 4


def test_gold_in_another_order_is_joined_by_id(tmp_path):
    lines(tmp_path / INPUT, input_row("a"), input_row("b"), input_row("c"))
    lines(tmp_path / GOLD, gold_row("c", "of c"), gold_row("a", "of a"), gold_row("b", "of b"))
    assert [sample.gold[0].value for sample in samples(tmp_path)] == ["of a", "of b", "of c"]
    assert [pair.gold_line for pair in read_track(tmp_path)] == [2, 3, 1]


def test_gold_that_is_withheld_is_none_for_all_or_for_one(tmp_path):
    write_track(tmp_path / "all", [(input_row("a"), None), (input_row("b"), None)])
    assert not (tmp_path / "all" / GOLD).exists()
    write_track(tmp_path / "one", [(input_row("a"), gold_row("a")), (input_row("b"), None)])
    found = [[sample.gold for sample in samples(tmp_path / name)] for name in ("all", "one")]
    assert found == [[None, None], [(), None]]


def test_blank_lines_are_skipped_and_a_file_from_another_system_is_read(tmp_path):
    lines(tmp_path / INPUT, "", input_row("a"), "  ", input_row("b"))
    assert [pair.line for pair in read_track(tmp_path)] == [2, 4]
    text = "\r\n".join(json.dumps(input_row(name)) for name in "ab")
    (tmp_path / INPUT).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert [sample.benchmark_id for sample in samples(tmp_path)] == ["a", "b"]


DIALOGUES = {
    "the assistant speaks first": [("assistant", "Welcome!"), ("user", "Hello")],
    "two user turns": [("user", "Hello"), ("user", "Are you there?"), ("assistant", "Yes")],
    "an empty turn": [("user", ""), ("assistant", "?")],
    "a system turn": [("system", "Be brief."), ("user", "Hello")],
}


@pytest.mark.parametrize("turns", DIALOGUES.values(), ids=DIALOGUES)
def test_dialogues_as_they_really_are_can_be_read(tmp_path, turns):
    lines(tmp_path / INPUT, input_row("a", *turns))
    (sample,) = samples(tmp_path)
    assert [(turn.role, turn.text) for turn in sample.dialogue] == turns


def shown(**given: Any) -> Row:
    return {"benchmark_id": "b", "input": given}


def gold_of(**given: Any) -> Row:
    return {"benchmark_id": "b", "gold": given}


NO_ID = "benchmark_id: must be a non-empty string"
DEEP = "[" * 3_000 + "]" * 3_000
HALF = [memory("v").model_dump(), {"label": "Preferences/Food"}]
BAD_ROWS: dict[str, tuple[str, Row | str | bytes, str]] = {
    "no JSON": (INPUT, "{not json", "not JSON"),
    "half a line": (INPUT, '{"benchmark_id": "b"', "not JSON"),
    "nested too deeply": (INPUT, f'{{"benchmark_id": "b", "input": {DEEP}}}', "not JSON"),
    "no UTF-8": (INPUT, b'{"benchmark_id": "\xff"}', "not JSON"),
    "a list": (INPUT, '["b"]', "expected a JSON object, got list"),
    "no id": (INPUT, {"input": {"dialogue": []}}, NO_ID),
    "an id that is a number": (INPUT, input_row("") | {"benchmark_id": 7}, NO_ID),
    "an empty id": (INPUT, input_row(""), NO_ID),
    "an id that stands twice": (INPUT, input_row("a"), "benchmark_id: 'a' appears twice"),
    "no input": (INPUT, {"benchmark_id": "b"}, "input: missing field"),
    "no dialogue": (INPUT, shown(), "dialogue: missing field"),
    "an input that is a list": (INPUT, {"benchmark_id": "b", "input": []}, "input"),
    "a null input": (INPUT, {"benchmark_id": "b", "input": None}, "input"),
    "a dialogue that is a text": (INPUT, shown(dialogue="Hello"), "dialogue"),
    "an unknown role": (
        *(INPUT, input_row("b", ("user", "x"), ("tool", "y"))),
        "dialogue.1.role: input should be",
    ),
    "no text": (INPUT, shown(dialogue=[{"role": "user"}]), "dialogue.0.text: missing; it has role"),
    "a null text": (INPUT, shown(dialogue=[{"role": "user", "text": None}]), "dialogue.0.text"),
    "a field that turns do not have": (
        *(INPUT, shown(dialogue=[{"role": "user", "text": "x", "mood": 1}])),
        "dialogue.0.mood",
    ),
    "gold: no JSON": (GOLD, "{not json", "not JSON"),
    "gold: a number": (GOLD, "3", "expected a JSON object, got int"),
    "gold: no id": (GOLD, {"gold": {}}, NO_ID),
    "gold: an id that stands twice": (GOLD, gold_row("a"), "benchmark_id: 'a' appears twice"),
    "gold: an orphan": (GOLD, gold_row("z"), f"benchmark_id: 'z' has no row in {INPUT}"),
    "gold: no gold": (GOLD, {"benchmark_id": "b"}, "gold: missing field"),
    "gold: no memories": (GOLD, gold_of(), "memory_items: missing field"),
    "gold: null memories": (GOLD, gold_of(memory_items=None), "memory_items"),
    "gold: empty memories": (GOLD, gold_of(memory_items=["", 3]), "has a value"),
    "gold: one memory without a value": (GOLD, gold_of(memory_items=HALF), "value"),
}


@pytest.mark.parametrize(("name", "row", "problem"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_named_with_its_file_its_line_and_its_field(tmp_path, name, row, problem):
    lines(tmp_path / INPUT, input_row("a"), row if name == INPUT else input_row("b"))
    if name == GOLD:
        lines(tmp_path / GOLD, gold_row("a"), row)
    said = said_of(tmp_path)
    place = f"{tmp_path / name}, line 2"
    assert said.startswith(place)
    assert problem in said.removeprefix(place)


def test_gold_of_nobody_in_the_first_line_is_named(tmp_path):
    lines(tmp_path / INPUT, input_row("a"))
    lines(tmp_path / GOLD, gold_row("z"), gold_row("a"))
    place = f"{tmp_path / GOLD}, line 1, benchmark_id: 'z' has no row in {INPUT}"
    assert said_of(tmp_path).startswith(place)


def update_rows(*values: str) -> tuple[Row, Row]:
    """Return the rows of an update whose second memory, and whose second gold memory, have these
    values.
    """
    said = [{"role": "user", "text": "Hello"}]
    boat = memory("Owns a boat").model_dump()
    old, gold = ([memory("Owns a cat").model_dump(), {**boat, "value": v}] for v in values)
    return shown(old_dialogue=said, new_dialogue=said, memory=old), gold_of(answer=gold)


NO_VALUE = "an item without a value"


@pytest.mark.parametrize(
    ("old", "gold", "place"),
    [
        ("", "Owns a boat", f"{INPUT}, line 1: input.memory: {NO_VALUE}"),
        ("Owns a boat", "", f"{GOLD}, line 1: gold.answer: {NO_VALUE}"),
        ("", "", f"{INPUT}, line 1: input.memory: {NO_VALUE}"),
    ],
)
def test_a_memory_of_an_update_without_a_value_is_named_by_the_field_that_it_stands_in(
    tmp_path, old, gold, place
):
    write_track(tmp_path, [update_rows(old, gold)])
    with pytest.raises(DataError) as caught:
        list(read_samples(tmp_path, load_task("update").read_sample))
    assert str(caught.value) == str(tmp_path / place)


@pytest.mark.parametrize("memory", ["full", "oracle"])
@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda row, gold: gold["gold"].pop("selected_memory"), f"{GOLD}, line 1, selected_memory"),
        (lambda row, gold: row["input"].pop("audit_context"), f"{INPUT}, line 1"),
        (lambda row, gold: row["input"].update(queries=[{"query": 7}]), f"{INPUT}, line 1"),
    ],
    ids=["gold", "input", "query"],
)
def test_the_bad_one_of_two_files_is_named_also_where_gold_is_shown(
    tmp_path, memory, change, place
):
    row, gold = target_row("u1")
    change(row, gold)
    write_track(tmp_path, [(row, gold)])
    task = load_task("utilization", TaskOptions(memory=memory, ability="ei"))
    with pytest.raises(DataError) as caught:
        list(read_samples(tmp_path, task.read_sample))
    assert str(caught.value).startswith(str(tmp_path / place))


@pytest.fixture
def data_set(tmp_path: Path) -> Callable[..., Path]:
    def write(*folders: str) -> Path:
        for folder in folders:
            lines(tmp_path / "set" / folder / INPUT, input_row("a"))
        return tmp_path / "set"

    return write


@pytest.mark.parametrize("prefix", ["", "benchmark_data/"])
def test_a_split_is_found_by_name_also_below_benchmark_data(data_set, prefix):
    root = data_set(f"{prefix}dev/task1", f"{prefix}test/task1")
    split = open_split(str(root), "test")
    assert split.name == "test"
    assert [sample.benchmark_id for sample in samples(split.track(TRACK))] == ["a"]


def test_a_split_needs_no_name_where_it_is_the_only_one_or_the_folder_itself(data_set):
    root = data_set("validation/task1")
    # Files beside the splits do not disturb.
    (root / "README.md").write_text("about", encoding="utf-8")
    (root / "pictures").mkdir()
    assert open_split(str(root), None).name == "validation"
    split = open_split(str(data_set("dev/task1", "test/task1") / "dev"), None)
    assert split.name == "dev"
    assert [sample.benchmark_id for sample in samples(split.track(TRACK))] == ["a"]


def test_a_split_that_has_only_tracks_with_parts_is_a_split(data_set):
    split = open_split(str(data_set("dev/task3/d100")), None)
    assert split.track("task3/d100").name == "d100"
    with pytest.raises(UsageError, match=r"no task1/model_input\.jsonl here"):
        split.track(TRACK)


NO_SPLITS = r"no SPLIT/TRACK folders in it, such as dev/task1 with a model_input\.jsonl$"
CLOSEST = r"split=vlidation: .* did you mean 'validation'\? \(found: dev, validation\)"
NOT_THERE: dict[str, tuple[tuple[str, ...], str, str | None, str]] = {
    "which of two": (
        *(("dev/task1", "test/task1"), "", None),
        r"name a split with split= \(found: dev, test\)",
    ),
    "misspelt": (("dev/task1", "validation/task1"), "", "vlidation", CLOSEST),
    "another than the folder": (("dev/task1",), "dev", "test", "split=test"),
    "no folder": ((), "nowhere", None, r"data=\S*nowhere: no such folder"),
    "no splits": ((), "", None, NO_SPLITS),
    "no splits, one named": ((), "", "dev", NO_SPLITS),
}


@pytest.mark.parametrize(("folders", "below", "split", "said"), NOT_THERE.values(), ids=NOT_THERE)
def test_a_split_that_is_not_there_is_named(data_set, folders, below, split, said):
    root = data_set(*folders)
    root.mkdir(exist_ok=True)
    with pytest.raises(UsageError, match=said):
        open_split(str(root / below), split)


@pytest.mark.release
def test_a_large_file_is_read_with_flat_memory(tmp_path):
    text = "I have been thinking about my allotment again. " * 30
    write_track(
        tmp_path,
        ((input_row(f"r{n}", ("user", text)), gold_row(f"r{n}", "Gardens")) for n in range(20_000)),
    )
    assert (tmp_path / INPUT).stat().st_size > 25_000_000
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_track(tmp_path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 20_000
    assert peak < 15_000_000


def test_the_first_records_are_there_before_a_bad_one_is_met(tmp_path):
    lines(tmp_path / INPUT, input_row("a"), "{not json")
    stream = read_samples(tmp_path, TASK.read_sample)
    assert next(stream).benchmark_id == "a"
    with pytest.raises(DataError, match="line 2"):
        next(stream)
