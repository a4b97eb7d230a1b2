"""Kill real runs at random and at chosen moments, and compare the results.

    python bench/crashes.py [seed=0] [kills=200] [part=kills,places]
        [only=NAME:NUMBER] [write=yes]

A run is killed until that struck it in its folder five times, `kills` in all, and the same command
run to its end after that: what it leaves must be that of a run that nobody disturbed. Prints a
table, and of every failure the words that make it again (the moments of `kill -9` are drawn by the
seed, and hang on the load besides). Exits 1 where a bound is missed. Needs Linux.
"""

import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from crash_runs import (
    PROGRAM,
    Calm,
    Place,
    Setup,
    differences,
    finish,
    kill_after,
    stored,
    undisturbed,
    wait_for_lock,
)
from document import Bound, Section, at_least, at_most
from document import finish as finish_bench
from server import Server, running
from words import read_words, some_of, whole

ALL_KILLS, KILLS, AT_ONCE, LATENCY, AT_A_TIME = 200, 5, 4, "0.01-0.07", 2
PARTS = ("kills", "places")
WORDS = {"seed": "0", "kills": str(ALL_KILLS), "part": ",".join(PARTS), "only": ""}
PLACED = ("utilization-rules", "model-and-judge")
ASKED = ("task=extraction,utilization", "limit=8", f"concurrency={AT_ONCE}")


@dataclass
class Found:
    """What came of the runs of one kind.

    Attributes:
        tries: How many processes were ended.
        held: How many of them had locked their run folder.
        repeated: How many requests were answered again.
        most: The most that one kill cost of them.
        failures: A sentence for each thing that went wrong.
    """

    tries: int = 0
    held: int = 0
    runs: int = 0
    repeated: int = 0
    most: int = 0
    failures: list[str] = field(default_factory=list)

    def __iadd__(self, other: "Found") -> "Found":
        for name in ("tries", "held", "runs", "repeated"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.most = max(self.most, other.most)
        self.failures += other.failures
        return self


def setups(home: Path) -> tuple[Setup, ...]:
    """Return the runs that are killed, the programs and data of which lie in `home`."""
    (home / "answer.py").write_text(PROGRAM, encoding="utf-8")
    program = f"model=program:{sys.executable} -S {home / 'answer.py'}"
    return (
        Setup("all-rules", ("task=all", "model=rules", "limit=12"), 14),
        Setup("extraction-program", ("task=extraction", program), 4),
        Setup("update-rules", ("task=update", "model=rules"), 4),
        Setup("retrieval-bm25", ("task=retrieval", "model=bm25"), 4),
        Setup("utilization-rules", ("task=utilization", "model=rules"), 4),
        Setup("model-and-judge", ASKED, 10, asks=True),
    )


def asked_on(server: Server | None) -> tuple[str, ...]:
    """Return the words that name the model and the judge on a server."""
    if server is None:
        return ()
    model = ("model=openai/scripted", f"api_base={server.url}")
    judge = ("judge=openai/scripted-judge", f"judge_api_base={server.url}", "judge_check=no")
    return (*model, *judge, "baseline_records=0")


def serving(setup: Setup) -> AbstractContextManager[Server | None]:
    """Return a server of its own where the run asks one."""
    return running(latency=LATENCY) if setup.asks else nullcontext()


@dataclass
class Sums:
    """What the server has answered well, and what of it is in the cache.

    After a kill, the rest was under way.
    """

    server: Server
    place: Place
    answered: int = 0
    kept: int = 0

    def lost(self) -> tuple[int, str]:
        """Return how many new answers are not in the cache, and what is wrong with the cache.

        New is what came since the last look.
        """
        while (counts := self.server.counts())["under_way"]:
            time.sleep(0.01)
        answered = counts.get("well", 0)
        kept, problem = stored(self.place.folder / "cache", self.place.folder / "looked at")
        lost = (answered - self.answered) - (kept - self.kept)
        self.answered, self.kept = answered, kept
        return lost, problem

    @property
    def repeated(self) -> int:
        """How many questions were answered more than once, each time counted."""
        counts = self.server.counts()
        return int(counts.get("well", 0)) - int(counts["questions"])


def killed_chain(setup: Setup, calm: Calm, place: Place, draw: random.Random) -> Found:
    """Kill a run until that struck it in its folder `KILLS` times, let it end, and compare.

    A run that came to its end before a kill is compared, too, and begins anew.
    """
    found = Found(runs=1)
    with serving(setup) as server:
        words = (*setup.words, *asked_on(server))
        sums = Sums(server, place) if server is not None else None
        while found.held < KILLS:
            process = place.start(words)
            moment = draw.uniform(0, calm.seconds)
            if found.tries % 2:
                wait_for_lock(process)
                moment = draw.uniform(0, calm.held)
            was_there, held = kill_after(process, moment)
            found.tries, found.held = found.tries + was_there, found.held + (was_there and held)
            found += cost_of(sums)
            if not was_there:
                found.failures += ended_well(words, place, calm, asks=setup.asks)
                shutil.rmtree(place.out)
                found.runs += 1
            if found.failures:
                return found
        found.failures += ended_well(words, place, calm, asks=setup.asks)
        found += after_all(sums, found)
    return found


def cost_of(sums: Sums | None) -> Found:
    """Return what a kill cost.

    Answers that had come and were not in the cache yet, where a server is asked.
    """
    if sums is None:
        return Found()
    lost, problem = sums.lost()
    failures = [problem] if problem else []
    if not 0 <= lost <= AT_ONCE:
        failures.append(f"a kill cost {lost} answers, of at most {AT_ONCE} under way")
    return Found(repeated=max(lost, 0), most=lost, failures=failures)


def after_all(sums: Sums | None, found: Found) -> Found:
    """Check that just what was under way was asked again."""
    if sums is None:
        return Found()
    repeated = sums.repeated
    return Found(
        failures=[f"{repeated} answers came twice, and {found.repeated} were lost"]
        * (repeated != found.repeated)
    )


def ended_well(words: tuple[str, ...], place: Place, calm: Calm, *, asks: bool) -> list[str]:
    """Run a command to its end; return in what its end differs from an undisturbed one."""
    ended = finish(place.start(words))
    return [ended.problem] if ended.problem else differences(place.out, calm.out, manifest=not asks)


def specs(setup: Setup) -> Iterator[dict[str, Any]]:
    """Yield the exact places at which a process is ended.

    Only the answers of a model come out of order.
    """
    if setup.asks:
        for number in (2, 30):
            yield {"kind": "write", "file": "calls.jsonl", "n": number, "keep": 0.5}
        yield {"kind": "fsync", "file": "calls.jsonl", "n": 20, "keep": 0.5}
        yield from ({"kind": kind, "n": 15} for kind in ("transaction", "frame", "checkpoint"))
        for keep in (0.5, 1.0):
            yield {"kind": "fsync", "file": "predictions.jsonl.tmp", "n": 1, "keep": keep}
        for when in ("before", "after"):
            yield {"kind": "replace", "file": "verdicts.jsonl", "when": when}
        return
    for name in ("predictions.jsonl", "verdicts.jsonl", "scores.jsonl"):
        for number, keep in ((1, 0.0), (1, 0.01), (9, 0.5), (26, 0.99), (26, 1.0)):
            yield {"kind": "write", "file": name, "n": number, "keep": keep}
        for keep in (0.0, 0.5, 1.0):
            yield {"kind": "fsync", "file": name, "n": 2, "keep": keep}
    yield {"kind": "write", "file": ".lock", "n": 1, "keep": 0.5}
    yield from ({"kind": "flock", "when": when} for when in ("before", "after"))
    for name in ("manifest.json", "config.toml", "summary.json"):
        yield from (
            {"kind": "fsync", "file": f"{name}.tmp", "n": 1, "keep": keep}
            for keep in (0.0, 0.5, 1.0)
        )
        yield from ({"kind": "replace", "file": name, "when": when} for when in ("before", "after"))


def ended_at(setup: Setup, calm: Calm, place: Place, spec: dict[str, Any]) -> Found:
    """End a run at one place, let the same command end, and compare."""
    with serving(setup) as server:
        words = (*setup.words, *asked_on(server))
        ended = finish(place.start(words, spec))
        found = Found(tries=1, runs=1, held=spec["kind"] != "flock")
        if ended.code >= 0:
            found.failures.append(
                f"the disturbance did not happen: exit {ended.code} {ended.errors[-200:]}"
            )
        sums = Sums(server, place) if server is not None else None
        found += cost_of(sums)
        found.failures += ended_well(words, place, calm, asks=setup.asks)
        found += after_all(sums, found)
    return found


@dataclass(frozen=True)
class Job:
    """One thing to do in a folder of its own.

    The row of the table it belongs to, and how a failure is named.
    """

    row: str
    name: str
    work: Callable[[Place], Found]


def jobs(home: Path, words: Mapping[str, str], stack: ExitStack) -> Iterator[Job]:
    """Yield what there is to do, after the undisturbed runs that it is compared with."""
    parts = some_of(words, "part", PARTS)
    wanted = words["only"].partition(":")[0].removesuffix("-at")
    known = {setup.name: setup for setup in setups(home) if wanted in ("", setup.name)}
    calm: dict[str, Calm] = {}
    if "kills" not in parts:
        known = {name: setup for name, setup in known.items() if name in (*PLACED, "all-rules")}
    for name, setup in known.items():
        with serving(setup) as server:
            place = Place(home / "calm" / name)
            calm[name] = undisturbed(setup, (*setup.words, *asked_on(server)), place)
    for name, setup in known.items():
        chains = (
            math.ceil(setup.chains * whole(words, "kills", least=0) / ALL_KILLS)
            if "kills" in parts
            else 0
        )
        for number in range(chains):
            draw = random.Random(f"{words['seed']} {name} {number}")
            yield Job(
                f"random kills, {name}",
                f"{name}:{number}",
                partial(killed_chain, setup, calm[name], draw=draw),
            )
        placed = specs(setup) if "places" in parts and name in PLACED else ()
        for number, spec in enumerate(placed):
            row = f"placed ends, {name}"
            yield Job(row, f"{name}-at:{number}", partial(ended_at, setup, calm[name], spec=spec))


def carried_out(job: Job, home: Path) -> Found:
    """Do a job; what goes wrong in a way that nobody thought of is a failure, too."""
    folder = home / "jobs" / job.name.replace(":", "-")
    try:
        found = job.work(Place(folder))
    except Exception as error:  # one broken job does not hide what the others find
        found = Found(tries=1, runs=1, failures=[f"{type(error).__name__}: {error}"])
    if not found.failures:
        shutil.rmtree(folder, ignore_errors=True)
    found.failures = [f"{job.name}: {failure}" for failure in found.failures]
    return found


def table(found: dict[str, Found]) -> Iterator[list[str]]:
    """Yield the heading and the rows of the table."""
    yield ["what", "times", "in its folder", "runs", "repeated", "most", "wrong"]
    for name, row in found.items():
        asked = "model" in name
        held = f"{row.held:,}"
        costs = (f"{row.repeated:,}", f"{row.most:,}") if asked else ("–", "–")
        yield [name, f"{row.tries:,}", held, f"{row.runs:,}", *costs, f"{len(row.failures):,}"]


PROMISED = {"random": "killed at random", "placed": "ended at exact places"}
"""What rows that begin like this are called in a bound."""


def bounds(found: dict[str, Found], wanted: int) -> Iterator[Bound]:
    """Yield what is promised of each part that was carried out, `wanted` random kills among it."""
    left = dict(found)
    for start, what in PROMISED.items():
        rows = [left.pop(name) for name in list(left) if name.startswith(start)]
        if rows:
            wrong, runs = sum(len(row.failures) for row in rows), sum(row.runs for row in rows)
            measured = f"{wrong:,} wrong in {runs:,} runs, {sum(row.tries for row in rows):,} times"
            title = f"{what}: the end is that of an undisturbed run"
            yield Bound(title, "all", measured, wrong == 0)
    if struck := [row.held for name, row in found.items() if name.startswith("random")]:
        title = "killed at random: kills that struck a run while it held its folder"
        yield at_least(title, wanted, sum(struck))
    if asked := [row.most for name, row in found.items() if "model" in name]:
        yield at_most("answers that one kill costs again", AT_ONCE, max(asked))


TEXT = f"""
Real `alps run` processes, all four tasks, on the built-in samples, are ended by `kill -9`, at
moments drawn in turn over the time of an undisturbed run and over the part of it in which it
holds its folder. Each series of kills goes on until {KILLS} of them struck while the run held its
folder («in its folder»); a run that ended before its kill is compared, too, and begun anew, so
that «runs» can exceed the series. Others end at exact places: with a part of a line written,
between write and fsync with what was not on disk lost, around every rename and the lock, inside a
transaction, a log frame and a checkpoint of the reply cache. Then the same command runs to its
end. It must leave the same files, its predictions, verdicts and scores in the same bytes, a
summary that is equal but for `calls` and seconds, and, where no address is in it, the same
manifest. With a model and a judge on loopback ({AT_ONCE} requests under way, the cache on), just
what was not in the cache at a kill comes again: `repeated`, and `most` for one kill.
"""


def carry_out(words: dict[str, str], home: Path) -> dict[str, Found]:
    """Do what the words ask for, a few jobs at a time, and print what goes wrong.

    Return what was found by row.
    """
    found: dict[str, Found] = {}
    only = words["only"]
    with ExitStack() as stack, ThreadPoolExecutor(AT_A_TIME) as pool:
        wanted = [job for job in jobs(home, words, stack) if only in ("", job.name)]
        if not wanted:
            sys.exit(f"only={only}: there is no such job.")
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        for job, ended in zip(
            wanted, pool.map(partial(carried_out, home=home), wanted), strict=True
        ):
            total = found.setdefault(job.row, Found())
            total += ended
            for failure in ended.failures:
                print(f"{failure} (seed={words['seed']} only={job.name})", flush=True)
    return found


def main() -> None:
    """Carry everything out, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], WORDS)
    home = Path(tempfile.mkdtemp(prefix="crashes-"))
    try:
        found = carry_out(words, home)
    finally:
        if not any((home / "jobs").glob("*")):
            shutil.rmtree(home)
    if home.exists():
        print(f"What the failed runs left is in {home}.")
    wanted = 0 if words["only"] else whole(words, "kills", least=0)
    command = f"python bench/crashes.py seed={words['seed']} write=yes"
    promised, cells = list(bounds(found, wanted)), list(table(found))
    section = Section("crashes", "Crashes and disturbances", TEXT, promised, command, cells)
    finish_bench(section, write=words["write"])


if __name__ == "__main__":
    main()
