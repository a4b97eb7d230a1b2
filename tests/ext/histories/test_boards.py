"""Sets on boards: submissions that can be recomputed, who is ranked together, rows of others."""

import json

import pytest

from alps.leaderboard.cards import SubmitterDetails
from alps.leaderboard.packing import pack
from alps.leaderboard.ranking import build_boards
from alps.leaderboard.references import read_references
from alps.leaderboard.site import build
from alps.leaderboard.site_data import load
from alps.leaderboard.verify import Options, verify
from alps.tasks import board_tracks
from tests.endtoend import rows
from tests.ext.histories.sets import SETS, Script, judged_by, run
from tests.few import few
from tests.loopback import serve
from tests.submissions import changed, forge_rows, refused

LEVELS = ("halumem_extraction", "halumem_update")


def ran(folder, name, *words):
    memory = "memory=none" if name == "beam" else "memory=bm25"
    done = run(folder, name, memory, *words)
    assert done.code == 0, done.err
    return folder


def packed(run_folder, out):
    pack([run_folder], SubmitterDetails(name=out.name, submitted="2026-01-31"), out=out)
    return out


@pytest.mark.parametrize("name", few([*LEVELS, *SETS], 3))
def test_a_submission_is_recomputed_from_answers_and_verdicts(tmp_path, name):
    found = verify(packed(ran(tmp_path / "run", name), tmp_path / "own"), Options())
    assert found.consistent, found.findings
    assert found.recomputed == (name,)


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Return a submission under a judge that is an LLM, and others that were run otherwise."""
    folder = tmp_path_factory.mktemp("boards")
    with pytest.MonkeyPatch.context() as patch, serve(Script("locomo")) as server:
        patch.setenv("OPENAI_API_KEY", "test")
        by = judged_by(server)
        for name, task, *words in (
            ("rules", "locomo", *by),
            ("more", "locomo", *by, "k=2"),
            ("by-words", "locomo"),
            ("evidence", "longmemeval", "set=oracle"),
        ):
            packed(ran(folder / "runs" / name, task, *words), folder / "submissions" / name)
    return folder


@pytest.mark.release
def test_verdicts_of_an_llm_are_checked_against_the_marks_of_rubrics(judged, tmp_path):
    found = verify(judged / "submissions" / "rules", Options())
    assert found.consistent, found.findings
    marks = rows(judged / "submissions" / "rules" / "locomo" / "verdicts.jsonl")[0]["marks"]
    assert {"answer", "generous"} <= marks.keys()


WRONG = {"a mark that no rubric gives": "answer", "a rubric that there is not": "guess"}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", WRONG.values(), ids=WRONG)
def test_a_mark_of_no_rubric_is_refused(judged, tmp_path, name):
    copy = packed(judged / "runs" / "rules", tmp_path / "copy")
    forge_rows(copy, "locomo/verdicts", changed("0.marks", {name: 3}))
    refused(verify(copy, Options()), "verdict", f"marks.{name} is 3, which no rubric allows")


def test_only_systems_that_were_run_alike_are_ranked_together(judged, tmp_path):
    boards = build_boards(load(judged / "submissions"), read_references())
    together = [{row.system.slug for row in board.standings} for board in boards]
    assert {"rules"} in together
    assert all(len(slugs) == 1 for slugs in together)
    keys = {next(iter(slugs)): board.key for slugs, board in zip(together, boards, strict=True)}
    assert keys["rules"].judge != keys["by-words"].judge
    assert json.loads(keys["evidence"].conditions)["set"] == "oracle"
    assert json.loads(keys["rules"].setup)["k"] != json.loads(keys["more"].setup)["k"]


def test_the_first_size_shares_a_board_with_no_size(tmp_path):
    for name, words in (("open", ()), ("named", ("size=100K", "model=floor/question"))):
        packed(ran(tmp_path / "runs" / name, "beam", *words), tmp_path / "submissions" / name)
    (board,) = build_boards(load(tmp_path / "submissions"), read_references())
    shown = (*board.standings, *board.floor_systems)
    assert {row.system.slug for row in shown} == {"open", "named"}
    assert json.loads(board.key.conditions)["size"] == "100K"


def test_rows_of_others_stand_below_with_who_ran_them_and_what_differs(judged, tmp_path):
    boards = build_boards(load(judged / "submissions"), read_references())
    shown = {}
    for board in boards:
        tables = {row.table.id for row in board.reported}
        shown.update(dict.fromkeys((row.system.slug for row in board.standings), tables))
    # Their figure is of a judge, and those of LongMemEval are of another of its sets.
    of_locomo = {"omnimemeval-locomo"}
    assert shown == {"rules": of_locomo, "more": of_locomo, "by-words": set(), "evidence": set()}
    build(judged / "submissions", tmp_path / "site")
    page = (tmp_path / "site" / "locomo.html").read_text(encoding="utf-8")
    for words in ("MemOS (OmniMemEval)", ".888"):
        assert words in page
    listed = (tmp_path / "site" / "references.html").read_text(encoding="utf-8")
    different = "The judge and the prompt differ from the authors"
    for words in ("OmniMemEval", different, "three judge calls per answer"):
        assert words in listed


def test_every_row_of_others_says_who_ran_it_who_judged_and_what_differs():
    tables = [one for one in read_references().tables if one.columns[0].track in SETS]
    assert {one.columns[0].track for one in tables} == {"locomo", "longmemeval", "beam", "halumem"}
    for table in tables:
        assert table.kind == "reported"
        assert all((table.ran_by, table.note, table.judge, table.source.title))
        for column in table.columns:
            names = [metric.name for metric in board_tracks()[column.track].metrics]
            assert column.metric in names
