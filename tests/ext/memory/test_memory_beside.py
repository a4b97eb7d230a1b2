"""Rows beside a run with a memory: another user's memories, and the order by what a memory adds."""

import asyncio
import sys

import pytest

from alps import evaluate
from alps.errors import UsageError
from alps.ext.memory.comparison import beside, print_beside, run_beside
from alps.ext.memory.resolve import MemoryOptions, open_memory
from alps.schema import Prediction
from alps.show.table import as_html
from tests.conftest import ROOT
from tests.endtoend import summary
from tests.ext.memory.stores import MADE_UP, pairs_of

ROWS = ["none", "last:10", "bm25", "oracle", "placebo"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beside") / "run"
    evaluate(**MADE_UP, model="rules", memory="bm25", out=str(folder))
    return folder, run_beside(folder, ROWS, {})


def test_each_row_is_held_to_no_memory_and_the_largest_difference_is_first(ran):
    _, done = ran
    (track,) = beside(done.folders, done.left_out).tracks
    assert {row.memory for row in track.rows} == {*ROWS, "refusal"}
    assert track.rows[0].memory == "oracle"
    by_name = {row.memory: row for row in track.rows}
    none = by_name.pop("none")
    assert none.difference is None
    values = [row.difference.value for row in track.rows if row.difference is not None]
    assert values == sorted(values, reverse=True)
    for row in by_name.values():
        assert row.difference.value == pytest.approx(row.score.value - none.score.value)
        assert row.difference.low <= row.difference.value <= row.difference.high
    assert by_name["placebo"].difference.low <= 0
    shown = as_html(lambda console: print_beside(beside(done.folders), console))
    assert shown.index("oracle") < shown.index("placebo")


class Declines:
    def predict(self, sample):
        return Prediction(benchmark_id=sample.benchmark_id, track="personamem", outcome="refused")


@pytest.mark.release
def test_a_constant_refusal_has_what_a_reader_gets_that_declines(ran, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [str(ROOT), *sys.path])
    folder, done = ran
    (track,) = beside(done.folders).tracks
    (row,) = (row for row in track.rows if row.memory == "refusal")
    words = {**MADE_UP, "model": f"python:{__name__}:Declines", "memory": "none"}
    with pytest.warns(UserWarning, match="210 of 210 predictions failed"):
        asked = evaluate(**words, out=str(tmp_path / "declines"))
    scores = summary(asked.folder)["tracks"]["personamem"]["scores"]
    assert row.score.value == scores["accuracy"]["value"]
    (none,) = (row for row in track.rows if row.memory == "none")
    assert row.difference.value == pytest.approx(-none.score.value)
    assert row.difference.high < 0
    assert track.rows[-1] is row
    assert not (folder / "beside" / "refusal").exists()


@pytest.mark.release
def test_rows_that_were_run_are_not_run_again(ran):
    folder, done = ran
    stamps = {path: path.stat().st_mtime_ns for path in folder.glob("beside/*/predictions.jsonl")}
    assert len(stamps) == len(ROWS) - 1
    assert run_beside(folder, ROWS, {}) == done
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def test_runs_without_one_that_shows_nothing_are_not_sorted(ran):
    folder, _ = ran
    with pytest.raises(UsageError, match="add a run with memory=none"):
        beside([folder, folder / "beside" / "oracle"])


def shown_by(name, pairs):
    memory = open_memory(name, MemoryOptions(k=5), lambda: pairs)

    async def all_of():
        return [await memory.recall(*pair) for pair in pairs]

    return asyncio.run(all_of())


@pytest.mark.parametrize("task", ["personamem", "utilization"])
def test_a_placebo_shows_what_another_user_said_and_nothing_of_ones_own(task):
    pairs = pairs_of(**(MADE_UP if task == "personamem" else {"task": task}))
    said = {}
    for one, sample in pairs:
        texts = [turn.text for turn in one.by_memory.recall.history(sample).turns]
        said.setdefault(sample.session_id, set()).update(texts)
    for (_, sample), shown in zip(pairs, shown_by("placebo", pairs), strict=True):
        texts = {text.partition(": ")[2] for text in shown.memories}
        assert texts
        assert any(texts <= own for user, own in said.items() if user != sample.session_id)


def test_a_row_that_the_data_do_not_allow_is_left_out_with_its_reason(tmp_path):
    evaluate(**MADE_UP, model="rules", memory="bm25", limit=5, out=str(tmp_path / "run"))
    done = run_beside(tmp_path / "run", ["none", "placebo"], {})
    assert len(done.folders) == 2
    assert done.left_out == (
        "Left out: memory=placebo: it shows the history of another user, "
        "but the data has only one user",
    )
