"""A file that an editor saved in another form is one line that says so, whoever reads it."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from alps.data import release
from tests.core.test_slips import annotations, label_folder, write
from tests.endtoend import rows, write_rows
from tests.tracks import Ran, alps_here

SAMPLES = Path(release.__file__).parent / "samples" / "dev" / "task1"
INPUTS = SAMPLES / release.INPUT
RUN = ("run", "task=extraction", "limit=2", "judge=lexical", "out=out")
PLAIN = (*RUN, "model=rules")


INPUT, GOLD = release.INPUT, release.GOLD
Given = tuple[Path, tuple[str, ...]]
"""A file, and the words of a command that reads it."""


def predictions(folder: Path) -> Given:
    given = [{"benchmark_id": row["benchmark_id"], "memory_items": []} for row in rows(INPUTS)[:2]]
    return write_rows(folder / "mine.jsonl", given), (*RUN, "model=predictions:mine.jsonl")


def data(folder: Path, name: str) -> Given:
    place = folder / "mine" / "dev" / "task1"
    place.mkdir(parents=True)
    for file in (INPUT, GOLD):
        write_rows(place / file, rows(SAMPLES / file)[:2])
    return place / name, (*PLAIN, "data=mine")


def recorded_judge(folder: Path) -> Given:
    nothing = {"model_output": None, "judge_output": None}
    records = [{"benchmark_id": row["benchmark_id"], **nothing} for row in rows(INPUTS)[:2]]
    words = [word for word in PLAIN if not word.startswith("judge=")]
    path = write_rows(folder / "records.jsonl", records)
    return path, (*words, "judge=recorded:records.jsonl")


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def config(folder: Path) -> Given:
    return written(folder / "mine.toml", 'model = "rules"\n'), (*RUN, "config=mine.toml")


def plan(folder: Path) -> Given:
    text = 'limit = 1\n[matrix]\ntask = "extraction"\nmodel = "rules"\n'
    return written(folder / "mine.toml", text), ("sweep", "mine.toml")


def imported(folder: Path) -> Given:
    row = {"question": "q", "answer": "a", "response": "r", "category": "1", "llm_score": 1}
    path = written(folder / "mine.json", json.dumps({"0": [row]}))
    return path, ("import", "mem0", "mine.json", "out=imported")


def people(folder: Path) -> Given:
    for name in ("ada", "bea"):
        write(folder / f"annotator_{name}.jsonl", annotations())
    return folder / "annotator_ada.jsonl", ("annotate", "agreement", ".")


def labels(folder: Path, name: str = "labels.jsonl") -> Given:
    path = label_folder(folder / "labels", lambda items, labels: None) / name
    calibrating = ("calibrate", "labels=labels", "judge=lexical", "out=out")
    return path, ("annotate", "agreement", "labels") if name == "labels.jsonl" else calibrating


OF_ROWS: dict[str, Callable[[Path], Given]] = {
    "predictions": predictions,
    "the input of a data folder": lambda folder: data(folder, INPUT),
    "the gold of a data folder": lambda folder: data(folder, GOLD),
    "a recorded judge": recorded_judge,
    "annotations of people": people,
    "labels": labels,
}
TABLES = {"a config": config, "a plan": plan}
OF_LABELS = {name: partial(labels, name=name) for name in ("items.jsonl", "scale.json")}
READERS = {**OF_ROWS, **TABLES, **OF_LABELS, "an import": imported}
ENCODINGS = {"utf-16": "UTF-16", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16", "utf-32": "UTF-32"}


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_another_encoding_is_named(tmp_path, reader, encoding):
    path, words = reader(tmp_path)
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    line = alps_here(*words).one_line
    assert f"{path.name}: is {ENCODINGS[encoding]}: save it as UTF-8" in line
    assert "rows wrong" not in line


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("reader", OF_ROWS.values(), ids=OF_ROWS)
def test_a_list_where_lines_were_meant_is_named(tmp_path, reader, indent):
    path, words = reader(tmp_path)
    path.write_text(json.dumps(rows(path), indent=indent))
    assert f"{path.name}: is one JSON list: write JSON Lines" in alps_here(*words).one_line


def test_an_object_on_several_lines_is_named(tmp_path):
    path, words = predictions(tmp_path)
    path.write_text("".join(f"{json.dumps(row, indent=2)}\n" for row in rows(path)))
    line = alps_here(*words).one_line
    assert f"{path.name}: is JSON on several lines: write each object on one line" in line


def test_bytes_that_are_no_text_are_named(tmp_path):
    path, words = predictions(tmp_path)
    path.write_bytes('{"benchmark_id": "é"}\n'.encode("latin-1"))
    assert "mine.jsonl, line 1: is not UTF-8; save the file as UTF-8" in alps_here(*words).one_line


def done(words: tuple[str, ...]) -> Ran:
    """Run a command in a folder where nothing of it stands; of the clock nothing is told."""
    for made in ("out", "imported", "sweeps", "runs"):
        shutil.rmtree(made, ignore_errors=True)
    ran = alps_here(*words)
    assert ran.code in (0, 1), ran.err
    return replace(ran, out=re.sub(r"[\d.]+ m?s\b|· \d+ answers? reused", "", ran.out))


@pytest.mark.few(3)
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_mark_of_utf_8_and_other_line_ends_change_nothing(tmp_path, reader):
    path, words = reader(tmp_path)
    plain = done(words)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert done(words) == plain


@pytest.mark.parametrize("table", ['[m]\nx = "\xe9"\n', "x = " + "9" * 5_000])
@pytest.mark.parametrize("reader", TABLES.values(), ids=TABLES)
def test_a_table_that_can_not_be_read_is_one_line(tmp_path, reader, table):
    path, words = reader(tmp_path)
    path.write_bytes(table.encode("latin-1"))
    assert f"{path.name}: not " in alps_here(*words).one_line
