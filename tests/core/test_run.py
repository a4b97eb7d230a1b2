import math
import re
import shutil
import sys
from collections import Counter
from contextlib import chdir

import pytest

from alps.judges.admission import DRAWN
from alps.llm.types import JUDGE_CHECK
from alps.run.start import run_here
from alps.settings import RunSettings, parse_words
from tests.conftest import ROOT
from tests.endtoend import (
    JOURNALS,
    complete_rows,
    contents,
    extraction,
    one_line,
    results,
    rows,
    run,
    summary,
    task1,
    write_rows,
)
from tests.loopback import serve
from tests.tracks import alps_here
from tests.visitors import good, is_judging, memory_items, values_of, visitor_id, write_visitors

IDS = [
    row["benchmark_id"]
    for row in rows(ROOT / "data" / "samples" / "dev" / "task1" / "model_input.jsonl")
]
WORDS = ("run", "task=extraction", "model=rules", "data=samples")
FLOORS = ("floor/empty", "floor/content-free", "floor/content-free-fluent", "floor/excerpts")
FILES = {"manifest.json", *JOURNALS, "calls.jsonl", "summary.json", "config.toml", ".lock"}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded")
    return run(folder, *WORDS), next((folder / "runs").iterdir())


@pytest.fixture
def finished_run(embedded, tmp_path):
    return shutil.copytree(embedded[1], tmp_path / "out")


def recorded(path, *, unheard=()):
    def row(number):
        name = visitor_id(number)
        if number not in unheard:
            return {"benchmark_id": name, "memory_items": memory_items(*values_of(number))}
        failed = {"track": "task1", "outcome": "transport", "error": "no answer"}
        return {"benchmark_id": name, **failed}

    write_rows(path, map(row, range(20)))
    return f"model=predictions:{path.name}"


def test_the_folder_says_what_was_run_and_holds_the_files_of_a_run_and_nothing_else(embedded):
    assert embedded[1].name.startswith("extraction-rules-samples-lexical-")
    assert {path.name for path in embedded[1].iterdir()} == FILES


def test_the_summary_keeps_its_contract(embedded):
    whole, track = summary(embedded[1]), task1(embedded[1])
    assert (whole["judge"], whole["model"], whole["comparable"]) == ("lexical", "rules", False)
    assert (track["n"], track["scored"], track["unscored"]) == (len(IDS), len(IDS), 0)
    assert (track["failed_predictions"], track["failed_judgements"]) == ({}, {})
    assert track["floors"].keys() == set(FLOORS)
    scores, written = track["scores"], rows(embedded[1] / "scores.jsonl")
    assert list(scores)[:2] == ["f1", "f1_strict"]
    values = [row["scores"]["f1"] for row in written]
    assert scores["f1"]["low"] <= scores["f1"]["value"] <= scores["f1"]["high"]
    assert math.isclose(scores["f1"]["value"], sum(values) / len(values))
    # What the judge can't tell is unscored with the reason, and never 0.
    assert (scores["f1_strict"]["value"], scores["f1_strict"]["n"]) == (None, 0)
    assert "lexical" in scores["f1_strict"]["unscored"]
    assert all("f1_strict" not in row["scores"] for row in written)


@pytest.mark.parametrize("name", JOURNALS)
def test_every_journal_has_one_row_a_record_in_the_order_of_the_data(embedded, name):
    written = rows(embedded[1] / name)
    assert [row["benchmark_id"] for row in written] == IDS
    assert {row["track"] for row in written} == {"task1"}


def test_the_same_command_again_gives_the_same_bytes_and_the_same_table(
    alps, embedded, finished_run
):
    before = contents(finished_run)
    again = alps(*WORDS, "out=out")
    assert again.returncode == 0
    assert alps(*WORDS, "out=elsewhere", "concurrency=1").returncode == 0
    assert contents(finished_run) == contents(finished_run.parent / "elsewhere") == before
    ours, theirs = (results(one).rpartition("RUN =")[0] for one in (again, embedded[0]))
    assert ours == theirs


def test_another_setting_and_changed_data_in_the_same_folder_are_refused_naming_the_field(
    alps, tmp_path
):
    words = ("run", "task=extraction", "model=rules", "data=data", "out=out")
    write_visitors(tmp_path / "data", 3)
    alps(*words)
    before = contents(tmp_path / "out")
    assert "settings.limit" in one_line(alps(*words, "limit=2"))
    write_visitors(tmp_path / "data", 4)
    assert "data.tracks.task1" in one_line(alps(*words))
    assert contents(tmp_path / "out") == before
    # Nor are the answers to the old data judged on the new ones.
    with chdir(tmp_path):
        assert "hashes differ" in alps_here("score", "out", "judge=lexical", "out=again").one_line
    assert not (tmp_path / "again").exists()


def test_a_command_that_goes_on_says_how_much_was_there(alps, tmp_path):
    words = (*WORDS, "limit=3", "out=out")
    assert "reused" not in alps(*words).stdout
    there = rows(tmp_path / "out" / "predictions.jsonl")
    there[2] |= {"outcome": "budget", "prediction": None, "raw": None}  # is asked for again
    for kept in (there, there[:2]):
        write_rows(tmp_path / "out" / "predictions.jsonl", kept)
        for answers in (2, 3):
            assert f"{answers} answers reused" in alps(*words).stdout


def test_limit_takes_the_first_records_and_out_makes_the_folders_that_are_missing(alps, tmp_path):
    assert alps(*WORDS, "limit=3", "out=a/b/c").returncode == 0
    out = tmp_path / "a" / "b" / "c"
    assert {path.name for path in out.iterdir()} == FILES
    assert not (tmp_path / "runs").exists()
    assert task1(out)["n"] == 3
    assert [row["benchmark_id"] for row in rows(out / "predictions.jsonl")] == IDS[:3]


def test_withheld_gold_leaves_everything_unscored_and_exits_1(alps, tmp_path):
    write_visitors(tmp_path / "data", 4, withheld=range(4), split="test")
    finished = alps("run", "task=extraction", "model=rules", "data=data", "out=out")
    track = task1(tmp_path / "out")
    assert finished.returncode == 1
    assert (track["n"], track["scored"], track["unscored"]) == (4, 0, 4)
    assert track["failed_judgements"] == {"no_gold": 4}
    absent = tmp_path / "data/test/task1/reference_output.jsonl"
    assert finished.stderr.endswith(f"; no gold, since {absent} is not there\n")
    assert track["scores"]["f1"]["value"] is None
    assert len(rows(tmp_path / "out" / "predictions.jsonl")) == 4
    assert all(row["scores"] == {} for row in rows(tmp_path / "out" / "scores.jsonl"))


@pytest.mark.parametrize(
    ("unheard", "words", "code"),
    [
        pytest.param(1, (), 0, id="5 % are forgiven"),
        pytest.param(2, (), 1, id="10 % are not"),
        pytest.param(2, ("max_failures=10%",), 0, id="10 % allowed"),
        pytest.param(7, ("max_failures=30%",), 1, id="one more than 30 %"),
    ],
)
def test_more_unscored_records_than_allowed_exit_1(alps, tmp_path, unheard, words, code):
    write_visitors(tmp_path / "data", 20)
    model = recorded(tmp_path / "mine.jsonl", unheard=range(unheard))
    finished = alps("run", "task=extraction", model, "data=data", "out=out", *words)
    assert finished.returncode == code
    assert task1(tmp_path / "out")["unscored"] == unheard
    counts = f"{20 - unheard} scored, 0 failed, {unheard} unscored ({unheard} transport)"
    assert counts in finished.stdout
    shown = alps("show", "out").stdout
    assert f"Failed predictions: {unheard} transport." in shown
    with chdir(tmp_path):
        said = ["task=extraction", model, "data=data", "out=out", *words]
        again = run_here(parse_words(said, RunSettings))
    assert (again.too_many_unscored, again.complaint is not None) == (bool(code), bool(code))


def test_a_score_with_unscored_records_is_bounded_by_the_worst_and_the_best_case(alps, tmp_path):
    write_visitors(tmp_path / "data", 20, withheld=(3, 4))
    model = recorded(tmp_path / "mine.jsonl", unheard=(0,))
    finished = alps("run", "task=extraction", model, "data=data", "out=out")
    track = task1(tmp_path / "out")
    f1 = track["scores"]["f1"]
    assert (track["n"], track["scored"], track["unscored"]) == (20, 17, 3)
    assert f1["n"] == 17
    assert math.isclose(f1["worst_case"], f1["value"] * 17 / 20)
    assert math.isclose(f1["best_case"], (f1["value"] * 17 + 3) / 20)
    assert "worst–best" in alps("show", "out").stdout
    bounds = f"[{f1['worst_case']:.3f}, {f1['best_case']:.3f}]".replace("0.", ".")
    assert re.search(rf"^ bounds +{re.escape(bounds)}", finished.stdout, re.M)
    assert max(len(line) for line in finished.stdout.splitlines()) <= 80


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Runs of 12 visitors by their folders, and what the first and the judges were asked."""
    folder = tmp_path_factory.mktemp("judged")
    write_visitors(folder / "data", 12)
    with serve(good) as server:
        judge = ("judge=openai/other-judge", f"judge_api_base={server.url}")
        done = {"by-llm": run(folder, *extraction(server.url, "judge_check=yes", "out=by-llm"))}
        asked = len(server.requests)
        done["by-words"] = run(folder, "score", "by-llm", "judge=lexical", "out=by-words")
        asked_by_words = len(server.requests) - asked
        for name in ("cached", "cached again"):
            done[name] = run(folder, *extraction(server.url, "out=cached"))
        first = list(server.requests)
        done["by-other"] = run(folder, "score", "by-words", *judge, "out=by-other")
        by_other = server.requests[asked:]
    return folder, done, first, asked_by_words, by_other


def test_a_model_and_a_judge_are_asked_once_a_record_and_its_verdicts_score_the_run(judged):
    folder, done, asked, _, _ = judged
    assert {finished.returncode for finished in done.values()} == {0}, done
    assert sum(is_judging(body) for body in asked) == 12
    assert sum(not is_judging(body) for body in asked) == 12
    purposes = [row["purpose"] for row in rows(folder / "by-llm" / "calls.jsonl")]
    known = 2 * DRAWN  # of matching and of support
    assert Counter(purposes) == {"generate": 12, "judge": 12, JUDGE_CHECK: known}
    f1 = [row["scores"]["f1"] for row in rows(folder / "by-llm" / "scores.jsonl")]
    assert f1 == [0.5 if number % 3 == 0 else 1.0 for number in range(12)]
    assert "for debugging" not in done["by-llm"].stdout


def test_the_same_command_again_still_tells_how_many_answers_came_from_the_cache(judged):
    folder, done, *_ = judged
    assert "24 replies from the cache" in done["cached"].stdout
    assert results(done["cached again"]) == results(done["cached"])
    assert summary(folder / "cached")["calls"]["cached"] == 24


def test_scoring_again_keeps_the_predictions_and_asks_the_new_judge_alone(judged):
    folder, _, _, asked_by_words, by_other = judged
    assert asked_by_words == 0
    for name in ("by-words", "by-other"):
        assert contents(folder / name, JOURNALS[:1]) == contents(folder / "by-llm", JOURNALS[:1])
    assert summary(folder / "by-words")["model"] == "openai/scripted"
    assert len(by_other) == 12
    assert all(is_judging(body) and body["model"] == "other-judge" for body in by_other)


def test_scoring_again_makes_a_new_folder_and_goes_not_into_the_same(alps, finished_run, tmp_path):
    before = contents(finished_run)
    finished = alps("score", "out", "judge=lexical", "seed=7")
    (made,) = [path for path in tmp_path.iterdir() if path.name.startswith("out--")]
    assert finished.returncode == 0
    assert {path.name for path in made.iterdir()} == FILES
    for out in ("out", "./out/../out"):
        assert "needs a new folder" in one_line(alps("score", "out", "judge=lexical", f"out={out}"))
    assert contents(finished_run) == before


def test_scoring_again_an_unfinished_run_leaves_the_missing_records_unheard(
    alps, finished_run, tmp_path
):
    path = finished_run / "predictions.jsonl"
    path.write_bytes(
        b"".join(path.read_bytes().splitlines(keepends=True)[:10]) + b'{"benchmark_id": "alps_ext_'
    )
    finished = alps("score", "out", "judge=lexical", "out=again")
    track = task1(tmp_path / "again")
    assert finished.returncode == 1
    assert (track["scored"], track["failed_predictions"]) == (10, {"transport": len(IDS) - 10})
    assert len(complete_rows(path)) == 10


def test_a_key_in_the_command_of_a_program_gets_into_no_file_and_no_name(tmp_path):
    key = "sk-canary-command-0004"
    write_visitors(tmp_path / "data", 1)
    (tmp_path / "silent.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({**json.loads(line), 'memory_items': []}), flush=True)\n"
    )
    model = f"model=program:{sys.executable} silent.py --key {key}"
    finished = run(tmp_path, "run", "task=extraction", "data=data", model)
    assert finished.returncode == 0, finished.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    written = [path.read_text() for path in folder.iterdir()]
    texts = [folder.name, finished.stdout, finished.stderr, *written]
    assert [text for text in texts if key in text] == []
