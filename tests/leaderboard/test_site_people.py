"""The row of people on boards, out of an agreement file written for it."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from alps.leaderboard.site import build
from tests.annotated import write_annotations
from tests.made_submissions import synthesise
from tests.tracks import alps_here


def figure(value: float, low: float, high: float) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": 12, "unit": "sessions"}


def agreement(*, draft: bool = True) -> dict[str, Any]:
    """Return an agreement file as a person would write it."""
    shares = [figure(0.8125, 0.7, 0.9), figure(0.75, 0.6, 0.85)]
    without = {"set_f1_micro": figure(0.125, 0.1, 0.2)}
    drafts = {"memories": {"verbatim": shares, "without": without}} if draft else {}
    figures = {"set_f1": figure(0.7345, 0.6789, 0.8012)}
    lists = {"title": "lists", "figures": figures, "drafts": drafts}
    about = {"format": 1, "kind": "gold", "annotators": ["Ada <b>", "Bea"], "sessions": 12}
    about |= {"rule": {"rule": "publishers"}, "matching": "publishers", "alone": 0}
    drafted = "release" if draft else None
    return {**about, "draft": drafted, "parts": {"task1": lists, "task2": lists}}


@pytest.fixture(scope="module")
def submissions(tmp_path_factory):
    """Make two submissions: enough for a board of every kind."""
    folder = tmp_path_factory.mktemp("board") / "submissions"
    synthesise(folder, 2, tracks=("task1", "task2", "task3_d100"))
    return folder


def written(path: Path, row: dict[str, Any]) -> Path:
    path.write_text(json.dumps(row), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def site(submissions):
    people = written(submissions.parent / "people.json", agreement())
    return build(submissions, submissions.parent / "site", people=people).out


def test_a_file_of_labels_that_are_not_of_gold_says_which_file_to_name(submissions, tmp_path):
    labels = {"kind": "labels", "people": ["anna", "ben"], "rubrics": {}}
    people = written(tmp_path / "agreement.json", labels)
    words = (f"submissions={submissions}", f"out={tmp_path / 'site'}", f"people={people}")
    told = alps_here("leaderboard", "build", *words).one_line
    assert "name the file of alps annotate agreement on an export of job=gold" in told
    assert "and 9 more" not in told


def people_on(site: Path, page: str) -> str:
    """Return the row of people on a page; nothing where there is none."""
    text = (site / f"{page}.html").read_text(encoding="utf-8")
    return text.partition("<strong>People</strong>")[2].partition("</tbody>")[0]


def test_people_stand_on_the_board_marked_anchored_with_the_share_of_the_draft(site):
    row = people_on(site, "extraction")
    assert "Ada &lt;b&gt;" in row
    assert "anchored" in row
    for pointer, shown in (
        ("figures/set_f1/value", ".735"),
        ("figures/set_f1/low", ".679"),
        ("drafts/memories/verbatim/0/value", ".812"),
        ("drafts/memories/verbatim/1/value", ".750"),
        ("drafts/memories/without/set_f1_micro/value", ".125"),
    ):
        assert f'data-from="people.json#/parts/task1/{pointer}">{shown}</data>' in row, pointer
    assert "never ranked. Matched by: publishers" in row


def test_a_board_shows_people_beside_the_metric_that_they_are_measured_by(site):
    assert 'class="pair"><data value="0.7345"' in people_on(site, "update")
    # What a file has no figure for has no row.
    assert not people_on(site, "retrieval-100")
    # They stand in the files of a board, too.
    boards = json.loads((site / "data" / "boards.json").read_text(encoding="utf-8"))["boards"]
    name = next(board["id"] for board in boards if board["track"] == "task1")
    with (site / "data" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["section"] == "people"]
    (row,) = rows
    figures = (row["f1_value"], row["from_draft_first"], row["without_draft"])
    assert figures == ("0.7345", "0.8125", "0.125")


def test_people_without_a_known_draft_are_not_marked(submissions, tmp_path):
    people = written(tmp_path / "people.json", agreement(draft=False))
    row = people_on(build(submissions, tmp_path / "site", people=people).out, "extraction")
    assert "sessions" in row
    assert ">anchored<" not in row


def test_what_alps_agreement_writes_is_what_a_board_reads(submissions, tmp_path):
    kept = tmp_path / "agreement.json"
    folder = write_annotations(tmp_path / "release")
    assert alps_here("annotate", "agreement", folder, f"out={kept}").code == 0
    words = (f"submissions={submissions}", f"people={kept}", f"out={tmp_path / 'site'}")
    ran = alps_here("leaderboard", "build", *words)
    assert ran.code == 0, ran.err
    page = (tmp_path / "site" / "retrieval-100.html").read_text(encoding="utf-8")
    assert 'data-from="agreement.json#/parts/task3/figures/same_memory/value">.875</data>' in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "labels"}, "kind: input should be 'gold'"),
        ({"sessions": "many"}, "sessions: input should be"),
        ({"extra": 1}, "extra: no such field"),
    ],
    ids=["labels", "no number", "an unknown field"],
)
def test_a_file_that_is_no_agreement_is_refused(submissions, tmp_path, change, said):
    people = written(tmp_path / "people.json", {**agreement(), **change})
    words = (f"submissions={submissions}", f"people={people}", f"out={tmp_path / 'site'}")
    ran = alps_here("leaderboard", "build", *words)
    assert ran.code == 2
    assert said in ran.err
