"""Measure what a run loses to rate limits and outages, beside Inspect AI on the same servers.

    python bench/outages.py inspect=PYTHON [rows=bucket,503] [calls=100] [at_once=2] [write=yes]

`rows` names some of `ROWS`; each is a server of its own on loopback. `calls` takes fewer of them,
`at_once` is how many rows run side by side: they mostly wait. Both harnesses ask with their
defaults, Inspect AI (MIT, not a dependency: `pip install inspect-ai==0.3.285 openai` into an
environment of its own) by its adaptive connections. Prints a row for each, and exits 1 where a
bound is missed. `write=yes` puts the figures into bench/RESULTS.md.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from document import Bound, Section, at_most, finish
from processes import taken
from server import running
from short_samples import TURNS
from throughput_questions import INSPECT_ASKS
from words import program, read_words, some_of, whole

LATENCY = "0.4-1.8"
OF_REJECTED, OF_WALL = 0.5, 1.15

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Row:
    """A server, and how many questions it is asked."""

    title: str
    calls: int
    server: Mapping[str, object]


ROWS = {
    "503": Row("503 for 300 s", 600, {"outage": 503, "outage_after": 2, "outage_for": 300}),
    "529": Row(
        "bucket, and 529 for 90 s",
        1_000,
        {"rate": 10, "retry_after": -1, "outage": 529, "outage_after": 10, "outage_for": 90},
    ),
    "window_60": Row("60 per 60 s", 300, {"per_window": 60, "retry_after": -1}),
    "window_600": Row("600 per 60 s", 2_000, {"per_window": 600, "retry_after": -1}),
    "bucket_told": Row("bucket 600 rpm, Retry-After", 1_000, {"rate": 10, "retry_after": 1}),
    "bucket": Row("bucket 600 rpm", 1_000, {"rate": 10, "retry_after": -1}),
}

INSPECT_SCRIPT = INSPECT_ASKS.replace("CONFIG", "").replace("MORE", "")


@dataclass(frozen=True)
class Asked:
    """How a harness fared: seconds of its process, lost questions, and rejected requests."""

    wall: float
    lost: int
    rejected: int


def questions(count: int) -> Iterator[dict[str, str]]:
    """Yield plain questions of about the size of the dialogues that alps is given."""
    told = "There is a park along the river. " * 20
    for number in range(count):
        yield {"input": f"Question {number}: where do I live? {told}", "target": "a"}


def asked(name: str, who: str, home: Path, *, calls: int, python: str) -> Asked:
    """Let `who` ask the server of a row so many questions.

    Raises:
        SystemExit: If it failed in another way than by losing records.
    """
    row = ROWS[name]
    with running(latency=LATENCY, log=home / "log", **row.server) as server:
        if who == "alps":
            script = str(HERE / "short_samples.py")
            taken([script, str(home / "data"), str(calls), str(TURNS)], home)
            model = ["model=openai/scripted", f"api_base={server.url}", "judge=lexical"]
            run = ["-m", "alps", "run", "task=extraction"]
            words = [*run, *model, f"data={home}/data", f"out={home}/out"]
        else:
            (home / "asks.py").write_text(INSPECT_SCRIPT)
            rows = (json.dumps(one) + "\n" for one in questions(calls))
            (home / "asked.jsonl").write_text("".join(rows))
            words = ["asks.py", str(home / "asked.jsonl"), server.url]
        took = taken(words, home, program=python, codes=(0, 1), OPENAI_API_KEY="none")
        counts = server.counts()
    rejected = counts.get("full", 0) + counts.get("down", 0)
    return Asked(took.seconds, calls - counts["answered"], rejected)


def measured(name: str, words: Mapping[str, str]) -> tuple[list[str], list[Bound]]:
    """Ask a row's servers, one harness after the other.

    Return the line of the table and what is promised.
    """
    calls = whole(words, "calls", least=0) or ROWS[name].calls
    inspect = program(words, "inspect")
    with tempfile.TemporaryDirectory() as mine, tempfile.TemporaryDirectory() as theirs:
        ours = asked(name, "alps", Path(mine), calls=calls, python=sys.executable)
        other = None
        if inspect:
            other = asked(name, "inspect", Path(theirs), calls=calls, python=inspect)
    title = ROWS[name].title
    promised = [at_most(f"{title}: records lost", 0, ours.lost)]
    if other is not None:
        beside = {
            "rejected requests": (OF_REJECTED, ours.rejected, other.rejected),
            "seconds of the process": (OF_WALL, ours.wall, other.wall),
        }
        for what, (share, our, their) in beside.items():
            limit, measured = f"≤ {share} × Inspect AI", f"{our:,.0f} to {their:,.0f}"
            promised.append(Bound(f"{title}: {what}", limit, measured, our <= share * their))
    figures = ["–", "–"]
    for at, one in enumerate(found for found in (ours, other) if found):
        figures[at] = f"{one.wall:.0f}, {one.lost}, {one.rejected:,}"
    return [title, f"{calls:,}", *figures], promised


DEFAULTS = {"rows": ",".join(ROWS), "calls": "0", "at_once": "2", "inspect": ""}
HEAD = ["server", "answers", "alps: seconds, lost, rejected", "Inspect AI"]


TEXT = f"""
Servers on loopback that answer after {LATENCY.replace("-", " to ")} seconds, but turn requests
away: a bucket that fills up by ten a second, windows that begin with the first request, and
outages. Where Retry-After is not named, a 429 says nothing. alps extracts with its defaults and
the lexical judge, one call a record; Inspect AI asks as many plain questions with its own
defaults. Seconds are those of the whole process; a request is rejected by 429, 503 or 529.
"""


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], DEFAULTS)
    names = some_of(words, "rows", ROWS)
    with ThreadPoolExecutor(whole(words, "at_once")) as pool:
        done = list(pool.map(partial(measured, words=words), names))
    table, promised = [HEAD, *(cells for cells, _ in done)], [b for _, each in done for b in each]
    command = "python bench/outages.py inspect=PYTHON write=yes"
    about = ("outages", "Rate limits and outages", TEXT, promised, command, table)
    finish(Section(*about, ["Inspect AI 0.3.285"]), write=words["write"])


if __name__ == "__main__":
    main()
