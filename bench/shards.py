"""Measure that shards are the undivided run: python bench/shards.py [sessions=654] [write=yes].

Eight shards of the real sessions with a recorded system (`ALPS_FULL` names their folder; left out
where it is not), and eight of `records` short samples that a model and a judge on loopback answer.
Shards run in a drawn order; three of them are killed (SIGKILL) within their run and started again.
Then they are merged and compared with the undivided run. Exits 1 where a bound is missed;
`write=yes` writes the section of docs/benchmarks.md.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from document import Bound, Section, missed, terminal, write_section
from memory_systems import BESIDE, INPUT, SPLIT
from processes import taken
from server import running
from words import read_words, whole

WORDS = {"sessions": "654", "records": "170", "seed": "0"}
COUNT, KILLED, AT_ONCE = 8, 3, 4
SYSTEM = "gpt-4.1-mini"
ROWS = ("predictions.jsonl", "verdicts.jsonl", "scores.jsonl")
TIMED = (
    *("seconds", "seconds_per_query", "phases", "answers", "bytes_per_1000_turns", "calls"),
    "admission",
)
"""Keys of a summary that differ between two runs: times, costs, and what was counted of them."""
PATIENCE = 300.0
LATENCY = "0.3"
"""How long the server takes to answer: a shard is killed while questions are under way."""
HERE = Path(__file__).resolve().parent


class Divided(NamedTuple):
    """A run and its merged shards.

    Attributes:
        differing: Files of the merged folder that are not those of the undivided run.
        killed: How many shards were killed.
        refused: How many of the wrong merges were refused in a line with exit code 2.
    """

    name: str
    records: int
    killed: int
    differing: tuple[str, ...]
    refused: int
    seconds: float


WRONG_MERGES = 3


def divided(home: Path, name: str, words: Sequence[str], drawn: random.Random) -> Divided:
    """Run whole, run in shards, merge and compare."""
    started = time.perf_counter()
    whole_run = home / "whole"
    taken([*_run(words), f"out={whole_run}"], home)
    # Its replies are not those of the shards: they ask for themselves.
    shutil.rmtree(home / "cache", ignore_errors=True)
    shards = {number: home / f"shard{number}" for number in range(1, COUNT + 1)}
    order = drawn.sample(list(shards), COUNT)
    killed = 0
    for number in order:
        shard = [*_run(words), f"shard={number}/{COUNT}", f"out={shards[number]}"]
        if number in order[:KILLED]:
            killed += _kill_within(shard, shards[number], home)
        taken(shard, home)
    merged = home / "merged"
    shuffled = drawn.sample(list(shards.values()), COUNT)
    taken(["-m", "alps", "merge", str(merged), *map(str, shuffled)], home)
    refused = sum(_is_refused(wrong, home) for wrong in _wrong_merges(home, shards, words))
    rows = len((whole_run / ROWS[0]).read_bytes().splitlines())
    differing = tuple(_differing(merged, whole_run))
    seconds = time.perf_counter() - started
    return Divided(name, rows, killed, differing, refused, seconds)


def _run(words: Sequence[str]) -> list[str]:
    return ["-m", "alps", "run", *words]


def _kill_within(words: Sequence[str], out: Path, home: Path) -> int:
    """Kill a shard once some of its rows are on disk; return 1, or 0 where it was too fast."""
    environment = {**os.environ, "ALPS_CACHE": str(home / "cache")}
    with (home / "killed").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=home, env=environment, stdout=said, stderr=said
        )
        deadline = time.monotonic() + PATIENCE
        journal = out / ROWS[0]
        while process.poll() is None and time.monotonic() < deadline:
            if journal.exists() and journal.read_bytes().count(b"\n") > 1:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.005)
        process.wait()
    return int(process.returncode == -signal.SIGKILL)


def _wrong_merges(
    home: Path, shards: dict[int, Path], words: Sequence[str]
) -> Iterator[Sequence[Path]]:
    """Yield shards of which one is missing, there twice, or of another run."""
    folders = list(shards.values())
    yield folders[1:]
    yield [*folders, folders[0]]
    other = home / "other"
    taken([*_run(words), "seed=7", "shard=1/8", f"out={other}"], home)
    yield [other, *folders[1:]]


def _is_refused(folders: Sequence[Path], home: Path) -> bool:
    words = ["-m", "alps", "merge", str(home / "refused"), *map(str, folders)]
    done = taken(words, home, codes=(0, 1, 2))
    return done.code == 2 and len(done.complained.splitlines()) == 1


def _differing(merged: Path, whole_run: Path) -> Iterator[str]:
    for name in (*ROWS, "manifest.json"):
        if (merged / name).read_bytes() != (whole_run / name).read_bytes():
            yield name
    ours, theirs = (
        untimed(json.loads((folder / "summary.json").read_text(encoding="utf-8")))
        for folder in (merged, whole_run)
    )
    if ours != theirs:
        yield "summary.json"


def untimed(value: Any) -> Any:
    """Return a summary without its times and costs."""
    if isinstance(value, list):
        return [untimed(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: untimed(item) for name, item in value.items() if name not in TIMED}


def recorded(home: Path, full: Path, sessions: int) -> list[str]:
    """Return the words of the run of a recorded system on real sessions."""
    data = home / "data" / SPLIT / "task1"
    data.mkdir(parents=True)
    for path in (full / SPLIT / "task1").glob("*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        (data / path.name).write_bytes(b"".join(lines[:sessions]))
    records = full / "outputs" / "task1" / SYSTEM
    memory = (f"memory=recorded:{records}", f"memory.dialogues={data / INPUT}")
    return ["task=extraction", "model=rules", *memory, f"data={home / 'data'}", "max_failures=100%"]


def bounds(runs: Sequence[Divided]) -> Iterator[Bound]:
    """Yield what is promised, and what came of it."""
    for run in runs:
        name = f"{run.name}, {run.records} records"
        files = ", ".join(run.differing) or "none"
        yield Bound(f"{name}: files that differ", "none", files, not run.differing)
        killed = f"{run.killed}"
        yield Bound(f"{name}: shards killed", f"{KILLED}", killed, run.killed == KILLED)
        refused = f"{run.refused}"
        held = run.refused == WRONG_MERGES
        yield Bound(f"{name}: wrong merges refused in a line", f"{WRONG_MERGES}", refused, held)


def table(runs: Sequence[Divided]) -> Iterator[list[str]]:
    """Yield the heading and the rows of the table."""
    yield ["run", "records", "shards", "killed", "files that differ", "s"]
    for run in runs:
        figures = [f"{run.records}", f"{COUNT}", f"{run.killed}", f"{len(run.differing)}"]
        yield [run.name, *figures, f"{run.seconds:.0f}"]


def section(cells: list[list[str]], promised: list[Bound], notes: list[str]) -> Section:
    """Return the section of the page."""
    text = (
        f"A run, and the same in {COUNT} shards that run in a drawn order; {KILLED} of them are "
        "killed (SIGKILL) once some of their\nrows are on disk, and started again. Merged, "
        "predictions, verdicts, scores and manifest must be the same bytes, and the\nsummary the "
        "same but for times and costs. A merge with a shard missing, with one there twice, and "
        "with one of another\nrun must each be refused in a line."
    )
    command = "python bench/shards.py write=yes"
    return Section("shards", "Shards", text, promised, command, cells, notes)


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], WORDS)
    drawn = random.Random(whole(words, "seed", least=0))
    os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENAI_API_KEY="none")
    full, runs, notes = Path(os.environ.get("ALPS_FULL") or BESIDE), [], []
    with ExitStack() as stack:
        if (full / "outputs").is_dir():
            home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            real = recorded(home, full, whole(words, "sessions"))
            runs.append(divided(home, "recorded system", real, drawn))
        else:
            notes.append("The real sessions are not here: left out.")
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        count = words["records"]
        taken([str(HERE / "short_samples.py"), str(home / "data"), count], home)
        url = stack.enter_context(running(latency=LATENCY)).url
        model = ("model=openai/scripted", f"api_base={url}", f"concurrency={AT_ONCE}")
        judge = (
            "judge=openai/judge",
            f"judge_api_base={url}",
            "baseline_records=20",
            "judge_check=no",
        )
        asked = ["task=extraction", *model, *judge, f"data={home / 'data'}"]
        runs.append(divided(home, "model on loopback", asked, drawn))
    cells, promised = list(table(runs)), list(bounds(runs))
    misses = missed(promised)
    print(terminal(cells))
    print(*(misses or ["Every bound that was measured is held."]), sep="\n")
    if words["write"]:
        write_section(section(cells, promised, notes))
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
