"""Measure long histories: python bench/personamem.py [sizes=32k,128k,1M] [write=yes].

Six generated personas with 210 questions are written at each size. A process of its own reads and
checks the questions, builds the index of the histories, reads the slice of every question and ranks
its messages by BM25. Another reads the first slice and the 100th alone. Exits 1 where a bound is
missed; `write=yes` writes the section of docs/benchmarks.md.
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
    *("histories", "messages", "prepared s", "indexed s", "slice ms", "ranked ms"),
    *("all s", "peak MB"),
]


class Figure(NamedTuple):
    """What the set of one size took.

    Attributes:
        search: What the process took that prepares, indexes and searches.
        parts: Seconds of its parts.
        slices: Seconds of a megabyte of the first slice and of the 100th.
    """

    size: str
    search: Taken
    parts: Mapping[str, float]
    slices: Mapping[str, float]

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
    return Figure(size, search, json.loads(search.said), json.loads(slices.said))


def bounds(figures: list[Figure]) -> Iterator[Bound]:
    """Yield what is promised, and what came of it."""
    for size, search, parts, _ in figures:
        what = f"{size}: {parts['questions']:.0f} questions prepared, indexed and searched"
        seconds, megabytes = search.seconds, search.megabytes
        fast, small = seconds <= SEARCH_SECONDS, megabytes <= SEARCH_MEGABYTES
        yield Bound(what, f"≤ {SEARCH_SECONDS:.0f} s", f"{seconds:.1f} s", fast)
        yield Bound(f"{what}, peak memory", "≤ 400 MB", f"{megabytes:.0f} MB", small)
    for figure in figures:
        what = f"{figure.size}: a megabyte of the 100th slice against one of the first"
        held = figure.late <= LATE_SLICE
        yield Bound(what, f"≤ {LATE_SLICE:g} ×", f"{figure.late:.2f} ×", held)


def table(figures: list[Figure]) -> Iterator[list[str]]:
    """Yield the heading and the rows of the table."""
    yield HEAD
    for size, search, parts, _ in figures:
        count = parts["questions"]
        yield [
            size,
            f"{parts['messages']:,.0f}",
            f"{parts['preparing']:.2f}",
            f"{parts['indexing']:.2f}",
            f"{1000 * parts['reading'] / count:.1f}",
            f"{1000 * parts['ranking'] / count:.1f}",
            f"{search.seconds:.1f}",
            f"{search.megabytes:.0f}",
        ]


def section(cells: list[list[str]], promised: list[Bound], command: str) -> Section:
    """Return the section of the page."""
    text = (
        "A set of `alps data personas` with 210 questions about six users, at three lengths of\n"
        "history. One process checks the questions and hashes the files (prepared), finds where "
        "every message ends (indexed),\nreads the slice of each question and ranks its messages by "
        "BM25 with the question as query. Times of a slice and of a\nranking are means over the "
        "questions; `messages` is the mean length of a slice. The slice of a question is read "
        "alone,\nwhatever lies before it in the file, and the terms of messages that many "
        "questions share are kept for the last 65,536 of\nthem. `all s` includes the start of "
        "Python."
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
