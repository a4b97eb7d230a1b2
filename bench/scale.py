"""Measure what one machine can hold: python bench/scale.py [records=…] [prompts=16] [write=yes].

`prompts` histories of a million tokens are asked about at once, and the server answers none before
all are under way. Then short samples are run, scored again, reported and compared at three sizes;
what a thousand more of them take is the slope between two sizes, in seconds of the processor and in
bytes of peak memory. Every figure is of a process of its own. Exits 1 where a bound is
missed; `write=yes` writes the section of bench/RESULTS.md.
"""

import csv
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from document import Bound, Section, at_most, finish
from processes import Taken, taken
from server import running
from words import read_words, whole

WORDS = {"records": "10000,30000,100000", "prompts": "16"}
HERE = Path(__file__).resolve().parent
SIZE = "1M"
HELD_SECONDS = "20"
"""How long the server keeps an answer back: longer than it takes to send every question."""
PROMPT_MEGABYTES = 600.0
STEEPER, FEW_BYTES = 1.3, 1_000.0
"""How much steeper the last slope may be than the first: noise of a machine that does other things,
too. Growth with the square of the records would be four times as steep. Of memory, a kilobyte a
record is allowed: of few records what libraries take is the peak, and the first slope is too flat.
"""
WRITE = """
import sys
from pathlib import Path
from alps.tasks.personamem.personas import write_set
write_set(Path(sys.argv[1]), personas=6, size=sys.argv[2])
"""
INSTANT = """
class Instant:
    settings = {"version": 1}

    async def predict(self, sample):
        return [{"value": "Lives in Lyon", "type": "direct"}]
"""


class Figure(NamedTuple):
    """What was done with how many records, and what it took."""

    what: str
    records: int
    took: Taken


class Asked(NamedTuple):
    """What prompts of a million tokens took, and how many the server had at once."""

    took: Taken
    prompts: int
    most: int


def asked(home: Path, prompts: int) -> Asked:
    """Ask `prompts` questions about whole histories, all at once."""
    data = home / "histories"
    taken(["-c", WRITE, str(data), SIZE], home)
    _keep_the_last(data / f"questions_{SIZE}.csv", prompts)
    model = ("model=openai/scripted", "memory=full", "baseline_records=0", "timeout=300")
    with running(latency=HELD_SECONDS) as server:
        run = ("run", "task=personamem", *model, f"api_base={server.url}")
        words = (*run, f"data={data}", f"concurrency={prompts}", f"out={home / 'asked'}")
        took = taken(["-m", "alps", *words], home, OPENAI_API_KEY="none")
        counts = server.counts()
    return Asked(took, prompts, counts["most_under_way"])


def _keep_the_last(path: Path, count: int) -> None:
    """Keep the questions that are asked at the ends of their histories."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    rows.sort(key=lambda row: -int(row["end_index_in_shared_context"]))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows[:count])


def grown(home: Path, counts: Sequence[int]) -> Iterator[Figure]:
    """Yield the figures of short samples at every size."""
    (home / "instant.py").write_text(INSTANT, encoding="utf-8")
    for count in counts:
        data, out, again = (str(home / f"{name}{count}") for name in ("data", "run", "again"))
        taken([str(HERE / "short_samples.py"), data, str(count)], home)
        model = ("model=python:instant:Instant", f"data={data}", f"out={out}")
        commands = {
            "run": ("run", "task=extraction", *model),
            "scored again": ("score", out, "judge=lexical", f"out={again}"),
            "reported": ("report", out, f"out={home / 'page.html'}"),
            "compared": ("compare", out, again),
        }
        for what, words in commands.items():
            took = taken(["-m", "alps", *words], home)
            print(f"{what}, {count:,}: {took.computing:.1f} s, {took.megabytes:.0f} MB", flush=True)
            yield Figure(what, count, took)


class Slope(NamedTuple):
    """What a thousand more records take between two sizes."""

    seconds: float
    bytes_each: float


def slopes(figures: Sequence[Figure]) -> list[Slope]:
    """Return the slope of each step from one size to the next."""
    found = []
    for less, more in pairwise(figures):
        records = more.records - less.records
        seconds = (more.took.computing - less.took.computing) / records * 1_000
        megabytes = more.took.megabytes - less.took.megabytes
        found.append(Slope(seconds, megabytes * 2**20 / records))
    return found


def bounds(asking: Asked, figures: Sequence[Figure]) -> Iterator[Bound]:
    """Yield what is promised, and what came of it."""
    what = f"{asking.prompts} prompts of 1M tokens"
    under_way = f"{asking.most}"
    yield Bound(f"{what} at once", f"{asking.prompts}", under_way, asking.most == asking.prompts)
    memory = asking.took.megabytes
    yield at_most(f"{what}, peak memory", PROMPT_MEGABYTES, memory, "{:.0f} MB")
    for name in dict.fromkeys(figure.what for figure in figures):
        first, *_, last = slopes([figure for figure in figures if figure.what == name])
        # Of few records the noise is larger than the slope: then nothing is shown.
        times = last.seconds / first.seconds if first.seconds > 0 else math.inf
        what = f"{name}: last slope of time against the first"
        yield at_most(what, STEEPER, times, "{:.2f} ×")
        most = round(max(STEEPER * first.bytes_each, FEW_BYTES))
        what = f"{name}: bytes of one more record, last slope"
        yield at_most(what, most, last.bytes_each, "{:.0f}")


def table(figures: Sequence[Figure]) -> Iterator[list[str]]:
    """Yield the heading and the rows of the table."""
    slope_heads = ["s / 1,000 more", "bytes / 1 more"]
    yield ["what", "records", "wall s", "processor s", "peak MB", *slope_heads]
    for name in dict.fromkeys(figure.what for figure in figures):
        of_name = [figure for figure in figures if figure.what == name]
        steep: list[Slope | None] = [None, *slopes(of_name)]
        for figure, slope in zip(of_name, steep, strict=True):
            took = figure.took
            row = [name, f"{figure.records:,}", f"{took.seconds:.1f}", f"{took.computing:.1f}"]
            row.append(f"{took.megabytes:.0f}")
            more = slope and [f"{slope.seconds:.2f}", f"{slope.bytes_each:.0f}"]
            row += more or ["–", "–"]
            yield row


TEXT = f"""
Questions at the ends of generated histories of a million tokens, each sent whole; the server
keeps every answer back for {HELD_SECONDS} s, so that all are under way at once. Then short
samples of 2 kB each, run with an instant class and the lexical judge, scored again, reported and
compared at three sizes. A slope is what the records between two sizes take more: in a run whose
time grows with the square of its records, the last slope would be four times the first. One
process a row.
"""


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], WORDS)
    counts = sorted(whole({"records": count}, "records") for count in words["records"].split(","))
    if len(counts) < 3:
        sys.exit(f"records={words['records']}: expected three sizes or more.")
    with tempfile.TemporaryDirectory() as name:
        asking = asked(Path(name), whole(words, "prompts"))
        figures = list(grown(Path(name), counts))
    took = asking.took
    note = (
        f"{asking.prompts} prompts of 1M tokens: {took.seconds:.0f} s, {took.computing:.1f} s of "
        f"the processor, {took.megabytes:.0f} MB at most"
    )
    promised, notes = list(bounds(asking, figures)), [note]
    given = f"records={words['records']} prompts={asking.prompts}"
    command = f"python bench/scale.py {given} write=yes"
    about = ("scale", "Scale of one machine", TEXT, promised, command)
    finish(Section(*about, list(table(figures)), notes), write=words["write"])


if __name__ == "__main__":
    main()
