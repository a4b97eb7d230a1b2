"""What the fuzzer found: files that ended in a traceback are now refused on one line, or read."""

import json
from pathlib import Path

import pytest

from alps.data.release import INPUT, read_samples
from alps.errors import AlpsError, DataError
from alps.ext.calibration.labels import read_labels, read_verdicts
from alps.ext.published.authors_v1 import judge_score
from alps.judges.recorded import RecordedJudge
from alps.llm import prices
from alps.parsing import read_config
from alps.settings import RunSettings
from bench.label_sets import import_labels
from tests import label_folders
from tests.endtoend import rows, task1
from tests.tracks import alps_here
from tests.visitors import memory_items, values_of, visitor_id, write_visitors

DEEP = "[" * 3_000 + "]" * 3_000
HUGE = 10**400


def review(**fields):
    pair = {
        "gold_id": "m1",
        "pred_id": "m1",
        "error_type": "VALUE_DRIFT",
        "severity": 2,
        "rationale": "r",
    }
    return {"pair_reviews": [{**pair, **fields}]}


def record(name=None, *, reviews=None, **fields):
    output = {"memory_items": memory_items(*values_of(0))}
    return {
        "benchmark_id": name or visitor_id(0),
        "model_output": output,
        "judge_output": reviews or review(),
        **fields,
    }


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    rubrics = {"pa": label_folders.BINARY}
    return label_folders.write(
        tmp_path / "labels", rubrics, [label_folders.binary(n % 2, 1) for n in range(4)]
    )


def test_a_row_that_is_nested_too_deeply_is_named(tmp_path: Path):
    write(tmp_path / INPUT, f'{{"benchmark_id": "a"}}\n{{"benchmark_id": "b", "input": {DEEP}}}\n')
    with pytest.raises(DataError, match="line 2: not JSON"):
        list(read_samples(tmp_path, lambda row, gold: row))


@pytest.mark.parametrize("field", ["benchmark_id", "input"])
def test_a_row_whose_reader_gives_up_on_its_depth_is_named(tmp_path: Path, field: str):
    def descend(row, gold):
        return descend(row, gold)

    write(tmp_path / INPUT, json.dumps({"benchmark_id": "a", field: "b"}) + "\n")
    with pytest.raises(DataError, match="line 1"):
        list(read_samples(tmp_path, descend))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        pytest.param({"model_output": "text"}, "model_output:", id="a text as the output"),
        pytest.param(
            {"model_output": {"memory_items": "text"}},
            "model_output.memory_items",
            id="no list of memories",
        ),
        pytest.param({"judge_output": ["text"]}, "judge_output:", id="a list of texts"),
        pytest.param(
            {"judge_output": {"pair_reviews": [[]]}},
            "judge_output.pair_reviews",
            id="a review that is a list",
        ),
        pytest.param(
            {"judge_output": review(error_type=[])},
            "pair_reviews.0.error_type",
            id="a list as the type",
        ),
        pytest.param(
            {"judge_output": review(gold_id={})}, "pair_reviews.0.gold_id", id="an object as an id"
        ),
        pytest.param(
            {"judge_output": review(severity=float("inf"))},
            "judge_output: contains a number",
            id="infinity",
        ),
    ],
)
def test_a_record_of_a_judge_that_can_not_be_read_names_its_field(
    tmp_path: Path, fields, field: str
):
    path = write(
        tmp_path / "records.jsonl",
        json.dumps(record()) + "\n" + json.dumps(record("x", **fields)) + "\n",
    )
    with pytest.raises(DataError, match="line 2") as refused:
        RecordedJudge(path)
    assert field in str(refused.value)


@pytest.mark.parametrize("severity", [None, "2", True, [2], float("nan"), HUGE, -1], ids=repr)
def test_a_severity_that_is_none_is_said_by_the_score(severity):
    with pytest.raises(ValueError, match=r"severity .* of a review is not a number from 0"):
        judge_score(review(severity=severity))


def test_a_review_without_a_severity_leaves_its_record_unscored_and_the_run_goes_on(
    tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_visitors(tmp_path / "data", 2)
    predictions = [
        {"benchmark_id": visitor_id(n), "memory_items": memory_items(*values_of(0))}
        for n in range(2)
    ]
    records = [record(visitor_id(0), reviews=review(severity=None)), record(visitor_id(1))]
    for name, found in (("predictions", predictions), ("records", records)):
        write(tmp_path / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in found))
    words = (
        "task=extraction",
        "data=data",
        "model=predictions:predictions.jsonl",
        "judge=recorded:records.jsonl",
    )
    ran = alps_here("run", *words, "scoring=authors-v1", "out=out", "max_failures=60%")
    assert ran.code == 0, ran.err
    assert task1(Path("out"))["failed_judgements"] == {"invalid": 1}
    verdict = rows(Path("out", "verdicts.jsonl"))[0]
    assert (verdict["outcome"], verdict["error"]) == (
        "invalid",
        "severity None of a review is not a number from 0 to 100",
    )


def test_a_review_of_no_answer_without_a_severity_leaves_out_what_hangs_on_the_judge(
    tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_visitors(tmp_path / "data", 2)
    missing = {
        "missing_reviews": [{"gold_id": "m1", "should_have_extracted": True, "severity": None}]
    }
    records = [
        {**record(visitor_id(0), reviews=missing), "model_output": None},
        record(visitor_id(1)),
    ]
    predictions = [{"benchmark_id": visitor_id(1), "memory_items": memory_items(*values_of(0))}]
    for name, found in (("predictions", predictions), ("records", records)):
        write(tmp_path / f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in found))
    words = (
        "task=extraction",
        "data=data",
        "model=predictions:predictions.jsonl",
        "judge=recorded:records.jsonl",
    )
    ran = alps_here("run", *words, "scoring=authors-v1", "out=out", "max_failures=60%")
    assert ran.code == 0, ran.err
    failed, judged = rows(Path("out", "scores.jsonl"))
    assert (failed["outcome"], failed["scores"]) == ("empty", {"authors_f1": 0, "authors_algo": 0})
    assert failed["judge_error"] == "severity None of a review is not a number from 0 to 100"
    assert task1(Path("out"))["scores"]["final_score"]["value"] == judged["scores"]["final_score"]


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
        lines = (labelled / name).read_text().splitlines()
        write(
            labelled / name, "\n".join([lines[0][:-1] + f', "more": {number}}}', *lines[1:]]) + "\n"
        )
    ran = alps_here("calibrate", "judge=j", f"labels={labelled}", f"out={labelled.parent / 'out'}")
    assert f"{number} is too large: write null" in ran.one_line
    assert name in ran.err


@pytest.mark.parametrize("rest", ["}", DEEP], ids=["broken", "too deep"])
def test_no_number_before_what_is_no_json_at_all_is_refused(labelled: Path, rest: str):
    write(labelled / "scale.json", f'{{"a": NaN, "b": {rest}}}')
    with pytest.raises(DataError, match="NaN is not a number in JSON"):
        read_labels(labelled)


@pytest.mark.parametrize("half", ["\\ud83d", b"\xed\xa0\xbd"], ids=["escaped", "as bytes"])
def test_half_a_character_in_a_label_folder_can_be_written_again(labelled: Path, half):
    text = (
        (labelled / "labels.jsonl")
        .read_bytes()
        .replace(b"anna", half if isinstance(half, bytes) else half.encode())
    )
    write(labelled / "labels.jsonl", text)
    ran = alps_here("calibrate", "judge=j", f"labels={labelled}", f"out={labelled.parent / 'out'}")
    assert ran.code == 0, ran.err
    labels = read_labels(labelled)
    assert "\ufffd" in labels.annotators
    assert read_verdicts(labelled / "verdicts.jsonl", labels=labels).judge == "j"


def test_half_a_character_in_a_public_set_can_be_written(tmp_path: Path):
    row = {
        "subset": "Natural",
        "i": 1,
        "input": "Hi \ud83d",
        "output_1": "a",
        "output_2": "b",
        "label": 1,
    }
    path = write(
        tmp_path / "set.jsonl", json.dumps({**row, "verdicts": {"gpt \ud83d": [1, 2]}}) + "\n"
    )
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
        prices.has_own_price("openai/mine")


def test_reviews_of_memories_that_can_not_be_read_are_about_no_prediction(tmp_path: Path):
    path = write(
        tmp_path / "records.jsonl", json.dumps(record(model_output={"memory_items": [1, 2]})) + "\n"
    )
    assert not RecordedJudge(path).is_about(visitor_id(0), ())
    assert RecordedJudge(path).reviews("nobody") is None
