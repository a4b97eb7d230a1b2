"""Answers of a file: how its rows are joined and read, and which are refused."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from alps.errors import DataError
from alps.schema import Prediction
from alps.systems import resolve_system
from tests.builders import TRACK, extraction_sample, heard, memories, memory
from tests.core.test_systems import GOLD, TASK, f1, predict, values


def recorded(folder: Path, *rows: dict[str, Any] | str) -> str:
    path = folder / "predictions.jsonl"
    text = "".join(
        (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)) + "\n"
        for row in rows
    )
    path.write_text(text, encoding="utf-8")
    return f"predictions:{path}"


def ask(folder: Path, *rows: dict[str, Any] | str, benchmark_id: str = "b1") -> Prediction:
    return predict(
        recorded(folder, *rows), extraction_sample(GOLD, "Hello", benchmark_id=benchmark_id)
    )


def row_of(name: str, *said: str) -> dict[str, Any]:
    return {"benchmark_id": name, "memory_items": [m.model_dump() for m in memories(*said)]}


def test_recorded_predictions_are_joined_by_id(tmp_path):
    rows = [row_of("b2", "of b2"), row_of("b1", "of b1")]
    assert values(ask(tmp_path, *rows)) == ["of b1"]
    assert values(ask(tmp_path, *rows, benchmark_id="b2")) == ["of b2"]


def test_recorded_predictions_are_read_tolerantly_with_their_notes(tmp_path):
    noted = [{"value": "Owns a cat", "type": "user"}]
    prediction = ask(tmp_path, {"benchmark_id": "b1", "memories": noted})
    assert (values(prediction), prediction.outcome) == (["Owns a cat"], "ok")
    assert "the list was under `memories`" in prediction.notes
    nothing = ask(tmp_path, {"benchmark_id": "b1", "memory_items": []})
    assert (values(nothing), nothing.outcome) == ([], "ok")


@pytest.mark.parametrize(
    ("raw", "outcome"), [(None, "empty"), ("", "empty"), ('{"memory_items": []}', "ok")]
)
def test_a_record_of_the_authors_without_an_output_is_an_empty_answer_and_no_empty_list(
    tmp_path, raw, outcome
):
    record = {"benchmark_id": "b1", "model_output": {"raw_output": raw, "memory_items": []}}
    assert ask(tmp_path, record).outcome == outcome


def test_a_record_without_a_row_is_an_empty_answer_that_says_so(tmp_path):
    prediction = ask(tmp_path, row_of("another", "v"))
    assert (prediction.benchmark_id, prediction.outcome) == ("b1", "empty")
    assert prediction.prediction is None
    assert "predictions.jsonl" in prediction.error


FAILED = {"benchmark_id": "b1", "track": TRACK}
NOTED = {"repaired": True, "notes": ("a code fence",), "raw": "…"}
KEPT = {
    "heard": heard(memory("Owns a cat")).model_copy(update=NOTED),
    "refused": Prediction(**FAILED, outcome="refused", raw="I can't", error="the model declined"),
    "not heard": Prediction(**FAILED, outcome="transport", error="no answer"),
}


@pytest.mark.parametrize("row", KEPT.values(), ids=KEPT)
def test_a_row_of_a_run_is_taken_as_it_is(tmp_path, row):
    assert ask(tmp_path, row.model_dump()) == row


B1 = {"benchmark_id": "b1"}
BAD_ROWS: dict[str, tuple[Any, str]] = {
    "no JSON": ("{not json", "not a JSON object"),
    "a list": ("[]", "not a JSON object"),
    "no id": ({"memory_items": []}, "benchmark_id: is missing"),
    "an id that is a number": ({**B1, "benchmark_id": 3}, "benchmark_id: must be a string"),
    "an id that stands twice": (row_of("b0"), "benchmark_id: 'b0' appears twice"),
    "no list": ({**B1, "memory_items": None}, "memory_items"),
    "no values": ({**B1, "memory_items": [{"label": "x"}]}, "none of the 1 items"),
    "an unknown outcome": ({**B1, "outcome": "splendid"}, "outcome: "),
    "an unknown field": ({**B1, "outcome": "ok", "luck": 1}, "luck: "),
    "heard, without an answer": ({**B1, "outcome": "ok", "prediction": None}, "prediction"),
}


@pytest.mark.parametrize(("row", "problem"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_named_with_its_file_its_line_and_its_field(tmp_path, row, problem):
    with pytest.raises(DataError) as caught:
        ask(tmp_path, row_of("b0"), row)
    place = f"{tmp_path / 'predictions.jsonl'}, line 2"
    assert str(caught.value).startswith(place)
    assert problem in str(caught.value).removeprefix(place)


def test_a_row_of_a_run_whose_memories_lack_fields_is_read_or_named_but_no_crash(tmp_path):
    row = {**B1, "outcome": "ok", "prediction": {"memory_items": [{"value": "Lives in Porto"}]}}
    with suppress(DataError):
        assert f1(ask(tmp_path, row), extraction_sample(GOLD, "Hello")) == 0.5


def test_a_last_line_without_a_line_end_is_named(tmp_path):
    model = recorded(tmp_path, row_of("b1", "v"))
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(path.read_bytes() + b'{"benchmark_id": "b2", "memory_it')
    with pytest.raises(DataError, match="line 2: the last line has no line break"):
        resolve_system(model, TASK)


def test_the_settings_of_recorded_predictions_change_with_the_file(tmp_path):
    one = resolve_system(recorded(tmp_path, row_of("b1", "v")), TASK)
    other = resolve_system(recorded(tmp_path, row_of("b1", "w")), TASK)
    assert one.name == other.name == "predictions:predictions.jsonl"
    assert one.settings != other.settings
    assert str(tmp_path) not in json.dumps({"name": one.name, **one.settings})
