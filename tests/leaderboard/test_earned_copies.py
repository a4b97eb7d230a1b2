"""Copies of another submission: they count once, and whoever verifies is told of them."""

import json
from pathlib import Path

import pytest

from alps.leaderboard.checks.copies import answers_of, likeness
from alps.leaderboard.site import build
from alps.tasks import load_task
from tests.leaderboard.test_earned_scores import (
    FULL,
    Rows,
    boards_of,
    codes,
    copy,
    shelf,  # noqa: F401  # a fixture of these tests, too
)
from tests.site_made import bench
from tests.submissions import Shelf, forge_rows


def test_copies_are_one_system_to_ranks_and_to_their_correction(tmp_path: Path) -> None:
    subs = tmp_path / "subs"
    bench().synthesise(subs, 6, tracks=["task1"])
    before = {row.system.slug: row.rank for row in boards_of(subs)[0].standings}
    for number in range(40):
        folder = copy(subs / "system-003", subs / f"x-copy-{number:02}")
        forge_rows(
            folder,
            "task1/predictions",
            lambda found, number=number: _one_word_more(found, f"copy{number}"),
        )
    board = boards_of(subs)[0]
    after = {row.system.slug: row.rank for row in board.standings}
    assert len(after) == len(before) + 40
    assert {slug: after[slug] for slug in before} == before
    copies = {row.system.slug: row.copy_of for row in board.standings if row.copy_of}
    assert set(copies.values()) == {"system-003"}
    assert len(copies) == 40
    assert all(after[slug] == before["system-003"] for slug in copies)
    page = (build(subs, tmp_path / "site").out / "extraction.html").read_text("utf-8")
    assert page.count("same answers as") >= 40


def _one_word_more(found: Rows, word: str) -> None:
    for row in found:
        items = (row["prediction"] or {}).get("memory_items") or []
        for item in items[:1]:
            item["value"] += f" {word}"


def test_whoever_verifies_is_told_of_the_same_answers_beside(shelf: Shelf, tmp_path: Path) -> None:  # noqa: F811
    folder = shelf.copy(tmp_path)
    assert "copy" not in codes(shelf.verify(folder), "warning")
    copy(folder, tmp_path / "another")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "submission.json").write_text("{")
    finding = next(finding for finding in shelf.verify(folder).findings if finding.code == "copy")
    assert (finding.where, finding.what.startswith("the answers of another")) == (
        "task1/predictions.jsonl",
        True,
    )


def test_real_models_are_not_copies_of_each_other() -> None:
    if not FULL.is_dir():
        pytest.skip(f"no real outputs: {FULL} is not there")
    sketched = []
    for path in sorted(FULL.glob("outputs/task1/*/records.jsonl")):
        found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        given = [
            {"benchmark_id": row["benchmark_id"], "prediction": row["model_output"]}
            for row in found
        ]
        sketched.append(answers_of(given, load_task("extraction").public))
    alike = [likeness(one, other) for n, one in enumerate(sketched) for other in sketched[n + 1 :]]
    assert len(alike) == 21
    assert max(alike) < 0.4
