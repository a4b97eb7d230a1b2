"""Measure what large data take.

Python bench/data.py [samples=20000,100000] [pools=2381] [run=no] [write=yes].

Short samples are written, read, audited, and run with an instant class, at two sizes; what memory
grows by between them is what one more sample costs. Then as many pools as the release has, of 1,001
candidates each, are read by the release reader and ranked by BM25: once of values that come back,
as in the release, where pools share their distractors, and once of values that never do. Every
figure is of a process of its own. Exits 1 where a bound is missed; `run=no` leaves out `alps run`,
which takes minutes, and `write=yes` writes the section of docs/benchmarks.md.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from document import Bound, Section, missed, terminal, write_section
from processes import Taken, taken
from words import read_words, some_of, whole

WORDS = {"samples": "20000,100000", "pools": "2381", "run": "yes"}
PARTS = str(Path(__file__).resolve().parent / "data_parts.py")
CANDIDATES = 1_001
GROWN_BYTES = {"written": 50, "read": 200, "audited": 400, "run": 650}
"""What one more sample may cost in memory, in bytes: ids and places for those that read, and scores
for a run.
"""
FLAT_MEGABYTES = 50
"""What memory may grow by, from the fewest samples to the most, to be called flat: as in the soak.
"""
RANK_SECONDS, RANK_MEGABYTES = 30.0, 500.0
INSTANT = """
class Instant:
    settings = {"version": 1}

    async def predict(self, sample):
        return [{"value": "Lives in Lyon", "type": "direct"}]
"""


class Figure(NamedTuple):
    """What was done, with how many samples or pools, and what it took."""

    what: str
    number: int
    took: Taken


def streamed(home: Path, counts: Iterable[int], *, run: bool) -> Iterator[Figure]:
    """Yield the figures of short samples: written, read, audited and run, at every size."""
    (home / "instant.py").write_text(INSTANT, encoding="utf-8")
    for count in counts:
        data = home / f"samples{count}"
        yield Figure("written", count, taken([PARTS, "write", str(data), str(count)], home))
        yield Figure("read", count, taken([PARTS, "read", str(data)], home))
        yield Figure(
            "audited",
            count,
            taken(["-m", "alps", "data", "audit", f"data={data}"], home, codes=(0, 1)),
        )
        if run:
            words = [
                "run",
                "task=extraction",
                "model=python:instant:Instant",
                f"data={data}",
                f"out={home / 'run'}",
            ]
            yield Figure("run", count, taken(["-m", "alps", *words], home))
            shutil.rmtree(home / "run")
        shutil.rmtree(data)


def ranked(home: Path, count: int) -> Iterator[Figure]:
    """Yield the figures of pools that are read and ranked."""
    for what, kind in (
        ("pools, values that come back", "shared"),
        ("pools, every value a new one", "new"),
    ):
        data = home / f"pools-{kind}"
        taken([PARTS, "pools", str(data), str(count), kind], home)
        found = taken([PARTS, "rank", str(data)], home)
        if int(found.said.split()[0]) != count * CANDIDATES:
            sys.exit(
                f"{what}: {found.said.split()[0]} of {count * CANDIDATES} candidates were ranked"
            )
        yield Figure(what, count, found)
        shutil.rmtree(data)


def grown(figures: list[Figure]) -> Iterator[tuple[str, int, int, float]]:
    """Yield what was done, the least and the largest size, and the bytes one more sample cost."""
    for what in dict.fromkeys(figure.what for figure in figures):
        least, *_, most = sorted(
            (figure for figure in figures if figure.what == what), key=lambda each: each.number
        )
        megabytes = most.took.megabytes - least.took.megabytes
        yield what, least.number, most.number, megabytes * 2**20 / (most.number - least.number)


def in_bytes(each: float) -> str:
    """Return bytes in words.

    Where memory did not grow at all, the difference of two processes is noise.
    """
    return f"{each:,.0f} bytes" if round(each) > 0 else "none"


def in_megabytes(grown_by: float) -> str:
    """Return megabytes in words, as `in_bytes`."""
    return f"{grown_by:.0f} MB" if round(grown_by) > 0 else "none"


def bounds(samples: list[Figure], pools: list[Figure]) -> Iterator[Bound]:
    """Yield what is promised, and what came of it."""
    for what, least, most, bytes_each in grown(samples):
        limit, megabytes = GROWN_BYTES[what], bytes_each * (most - least) / 2**20
        name = f"{what}: memory grown, from {least:,} to {most:,}"
        yield Bound(
            name, f"≤ {FLAT_MEGABYTES} MB", in_megabytes(megabytes), megabytes <= FLAT_MEGABYTES
        )
        yield Bound(
            f"{what}: of each sample",
            f"≤ {limit:,} bytes",
            in_bytes(bytes_each),
            bytes_each <= limit,
        )
    for what, number, took in pools:
        name = f"{number:,} {what}: read and ranked"
        yield Bound(
            name, f"≤ {RANK_SECONDS:.0f} s", f"{took.seconds:.1f} s", took.seconds <= RANK_SECONDS
        )
        held = took.megabytes <= RANK_MEGABYTES
        yield Bound(
            f"{name}, peak memory", f"≤ {RANK_MEGABYTES:.0f} MB", f"{took.megabytes:.0f} MB", held
        )


def table(figures: Iterable[Figure]) -> Iterator[list[str]]:
    """Yield the heading and the rows of the table."""
    yield ["what", "number", "wall s", "processor s", "peak MB"]
    for what, number, took in figures:
        yield [
            what,
            f"{number:,}",
            f"{took.seconds:.1f}",
            f"{took.computing:.1f}",
            f"{took.megabytes:.0f}",
        ]


def note(figures: Iterable[Figure]) -> str:
    """Return what is to be known of «flat»: memory grows with the samples, by little."""
    sizes: dict[str, list[Figure]] = {}
    for figure in figures:
        sizes.setdefault(figure.what, []).append(figure)
    told = [
        f"{what} {each[0].took.megabytes:.0f} → {each[-1].took.megabytes:.0f} MB"
        for what, each in sizes.items()
    ]
    return (
        f"Memory is flat as the soak's is, within {FLAT_MEGABYTES} MB, and still grows linearly "
        "with the samples, from "
        f"the fewest to the most {', '.join(told)}. What is kept of each is ids, places and "
        "scores, never its text; "
        "the bounds say how much"
    )


def section(
    cells: list[list[str]], promised: list[Bound], command: str, notes: list[str]
) -> Section:
    """Return the section of the page."""
    text = (
        "Short samples of 2 kB each, written by the release writer, read by its reader, looked "
        "through by\n`alps data audit`, and run by `alps run` with an instant class and the "
        "lexical judge. No step keeps a sample: the reader\nkeeps ids and places of gold rows, the "
        "audit what is known of each user, a run the places and the scores of its rows.\nBelow "
        f"them as many pools as the release has, of {CANDIDATES:,} candidates with ten words each, "
        "read from disk and ranked\nby BM25. The release draws its distractors from some ten "
        "thousand memories, so that values come back; where every\nvalue is a new one, all of them "
        "must be cut into words. One process a row; seconds include the start of Python."
    )
    return Section("data", "Large data", text, promised, command, cells, notes)


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], WORDS)
    sizes = sorted({whole({"samples": size}, "samples") for size in words["samples"].split(",")})
    if len(sizes) < 2:
        sys.exit(
            f"samples={words['samples']}: expected two different sizes, to see the growth between "
            "them."
        )
    (run,) = some_of(words, "run", ("yes", "no"))
    with tempfile.TemporaryDirectory() as name:
        pools = list(ranked(Path(name), whole(words, "pools")))
        samples = list(streamed(Path(name), sizes, run=run == "yes"))
    cells, promised = list(table([*samples, *pools])), list(bounds(samples, pools))
    misses = missed(promised)
    print(terminal(cells))
    print(note(samples))
    print(
        "\n".join(
            f"{what}: {in_bytes(each)} for one more sample" for what, _, _, each in grown(samples)
        )
    )
    print(*(misses or ["Every bound that was measured is held."]), sep="\n")
    if words["write"]:
        write_section(
            section(
                cells,
                promised,
                f"python bench/data.py samples={words['samples']} write=yes",
                [note(samples)],
            )
        )
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
