"""Names out of files and of people: never a path, and no two of them one file."""

import json
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from alps.errors import UsageError
from alps.ext.memory.board_packing import _slug
from alps.ext.memory.comparison import run_beside
from alps.ext.people.annotate.export import path_fault
from alps.ext.people.annotate.seat import Seat
from alps.folders import file_names, is_file_name, same_file, slug
from tests.annotate_work import NEEDED, label_all, plain_work
from tests.endtoend import one_line, rows, run
from tests.submissions import make_run

HOSTILE = (
    *("Mem A", "mem a", "MEM A", "Mem A.", "Mem A ", "Mem/A", "Mem_A", "Mem:A", "Mem\x00A"),
    *("..", ".", "", "/etc/passwd", "../../out", "..\\out", "con", "NUL", "nul.jsonl", "COM1.x"),
    *("caf\u00e9", "cafe\u0301", "\ufb01le", "file", "系统", "系統", "\ud800"),
    *("x" * 400, "x" * 401),
)


@pytest.mark.parametrize(
    "plain",
    [
        lambda name: name,
        slug,
        _slug,
        # Imported here: its library takes seconds in every process that collects tests.
        lambda name: import_module("alps.ext.export.inspect_logs")._log_name("1_run_", name),
        lambda name: "one",
    ],
)
def test_no_two_names_share_a_file_and_none_is_a_path(plain):
    files = file_names(HOSTILE, plain)
    assert list(files) == list(dict.fromkeys(HOSTILE))
    assert len({same_file(file) for file in files.values()}) == len(files)
    assert all(map(is_file_name, files.values()))
    assert all(len(file.encode()) < 200 for file in files.values())


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("openai/gpt-4.1-mini", "gpt-4.1-mini"),
        ("last:10", "last-10"),
        ("python:notes:Notes", "python-notes-Notes"),
        ("lexical", "lexical"),
    ],
)
def test_a_name_that_is_safe_has_the_folder_that_it_had(name, file):
    assert slug(name) == file
    assert file_names([name], slug) == {name: file}


@pytest.mark.parametrize(
    "track", ["../out", "task1/../../out", "/out", "task1\x00", "", ".x", "a\\b"]
)
def test_a_track_out_of_a_file_is_no_path(track):
    assert path_fault(track)
    assert path_fault("task3/d100") is None


def test_systems_of_imported_files_have_a_file_each(tmp_path):
    names = ("Mem A", "mem a", "Mem/A", "../../out", "NUL")
    for number, name in enumerate(names):
        result = {"query_id": "q", "query": "Where?", "answer": name, "gold_answers": ["Graz"]}
        result |= {"correct": True, "meta": {"sample_id": "c", "category": "k"}}
        file = {"run_name": name, "dataset": "o", "accuracy": 1.0, "results": [result]}
        (tmp_path / f"{number}.json").write_text(json.dumps(file))
    files = [f"{number}.json" for number in range(len(names))]
    done = run(tmp_path, "import", "amb", *files, "out=in/here/out")
    assert done.returncode == 0, done.stderr
    written = list((tmp_path / "in/here/out/predictions").iterdir())
    assert {rows(path)[0]["answer"] for path in written} == set(names)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} <= {"cache", "in"}


@pytest.mark.release
def test_rows_beside_a_run_whose_memories_fall_together_have_a_folder_each(tmp_path):
    words = ("task=personamem", "model=rules", "memory=none", "size=32k", "limit=4")
    folder = make_run(tmp_path / "run", *words)
    run_beside(folder, ("last:10",), {}, typed={})
    shutil.move(folder / "beside/last-10", folder / "beside/last-1")
    done = run_beside(folder, ("last:1",), {}, typed={})
    assert len({path.name for path in done.folders}) == 2
    assert done == run_beside(folder, ("last:1",), {}, typed={})
    assert done.folders[1] != folder / "beside/last-1"


def test_judges_whose_folders_fall_together_are_refused(tmp_path):
    make_run(tmp_path / "run", "task=extraction", "model=rules", "limit=2")
    for judges in ("openai/x,other/x", "openai/x,openai/X", "openai/x!,openai/x?"):
        done = run(tmp_path, "judges", "run", f"judge={judges}", "out=cells")
        assert "its folder has the same name as" in one_line(done)


def test_two_people_never_have_one_journal(tmp_path):
    pytest.importorskip("starlette", reason=NEEDED)
    folder = plain_work(tmp_path / "work", 4)
    label_all(folder, "anna", lambda step: {"label": "1"})
    with pytest.raises(UsageError, match="as=Anna: has the same file name as anna"):
        Seat(Path(folder), "Anna")
