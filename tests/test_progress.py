"""What somebody who watches a run sees of it while it goes on."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.endtoend import environment
from tests.visitors import visitor_id, write_visitors

pty = pytest.importorskip("pty", reason="there are pseudo-terminals on POSIX systems only")


def watched(folder: Path, *words: str) -> str:
    """Run the command with a terminal of 80 columns for its stderr; return what came there."""
    own, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "alps", *words],
        cwd=folder,
        env=environment(folder, TERM="xterm"),
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    )
    os.close(terminal)
    seen = b""
    with suppress(OSError):  # how the end of the other side is told
        while part := os.read(own, 4096):
            seen += part
    os.close(own)
    assert process.wait() == 0, seen
    return seen.decode()


def test_progress_stays_on_one_line_names_the_system_as_it_was_given_and_goes_away(tmp_path):
    write_visitors(tmp_path / "data", 3)
    rows = [
        json.dumps({"benchmark_id": visitor_id(number), "memory_items": []}) for number in range(3)
    ]
    (tmp_path / "pred[b]:dog:.jsonl").write_text("".join(f"{row}\n" for row in rows))
    seen = watched(
        tmp_path, "run", "task=extraction", "data=data", "model=predictions:pred[b]:dog:.jsonl"
    )
    assert "predictions:pred[b]:dog:.jsonl" in seen
    assert "3/3" in seen
    assert seen.count("\n") <= 1
    assert seen.endswith("\x1b[2K")
