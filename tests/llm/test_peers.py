"""Runs over the wire formats of seven providers, as aimock speaks them: software that nobody here
wrote.
"""

import importlib
import os
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.endtoend import rows, run

RECORDS = 2
sys.path.append(str(ROOT / "bench"))
peers = importlib.import_module("peers")
sys.path.remove(str(ROOT / "bench"))


@pytest.fixture(scope="module")
def aimock():
    """The address of aimock, out of the folder that ALPS_AIMOCK names, which must exist."""
    folder = os.environ.get("ALPS_AIMOCK")
    if not folder:
        pytest.skip(
            "aimock is not here: python bench/peers.py install folder=DIR, then ALPS_AIMOCK=DIR"
        )
    with peers.aimock(Path(folder).resolve()) as url:
        yield url


@pytest.mark.parametrize("name", peers.ROUTES)
def test_every_record_is_answered_and_judged_over_every_wire_format(aimock, tmp_path, name):
    route = peers.ROUTES[name]
    done = run(tmp_path, *peers.words_on(route, aimock, records=RECORDS), **route.variables)
    assert done.returncode == 0, done.stderr
    ran = peers.ran(tmp_path / "out", RECORDS, done.stderr)
    assert (ran.records, ran.outcomes) == (RECORDS, {"ok": RECORDS})


def test_a_run_in_batches_ends_over_files_that_nobody_here_wrote(aimock, tmp_path):
    # Its batches answer everybody alike, in words that are no JSON: each is asked again by itself.
    route = peers.ROUTES["openai"]
    words = [*peers.words_on(route, aimock, records=RECORDS), "batch=yes", "baseline_records=0"]
    done = run(tmp_path, *words, **route.variables)
    assert done.returncode == 0, done.stderr
    assert peers.ran(tmp_path / "out", RECORDS, done.stderr).outcomes == {"ok": RECORDS}
    steps = [row["step"] for row in rows(tmp_path / "out" / "batches.jsonl")]
    assert steps == ["intended", "placed", "ordered"] * 2
    ways = [row["service"] for row in rows(tmp_path / "out" / "calls.jsonl")]
    assert ways.count("batch") == 2 * RECORDS


def test_an_endpoint_without_batches_is_one_line(aimock, tmp_path):
    route = peers.ROUTES["anthropic"]
    words = [*peers.words_on(route, aimock, records=RECORDS), "batch=yes"]
    done = run(tmp_path, *words, **route.variables)
    assert done.returncode == 2
    assert "the endpoint takes no batches" in done.stderr.splitlines()[-1]


def test_a_peer_that_can_not_be_installed_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["peers.py", "aimock"])
    with pytest.raises(SystemExit) as ended:
        peers.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "aimock: npm is not installed\n"
