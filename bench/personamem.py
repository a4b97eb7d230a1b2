"""Measure long histories: python bench/personamem.py [sizes=32k,128k,1M] [write=yes].

Six generated personas with 210 questions are written at each size. A process of its own reads and
checks the questions, builds the index of the histories, reads the slice of every question and finds
five turns by BM25. Another reads the first slice and the 100th alone, and a third is `alps run`
with `memory=bm25` and an instant class. Exits 1 where a bound is missed; `write=yes` writes the
section of docs/benchmarks.md.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from document import Bound, Section, missed, terminal, write_section
from processes import Taken, taken
from words import read_words, some_of

SIZES = ("32k", "128k", "1M")
PARTS = str(Path(__file__).resolve().parent / "personamem_parts.py")
SEARCH_SECONDS, SEARCH_MEGABYTES = 60.0, 400.0
LATE_SLICE = 1.25
"""How much more a megabyte of the 100th slice may take than one of the first: noise of a machine
that does other things, too. A reader that parses what is before it takes 100 times as long.
"""
HEAD = [
    *("histories", "turns", "prepared s", "indexed s", "recalled ms", "1st ms/MB"),
    *("100th", "all s", "peak MB", "run s", "run MB"),
]
INSTANT = """
class Instant:
    settings = {"version": 1}

    async def predict(self, sample):
        return {"choice": "a", "reason": ""}
"""


class Figure(NamedTuple):
    """What the set of one size took.

    Attributes:
        search: What the process took that prepares, indexes and searches.
        parts: Seconds of its parts.
        slices: Seconds of a megabyte of the first slice and of the 100th.
        run: What a whole run took.
    """

    size: str
    search: Taken
    parts: Mapping[str, float]
    slices: Mapping[str, float]
    run: Taken

    @property
    def late(self) -> float:
        """How much longer the 100th slice takes than the first."""
        return self.slices["late"] / self.slices["first"]


def measured(home: Path, size: str) -> Figure:
    """Write and search the set of one size."""
    folder = str(home / size)
    taken([PARTS, "write", folder, size], home)
    search = taken([PARTS, "search", folder, size], home)
    slices = taken([PARTS, "slices", folder, size], home)
    system = ("model=python:instant:Instant", "memory=bm25", f"out={home / f'run-{size}'}")
    words = ("run", "task=personamem", f"data={folder}", *system)
    (home / "instant.py").write_text(INSTANT, encoding="utf-8")
    run = taken(["-m", "alps", *words], home)
    return Figure(size, search, json.loads(search.said), json.loads(slices.said), run)


def bounds(figures: list[Figure]) -> Iterator[Bound]:
    """Yield what is promised, and what came of it."""
    for size, search, parts, _, run in figures:
        count = f"{size}: {parts['questions']:.0f} questions"
        yield from _limits(f"{count} prepared, indexed and searched", search)
        yield from _limits(f"{count}, a whole run with memory=bm25", run)
    for figure in figures:
        what = f"{figure.size}: a megabyte of the 100th slice against one of the first"
        held = figure.late <= LATE_SLICE
        yield Bound(what, f"≤ {LATE_SLICE:g} ×", f"{figure.late:.2f} ×", held)


def _limits(what: str, took: Taken) -> Iterator[Bound]:
    fast, small = took.seconds <= SEARCH_SECONDS, took.megabytes <= SEARCH_MEGABYTES
    yield Bound(what, f"≤ {SEARCH_SECONDS:.0f} s", f"{took.seconds:.1f} s", fast)
    limit = f"≤ {SEARCH_MEGABYTES:.0f} MB"
    yield Bound(f"{what}, peak memory", limit, f"{took.megabytes:.0f} MB", small)


def table(figures: list[Figure]) -> Iterator[list[str]]:
    """Yield the heading and the rows of the table."""
    yield HEAD
    for size, search, parts, slices, run in figures:
        yield [
            size,
            f"{parts['turns']:,.0f}",
            f"{parts['preparing']:.2f}",
            f"{parts['indexing']:.2f}",
            f"{1000 * parts['recalling'] / parts['questions']:.1f}",
            f"{1000 * slices['first']:.1f}",
            f"{1000 * slices['late']:.1f}",
            f"{search.seconds:.1f}",
            f"{search.megabytes:.0f}",
            f"{run.seconds:.1f}",
            f"{run.megabytes:.0f}",
        ]


def section(cells: list[list[str]], promised: list[Bound], command: str) -> Section:
    """Return the section of the page."""
    text = (
        "A set of `alps data personas` with 210 questions about six "
        "users, at three lengths of history. One process checks the\n"
        "questions and hashes the files (prepared), finds where every "
        "message ends (indexed), and for each question reads its\n"
        "slice and finds five turns by BM25 (recalled: a mean over the "
        "questions). The slice of a question is read alone,\n"
        "whatever lies before it in the file. The terms of turns that "
        "questions share are kept, of the last 65,536. `all s`\n"
        "includes the start of Python. The last two columns are a "
        "whole `alps run` with `memory=bm25`, an instant class and the\n"
        "trivial "
        "baselines."
    )
    return Section("personamem", "Long histories", text, promised, command, cells)


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], {"sizes": ",".join(SIZES)})
    with tempfile.TemporaryDirectory() as name:
        figures = [measured(Path(name), size) for size in some_of(words, "sizes", SIZES)]
    cells, promised = list(table(figures)), list(bounds(figures))
    misses = missed(promised)
    print(terminal(cells))
    print(*(misses or ["Every bound that was measured is held."]), sep="\n")
    if words["write"]:
        command = f"python bench/personamem.py sizes={words['sizes']} write=yes"
        write_section(section(cells, promised, command))
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
