"""What can't be recomputed is not believed, what was not said is not left out, and what nearly
copies is flagged.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alps.errors import UsageError
from alps.judges.base import fingerprint_id
from alps.leaderboard.commands import verify_command
from alps.leaderboard.packing import pack
from alps.leaderboard.ranking import Board, build_boards
from alps.leaderboard.references import read_references
from alps.leaderboard.site import build
from alps.leaderboard.site_data import load
from alps.leaderboard.submission import Submission
from alps.leaderboard.verify import verify
from alps.schema import Prediction
from tests.endtoend import rows, write_rows
from tests.submissions import (
    SLUG,
    VISITORS,
    WHO,
    card_of,
    forge,
    forge_rows,
    make_run,
    said,
    sign,
)
from tests.visitors import memory_items

Card = dict[str, Any]


def copy(source: Path, target: Path, change: Callable[[Card], object] = lambda card: None) -> Path:
    """Copy a submission under another name."""
    shutil.copytree(source, target)
    forge(target, lambda card: (card.update(slug=target.name), change(card)))
    return target


def invent(folder: Path, track: str, score: float = 1.0) -> None:
    """Let every score of a submission be one that looks well, and every floor as well."""

    def change(found: list[dict[str, Any]]) -> None:
        for row in found:
            row["scores"] = dict.fromkeys(row["scores"], score)

    def best(card: Card) -> None:
        there = card["tracks"][track]
        for scores in (there["scores"], *(floor["scores"] for floor in there["floors"].values())):
            for row in scores.values():
                row.update(
                    {part: score for part in ("value", "low", "high") if row[part] is not None}
                )

    forge_rows(folder, f"{track}/scores", change)
    forge(folder, best)


def rename_data(card: Card) -> None:
    """Let the samples go by another name."""
    card["runs"][0]["data"]["name"] = card["runs"][0]["settings"]["data"] = "release"


def board_of(folder: Path) -> Board:
    """Return the board of the fullest track."""
    return max(
        build_boards(load(folder), read_references()), key=lambda board: len(board.standings)
    )


@pytest.mark.release
def test_the_samples_under_another_name_are_still_the_samples(honest, tmp_path):
    folder = copy(honest, tmp_path / "invented", rename_data)
    finding = said(verify(folder), "data")
    assert (finding.severity, finding.where) == ("serious", "runs.0.data.name")
    invent(folder, "task1")
    assert said(verify(folder), "row_score").severity == "serious"
    assert any(
        finding.where == "tracks.task1.scores.f1.value" for finding in verify(folder).findings
    )


def test_a_score_that_was_not_recomputed_is_marked_below_the_others_and_out_of_the_ranks(
    honest, tmp_path
):
    subs = tmp_path / "submissions"
    for name in ("one", "two"):
        copy(honest, subs / name)
    invent(copy(honest, subs / "a-stranger", rename_data), "task1")
    board = board_of(subs)
    assert [row.system.slug for row in board.standings] == ["one", "two", "a-stranger"]
    assert [str(row.rank) for row in board.standings] == ["1", "1", "None"]
    values = [floor.scores["f1"]["value"].value for floor in board.floors]
    assert values
    assert max(values) < 0.1
    site = build(subs, tmp_path / "site").out
    page = (site / "extraction.html").read_text("utf-8")
    assert page.count('class="unproven">not recomputed<') == 1
    assert "not ranked" in page
    assert "not recomputed" in (site / "systems" / "a-stranger.html").read_text("utf-8")
    assert "not recomputed" not in (site / "systems" / "one.html").read_text("utf-8")
    told = {
        row["slug"]: row["recomputed"]
        for row in json.loads((site / f"data/{board.id}.json").read_text())["rows"][:3]
    }
    assert told == {"one": True, "two": True, "a-stranger": False}


def test_a_maintainer_who_saw_the_scores_come_out_lets_them_be_ranked(shelf, tmp_path):
    subs = tmp_path / "submissions"
    for name in ("one", "two"):
        copy(shelf.folder, subs / name)
    forge(subs / "two", lambda card: card.update(name="Words of wisdom"))
    sign(subs / "two")
    assert {row.rank for row in board_of(subs).standings} == {None}
    for name in ("one", "two"):
        assert verify_command([str(subs / name), f"data={shelf.data}", "record=yes"]) == 0
    assert [str(row.rank) for row in board_of(subs).standings] == ["1", "1"]


def as_of_a_model(card: Card) -> None:
    """Let the retrieval track be judged by a model whose verdicts stayed at home."""
    track = card["tracks"]["task3_d100"]
    track["floors"] = {}  # under a model they are not in a submission
    parts = {
        "judge": "openai/judge-2026-01-01",
        "introduction": "0" * 64,
        "decoding": {},
        "parser": "1",
        "repeats": 1,
    }
    card["tracks"] = {"task3_d100": track}
    card["runs"][0] |= {"judge": {"id": fingerprint_id(parts), **parts}}
    card["runs"][0]["settings"]["judge"] = track["judge"] = parts["judge"]
    track |= {"judge_fingerprint": fingerprint_id(parts), "comparable": True}


def test_recall_is_recomputed_though_the_verdicts_are_not_there(shelf, folder):
    for name in ("task1", "task4_ability1"):
        shutil.rmtree(folder / name)
    (folder / "task3_d100" / "verdicts.jsonl").unlink()
    forge(folder, as_of_a_model)
    sign(folder)
    found = shelf.verify(folder)
    assert (found.serious, found.consistent) == (False, True), found.findings
    invent(folder, "task3_d100", 0.5)
    wrong = shelf.verify(folder)
    assert any(
        finding.where == "tracks.task3_d100.scores.recall_at_1.value" for finding in wrong.findings
    )
    assert said(wrong, "row_score").severity == "serious"


class Shy:
    """A system that says of every third record that nobody was there to answer."""

    asked = 0

    def predict(self, sample: Any) -> list[str] | Prediction:
        self.asked += 1
        if self.asked % 3 == 0:
            return Prediction(benchmark_id=sample.benchmark_id, track="task1", outcome="transport")
        return []


@pytest.mark.release
def test_a_run_that_left_out_much_is_not_packed(shelf, tmp_path):
    run = make_run(
        tmp_path / "run",
        "task=extraction",
        f"model=python:{__name__}:Shy",
        f"data={shelf.data}",
        "max_failures=1",
    )
    with pytest.raises(
        UsageError,
        match=r"no score for \d+ of 12 answers \(transport \d\).*"
        r"to retry these answers, repeat the same alps run",
    ):
        pack([run], WHO, out=tmp_path / SLUG)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("part", "kind"),
    [("failed_predictions", "transport"), ("failed_judgements", "unparsable"), (None, "no_gold")],
)
def test_silence_is_serious_and_withheld_gold_is_none(shelf, folder, part, kind):
    changed = {part or "failed_judgements": {kind: 4}, "unscored": 4, "scored": VISITORS - 4}
    forge(folder, lambda card: card["tracks"]["task1"].update(changed))
    found = {finding.code: finding for finding in shelf.verify(folder).findings}
    assert ("silence" in found) == (part is not None)
    if part is not None:
        assert found["silence"].severity == "serious"
        assert found["silence"].where == "tracks.task1.unscored"


@pytest.mark.few(2)
@pytest.mark.parametrize("said_so", ["{} indeed", "The user: {}", "{}"])
def test_the_gold_in_nearly_its_words_is_flagged(shelf, tmp_path, said_so):
    answers = [
        {
            "benchmark_id": row["benchmark_id"],
            "memory_items": memory_items(*(said_so.format(m["value"]) for m in gold)),
        }
        for row in rows(shelf.data / "dev" / "task1" / "reference_output.jsonl")
        for gold in (row["gold"]["memory_items"],)
    ]
    write_rows(tmp_path / "answers.jsonl", answers)
    run = make_run(
        tmp_path / "run",
        "task=extraction",
        f"data={shelf.data}",
        f"model=predictions:{tmp_path / 'answers.jsonl'}",
    )
    finding = said(pack([run], WHO, out=tmp_path / SLUG).verification, "near_gold")
    assert finding.severity == "warning"
    assert ("nearly verbatim" in finding.what) == (said_so != "{}")


def test_rankings_of_a_few_answers_are_told_and_stand_with_their_n(shelf, tmp_path):
    few = tmp_path / "few"
    shutil.copytree(shelf.run, few)
    found = rows(few / "predictions.jsonl")
    for row in [row for row in found if row["track"] == "task3_d100"][3:]:
        row["prediction"]["ranking"] = []
    write_rows(few / "predictions.jsonl", found)
    for name in ("verdicts.jsonl", "scores.jsonl", "summary.json"):
        (few / name).unlink()
    make_run(
        few,
        "task=extraction,retrieval,utilization",
        "ability=pa",
        "model=rules",
        f"data={shelf.data}",
    )
    packed = pack([few], WHO, out=tmp_path / "submissions" / SLUG)
    assert said(packed.verification, "ranked").what.startswith(
        "only 3 of 12 answers have a ranking"
    )
    page = (
        build(tmp_path / "submissions", tmp_path / "site").out / "retrieval-100.html"
    ).read_text("utf-8")
    assert page.count('<small class="of">n <data value="3"') == 3
    assert (
        Submission.model_validate(card_of(packed.folder))
        .tracks["task3_d100"]
        .scores["recall_at_5"]
        .n
        == 3
    )


def test_what_is_no_submission_is_told_in_one_line(shelf, tmp_path):
    for word, words in (
        (str(tmp_path / "nowhere"), "no such folder"),
        ("", "no such folder"),
        (str(shelf.run), "a run, not a submission; pack it with alps leaderboard submit"),
        (str(shelf.folder.parent), f"contains 1 submission; name one, such as .*{SLUG}"),
        (str(tmp_path), "no submission.json there"),
    ):
        with pytest.raises(UsageError, match=words):
            verify_command([word])


def test_strict_f1_is_next_to_the_headline_though_the_judge_cannot_tell(honest, tmp_path):
    copy(honest, tmp_path / "all" / "honest")
    (board,) = build_boards(load(tmp_path / "all"), read_references())
    assert board.others[0].name == "f1_strict"
    page = (build(tmp_path / "all", tmp_path / "site").out / "extraction.html").read_text("utf-8")
    assert "F1, strict policy" in page
    reason = "judge lexical cannot tell &#39;narrower&#39; from &#39;same&#39;"
    assert f'title="{reason}">n/a' in page
