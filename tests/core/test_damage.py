import json
import resource
import shutil

import pytest

from tests.endtoend import (
    JOURNALS,
    contents,
    damage_file,
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


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded")
    run(folder, "run", "task=extraction", "model=rules", "data=samples", "out=out")
    return folder / "out"


@pytest.mark.few(1)
@pytest.mark.parametrize("damage", [torn, garbage_in_the_middle, foreign_lines, torn_to_nothing])
def test_journals_that_hold_something_else_are_mended_on_resume(alps, embedded, tmp_path, damage):
    out = shutil.copytree(embedded, tmp_path / "out")
    for name in JOURNALS:
        damage_file(out / name, damage)
    finished = alps("run", "task=extraction", "model=rules", "data=samples", "out=out")
    assert finished.returncode == 0, finished.stderr
    assert contents(out) == contents(embedded)


@pytest.mark.few(1)
@pytest.mark.parametrize("damage", [torn, foreign_lines])
def test_damaged_calls_do_not_stop_a_run(alps, embedded, tmp_path, damage):
    out = shutil.copytree(embedded, tmp_path / "out")
    call = {
        "key": "k",
        "purpose": "judge",
        "about": "a",
        "model": "m",
        "ask": 0,
        "attempt": 1,
        "outcome": "ok",
    }
    rest = {"status": 200, "prompt_tokens": 1, "completion_tokens": 1, "cost": None, "seconds": 0.1}
    lines = [json.dumps({**call, **rest}).encode() + b"\n"] * 3
    damage(lines)
    (out / "calls.jsonl").write_bytes(b"".join(lines))
    finished = alps("run", "task=extraction", "model=rules", "data=samples", "out=out")
    assert finished.returncode == 0, finished.stderr
    assert contents(out, JOURNALS) == contents(embedded, JOURNALS)


@pytest.mark.release
def test_a_full_disk_is_one_line_and_the_run_goes_on_when_there_is_room(embedded, tmp_path):
    words = ("run", "task=extraction", "model=rules", "data=samples", "out=out")
    limit = (embedded / "scores.jsonl").stat().st_size // 2
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, allowed[1]))
    try:
        process = start_cold(tmp_path, *words)  # inherits the limit
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    assert "File too large" in one_line(finish(process))
    assert all(rows(tmp_path / "out" / name) is not None for name in JOURNALS)
    assert run(tmp_path, *words).returncode == 0
    assert contents(tmp_path / "out") == contents(embedded)
