"""What the soak is made of.

The samples, the command as a watched process, and what a server's log says of it.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import environment

from alps.data.release import write_track

MODEL, JUDGE = "openai/soaked", "openai/soaked-judge"
TOWNS, PETS = ("Lyon", "Porto", "Graz", "Turku", "Cork"), ("beagle", "tabby cat", "parrot", "gecko")
HEARD = "How nice! There is a park along the river, and the path through it is flat and shady."
JOURNALS = ("predictions.jsonl", "verdicts.jsonl", "scores.jsonl")
_PAGE = os.sysconf("SC_PAGE_SIZE") / 2**20
_EVERY = 0.1

Row = dict[str, Any]


def write_samples(folder: Path, count: int) -> None:
    """Write `count` dialogues of four turns.

    The first gold memory is in each, the second in two of three.
    """
    write_track(folder / "dev" / "task1", (_pair(number) for number in range(count)))


def _pair(number: int) -> tuple[Row, Row]:
    ids = {"benchmark_id": f"soaked_{number}", "session_id": f"s_{number}", "task": "task1"}
    town, pet = TOWNS[number % len(TOWNS)], PETS[number % len(PETS)]
    turns = []
    said = f"I live in {town} at house {number}.", f"I have a {pet}. It is {number} weeks old."
    for text in said:
        turns += [{"role": "user", "text": text}, {"role": "assistant", "text": HEARD}]
    values = f"Lives in {town}", f"Has a {pet}" if number % 3 else "Plays the bassoon"
    about = {"type": "direct", "label": "UNMAPPED", "confidence": 0.95}
    items = []
    for n, value in enumerate(values, start=1):
        items.append({"memory_id": f"m{n}", "value": value, **about})
    return {**ids, "input": {"dialogue": turns}}, {**ids, "gold": {"memory_items": items}}


@dataclass(frozen=True)
class Ended:
    """A command that has ended.

    Attributes:
        folder: Its run folder.
        seconds: From its start to its end.
        cpu: Seconds of a processor that it took.
        memory: `(seconds since the start, megabytes resident, bytes of scores.jsonl)`, every tenth
            of a second.
        lines: What it said on stderr.
    """

    folder: Path
    code: int
    seconds: float
    cpu: float
    memory: Sequence[tuple[float, float, int]]
    lines: Sequence[str]

    def growth(self) -> tuple[float, float]:
        """Return the megabytes when a tenth was scored, and by how many they grew at most."""
        tenth = self.memory[-1][2] / 10
        after = [megabytes for _, megabytes, size in self.memory if size >= tenth]
        return (after[0], max(after) - after[0]) if after else (0.0, 0.0)


class Command:
    """`alps run` over the samples, as a process of its own whose memory is watched."""

    def __init__(self, home: Path, url: str, out: str, *words: str, judge: bool = True) -> None:
        models = [f"model={MODEL}", f"api_base={url}"]
        if judge:
            models += [f"judge={JUDGE}", f"judge_api_base={url}", "judge_check=no"]
            models += ["baseline_records=0"]
        self.folder = home / out
        self.wait_started = time.monotonic()
        command = [sys.executable, "-m", "alps", "run", "task=extraction", "data=data"]
        self.process = subprocess.Popen(
            [*command, f"out={out}", *models, *words],
            cwd=home,
            env=environment(home, ALPS_CACHE=str(home / f"cache-{out}")),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.memory: list[tuple[float, float, int]] = []
        threading.Thread(target=self._watch, daemon=True).start()

    def ended(self, within: float = 900) -> Ended:
        """Wait for its end; one that takes longer is ended, and is told by its exit code."""
        try:
            said = self.process.communicate(timeout=within)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            said = self.process.communicate()[1]
        seconds = time.monotonic() - self.wait_started
        lines = [line for line in said.splitlines() if line.strip()]
        code, memory = self.process.returncode, self.memory or [(0, 0, 0)]
        return Ended(self.folder, code, seconds, self.cpu, memory, lines)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def written(self) -> int:
        """Return how many rows stand in its predictions by now."""
        path = self.folder / JOURNALS[0]
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def reached(self, predictions: int) -> bool:
        """Wait until so many predictions are written; tell whether it was still running then."""
        while self.process.poll() is None and self.written() < predictions:
            time.sleep(0.05)
        return self.process.poll() is None

    def _watch(self) -> None:
        place, scores = Path(f"/proc/{self.process.pid}"), self.folder / JOURNALS[2]
        ticks, self.cpu = os.sysconf("SC_CLK_TCK"), 0.0
        while self.process.poll() is None:
            try:
                megabytes = int((place / "statm").read_text().split()[1]) * _PAGE
                times = (place / "stat").read_text().rpartition(")")[2].split()
            except (OSError, IndexError):
                return
            if megabytes:
                self.cpu = (int(times[11]) + int(times[12])) / ticks
                size = scores.stat().st_size if scores.exists() else 0
                self.memory.append((time.monotonic() - self.wait_started, megabytes, size))
            time.sleep(_EVERY)


def read(path: Path) -> dict[str, Row]:
    """Return the rows of a journal by their records.

    Every line must be whole, and no record may stand there twice.
    """
    lines = [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
    found = {row["benchmark_id"]: row for row in lines}
    if len(found) != len(lines):
        sys.exit(f"{path.name}: {len(lines) - len(found)} records stand there twice.")
    return found


def differing(folder: Path, calm: Path, count: int) -> tuple[int, int]:
    """Return how many of the first records were heard in both runs, and how many rows differ.

    The notes of a prediction, which tell what it took, are left out.
    """
    heard = different = 0
    ours, theirs = ([read(place / name) for name in JOURNALS] for place in (folder, calm))
    for number in range(count):
        name = f"soaked_{number}"
        if any(rows.get(name, {}).get("outcome") != "ok" for rows in (*ours, *theirs)):
            continue
        heard += 1
        journals = zip(ours, theirs, strict=True)
        different += any(_plain(mine[name]) != _plain(other[name]) for mine, other in journals)
    return heard, different


def _plain(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "notes"}


def summary(folder: Path) -> Row:
    """Return what the summary of a run says of its track."""
    whole = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    track: Row = whole["tracks"]["task1"]
    return track


def too_early(log: Sequence[Row], grace: float) -> tuple[int, int, float]:
    """Return how many requests came too early after a 429, and how many 429s asked to wait.

    What comes within `grace` seconds was on its way when the answer came. The third is the latest
    of those, in seconds.
    """
    pauses = [(row["time"], row["time"] + row["retry_after"]) for row in log if row["retry_after"]]
    early, latest = 0, 0.0
    for row in log:
        after = max(
            (row["arrived"] - start for start, end in pauses if start < row["arrived"] < end),
            default=0.0,
        )
        early += after > grace
        latest = max(latest, after if after <= grace else 0.0)
    return early, len(pauses), latest


def refused_share(log: Sequence[Row], start: float, end: float) -> float:
    """Return the share of 429 among the requests between two times, in seconds after the first."""
    first = min(row["arrived"] for row in log)
    statuses = Counter(row["status"] == 429 for row in log if start <= row["arrived"] - first < end)
    return statuses[True] / max(1, statuses.total())


def lasting(log: Sequence[Row]) -> float:
    """Return the seconds from the first arrival to the last answer."""
    seconds: float = max(row["time"] for row in log) - min(row["arrived"] for row in log)
    return seconds


def ideal(log: Iterable[Row], places: int) -> float:
    """Return the seconds that the requests take where `places` of them are always under way."""
    seconds: float = sum(row["time"] - row["arrived"] for row in log)
    return seconds / places
