"""A sweep of many models on all tracks, undisturbed and killed: python bench/sweeps.py.

    python bench/sweeps.py [models=30] [limit=7] [kills=20] [seed=0] [write=yes]

Scripted models and their judge answer over loopback. One sweep runs undisturbed, its judge limited
to 600 requests a minute. Another is killed (SIGKILL) again and again, at drawn numbers of answers,
and goes on by the same command; it has to end alike. A third has a budget that is too small. Exits
1 where a bound is missed; `write=yes` writes the section of docs/benchmarks.md.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

from document import Bound, Section, missed, terminal, write_section
from server import Server, running
from words import read_words, whole

from alps.llm.ledger import counted_in

PER_MINUTE, WINDOW = 600, 60.0
USED, PASSED = 0.90, 0.02
LATE = 2.0
"""Seconds: what the server answered so shortly before a kill was under way to the journals."""
TASKS = ("extraction", "update", "retrieval", "utilization", "personamem")
JOURNALS = ("predictions.jsonl", "verdicts.jsonl", "scores.jsonl", "baselines.jsonl")
TIMED = ("calls", "seconds", "seconds_per_query", "phases", "answers", "cost", "served")
Row = dict[str, Any]


@dataclass
class Killed:
    """What came of the kills: when each was, by the machine's monotonic clock."""

    times: list[float] = field(default_factory=list)
    sessions: int = 0


def write_plan(
    folder: Path, sizes: tuple[int, int], model: Server, judge: Server, more: str = ""
) -> Path:
    """Write the plan of the sweep: five tasks, which have 13 tracks."""
    models, limit = sizes
    names = ", ".join(f'"openai/swept-{number:02}"' for number in range(models))
    plan = f"""
out = "runs"
limit = {limit}
patience = "20min"
api_base = "{model.url}"
judge = "openai/judge"
judge_api_base = "{judge.url}"
judge_check = false
structured = "json"
judge_structured = "json"
max_failures = 1.0
{more}
[matrix]
model = [{names}]
task = {json.dumps(TASKS)}

[[task]]
name = "retrieval"
distractors = "all"
"""
    folder.mkdir()
    path = folder / "plan.toml"
    path.write_text(plan, encoding="utf-8")
    return path


def begin(plan: Path) -> "subprocess.Popen[bytes]":
    """Start the sweep in a session of its own, with a reply cache of its own."""
    known = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    own = {"OPENAI_API_KEY": "none", "ALPS_CACHE": str(plan.parent / "cache")}
    own["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    return subprocess.Popen(
        [sys.executable, "-m", "alps", "sweep", plan.name],
        cwd=plan.parent,
        env={**known, **own},
        stdout=(plan.parent / "stdout.log").open("ab"),
        stderr=(plan.parent / "stderr.log").open("ab"),
        start_new_session=True,
    )


def killed(plan: Path, servers: Sequence[Server], kills: int, most: int, draw: Random) -> Killed:
    """Kill the sweep `kills` times while it asks, each time `most` requests later at most."""
    done = Killed()
    while len(done.times) < kills:
        before = arrived(servers)
        process = begin(plan)
        done.sessions += 1
        target = before + draw.randint(1, most)
        while process.poll() is None and arrived(servers) < target:
            time.sleep(0.1)
        if process.poll() is not None:
            told = (plan.parent / "stderr.log").read_text(encoding="utf-8")[-1_000:]
            sys.exit(f"the sweep ended before kill {len(done.times) + 1}:\n{told}")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        done.times.append(time.monotonic())
        print(f"kill {len(done.times)} at {target} requests, {os.getloadavg()}", file=sys.stderr)
    return done


def arrived(servers: Sequence[Server]) -> int:
    """Return how many requests have come to all servers."""
    return sum(int(server.counts().get("arrived", 0)) for server in servers)


def finished(plan: Path, codes: Sequence[int]) -> float:
    """Run the sweep to its end; return the seconds that it took."""
    began = time.monotonic()
    process = begin(plan)
    if process.wait() not in codes:
        sys.exit((plan.parent / "stderr.log").read_text(encoding="utf-8")[-2_000:])
    return time.monotonic() - began


def untimed(value: Any) -> Any:
    """Return a summary without its times and costs."""
    if isinstance(value, list):
        return [untimed(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: untimed(item) for name, item in value.items() if name not in TIMED}


def differences(one: Path, other: Path) -> list[str]:
    """Return the files of two sweeps that are not the same, or are missing in one."""
    found = []
    names = {path.name for runs in (one, other) for path in runs.iterdir() if path.is_dir()}
    for name in sorted(names):
        for file in (*JOURNALS, "summary.json"):
            paths = [runs / name / file for runs in (one, other)]
            contents = [path.read_bytes() if path.exists() else None for path in paths]
            if file == "summary.json" and None not in contents:
                contents = [untimed(json.loads(content or b"")) for content in contents]
            if contents[0] != contents[1]:
                found.append(f"{name}/{file}")
    return found


def asked(runs: Path) -> Counter[tuple[str, int]]:
    """Return the questions that all runs of a sweep got an answer to, and how often."""
    counts: Counter[tuple[str, int]] = Counter()
    for path in runs.glob("*/calls.jsonl"):
        for line in path.read_bytes().splitlines():
            row = json.loads(line)
            if row["outcome"] != "transport":
                counts[row["key"], row["ask"]] += 1
    return counts


def asked_again(rows: Sequence[Row], kills: Sequence[float]) -> tuple[int, int]:
    """Return how many questions came again that had been under way at a kill, and how many others.

    Under way at a kill is what had come and was not answered, or not longer ago than `LATE`.
    """
    by_key: dict[str, list[Row]] = {}
    for row in rows:
        if row["status"] != 429:
            by_key.setdefault(row["key"], []).append(row)
    excused = others = 0
    for came in by_key.values():
        came.sort(key=lambda row: row["arrived"])
        for earlier in came[:-1]:
            under_way = any(row_under_way(earlier, killed_at) for killed_at in kills)
            excused, others = excused + under_way, others + (not under_way)
    return excused, others


def row_under_way(row: Row, killed_at: float) -> bool:
    """Tell whether a request was under way at a kill."""
    return bool(row["arrived"] <= killed_at <= row["time"] + LATE)


@dataclass(frozen=True)
class Used:
    """How a limit a minute was used: accepted and rejected requests by its full windows."""

    accepted: list[int]
    rejected: list[int]

    @property
    def least(self) -> float:
        """The least share of a window that was used, of those in which there was enough to ask."""
        return min(self.accepted) / PER_MINUTE

    @property
    def most(self) -> float:
        """The largest share of a window's limit by which requests passed it."""
        return max(self.rejected) / PER_MINUTE


def windows(rows: Sequence[Row]) -> Used:
    """Return the use of the windows of a server but the last one, in which little was left."""
    first = min(row["arrived"] for row in rows)
    last = int((max(row["arrived"] for row in rows) - first) // WINDOW)
    counts = [Counter[bool]() for _ in range(last + 1)]
    for row in rows:
        counts[int((row["arrived"] - first) // WINDOW)][row["status"] == 429] += 1
    full = counts[:-1] or counts
    return Used([one[False] for one in full], [one[True] for one in full])


def measured(home: Path, models: int, limit: int, kills: int, seed: int) -> Iterator[Bound]:
    """Run the three sweeps, and yield what is promised of them."""
    cells = models * len(TASKS)
    logs = {"log": str(home / "judge.log")}
    limited = {"per_window": PER_MINUTE, "window": WINDOW, "tells": 1}
    with running() as model, running(**logs, **limited) as judge:
        plan = write_plan(home / "calm", (models, limit), model, judge)
        # Endpoints are a part of what a run measures, and so of its folder's name.
        ports = [urlsplit(server.url).port for server in (model, judge)]
        seconds = finished(plan, (0, 1))
        calm, used, total = plan.parent / "runs", windows(judge.rows()), arrived([model, judge])
    ended = len(list(calm.glob("*/summary.json")))
    print(f"undisturbed: {total:,} requests, {seconds:.0f} s, {os.getloadavg()}", file=sys.stderr)
    print(f"judge by window: {used}", file=sys.stderr)
    what = f"{models} models × {len(TASKS)} tasks (13 tracks) in one command"
    yield Bound(what, f"{cells} runs", f"{ended} in {seconds:.0f} s", ended == cells)
    limit_of = f"{PER_MINUTE} judge requests a minute"
    yield Bound(f"{limit_of}: used while busy", "≥ 90%", f"{used.least:.1%}", used.least >= USED)
    yield Bound(f"{limit_of}: passed", "≤ 2%", f"{used.most:.1%}", used.most <= PASSED)

    with (
        running(log=str(home / "model2.log"), port=ports[0]) as model,
        running(log=str(home / "judge2.log"), port=ports[1]) as judge,
    ):
        plan = write_plan(home / "killed", (models, limit), model, judge)
        most = max(2, 2 * total // (kills + 4))
        done = killed(plan, [model, judge], kills, most, Random(seed))
        finished(plan, (0, 1))
        rows = model.rows() + judge.rows()
    again, others = asked_again(rows, done.times)
    differ = differences(calm, plan.parent / "runs")
    print(*differ[:20], sep="\n", file=sys.stderr)
    calls = set(asked(calm)) ^ set(asked(plan.parent / "runs"))
    yield Bound(f"killed {kills} times: files that differ", "0", str(len(differ)), not differ)
    yield Bound(f"killed {kills} times: other calls", "0", str(len(calls)), not calls)
    said = f"{others} ({again} were under way)"
    yield Bound(f"killed {kills} times: asked twice", "0", said, not others)

    cap = sum(counted_in(path.parent for path in calm.glob("*/calls.jsonl"))[:1]) // 3
    with running() as server:
        more = f"max_total_tokens = {int(cap)}"
        plan = write_plan(home / "capped", (models, limit), server, server, more)
        finished(plan, (3,))
    spent, _ = counted_in(path.parent for path in (plan.parent / "runs").glob("*/calls.jsonl"))
    held = 0.9 * cap <= spent <= cap
    yield Bound("one budget over all: tokens spent", f"≤ {cap:,.0f}", f"{spent:,}", held)


def section(promised: Sequence[Bound], seed: int) -> Section:
    """Return the section of the page."""
    text = (
        "Scripted models on 13 tracks of our samples, five runs a model, all in one `alps sweep` "
        "over loopback. The judge's\nserver lets 600 requests through a minute, and tells what is "
        "left as most providers do; the windows in which there is\nenough to ask are counted. The "
        "same sweep, without the limit, is killed at drawn numbers of requests and resumed;\n"
        "what had come to a server and was not answered 2 s before a kill was under way."
    )
    load = f"Load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    command = f"python bench/sweeps.py seed={seed} write=yes"
    return Section("sweeps", "Sweeps", text, promised, command, [], [load])


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    defaults = {"models": "30", "limit": "7", "kills": "20", "seed": "0"}
    words = read_words(sys.argv[1:], defaults)
    sizes = [whole(words, name) for name in ("models", "limit", "kills")]
    seed = whole(words, "seed", least=0)
    with tempfile.TemporaryDirectory() as name:
        promised = list(measured(Path(name), *sizes, seed))
    cells = [[bound.what, bound.limit, bound.measured] for bound in promised]
    print(terminal([["what", "bound", "measured"], *cells]))
    if words["write"]:
        write_section(section(promised, seed))
    misses = missed(promised)
    print("\n".join(misses))
    if misses:
        sys.exit(1)


if __name__ == "__main__":
    main()
