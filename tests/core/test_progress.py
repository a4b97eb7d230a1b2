"""What somebody who watches a command sees of it while it goes on: in a terminal and in a log."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from alps.llm.ledger import Totals
from alps.run.progress import Progress
from tests.endtoend import environment, run, start_cold, write_rows
from tests.loopback import Answer, serve
from tests.visitors import visitor_id, write_visitors

pty = pytest.importorskip("pty", reason="there are pseudo-terminals on POSIX systems only")


def watched(folder: Path, *words: str, code: int = 0, **variables: str) -> str:
    """Run the command with a terminal of 80 columns for its stderr; return what came there."""
    own, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "alps", *words],
        cwd=folder,
        env=environment(folder, TERM="xterm", **variables),
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    )
    os.close(terminal)
    seen = b""
    with suppress(OSError):  # how the end of the other side is told
        while part := os.read(own, 4096):
            seen += part
    os.close(own)
    assert process.wait() == code, seen
    return seen.decode()


def test_progress_stays_on_one_line_names_the_system_as_it_was_given_and_goes_away(tmp_path):
    write_visitors(tmp_path / "data", 3)
    name = "pred[b]:dog:.jsonl"
    rows = [{"benchmark_id": visitor_id(number), "memory_items": []} for number in range(3)]
    write_rows(tmp_path / name, rows)
    words = ("task=extraction", "data=data", f"model=predictions:{name}")
    seen = watched(tmp_path, "run", *words)
    assert f"predictions:{name}" in seen
    assert "3/3" in seen
    assert seen.index("3/3") < seen.index("computing scores")
    # Once where the bar goes: all that is shown before and after it is one line, too.
    assert seen.count("\n") <= 1
    assert seen.endswith("\x1b[2K")


def test_a_terminal_has_a_text_before_a_library_is_loaded(tmp_path):
    """Not within a time, which a busy machine may take, but before what takes the time."""
    (tmp_path / "stand-in").mkdir()
    (tmp_path / "stand-in" / "litellm.py").write_text(
        "import os, sys\nprint('IMPORTED', file=sys.stderr, flush=True)\nos._exit(2)\n"
    )
    write_visitors(tmp_path / "data", 1)
    words = ("run", "task=extraction", "data=data", "model=openai/tiny")
    stand_in = {"PYTHONPATH": str(tmp_path / "stand-in"), "OPENAI_API_KEY": "none"}
    seen = watched(tmp_path, *words, code=2, **stand_in)
    assert 0 <= seen.find("loading") < seen.find("IMPORTED")


@pytest.mark.release
def test_a_log_says_what_runs_and_since_when_no_answer_came(tmp_path):
    write_visitors(tmp_path / "data", 3)
    waited = threading.Event()

    def answer(body):
        waited.wait(60)
        return Answer(json.dumps({"memory_items": []}))

    with serve(answer) as server:
        words = ("task=extraction", "data=data", "model=openai/tiny", f"api_base={server.url}")
        process = start_cold(tmp_path, "run", *words, OPENAI_API_KEY="none", ALPS_PROGRESS="0.2")
        lines = []
        for line in process.stderr:
            lines.append(line.rstrip())
            if "no answer for" in line and "3 requests pending" in line:
                waited.set()
        with process.stdout, process.stderr:
            process.stdout.read()
        assert process.wait() == 0
    assert waited.is_set()
    assert any(line.endswith("extraction: openai/tiny, loading") for line in lines)
    assert any(line.endswith("extraction openai/tiny: 3 records") for line in lines)
    assert any("3/3  100 %" in line for line in lines)


def test_a_line_has_the_rate_failures_by_kind_and_the_time_left():
    progress = Progress(10, Totals(), began=time.monotonic() - 2)
    for scored, failure in ((True, ""), (True, "invalid"), (False, "transport"), (False, "")):
        progress.advance(scored, failure)
    told = re.sub(r"\d(\.\d)?/s", "RATE", progress.line())
    kinds = "1 failed (1 invalid)  2 unscored (1 transport, 1 unscored)"
    assert told == f"4/10  40 %  RATE  {kinds}  3 s left"
    short = re.sub(r"\d(\.\d)?/s", "RATE", progress.line(short=True))
    assert short == "4/10  40 %  RATE  1 invalid, 1 transport, 1 unscored  3 s left"
    unrated = Progress(2, Totals())
    unrated.advance(scored=False)
    assert "1/2  50 %" in unrated.line()
    assert "0 failed  1 unscored  " in unrated.line()
    assert Progress(3, Totals()).line() == "0/3  0 %  0 failed  0 unscored"


def test_a_line_with_a_wait_fits_80_columns_beside_the_time():
    totals = Totals(calls=240, cost=1.0, _waits_since=time.monotonic() - 60)
    progress = Progress(240, totals)
    progress.advance(False, "transport")
    line = progress.line()
    assert line.endswith("1 transport  $1.0000  no answer for 1 min 0 s, retrying")
    assert len(f"12:00:00 {line}") <= 80


@pytest.mark.parametrize(
    ("took", "done", "rate"),
    [(2, 30, "15/s"), (10, 15, "1.5/s"), (60, 30, "30/min"), (600, 5, "0.5/min")],
)
def test_a_rate_is_a_second_or_a_minute(took, done, rate):
    progress = Progress(100, Totals(), done=done, began=time.monotonic() - took)
    assert progress.rate() == rate


SCORING, CALIBRATING = "score run judge=lexical out=again", "calibrating lexical"
SITE, BUILDING = "leaderboard build submissions=none out=site", "building the site"
LOGS = {
    "a run": (
        "run task=retrieval model=bm25 data=samples out=other",
        *("retrieval: bm25, loading", "retrieval bm25: 72 records"),
    ),
    "a second judgement": (SCORING, "run: judging its answers", "26/26  100 %"),
    "a sweep": ("sweep plan.toml", "sweep: 2 runs, 98 records", "98/98  100 %"),
    "a calibration": ("calibrate judge=lexical labels=stress out=cal", CALIBRATING, "100 %"),
    "a site": (SITE, BUILDING, BUILDING),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("command", "begins", "also"), LOGS.values(), ids=LOGS)
def test_a_log_is_begun_and_goes_on(tmp_path, command, begins, also):
    words = command.split()
    own = ("task=extraction", "model=rules", "data=samples", "out=run")
    if words[0] == "score":
        assert run(tmp_path, "run", *own).returncode == 0
    (tmp_path / "none").mkdir()
    (tmp_path / "plan.toml").write_text(
        'data = "samples"\n[matrix]\nmodel = ["rules"]\ntask = ["extraction", "retrieval"]\n'
    )
    done = run(tmp_path, *words, ALPS_PROGRESS="30")
    lines = [line[9:] for line in done.stderr.splitlines() if re.match(r"\d\d:\d\d:\d\d ", line)]
    assert lines, done.stderr
    assert lines[0].startswith(begins)
    assert any(also in line for line in lines), done.stderr
    assert run(tmp_path, *words, ALPS_PROGRESS="off").stderr.count("100 %") == 0
