"""Kill runs of a memory system over each transport: python bench/memory_kills.py [kills=20].

    python bench/memory_kills.py [kills=20] [ways=class,…] [seed=0] [write=yes]

One small store is a class, a program, a server and tools of MCP, and is scored on every task over
data of one record each. All transports must have the same predictions and scores. Then each run is
killed within a write to its journal of calls, at positions that are drawn, some of whose bytes are
lost, and the same command goes on, four times before it may end; a chain has to end with the rows
of the undisturbed run, and nothing that its journal had as settled may have been told again. Exits
1 where a bound is missed; `write=yes` writes the section of docs/benchmarks.md.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from crash_runs import Place, finish
from document import Bound, Section, missed, terminal, write_section
from words import read_words, some_of, whole

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.memory_data import write_data  # noqa: E402
from tests.memory_ways import WAYS, Told, served  # noqa: E402

KILLS, CHAIN = 20, 4
ASKED = ("task=all", "model=rules", "size=32k", "baseline_records=0")
DIARY, SAME = "memory.jsonl", ("predictions.jsonl", "scores.jsonl")
KEPT = (0.0, 0.5, 1.0)
"""Shares of the last write that reach the disk."""
HEAD = ["transport", "kills", "rows", "other rows", "told again", "same scores"]


@dataclass
class Ended:
    """What came of the runs over one transport.

    Attributes:
        way: The transport.
        rows: How many calls the undisturbed run noted.
        kills: How many processes were ended within a write.
        differ: How many chains ended with other predictions or scores than the undisturbed run.
        again: How many sessions were told after a kill at which they were settled.
        same: Whether the undisturbed run has the rows of the class.
    """

    way: str
    rows: int
    kills: int = 0
    differ: int = 0
    again: int = 0
    same: bool = True


def rows_of(place: Place) -> dict[str, list[str]]:
    """Return the predictions and scores of a run, in whatever order they were finished."""
    found = {}
    for name in SAME:
        found[name] = sorted((place.out / name).read_text(encoding="utf-8").splitlines())
    return found


def carried_out(place: Place, words: Sequence[str]) -> None:
    """Carry out a run, or the rest of it; ends the benchmark where it does not end well."""
    if problem := finish(place.start(words)).problem:
        sys.exit(f"{place.folder.name}: {problem}")


def killed(place: Place, words: Sequence[str], draw: Random, most: int) -> bool:
    """Kill a run within one of the next writes to its diary; tell whether it came so far."""
    spec = {"kind": "write", "file": DIARY, "n": draw.randint(1, most), "keep": draw.choice(KEPT)}
    return finish(place.start(words, spec)).code < 0


def chained(folder: Path, data: str, ended: Ended, draw: Random, *, kills: int) -> Place:
    """Kill a run again and again, then let it end."""
    place, told = Place(folder, {"PYTHONPATH": str(ROOT)}), Told(ended.way, folder)
    with served(ended.way, folder) as named:
        words = (*ASKED, data, *named)
        for _ in range(kills):
            ended.kills += killed(place, words, draw, ended.rows // (2 * CHAIN))
            told.note_kill()
        carried_out(place, words)
    ended.again += len(told.again())
    return place


def measured(way: str, home: Path, data: str, kills: int, seed: int) -> tuple[Ended, Place]:
    """Run over one transport undisturbed, then in chains of kills."""
    draw = Random(f"{seed} {way}")
    calm = chained(home / f"{way}-calm", data, Ended(way, 0), draw, kills=0)
    ended = Ended(way, len((calm.out / DIARY).read_bytes().splitlines()))
    for number in range(-(-kills // CHAIN)):
        length = min(CHAIN, kills - CHAIN * number)
        place = chained(home / f"{way}-{number}", data, ended, draw, kills=length)
        ended.differ += rows_of(place) != rows_of(calm)
    return ended, calm


def cells_of(ended: Sequence[Ended]) -> list[list[str]]:
    """Return the heading and a row a transport."""
    cells = [HEAD]
    for one in ended:
        numbers = (one.kills, one.rows, one.differ, one.again)
        cells.append([one.way, *map(str, numbers), "yes" if one.same else "no"])
    return cells


def bounds(ended: Sequence[Ended], kills: int) -> list[Bound]:
    """Return what is promised, and what came of it."""
    promised = []
    for one in ended:
        wrong = one.differ + one.again + (not one.same)
        what = f"{one.way}: killed {one.kills} times, the same end, nothing settled told again"
        held = not wrong and one.kills == kills
        promised.append(Bound(what, f"{kills} kills, 0 wrong", f"{one.kills}, {wrong}", held))
    return promised


def section(cells: list[list[str]], promised: list[Bound]) -> Section:
    """Return the section of the page."""
    text = (
        "One small store is a class, a program, a server and MCP tools. Each is scored on all "
        "tasks, one record each (three\nquestions of PersonaMem), and compared row by row. Then "
        "runs are killed within a write to `memory.jsonl` at drawn\npositions, four times before "
        "one may end. `rows` are the calls of an undisturbed run, `other rows` the chains that\n"
        "ended otherwise, `told again` the sessions that came after a kill at which the journal "
        "had them as settled."
    )
    command = "python bench/memory_kills.py write=yes"
    return Section("memory_kills", "Memory transports", text, promised, command, cells, [])


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], {"kills": str(KILLS), "ways": ",".join(WAYS), "seed": "0"})
    kills, seed = whole(words, "kills"), whole(words, "seed", least=0)
    ended, first = [], None
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "data").mkdir()
        write_data(home / "data")
        for way in some_of(words, "ways", tuple(WAYS)):
            one, calm = measured(way, home, f"data={home / 'data'}", kills, seed)
            first = first or rows_of(calm)
            one.same = rows_of(calm) == first
            ended.append(one)
            print(f"{one.way}: {one.kills} kills of {one.rows} rows", file=sys.stderr)
    cells, promised = cells_of(ended), bounds(ended, kills)
    print(terminal(cells))
    if words["write"]:
        write_section(section(cells, promised))
    misses = missed(promised)
    print("\n".join(misses))
    if misses:
        sys.exit(1)


if __name__ == "__main__":
    main()
