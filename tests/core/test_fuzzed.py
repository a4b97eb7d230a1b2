"""What the fuzzer found: files that ended in a traceback are now refused on one line, or read."""

import json
import math
from pathlib import Path

import pytest

from alps.data.release import INPUT, read_samples
from alps.errors import AlpsError, DataError
from alps.ext.adapters.recorded_verdicts import RecordedJudge
from alps.ext.calibration.labels import read_labels, read_verdicts
from alps.ext.published.authors_v1 import judge_score
from alps.llm import prices
from alps.settings import RunSettings, read_config
from bench.label_sets import import_labels
from tests import label_folders
from tests.endtoend import rows, task1, write_rows
from tests.tracks import Ran, alps_here
from tests.visitors import memory_items, values_of, visitor_id, write_visitors

DEEP = "[" * 3_000 + "]" * 3_000
HUGE = 10**400


def review(**fields):
    pair = {"gold_id": "m1", "pred_id": "m1", "error_type": "VALUE_DRIFT", "severity": 2}
    return {"pair_reviews": [{**pair, "rationale": "r", **fields}]}


def record(name=None, *, reviews=None, **fields):
    output = {"memory_items": memory_items(*values_of(0))}
    row = {"benchmark_id": name or visitor_id(0), "model_output": output}
    return {**row, "judge_output": reviews or review(), **fields}


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def judged_by_records(monkeypatch, folder, answered, records):
    """Run predictions about these visitors, judged by the records, and return the run's folder."""
    monkeypatch.chdir(folder)
    write_visitors(folder / "data", 2)
    items = memory_items(*values_of(0))
    given = [{"benchmark_id": visitor_id(number), "memory_items": items} for number in answered]
    write_rows(folder / "predictions.jsonl", given)
    write_rows(folder / "records.jsonl", records)
    made = ("model=predictions:predictions.jsonl", "judge=recorded:records.jsonl", "out=out")
    scored = ("scoring=authors-v1", "max_failures=60%")
    ran = alps_here("run", "task=extraction", "data=data", *made, *scored)
    assert ran.code == 0, ran.err
    return Path("out")


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    rubrics = {"pa": label_folders.BINARY}
    people = [label_folders.binary(n % 2, 1) for n in range(4)]
    return label_folders.write(tmp_path / "labels", rubrics, people)


def calibrated(labels: Path) -> Ran:
    return alps_here("calibrate", "judge=j", f"labels={labels}", f"out={labels.parent / 'out'}")


@pytest.mark.parametrize("field", ["benchmark_id", "input"])
def test_a_row_whose_reader_gives_up_on_its_depth_is_named(tmp_path: Path, field: str):
    def descend(row, gold):
        return descend(row, gold)

    write(tmp_path / INPUT, json.dumps({"benchmark_id": "a", field: "b"}) + "\n")
    with pytest.raises(DataError, match="line 1"):
        list(read_samples(tmp_path, descend))


NO_RECORDS = {
    "a text as the output": ({"model_output": "text"}, "model_output:"),
    "no list of memories": ({"model_output": {"memory_items": "a"}}, "model_output.memory_items"),
    "a list of texts": ({"judge_output": ["text"]}, "judge_output:"),
    "a review that is a list": (
        *({"judge_output": {"pair_reviews": [[]]}}, "judge_output.pair_reviews"),
    ),
    "a list as the type": ({"judge_output": review(error_type=[])}, "pair_reviews.0.error_type"),
    "an object as an id": ({"judge_output": review(gold_id={})}, "pair_reviews.0.gold_id"),
    "infinity": ({"judge_output": review(severity=math.inf)}, "judge_output: contains a number"),
}


@pytest.mark.parametrize(("fields", "field"), NO_RECORDS.values(), ids=NO_RECORDS)
def test_a_record_of_a_judge_that_can_not_be_read_names_its_field(
    tmp_path: Path, fields, field: str
):
    path = write_rows(tmp_path / "records.jsonl", [record(), record("x", **fields)])
    with pytest.raises(DataError, match="line 2") as refused:
        RecordedJudge(path)
    assert field in str(refused.value)


@pytest.mark.parametrize("severity", [None, "2", True, [2], float("nan"), HUGE, -1], ids=repr)
def test_a_severity_that_is_none_is_said_by_the_score(severity):
    with pytest.raises(ValueError, match=r"severity .* of a review is not a number from 0"):
        judge_score(review(severity=severity))


NO_SEVERITY = "severity None of a review is not a number from 0 to 100"


def test_a_review_without_a_severity_leaves_its_record_unscored_and_the_run_goes_on(
    tmp_path: Path, monkeypatch
):
    records = [record(visitor_id(0), reviews=review(severity=None)), record(visitor_id(1))]
    out = judged_by_records(monkeypatch, tmp_path, (0, 1), records)
    assert task1(out)["failed_judgements"] == {"invalid": 1}
    verdict = rows(out / "verdicts.jsonl")[0]
    assert (verdict["outcome"], verdict["error"]) == ("invalid", NO_SEVERITY)


def test_a_review_of_no_answer_without_a_severity_leaves_out_what_hangs_on_the_judge(
    tmp_path: Path, monkeypatch
):
    missing = {"gold_id": "m1", "should_have_extracted": True, "severity": None}
    records = [
        record(visitor_id(0), reviews={"missing_reviews": [missing]}, model_output=None),
        record(visitor_id(1)),
    ]
    out = judged_by_records(monkeypatch, tmp_path, (1,), records)
    failed, judged = rows(out / "scores.jsonl")
    assert (failed["outcome"], failed["scores"]) == ("empty", {"authors_f1": 0, "authors_algo": 0})
    assert failed["judge_error"] == NO_SEVERITY
    assert task1(out)["scores"]["final_score"]["value"] == judged["scores"]["final_score"]


@pytest.mark.parametrize(
    ("name", "number"),
    [("sample.json", "1e400"), ("items.jsonl", "-1e400"), ("verdicts.jsonl", "1e400")],
)
def test_a_number_beyond_all_numbers_in_a_label_folder_is_refused(
    labelled: Path, name: str, number: str
):
    if name == "sample.json":
        write(labelled / name, f'{{"rubrics": {{"pa": {{"random": true, "drawn": {number}}}}}}}')
    else:
        text = (labelled / name).read_text()
        write(labelled / name, text.replace("}\n", f', "more": {number}}}\n', 1))
    ran = calibrated(labelled)
    assert f"{number} is too large: write null" in ran.one_line
    assert name in ran.err


@pytest.mark.parametrize("rest", ["}", DEEP], ids=["broken", "too deep"])
def test_no_number_before_what_is_no_json_at_all_is_refused(labelled: Path, rest: str):
    write(labelled / "scale.json", f'{{"a": NaN, "b": {rest}}}')
    with pytest.raises(DataError, match="NaN is not a number in JSON"):
        read_labels(labelled)


@pytest.mark.parametrize("half", [b"\\ud83d", b"\xed\xa0\xbd"], ids=["escaped", "as bytes"])
def test_half_a_character_in_a_label_folder_can_be_written_again(labelled: Path, half):
    path = labelled / "labels.jsonl"
    write(path, path.read_bytes().replace(b"anna", half))
    ran = calibrated(labelled)
    assert ran.code == 0, ran.err
    labels = read_labels(labelled)
    assert "\ufffd" in labels.annotators
    assert read_verdicts(labelled / "verdicts.jsonl", labels=labels).judge == "j"


def test_half_a_character_in_a_public_set_can_be_written(tmp_path: Path):
    row = {"subset": "Natural", "i": 1, "input": "Hi \ud83d", "output_1": "a", "output_2": "b"}
    row |= {"label": 1, "verdicts": {"gpt \ud83d": [1, 2]}}
    path = write_rows(tmp_path / "set.jsonl", [row])
    import_labels("llmbar", path, tmp_path / "out")
    assert rows(tmp_path / "out" / "items.jsonl")[0]["payload"]["input"] == "Hi \ufffd"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"a = '\xff'", id="not UTF-8"),
        pytest.param(("a = " + "[" * 3_000).encode(), id="nested too deeply"),
        pytest.param(b"", id="a folder"),
    ],
)
def test_settings_and_prices_that_are_no_toml_are_refused(tmp_path: Path, monkeypatch, text: bytes):
    path = tmp_path / "file.toml"
    if text:
        write(path, text)
    else:
        path.mkdir()
    with pytest.raises(AlpsError, match=r"file\.toml"):
        read_config(path, RunSettings)
    monkeypatch.setenv("ALPS_PRICES", str(path))
    with pytest.raises(AlpsError, match=r"file\.toml"):
        prices.price_of("openai/mine")


def test_reviews_of_memories_that_can_not_be_read_are_about_no_prediction(tmp_path: Path):
    records = [record(model_output={"memory_items": [1, 2]})]
    path = write_rows(tmp_path / "records.jsonl", records)
    assert not RecordedJudge(path).is_about(visitor_id(0), ())
    assert RecordedJudge(path).reviews("nobody") is None


PLACES = {
    "must be a text": {},
    "a.jsonl: must be a text": {"path": "a.jsonl"},
    "d/a.jsonl, line 3: must be a text": {"path": Path("d/a.jsonl"), "line": 3},
    "a.jsonl, line 3, a.b: must be a text": {"path": "a.jsonl", "line": 3, "field": "a.b"},
    "a.json, name: must be a text": {"path": "a.json", "field": "name"},
    "line 3: must be a text": {"line": 3, "field": ""},
}


@pytest.mark.parametrize(("text", "place"), PLACES.items(), ids=PLACES)
def test_a_data_error_names_the_file_the_line_and_the_field(place, text):
    error = DataError("must be a text", **place)
    assert str(error) == text
    places = {"path": error.path, "line": error.line, "field": error.field}
    assert places == {"path": None, "line": None, "field": None, **place}
