"""What the benchmarks of crashes share.

Real runs that are started, killed, and compared with an undisturbed one.
"""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import environment

CHILD = Path(__file__).with_name("crash_child.py")
JOURNALS = ("predictions.jsonl", "verdicts.jsonl", "scores.jsonl")
PATIENCE = 120
PROGRAM = """
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    said = [turn["text"] for turn in asked["input"]["dialogue"] if turn["role"] == "user"][:3]
    items = [{"value": text[:80], "type": "direct"} for text in said]
    print(json.dumps({"benchmark_id": asked["benchmark_id"], "memory_items": items}), flush=True)
"""


@dataclass(frozen=True)
class Setup:
    """A run that is disturbed.

    Attributes:
        name: How it is called in the table and in `only=`.
        words: Of `alps run`, without `out=`.
        chains: How many times it is killed again and again until it is done.
        asks: Whether an LLM and a judge on loopback are asked, with the cache on.
    """

    name: str
    words: tuple[str, ...]
    chains: int
    asks: bool = False


@dataclass(frozen=True)
class Calm:
    """An undisturbed run: its folder, and how many seconds it took.

    Besides, after how many seconds it held its folder, and for how many.
    """

    out: Path
    seconds: float
    lead: float
    held: float


@dataclass
class Place:
    """A folder in which the command is started, with a cache of its own."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def out(self) -> Path:
        """The run folder."""
        return self.folder / "out"

    def start(
        self, words: Sequence[str], spec: Mapping[str, Any] | None = None, **more: Any
    ) -> "subprocess.Popen[str]":
        """Start `alps run`, with the disturbance `spec` where one is given."""
        command = ["-m", "alps"] if spec is None else [str(CHILD), json.dumps(spec)]
        out = [] if any(word.startswith("out=") for word in words) else [f"out={self.out}"]
        return subprocess.Popen(
            [sys.executable, *command, "run", *words, *out],
            cwd=self.folder,
            env=environment(self.folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code (negative for a signal), and what it said."""

    code: int
    output: str
    errors: str

    @property
    def problem(self) -> str:
        """What is wrong with the end of a run that should have ended well; else empty."""
        well = (self.code, self.errors) == (0, "")
        return "" if well else f"exit {self.code}: {self.errors.strip()[-200:]}"


def finish(process: "subprocess.Popen[str]", timeout: float = PATIENCE) -> Ended:
    """Wait for a command; one that hangs is killed, which its exit code tells."""
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        errors += f"(it hung for {timeout:g} s)"
    return Ended(process.returncode, output, errors)


def holds_a_lock(process: "subprocess.Popen[str]") -> bool:
    """Tell whether a process has locked its run folder, without touching the lock."""
    locks = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    return any(
        words[1] == "FLOCK" and words[4] == str(process.pid)
        for words in map(str.split, locks)
        if "->" not in words
    )


def wait_for_lock(process: "subprocess.Popen[str]") -> None:
    """Wait until a process has locked its run folder, or is gone."""
    while process.poll() is None and not holds_a_lock(process):
        time.sleep(0.002)


def kill_after(process: "subprocess.Popen[str]", seconds: float) -> tuple[bool, bool]:
    """Kill a process; return whether it was still there, and had locked its folder then."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        held = holds_a_lock(process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return process.returncode == -signal.SIGKILL, held
    process.communicate()
    return False, False


def undisturbed(setup: Setup, words: Sequence[str], place: Place) -> Calm:
    """Carry out a run from end to end.

    Raises:
        SystemExit: If it does not end well.
    """
    started = time.perf_counter()
    process = place.start(words)
    wait_for_lock(process)
    lead = time.perf_counter() - started
    while process.poll() is None and holds_a_lock(process):
        time.sleep(0.002)
    held = time.perf_counter() - started - lead
    ended = finish(process)
    if ended.problem:
        sys.exit(f"{setup.name}: the undisturbed run failed: {ended.problem}")
    return Calm(place.out, time.perf_counter() - started, lead, held)


def figures(out: Path) -> Any:
    """Return the summary of a run without what may differ.

    Seconds, and how often was asked and what it cost.
    """
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    summary.pop("calls")
    for track in summary["tracks"].values():
        track.pop("seconds_per_query", None)
    return summary


def differences(out: Path, calm: Path, *, manifest: bool = True) -> list[str]:
    """Return in what a finished run differs from an undisturbed one.

    The manifest names the address that is asked.
    """
    names, others = ({path.name for path in folder.iterdir()} for folder in (out, calm))
    found = [f"{name}: only in one of the folders" for name in sorted(names ^ others)]
    same = (*JOURNALS, *(("manifest.json",) if manifest else ()))
    for name in same:
        if (out / name).read_bytes() != (calm / name).read_bytes():
            found.append(f"{name} differs")
    return found + (["summary.json differs"] if figures(out) != figures(calm) else [])


def stored(cache: Path, scratch: Path) -> tuple[int, str]:
    """Return how many replies the cache holds after a kill, and what is wrong with it.

    Only a copy of it is looked at.
    """
    if not (cache / "replies.sqlite").exists():
        return 0, ""
    scratch.mkdir(exist_ok=True)
    for suffix in ("", "-wal"):
        part, copy = cache / f"replies.sqlite{suffix}", scratch / f"replies.sqlite{suffix}"
        copy.unlink(missing_ok=True)
        if part.exists():
            copy.write_bytes(part.read_bytes())
    database = sqlite3.connect(scratch / "replies.sqlite")
    try:
        found = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'replies'")
        if not found.fetchone()[0]:
            return 0, ""
        keys = [row[0] for row in database.execute("SELECT key FROM replies")]
        sound = database.execute("PRAGMA integrity_check").fetchone()[0]
    finally:
        database.close()
    problem = "" if sound == "ok" else f"the cache is damaged: {sound}"
    if not problem and any(key.startswith("never committed") for key in keys):
        problem = "the cache holds what was never committed"
    return sum(not key.startswith("committed ") for key in keys), problem
