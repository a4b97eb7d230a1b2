"""PersonaMem on the leaderboard: submissions held against the questions alone, boards by size and
setting, published answers as reference rows, and its place among all tasks.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from alps.leaderboard.cards import SubmitterDetails
from alps.leaderboard.commands import verify_command
from alps.leaderboard.packing import pack
from alps.leaderboard.ranking import build_boards
from alps.leaderboard.references import read_references
from alps.leaderboard.site import build
from alps.leaderboard.site_data import load
from alps.leaderboard.verify import Options, verify
from alps.tasks.personamem.personas import write_set
from tests.conftest import ROOT
from tests.endtoend import rows, summary
from tests.submissions import DROPPED, changed, forge, forge_rows, make_run, refused

TRACK = "personamem"
QUESTIONS = 70
RUNS = {
    "rules": ("model=rules", "size=32k"),
    "shortest": ("model=floor/shortest", "size=32k"),
    "blind": ("model=rules", "size=32k", "memory=none"),
    "turned": ("model=floor/random", "size=32k", "orders=4"),
    "found": ("model=rules", "size=32k", "memory=bm25"),
    "larger": ("model=rules", "size=128k"),
}
FLOORS = ("shortest", "turned")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder with the questions of two users, at two sizes, and their histories."""
    folder = tmp_path_factory.mktemp("data") / "personas"
    for size in ("32k", "128k"):
        write_set(folder, personas=2, size=size, seed=5)
    return folder


@pytest.fixture(scope="module")
def packed(data, tmp_path_factory):
    """Return a folder of submissions under several settings."""
    made, folder = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("submissions")
    for name, words in RUNS.items():
        run = make_run(made / name, "task=personamem", f"data={data}", *words)
        called = f"floor/{name}" if name in FLOORS else name
        pack([run], SubmitterDetails(name=called, submitted="2026-01-31"), out=folder / name)
    return folder


@pytest.fixture
def copy(packed, tmp_path):
    """Return a submission that may be spoiled."""
    return Path(shutil.copytree(packed / "rules", tmp_path / "rules"))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", RUNS)
def test_a_submission_is_recomputed_from_choices_and_the_gold_of_the_questions(packed, data, name):
    found = verify(packed / name, Options(data=str(data)))
    assert not found.serious, found.findings
    assert found.consistent
    assert found.recomputed == (TRACK,)


def test_nothing_of_a_history_is_in_a_submission(packed, data):
    line = (data / "shared_contexts_32k.jsonl").read_text().splitlines()[0]
    history = next(iter(json.loads(line).values()))
    said = {turn["content"] for turn in history}
    files = [path.read_text() for path in (packed / "rules").rglob("*.json*")]
    assert files
    assert not [text for text in said for file in files if text in file]


def test_who_verifies_needs_the_questions_and_no_history(packed, data, tmp_path):
    shutil.copy(data / "questions_32k.csv", tmp_path)
    assert verify(packed / "shortest", Options(data=str(tmp_path))).consistent
    found = verify(packed / "rules", Options(data=str(tmp_path)))
    assert found.consistent
    assert any("whether these are the answers of rules" in line for line in found.unchecked), found
    # Without the questions it says what is not checked.
    found = verify(packed / "blind", Options())
    assert not found.serious
    assert not found.consistent
    assert any("ids and scores" in line for line in found.unchecked)


def test_other_questions_are_other_data_and_one_left_out_is_found(packed, copy, data, tmp_path):
    write_set(tmp_path, personas=2, size="32k", seed=6)
    refused(verify(packed / "rules", Options(data=str(tmp_path))), "data", "so the records differ")
    for stage in ("predictions", "verdicts", "scores"):
        forge_rows(copy, f"{TRACK}/{stage}", lambda found: found.pop())
    refused(verify(copy, Options(data=str(data))), "missing_ids", "1 of the 70 ids")


SCORES, CONDITIONS = f"tracks.{TRACK}.scores", f"tracks.{TRACK}.conditions"
LONGEST = f"tracks.{TRACK}.floors.floor/longest.scores.accuracy.value"
CARDS = [
    (f"{SCORES}.accuracy.value", 0.99, "score", "the card has 0.99, but alps recomputed"),
    (f"{SCORES}.leak_adjusted.n", 39, "score", "card has 39, but alps recomputed 40"),
    (LONGEST, 0.01, "score", "the card has 0.01, but alps recomputed"),
    (f"{CONDITIONS}.size", "128k", "data", "so the records differ"),
    (f"{CONDITIONS}.max_context_tokens", None, "identity", "but should have"),
    (f"{CONDITIONS}.data", "/etc", "identity", "unknown conditions"),
]
OTHER = [[*"aa"], [*"abcda"], ["e"]]


def another(choice):
    return "c" if choice != "c" else "d"


ROWS = [
    *(("rules", "0.prediction.tied", tied, "row", "tied") for tied in OTHER),
    ("rules", "0.prediction.choice", another, "row_score", "row differs"),
    ("turned", "0.prediction.choices.0", DROPPED, "answer", "one for each of the 4 orders"),
]


@pytest.mark.few(2)
@pytest.mark.parametrize(("path", "value", "code", "words"), CARDS)
def test_a_forged_card_is_refused(copy, data, path, value, code, words):
    forge(copy, changed(path, value))
    found = verify(copy, Options(data=str(data)))
    assert not found.consistent
    assert any(words in one.what for one in found.findings if one.code == code), found.findings


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "path", "value", "code", "words"), ROWS)
def test_forged_answers_are_refused(packed, data, tmp_path, name, path, value, code, words):
    copy = Path(shutil.copytree(packed / name, tmp_path / name))
    forge_rows(copy, f"{TRACK}/predictions", changed(path, value))
    refused(verify(copy, Options(data=str(data))), code, words)


def test_sizes_and_settings_are_never_ranked_together(packed):
    shown, boards = {}, build_boards(load(packed), read_references())
    for board in boards:
        # Published answers stand on boards of their size alone.
        assert bool(board.reported) == ('"32k"' in board.key.conditions), board.key
        names = sorted(row.system.slug for row in (*board.standings, *board.floor_systems))
        # A memory system is what is compared on its board, and no condition of it.
        system = "a memory system: " if board.key.setup else ""
        shown[system + board.key.conditions] = names
    assert shown == {
        '{"size": "32k"}': ["rules", "shortest"],
        '{"memory": "none", "size": "32k"}': ["blind"],
        'a memory system: {"size": "32k"}': ["found"],
        '{"orders": 4, "size": "32k"}': ["turned"],
        '{"size": "128k"}': ["larger"],
    }
    assert {board.key.judge for board in boards} == {None}


def words_of(page: Path) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page.read_text()).split())


@pytest.mark.release
def test_its_page_has_figures_baselines_and_references(packed, data, tmp_path):
    # Once a maintainer has held every submission against the questions.
    submissions = Path(shutil.copytree(packed, tmp_path / "submissions"))
    for name in RUNS:
        assert verify_command((str(submissions / name), f"data={data}", "record=yes")) == 0
    site = build(submissions, tmp_path / "site").out
    words = words_of(site / "personamem.html")
    for title in ("accuracy", "mean over types", "length rule", "floor/length-by-type"):
        assert title in words
    assert "size 32k" in words
    assert "memory none, size 32k" in words
    assert "no judge needed" in words
    # Once on the page, and marked as what they are.
    assert (site / "personamem.html").read_text().count("GPT-4o with Mem0") == 1
    assert "Recomputed from public answers: GPT-4o" in words
    assert "not ranked here; run by the authors of PersonaMem" in words
    assert "PersonaMem" in words_of(site / "index.html")


def test_all_tasks_are_run_without_it_where_the_data_lack_it(tmp_path):
    shutil.copytree(ROOT / "data" / "samples", tmp_path / "release")
    words = ("task=all", "model=rules", "limit=1", f"data={tmp_path / 'release'}")
    found = summary(make_run(tmp_path / "run", *words))
    assert TRACK not in found["tracks"]
    assert "no questions_32k.csv" in found["left_out"][TRACK]


def test_a_run_is_scored_again_though_its_size_was_not_named(alps, data, tmp_path):
    shutil.copy(data / "questions_32k.csv", tmp_path)
    shutil.copy(data / "shared_contexts_32k.jsonl", tmp_path)
    words = ("task=personamem", "data=.", "model=floor/random", "limit=9", "out=run")
    assert alps("run", *words).returncode == 0
    done = alps("score", "run", "judge=lexical", "out=again")
    assert done.returncode == 0, done.stderr
    assert len(rows(tmp_path / "again" / "scores.jsonl")) == 9
    track = summary(tmp_path / "again")["tracks"][TRACK]
    assert track["size"] == "32k"
