"""Runs, caches and folders that a crash, a full disk or another program left odd."""

import errno
import fcntl
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import contextmanager

import pytest

from alps import open_run
from alps.errors import RunFolderError
from alps.llm.cache import Cache
from alps.llm.ledger import Call
from alps.llm.types import Reply
from alps.run.estimate import dry_run
from alps.run.folder import claimed_folder
from alps.run.services import close_cache
from alps.settings import RunSettings, parse_settings
from tests.conftest import ROOT
from tests.endtoend import (
    JOURNALS,
    contents,
    damage_file,
    environment,
    finish,
    foreign_lines,
    garbage_in_the_middle,
    one_line,
    rows,
    run,
    start_cold,
    torn,
    torn_to_nothing,
)

BENCH = ROOT / "bench"
CHILD = BENCH / "crash_child.py"
WORDS = ("run", "task=extraction", "model=rules", "limit=12", "out=out")
ENDS = (
    {"kind": "write", "file": "predictions.jsonl", "n": 4, "keep": 0.5},
    {"kind": "fsync", "file": "verdicts.jsonl", "n": 1, "keep": 0.3},
    {"kind": "replace", "file": "summary.json", "when": "before"},
)
JUMPING = {"kind": "clock", "jumps": [(0.2, -86_400), (0.4, 366 * 86_400)]}
STORING = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import crash_child
crash_child.at_insertion({"kind": sys.argv[2], "n": 4})
from alps.llm.cache import Cache
from alps.llm.types import Reply
cache = Cache(Path(sys.argv[3]))
for number in range(9):
    cache.put(f"key {number}", Reply(f"text {number}"))
"""
AGAIN = "to write them again, repeat the same alps run"
CALL = Call(key="k", purpose="judge", about="a" * 500, model="m", ask=0, attempt=1, outcome="ok")


def disturbed(folder, spec):
    command = [sys.executable, str(CHILD), json.dumps(spec), *WORDS]
    given = environment(folder)
    return subprocess.run(
        command, check=False, cwd=folder, env=given, capture_output=True, text=True, timeout=300
    )


@contextmanager
def no_file_longer_than(size):
    """Let nothing be written beyond it: by this process, and by those that it starts."""
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, allowed[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calm")
    assert run(folder, *WORDS).returncode == 0
    return folder / "out"


@pytest.mark.few(1)
@pytest.mark.parametrize("damage", [torn, garbage_in_the_middle, foreign_lines, torn_to_nothing])
def test_journals_that_hold_something_else_are_mended_on_resume(calm, tmp_path, damage):
    out = shutil.copytree(calm, tmp_path / "out")
    for name in JOURNALS:
        damage_file(out / name, damage)
    finished = run(tmp_path, *WORDS)
    assert finished.returncode == 0, finished.stderr
    assert contents(out) == contents(calm)


@pytest.mark.parametrize("name", ["predictions.jsonl", "verdicts.jsonl", "scores.jsonl"])
def test_lost_rows_of_a_finished_run_are_named_and_come_back_with_the_same_run(
    calm, tmp_path, name
):
    out = shutil.copytree(calm, tmp_path / "out")
    (out / name).write_bytes(b"".join((calm / name).read_bytes().splitlines(keepends=True)[:5]))
    commands = [("export", "out", "format=csv", "out=csv")]
    commands += [("report", "out")] if name != "verdicts.jsonl" else []
    commands += [("compare", "out", str(calm))] if name == "scores.jsonl" else []
    for words in commands:
        told = one_line(run(tmp_path, *words)).strip()
        assert told == f"alps: out/{name}: 7 of 12 rows are lost; {AGAIN}"
    with pytest.raises(RunFolderError, match="7 of 12 rows are lost"):
        list(open_run(out).records())
    # A record that is there can be looked at; what is shown of it without its verdict is not all.
    assert run(tmp_path, "show", "out", "1").returncode == 0
    said = run(tmp_path, "show", "out", "9").stdout
    assert ("its verdict is lost; to write it again" in said) is (name == "verdicts.jsonl")
    assert run(tmp_path, *WORDS).returncode == 0
    assert contents(out) == contents(calm)


@pytest.mark.parametrize("text", ["", '{"model": "rules"', "null"])
def test_a_damaged_summary_is_written_again_by_the_same_run_as_it_is_told(calm, tmp_path, text):
    out = shutil.copytree(calm, tmp_path / "out")
    (out / "summary.json").write_text(text)
    told = one_line(run(tmp_path, "show", "out")).strip()
    assert told.endswith("to write it again, repeat the same alps run")
    assert run(tmp_path, *WORDS).returncode == 0
    assert contents(out) == contents(calm)


@pytest.mark.few(1)
@pytest.mark.parametrize("damage", [torn, foreign_lines])
def test_damaged_calls_do_not_stop_a_run(calm, tmp_path, damage):
    out = shutil.copytree(calm, tmp_path / "out")
    with claimed_folder(out) as ledger:
        for _ in range(3):
            ledger.record(CALL)
    damage_file(out / "calls.jsonl", damage)
    finished = run(tmp_path, *WORDS)
    assert finished.returncode == 0, finished.stderr
    assert contents(out, JOURNALS) == contents(calm, JOURNALS)


@pytest.mark.release
def test_a_full_disk_is_one_line_and_the_run_goes_on_when_there_is_room(calm, tmp_path):
    with no_file_longer_than((calm / "scores.jsonl").stat().st_size // 2):
        process = start_cold(tmp_path, *WORDS)
    assert "File too large" in one_line(finish(process))
    assert all(rows(tmp_path / "out" / name) is not None for name in JOURNALS)
    assert run(tmp_path, *WORDS).returncode == 0
    assert contents(tmp_path / "out") == contents(calm)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "replies.sqlite"


def test_a_run_ended_within_a_line_before_an_fsync_and_before_a_rename_ends_as_an_undisturbed_one(
    calm, tmp_path
):
    assert [disturbed(tmp_path, spec).returncode for spec in ENDS] == [-9, -9, -9]
    finished = run(tmp_path, *WORDS)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert contents(tmp_path / "out") == contents(calm)
    there, expected = (sorted(os.listdir(folder)) for folder in (tmp_path / "out", calm))
    assert there == expected


@pytest.mark.release
def test_a_clock_that_jumps_changes_nothing(calm, tmp_path):
    finished = disturbed(tmp_path, JUMPING)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert contents(tmp_path / "out") == contents(calm)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["transaction", "frame", "checkpoint"])
def test_a_cache_whose_process_died_while_it_wrote_keeps_what_was_stored_and_nothing_else(
    path, kind
):
    died = subprocess.run(
        [sys.executable, "-c", STORING, str(BENCH), kind, str(path)], check=False, timeout=300
    )
    assert died.returncode < 0
    cache = Cache(path)
    found = [cache.get(f"key {number}") for number in range(9)]
    assert found == [*(Reply(f"text {number}") for number in range(3)), *[None] * 6]
    assert cache.get("never committed 0") is None
    assert (cache.rebuilt, cache.troubles) == (False, [])
    cache.put("key 3", Reply("text 3"))
    assert cache.get("key 3") == Reply("text 3")
    cache.close()


def test_a_cache_with_other_columns_is_put_aside_and_that_is_said(path, capsys):
    path.parent.mkdir()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE replies (number INTEGER, question TEXT, answer TEXT)")
    other.commit()
    other.close()
    cache = Cache(path)
    cache.put("key", Reply("text"))
    assert cache.get("key") == Reply("text")
    close_cache(cache)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(path) in said
    assert "replies.broken" in said


def test_a_cache_held_by_another_program_is_gone_without_and_not_waited_for_at_every_reply(
    path, capsys, monkeypatch
):
    monkeypatch.setattr("alps.llm.cache._STORING_SECONDS", 0.01)
    cache = Cache(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    cache.put("during", Reply("text"))
    other.execute("COMMIT")
    cache.put("later", Reply("text"))
    assert (cache.get("during"), cache.get("later"), cache.unkept) == (None, None, 2)
    close_cache(cache)
    assert "2 replies could not be cached (database is locked)" in capsys.readouterr().err
    other.close()


def test_a_cache_without_troubles_says_nothing(path, capsys):
    cache = Cache(path)
    cache.put("key", Reply("text"))
    close_cache(cache)
    close_cache(None)
    assert capsys.readouterr().err == ""


def fill(ledger):
    with no_file_longer_than(4_096):
        for _ in range(20):
            ledger.record(CALL)


def test_a_full_disk_is_said_with_the_folder_that_is_on_it(tmp_path):
    with (
        pytest.raises(OSError, match="File too large") as caught,
        claimed_folder(tmp_path / "out") as ledger,
    ):
        fill(ledger)
    assert caught.value.filename == str(tmp_path / "out")
    lines = (tmp_path / "out" / "calls.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) > 1
    assert all(json.loads(line) and line.endswith(b"\n") for line in lines)


def test_a_lock_left_by_a_killed_process_is_free_even_where_its_number_lives_again(tmp_path):
    (tmp_path / ".lock").write_text(f"process {os.getpid()} on here")
    with claimed_folder(tmp_path):
        assert f"process {os.getpid()} on" in (tmp_path / ".lock").read_text()


def test_a_second_process_is_refused_and_told_who_holds_the_folder(tmp_path):
    with claimed_folder(tmp_path / "out"):
        second = run(tmp_path, *WORDS)
        assert {*os.listdir(tmp_path / "out")} - {"calls.jsonl"} == {".lock"}
    assert (second.returncode, second.stdout) == (2, "")
    assert second.stderr.startswith(f"alps: out: in use by process {os.getpid()} on ")
    assert second.stderr.count("\n") == 1
    assert run(tmp_path, *WORDS).returncode == 0


def test_a_file_system_without_locks_is_not_called_another_process(tmp_path, monkeypatch):
    def unable(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unable)
    with (
        pytest.raises(RunFolderError, match="No locks available") as caught,
        claimed_folder(tmp_path),
    ):
        pass
    assert "in use" not in str(caught.value)


def test_a_dry_run_leaves_the_line_alone_that_a_run_is_writing(tmp_path):
    words = {"task": "extraction", "model": "rules", "out": str(tmp_path / "out")}
    (tmp_path / "out").mkdir()
    begun = tmp_path / "out" / "predictions.jsonl"
    row = b'{"benchmark_id": "somebody", "track": "task1", "outcome": "ok"}\n'
    begun.write_bytes(row + b'{"benchmark_id": "some')
    before = begun.read_bytes()
    dry_run(parse_settings(words, RunSettings))
    assert begun.read_bytes() == before
