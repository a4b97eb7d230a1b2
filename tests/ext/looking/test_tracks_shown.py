"""How a run of several tracks is shown: records of every task, the list of runs, the page."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from alps.data.release import write_track
from alps.errors import RunFolderError, UsageError
from alps.ext.looking.record_text import read_keys
from alps.ext.looking.report_page import SCRIPT, write_report
from alps.ext.looking.report_sections import draw_actions
from alps.rows import Score
from alps.run.opened import AnswerKey, open_run, read_wanted
from alps.run.source import options_of
from alps.show import charts
from alps.show.charts import ChartLine, recall_curve
from alps.show.formatting import number
from alps.show.svg import Axis, axis_labels
from alps.tasks import TaskOptions, load_task
from alps.tasks.registry import track_title
from tests.endtoend import edit_json, rows, run, summary, write_rows
from tests.few import few
from tests.pages import Page, browser, look
from tests.report_runs import assert_is_no_markup, choose, folded, make_tracks_run, shown
from tests.visitors import memory_items

__all__ = ["browser"]  # a fixture
SIZES = ("d100", "d300", "d500", "d700", "d1000")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracks")
    make_tracks_run(folder)
    return folder


@pytest.fixture
def tracks_run(place, monkeypatch):
    monkeypatch.chdir(place)
    return place / "tracks-run"


@pytest.fixture(scope="module")
def page_file(place):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield write_report([place / "tracks-run"], place / "tracks.html")


@pytest.fixture
def page(page_file):
    return Page(page_file.read_text(encoding="utf-8"))


@pytest.fixture
def copied_run(tracks_run, tmp_path):
    return Path(shutil.copytree(tracks_run, tmp_path / "copy"))


def test_every_record_of_every_track_fits_and_steers_no_terminal(tracks_run):
    keys = read_keys(open_run(tracks_run))
    assert len(keys) == 2 + 5 * 2 + 4 + 2
    for key in keys:
        text = shown(tracks_run, f"{key.track}/{key.id}")
        assert text.startswith(key.id)
        assert f"{track_title(key.track)}, record " in text
        assert max(cell_len(line) for line in text.splitlines()) <= 80
        assert all(character == "\n" or character >= " " for character in text)


def edit_rows(path, change):
    """Change the rows of a JSON Lines file."""
    content = rows(path)
    for row in content:
        change(row)
    write_rows(path, content)


def test_a_rule_that_overruled_the_judge_is_told(copied_run):
    def overrule(row):
        if row["track"] == "task4_ability1":
            row.update(marks={"met": 0}, enforced="the response says nothing")

    edit_rows(copied_run / "verdicts.jsonl", overrule)
    text = folded(shown(copied_run, "ability1"))
    assert "verdict not met overruled the judge decided otherwise" in text
    assert "the response says nothing" in text


def test_a_failed_side_verdict_leaves_the_record_scored_and_is_told(copied_run):
    def refuse(row):
        if row.get("used"):
            row["used"] |= {"outcome": "refused", "marks": {}, "error": "no, thanks"}

    edit_rows(copied_run / "verdicts.jsonl", refuse)
    text = folded(shown(copied_run, "task3_d100/anna"))
    assert "ok: answered and judged" in text
    assert "memory used judging failed (refused)" in text
    assert "The judgement failed: no, thanks" in text


def test_an_id_of_several_tracks_asks_for_one(tracks_run):
    with pytest.raises(
        UsageError, match=r"'anna' is in 6 tasks of .*; write update/anna or retrieval@100/anna"
    ):
        shown(tracks_run, "anna")
    assert shown(tracks_run, "bert") == shown(tracks_run, "task2/2")


def test_without_the_data_what_the_journals_hold_is_shown(tracks_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for word, words in {
        "bert": "old Lives in Graz",
        "task3_d500/cleo": "c003 Rides a tram",
        "ability1": "Target memory",
    }.items():
        text = folded(shown(tracks_run, word))
        assert "data not readable, so dialogues and gold are not shown" in text
        assert words in text


def test_an_unfinished_run_knows_its_records(copied_run):
    before = read_keys(open_run(copied_run))
    (copied_run / "summary.json").unlink()
    (copied_run / "scores.jsonl").write_bytes(b"")
    assert read_keys(open_run(copied_run)) == before
    assert before[-1] == AnswerKey("task4_ability5", "ability5:1")


def test_a_manifest_without_the_newer_settings_means_the_defaults(copied_run):
    def age(value):
        for name in ("distractors", "ability", "condition", "scoring", "window"):
            del value["settings"][name]
        tracks = value["data"]["tracks"]
        value["data"]["tracks"] = {name: tracks[name] for name in ("task2", "task3_d100")}

    edit_json(copied_run / "manifest.json", age)
    assert options_of(open_run(copied_run).manifest.settings) == TaskOptions()
    assert "Old memories" in shown(copied_run, "bert")


def test_a_track_that_the_settings_do_not_give_is_said(copied_run):
    manifest = copied_run / "manifest.json"
    edit_json(manifest, lambda value: value["settings"].update(distractors="100"))
    said = r"manifest\.json: its settings do not include the task 'task3_d300'"
    with pytest.raises(RunFolderError, match=said):
        shown(copied_run, "bert")


def test_a_record_of_a_task_of_ones_own_shows_its_prediction(place, monkeypatch):
    monkeypatch.chdir(place)
    own = (
        "from dataclasses import replace\nfrom alps.tasks.retrieval import tracks as known\n"
        "def tracks(options):\n    return [replace(task, name='mine') for task in known(options)]\n"
    )
    (place / "my_task.py").write_text(own, encoding="utf-8")
    words = ("task=python:my_task", "model=predictions:tracks-run", "data=all-tasks", "out=own")
    finished = run(place, "run", *words)
    assert finished.returncode == 0, finished.stderr
    text = folded(run(place, "show", "own", "cleo").stdout)
    assert '"selected_memory_id": "c002"' in text.partition("Prediction ─")[2]
    assert run(place, "report", "own", "out=own.html").returncode == 0
    assert "recall@1" in Page((place / "own.html").read_text(encoding="utf-8")).text


def test_the_page_has_a_section_a_track_and_every_number_of_the_summary(page, tracks_run):
    tracks = summary(tracks_run)["tracks"]
    sections = [section["id"] for section in page.all("section") if section.get("class") == "run"]
    assert sections == [f"run-a-{track}" for track in tracks]
    for found in tracks.values():
        for score in found["scores"].values():
            assert score["value"] is None or str(score["value"]) in page.values
    assert "11 tasks (not averaged)" in page.text
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_page_draws_matrix_curve_and_abilities(page, tracks_run):
    drawn: dict[str, list[str]] = {}
    for chart in page.all("svg"):
        if "aria-label" in chart:
            drawn.setdefault(chart["class"].split()[0], []).append(chart["aria-label"])
    (matrix,) = drawn["matrix"]
    assert "gold modify, predicted not found: 2 of 2" in matrix
    assert "gold add, predicted add: 2 of 2" in matrix
    assert "gold retain, predicted retain: 2 of 2" in matrix
    (curve,) = drawn["curve"]
    found = summary(tracks_run)["tracks"]
    for size in SIZES:
        recall = found[f"task3_{size}"]["scores"]["recall_at_1"]["value"]
        assert f"{size[1:]}: {number(recall)}" in curve
    assert "floor/random" in curve
    bars = {label.partition(":")[0] for label in drawn["bars"]}
    assert {"persona awareness", "constraints", "emotional support (1–5)"} <= bars
    assert len(drawn["plane"]) == 1  # of update; the others have no precision and recall
    assert "Precision and recall of changes" in page.text


def test_hostile_texts_of_every_task_stay_text(page):
    assert_is_no_markup(page, SCRIPT)
    assert page.text.count("<script>document.title = 'owned'</script>") > 5


def test_the_page_says_which_figures_no_judge_has_a_part_in(copied_run, tmp_path):
    edit_json(copied_run / "summary.json", lambda value: value.update(comparable=False))
    text = write_report([copied_run], tmp_path / "out.html").read_text(encoding="utf-8")
    _, *facts = text.partition('id="provenance"')[2].split("<dt>task</dt>")
    (retrieval,) = (one for one in facts if one.startswith("<dd>retrieval@100<"))
    (update,) = (one for one in facts if one.startswith("<dd>update<"))
    assert "needs no judge" in retrieval
    assert "not comparable" not in retrieval
    assert "not comparable" in update


def test_the_instructive_records_of_update_begin_with_what_was_kept(tracks_run):
    scores = open_run(tracks_run).rows("scores")

    def chosen(task, track):
        own = {key: row for key, row in scores.items() if key.track == track}
        groups = choose(load_task(task).shown.highlights, own, {})
        return [(group.title, [key.id for key in keys]) for group, keys in groups]

    ((title, kept),) = chosen("update", "task2")
    assert "outdated memories kept" in title
    assert kept == ["anna", "bert"]
    assert dict(chosen("retrieval", "task3_d100")) == {
        "wrong memory, gold ranked lowest": ["cleo"],
        "right memory": ["anna"],
    }
    (low,) = chosen("utilization", "task4_ability4")
    assert low[0] == "worst rating, although the answer contains the memory's words"


def test_a_matrix_counts_every_cell_and_shades_by_the_row():
    drawn = draw_actions(
        {"cell_retain_retain": 3, "cell_retain_none": 1, "cell_none_add": 2, "gold": 4}
    )
    assert 'fill-opacity="0.375"' in drawn
    assert "gold retain, predicted retain: 3 of 4" in drawn
    assert "not in gold, predicted add: 2 of 2" in drawn
    assert draw_actions({"gold": 4}) == ""


def test_a_curve_begins_at_zero_and_needs_two_sizes():
    def score(value):
        return Score(value=value, low=value, high=value, n=1)

    line = ChartLine("<m>", "A", "colour-0", [(500, score(1.0)), (1000, score(0.0))])
    drawn = recall_curve([line], name="recall")
    assert 'd="M281 14L516 264"' in drawn  # from (500, 1) to (1000, 0), on axes from 0
    assert "&lt;m&gt;: 500: 1.000, 1000: .000" in drawn
    assert recall_curve([ChartLine("m", "A", "colour-0", [(100, score(0.5))])], name="recall") == ""


def test_letters_at_one_place_are_moved_apart():
    score = Score(value=0.5, low=None, high=None, n=1)
    same = [(100, score), (300, score)]
    drawn = recall_curve([ChartLine(name, name, "colour-0", same) for name in "AB"], name="recall")
    assert 'y="143"' in drawn
    assert 'y="128"' in drawn


@pytest.mark.parametrize("share", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("count", [12, 40])
def test_letters_of_many_lines_stay_within_the_drawing(share, count):
    score = Score(value=share, low=None, high=None, n=1)
    same = [(100, score), (300, score)]
    lines = [ChartLine(f"m{n}", f"L{n}", "colour-0", same) for n in range(count)]
    heights = [float(y) for y in re.findall(r'y="([\d.]+)">L', recall_curve(lines, name="recall"))]
    assert len(set(heights)) == count
    assert all(14 <= height <= 270 for height in heights)


def test_bars_and_whiskers_lie_on_a_scale_of_their_own():
    score = Score(value=4.0, low=3.0, high=5.0, n=1)
    assert 'cx="75%"' in charts.whisker(score, name="EI", axis=Axis(1, 5))
    assert 'width="75%"' in charts.bar(score, name="EI", axis=Axis(1, 5))
    assert 'x1="50%" x2="100%"' in charts.bar(score, name="EI", axis=Axis(1, 5))
    assert charts.bar(Score(value=None, low=None, high=None, n=0), name="EI") == ""
    assert [
        part.partition("<")[0] for part in axis_labels(Axis(1, 5)).split(">") if part[:1].isdigit()
    ] == list("12345")


def test_pools_that_were_built_are_built_again_and_checked(tmp_path, monkeypatch):
    pytest.importorskip("alps.data.pools", reason="pools can't be built here")
    monkeypatch.chdir(tmp_path)
    _write_bank(tmp_path / "data" / "dev")
    finished = run(tmp_path, "run", "task=retrieval", "model=bm25", "data=data", "out=built")
    assert finished.returncode == 0, finished.stderr
    built = open_run(tmp_path / "built")
    assert built.tracks["task3_d100"].pools is not None
    found = read_wanted(built, "task3_d100", {"query-1"})
    assert found.problem is None
    assert len(found.by_id["query-1"].candidates) == 101
    assert "pool 101 candidates" in folded(shown(tmp_path / "built", "query-1"))
    edit_json(
        tmp_path / "built" / "manifest.json",
        lambda value: value["data"]["tracks"]["task3_d100"].update(sha256="0"),
    )
    assert "alps now builds pools differently" in str(
        read_wanted(open_run(tmp_path / "built"), "task3_d100", {"query-1"}).problem
    )


def _write_bank(split: Path) -> None:
    """Write two queries, and sessions with enough memories for a pool of a hundred."""

    def session(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
        ids = {"benchmark_id": f"b{number}", "session_id": f"s{number}", "task": "task1"}
        letters = "".join(chr(97 + (number * 7 + k * k) % 26) for k in range(1, 9))
        values = [f"{letters}{end} {end}{letters}" for end in ("qua", "zor", "vim", "pel")]
        items = memory_items(*values)
        row = {**ids, "input": {"dialogue": [{"role": "user", "text": "Hello"}]}}
        return row, {**ids, "gold": {"memory_items": items}}

    def query(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
        ids = {"benchmark_id": f"query-{number}", "session_id": f"q{number}", "task": "task3"}
        (memory,) = memory_items(f"Keeps {number + 2} goats in the garden")
        gold = {"selected_memory_id": "m1", "selected_memory": memory}
        return {**ids, "input": {"query": "What do I keep?"}}, {**ids, "gold": gold}

    write_track(split / "task1", (session(n) for n in range(60)))
    write_track(split / "task3", (query(n) for n in range(2)))


@pytest.mark.parametrize(
    ("width", "scheme"), few([(375, "dark"), (1280, "light"), (1280, "dark"), (375, "light")])
)
def test_a_browser_shows_it_whole_and_asks_for_nothing(browser, page_file, width, scheme):
    look(browser, page_file, width=width, scheme=scheme)
