"""Rows beside a run with a memory: what they show and are held to, and rows without memory that
make a memory look better.
"""

import asyncio
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alps import evaluate
from alps.errors import UsageError
from alps.ext.memory.board_readers import ALONE
from alps.ext.memory.comparison import beside, print_beside, run_beside
from alps.ext.memory.resolve import MemoryOptions, open_memory
from alps.leaderboard.checks import Verification
from alps.leaderboard.ranking import Board, build_boards
from alps.leaderboard.references import read_references
from alps.leaderboard.site import build
from alps.leaderboard.site_data import load
from alps.leaderboard.verify import Options, verify
from alps.schema import Prediction
from alps.show.compare import compare_runs
from alps.show.table import as_html
from tests.conftest import ROOT
from tests.endtoend import rows, run, summary, write_rows
from tests.ext.memory.stores import MADE_UP, pairs_of
from tests.few import few
from tests.packed_memories import TRACK, pack_memory, submit_memory, write_questions
from tests.submissions import card_of, forge, make_run

QUESTIONS = 60


class ChoosesA:
    """A reader of somebody's own, which can't be asked again here."""

    def predict(self, sample: Any) -> dict[str, str]:
        return {"choice": "a", "reason": ""}


READERS = {"rules": "rules", "own": f"python:{__name__}:ChoosesA"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder with questions and histories."""
    return write_questions(tmp_path_factory.mktemp("data"), QUESTIONS)


@pytest.fixture(scope="module")
def made(data, tmp_path_factory):
    """Return a folder with a run of each reader behind BM25, and a run without memory beside it."""
    folder = tmp_path_factory.mktemp("made")
    for name, model in READERS.items():
        words = (f"task={TRACK}", f"model={model}", f"data={data}", "size=32k", "memory=bm25")
        make_run(folder / name, *words)
        run_beside(folder / name, ("none",), {}, typed={})
    return folder


def wrong(row: dict[str, Any], gold: str) -> None:
    """Choose another option than the right one."""
    row["prediction"]["choice"] = "b" if gold == "a" else "a"


def nothing(row: dict[str, Any], gold: str) -> None:
    """Answer with nothing."""
    row.update(outcome="empty", prediction=None, raw="", error="no text")


def copy_of(run: Path, folder: Path) -> Path:
    """Return a copy of a run that may be spoiled."""
    return Path(shutil.copytree(run, folder / "run"))


def altered(run: Path, count: int, change: Callable[[dict[str, Any], str], None]) -> Path:
    """Change `count` right answers of the run without memory, and have it scored again."""
    none = run / "beside" / "none"
    gold = {row["benchmark_id"]: row["gold"] for row in rows(none / "scores.jsonl")}
    path = none / "predictions.jsonl"
    predictions = rows(path)
    right = [row for row in predictions if row["prediction"]["choice"] == gold[row["benchmark_id"]]]
    for row in right[:count]:
        change(row, gold[row["benchmark_id"]])
    write_rows(path, predictions)
    for name in ("scores.jsonl", "verdicts.jsonl", "answers.jsonl", "summary.json"):
        (none / name).unlink(missing_ok=True)
    run_beside(run, ("none",), {}, typed={})
    return run


def shelf_of(made: Path, folder: Path, *, changed: int, others: int) -> tuple[Path, Path]:
    """Return a shelf with honest submissions and one with changed answers, and the latter."""
    shelf = folder / "shelf"
    run = altered(copy_of(made / "own", folder), changed, wrong)
    spoiled = submit_memory(run, shelf, "spoiled")
    for number in range(1, others + 1):
        submit_memory(made / "own", shelf, f"honest-{number}")
    return shelf, spoiled


def boards_of(shelf: Path) -> list[Board]:
    """Return the boards that sort by the difference from no memory."""
    return [one for one in build_boards(load(shelf), read_references()) if one.by_difference]


def page_of(shelf: Path, folder: Path) -> str:
    """Return the page of the track on a site."""
    return (build(shelf, folder / "site").out / f"{TRACK}.html").read_text()


def named(verification: Verification, code: str) -> list[str]:
    """Return what the findings of a kind say."""
    return [f"{one.where}: {one.what}" for one in verification.findings if one.code == code]


@pytest.mark.release
def test_a_run_without_memory_of_an_embedded_reader_is_made_again(made, data, tmp_path):
    honest = pack_memory(made / "rules", tmp_path, "honest")
    assert verify(honest, Options(data=str(data))).consistent
    run = altered(copy_of(made / "rules", tmp_path), 5, wrong)
    # Packing verifies what it wrote, as a maintainer does.
    differ = "5 answers differ from what rules with memory=none answers"
    with pytest.raises(UsageError, match=differ):
        pack_memory(run, tmp_path / "other", "spoiled")


@pytest.mark.release
def test_warnings_of_rows_beside_a_run_are_kept(made, data, tmp_path):
    verification = verify(pack_memory(made / "own", tmp_path, "own"), Options(data=str(data)))
    (warned, *_) = [one for one in named(verification, "constant") if "beside" in one]
    assert warned.startswith("memory-0/beside/none: personamem/predictions.jsonl: 60 of 60 answers")
    assert any("memory=none, which cannot be reproduced" in one for one in verification.unchecked)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("others", "changed", "unranked"),
    few(
        [(1, 5, set()), (2, 12, {"spoiled"}), (1, 12, {"honest-1", "spoiled"}), (1, 0, set())],
        plain=2,
    ),
)
def test_runs_without_memory_of_one_reader_are_held_against_each_other(
    made, data, tmp_path, *, others, changed, unranked
):
    shelf, spoiled = shelf_of(made, tmp_path, changed=changed, others=others)
    options = Options(data=str(data), reviewed=True)
    said = named(verify(spoiled, options), "beside")
    assert bool(said) == bool(unranked)
    assert all("spoiled: without memory" in one and " in honest-1" in one for one in said)
    (board,) = boards_of(shelf)
    assert {row.system.slug for row in board.standings if row.ahead is None} == unranked
    assert all(row.rank is None for row in board.standings if row.ahead is None)
    assert ("difference is significant" in page_of(shelf, tmp_path)) == bool(unranked)


def set_reader(folder: Path, **settings: Any) -> None:
    """Say that the reader of a packed run and of the row beside it was asked by other settings."""

    def change(card: dict[str, Any]) -> None:
        rows_beside = [row["run"] for row in card["memory"][0]["beside"].values()]
        for made in (card["runs"][0], *rows_beside):
            made["settings"].update(settings)

    forge(folder, change)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("settings", "ranked"),
    few(
        [
            ({"temperature": 0.01}, False),
            ({"model": f"provider/{READERS['own']}"}, True),
            ({"model": READERS["own"].replace("o", "о")}, False),
            ({"top_p": 0.99, "frequency_penalty": 0.01}, False),
            ({"model": READERS["own"].swapcase()}, False),
            ({"reasoning_effort": "low"}, True),
            ({"request": {"user": "me"}}, True),
            ({"max_tokens": 4_000}, True),
            ({"model": f"{READERS['own']}-2025-04-14"}, True),
        ],
        plain=2,
    ),
)
def test_no_setting_of_its_own_keeps_a_reader_from_being_held_against_others(
    made, data, tmp_path, *, settings, ranked
):
    shelf, spoiled = shelf_of(made, tmp_path, changed=12, others=2)
    set_reader(spoiled, **settings)
    verification = verify(spoiled, Options(data=str(data), reviewed=True))
    (said,) = [one for one in verification.findings if one.code == "beside"]
    assert said.severity == "warning"
    assert "difference is significant" in said.what
    assert ("the same model with other settings" in said.what) == ranked
    found = {row.system.slug: row for board in boards_of(shelf) for row in board.standings}
    assert bool(found["spoiled"].difference.reason) == (not ranked)
    assert (found["spoiled"].ahead is not None) == ranked
    assert all(found[name].ahead is not None for name in ("honest-1", "honest-2"))
    assert "difference is significant" in page_of(shelf, tmp_path)


@pytest.mark.release
def test_the_first_with_a_reader_is_said_to_be_held_against_nobody(made, data, tmp_path):
    shelf, options = tmp_path / "shelf", Options(data=str(data), reviewed=True)
    first = submit_memory(made / "own", shelf, "first")
    (said,) = [one for one in verify(first, options).findings if one.code == "beside"]
    assert (said.severity, said.what) == ("note", ALONE)
    assert ALONE in page_of(shelf, tmp_path)
    second = submit_memory(made / "own", shelf, "second")
    # What is made again here needs nobody else's.
    submit_memory(made / "rules", shelf, "rules")
    assert named(verify(second, options), "beside") == []
    assert ALONE not in page_of(shelf, tmp_path)


def no_card(folder: Path) -> None:
    (folder / "submission.json").write_text("{")


def other_slug(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def no_rows(folder: Path) -> None:
    (folder / f"memory-0/beside/none/{TRACK}/scores.jsonl").write_text("{\n")


@pytest.mark.release
@pytest.mark.parametrize("spoil", few([no_rows, other_slug, no_card]))
def test_a_neighbour_that_cannot_be_read_is_named_and_others_count(made, data, tmp_path, spoil):
    shelf, spoiled = shelf_of(made, tmp_path, changed=12, others=3)
    spoil(shelf / "honest-1")
    verification = verify(spoiled, Options(data=str(data), reviewed=True))
    assert any("difference is significant" in one for one in named(verification, "beside"))
    (unread,) = [one for one in verification.unchecked if "the files can't be read" in one]
    assert ("moved" if spoil is other_slug else "honest-1") in unread


@pytest.mark.few(1)
@pytest.mark.parametrize(("failed", "has"), [(3, True), (4, False)])
def test_a_run_with_many_failures_has_no_difference_from_no_memory(made, tmp_path, *, failed, has):
    path = altered(copy_of(made / "own", tmp_path), failed, nothing)
    folders = [path, path / "beside" / "none"]
    (track,) = beside(folders).tracks
    (own,) = (row for row in track.rows if row.memory == "bm25")
    assert own.difference is not None
    assert (own.difference.value is not None) == has
    assert ("refusal" in {row.memory for row in track.rows}) == has
    (compared,) = compare_runs(folders).tracks
    (contrast,) = compared.lead.contrasts
    assert (contrast.difference.estimate.value is not None) == has
    assert (contrast.p is not None) == has
    shelf = tmp_path / "shelf"
    submit_memory(path, shelf, "failing")
    card = card_of(shelf / "failing")
    assert (card["memory"][0]["ahead"][TRACK]["value"] is not None) == has
    ((row,),) = (board.standings for board in boards_of(shelf))
    assert (row.ahead is not None) == has
    if not has:
        reason = "0.0 % of answers with memory and 6.7 % without memory failed (limit: 5 %)"
        assert row.difference.reason == card["memory"][0]["ahead"][TRACK]["reason"] == reason
        assert f"A and B are not compared: {reason}" in compared.notes


def test_the_table_and_the_comparison_say_why_there_is_no_difference(made, tmp_path):
    path = altered(copy_of(made / "rules", tmp_path), 6, nothing)
    compare = ("compare", str(path), "run/beside/none")
    for words in (("memory", "compare", "run", "rows=none"), compare):
        done = run(tmp_path, *words, COLUMNS="200")
        assert done.returncode == 0, done.stderr
        text = " ".join(done.stdout.split())
        assert "10.0 % without memory failed (limit: 5 %)" in text


ROWS = ["none", "last:10", "bm25", "oracle", "placebo"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beside") / "run"
    evaluate(**MADE_UP, model="rules", memory="bm25", out=str(folder))
    return folder, run_beside(folder, ROWS, {}, typed={})


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
    assert run_beside(folder, ROWS, {}, typed={}) == done
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


def test_a_row_of_no_memory_is_refused_before_any_row_is_run(tmp_path):
    evaluate(**MADE_UP, model="rules", memory="bm25", limit=4, out=str(tmp_path / "run"))
    with pytest.raises(UsageError, match="memory=bm52: unknown"):
        run_beside(tmp_path / "run", ["none", "bm52"], {}, typed={})
    assert not (tmp_path / "run" / "beside").exists()


def test_rows_without_the_one_of_no_memory_are_refused_before_any_is_run(tmp_path):
    evaluate(**MADE_UP, model="rules", memory="bm25", limit=4, out=str(tmp_path / "run"))
    done = run(tmp_path, "memory", "compare", "run", "rows=tfidf, last:2")
    assert done.returncode == 2
    fault = "rows=tfidf,last:2: rows are compared with the row none; write rows=none,tfidf,last:2"
    assert done.stderr.splitlines()[-1] == f"alps: {fault}"
    assert not (tmp_path / "run" / "beside").exists()


@pytest.mark.release
def test_progress_names_the_row_that_is_run(tmp_path):
    evaluate(**MADE_UP, model="rules", memory="bm25", limit=4, out=str(tmp_path / "run"))
    done = run(tmp_path, "memory", "compare", "run", "rows=none,last:2", ALPS_PROGRESS="30")
    assert re.findall(r"row (\S+), loading", done.stderr) == ["none", "last:2"]


def test_a_row_that_the_data_do_not_allow_is_left_out_with_its_reason(tmp_path):
    evaluate(**MADE_UP, model="rules", memory="bm25", limit=5, out=str(tmp_path / "run"))
    done = run_beside(tmp_path / "run", ["none", "placebo"], {}, typed={})
    assert len(done.folders) == 2
    assert done.left_out == (
        "Left out: memory=placebo: it shows the history of another user, "
        "but the data has only one user",
    )
