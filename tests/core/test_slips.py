"""Slips in files that people wrote are named and left out; too many of them are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tracks import Ran, alps_here

Row = dict[str, Any]
SESSIONS = 40


def write(path: Path, rows: list[Any]) -> None:
    """Write rows; a text is a line as it stands."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def annotations() -> list[Row]:
    rows = []
    for number in range(SESSIONS):
        memory = {"value": f"Rents plot {number}", "label": "House", "confidence": 0.8}
        rows.append({"session_id": f"s{number}", "task1": {"memories": [memory, dict(memory)]}})
    return rows


def agreement(tmp_path: Path, edit: Callable[[list[Any]], object]) -> Ran:
    """Measure the agreement of two people, one of whom slipped."""
    edited = annotations()
    edit(edited)
    write(tmp_path / "annotator_ada.jsonl", edited)
    write(tmp_path / "annotator_bea.jsonl", annotations())
    return alps_here("annotate", "agreement", tmp_path, f"out={tmp_path / 'agreement.json'}")


def memory_of(rows: list[Row], number: int = 6) -> Row:
    return rows[number]["task1"]["memories"][1]


NO_NUMBER = "must be a number from 0 to 1, or null, got"
MEMORY_SLIPS = {
    "a confidence of 8": (
        {"confidence": 8},
        "annotator_ada.jsonl, line 7, task1.memories.1.confidence: input should be less than or "
        "equal to 1, got 8",
    ),
    "a confidence of true": ({"confidence": True}, f".confidence: {NO_NUMBER} true"),
    "a confidence that is an empty text": ({"confidence": ""}, f'.confidence: {NO_NUMBER} ""'),
    "a confidence in words": ({"confidence": "0,8"}, ".confidence: "),
    "a label that is a number": ({"label": 3}, ".label: "),
    "a memory without a value": ({"value": None}, ".value: "),
    "an empty value": ({"value": " "}, ".value: must not be empty"),
}


def slip(changes: Row) -> Callable[[list[Row]], None]:
    def edit(rows: list[Row]) -> None:
        memory = memory_of(rows)
        for name, value in changes.items():
            if value is None:
                del memory[name]
            else:
                memory[name] = value

    return edit


ALL, LESS = (80, 80), (78, 78)
HALF = '{"session_id": "s6", '
NO_JSON, NO_SESSION = "annotator_ada.jsonl, line 7: not JSON", "line 7, session_id: "
TWICE = 'line 41, session_id: "s6" appears twice'
GOLD: dict[str, tuple[Callable[[list[Row]], object], str, tuple[int, int]]] = {
    "a part that is a text": (lambda rows: rows[6].update(task2="none"), "line 7, task2: ", ALL),
    "a session without a name": (lambda rows: rows[6].pop("session_id"), NO_SESSION, LESS),
    "a session that stands twice": (lambda rows: rows.append(rows[6]), TWICE, ALL),
    "a line that is no JSON": (lambda rows: rows.__setitem__(6, HALF), NO_JSON, LESS),
}
for name, (changes, said) in MEMORY_SLIPS.items():
    where = said if said.startswith("annotator") else f"line 7, task1.memories.1{said}"
    GOLD[name] = slip(changes), where, (79, 80) if "value" in changes else ALL


@pytest.mark.parametrize(("edit", "named", "items"), GOLD.values(), ids=GOLD)
def test_a_slip_in_annotations_is_named_and_left_out(tmp_path, edit, named, items):
    done = agreement(tmp_path, edit)
    assert done.code == 0, done.err
    assert named in done.err
    assert "rows wrong (2." in done.err
    counts = json.loads((tmp_path / "agreement.json").read_text())["parts"]["task1"]["counts"]
    assert tuple(counts["memories"]["items"]) == items


def test_more_than_one_row_of_twenty_is_refused_with_the_first_slips_and_the_share(tmp_path):
    def edit(rows: list[Row]) -> None:
        for number in (3, 5, 7):
            memory_of(rows, number)["confidence"] = 8

    line = agreement(tmp_path, edit).one_line
    same = "; line 6, the same; line 8, the same; 3 of 40 rows wrong (7.5%), more than 5%"
    assert "line 4, " in line
    assert line.rstrip().endswith(same)
    assert not (tmp_path / "agreement.json").exists()


def label_folder(folder: Path, edit: Callable[[list[Row], list[Row]], None]) -> Path:
    items, labels = [], []
    for number in range(SESSIONS):
        payload = {"gold": {"value": f"Plot {number}"}, "predicted": {"value": f"Plot {number}"}}
        name = f"i{number}"
        items.append({"item_id": name, "rubric": "matching", "payload": payload, "system": "x"})
        for person in ("ada", "bea"):
            label = "same" if number % 3 else "unrelated"
            labels.append({"item_id": name, "annotator": person, "label": label})
    edit(items, labels)
    write(folder / "items.jsonl", items)
    write(folder / "labels.jsonl", labels)
    relations = ["same", "narrower", "bundle", "broader", "conflicting", "related", "unrelated"]
    scale = {"kind": "nominal", "values": relations, "positive": ["same", "narrower"]}
    (folder / "scale.json").write_text(json.dumps({"matching": scale}))
    return folder


LABELS = {
    "a label off the scale": (
        *(lambda _, labels: labels[5].update(label="Same"), 40),
        'labels.jsonl, line 6, label: "Same" is not on the scale',
    ),
    "a label of an item that is not there": (
        *(lambda _, labels: labels[5].update(item_id="I2"), 40),
        'labels.jsonl, line 6, item_id: unknown item "I2"',
    ),
    "two labels of one person": (
        *(lambda _, labels: labels.append(labels[5]), 40),
        "labels.jsonl, line 81, annotator: ",
    ),
    "an item without a payload": (
        *(lambda items, _: items[5].pop("payload"), 39),
        "items.jsonl, line 6, payload: is missing",
    ),
    "an item whose system is a number": (
        *(lambda items, _: items[5].update(system=3), 40),
        "items.jsonl, line 6, system: must be a string or null",
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize(("edit", "items", "named"), LABELS.values(), ids=LABELS)
def test_a_slip_in_a_label_folder_is_named_and_left_out(tmp_path, edit, items, named):
    folder = label_folder(tmp_path / "labels", edit)
    done = alps_here("calibrate", f"labels={folder}", "judge=lexical", f"out={tmp_path / 'out'}")
    assert done.code == 0, done.err
    assert named in done.err
    row = json.loads((tmp_path / "out" / "calibration.json").read_text())["rubrics"]["matching"]
    assert row["n"] == items
    again = alps_here("annotate", "agreement", folder)
    assert (again.code, named in again.err) == (0, True)


def test_a_label_folder_with_many_slips_is_refused(tmp_path):
    def edit(items: list[Row], labels: list[Row]) -> None:
        for label in labels[:5]:
            label["label"] = "Same"

    folder = label_folder(tmp_path / "labels", edit)
    line = alps_here("calibrate", f"labels={folder}", "judge=lexical").one_line
    assert "labels.jsonl, line 1, label: " in line
    assert "5 of 80 rows wrong (6.2%), more than 5%" in line


def test_an_item_that_a_judge_can_not_be_asked_about_is_named_and_left_out(tmp_path):
    folder = label_folder(tmp_path / "labels", lambda items, _: items[6]["payload"].update(gold=5))
    done = alps_here("calibrate", "judge=lexical", f"labels={folder}", f"out={tmp_path / 'out'}")
    assert "items.jsonl, line 7: item i6: payload.gold must be a memory" in done.err
    assert "1 of 40 rows wrong (2.5%); alps uses the rest" in done.err
    verdicts = (tmp_path / "out" / "verdicts.jsonl").read_text().splitlines()
    assert len(verdicts) == SESSIONS - 1
