"""Engines of many processes: python bench/engines.py [kills=30] [parts=kills,speed,pools].

    python bench/engines.py [kills=30] [records=120] [parts=…] [seed=0]

`kills`: a scheduler and three workers of dask as processes, one of them in a network namespace of
its own where root may make one, answer and judge records by a scripted server. Workers are killed
at random, each replaced, and the scheduler is restarted once, after half of the kills. The end has
to be that of an undisturbed local run, byte for byte; nothing that a journal held at a kill may be
asked again; and the key of the workers may stand in no state of the scheduler, log or file.
`speed`: a synchronous memory system that sleeps 65 ms a turn, in one process and in four.
`pools`: BM25 over pools of every size for the queries of our samples, each four times under names
of its own, in one process and in two, with the seconds of the processor that both take. Exits 1
where a bound is missed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from document import Bound, missed, terminal
from words import read_words, some_of, whole

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from alps.data.pools import BANK, GENERATED, QUERIES, generated_memories  # noqa: E402
from alps.data.release import Split, open_split, read_track, write_track  # noqa: E402
from alps.jsonl import dump  # noqa: E402
from tests.cluster import Cluster, state_of  # noqa: E402
from tests.endtoend import complete_rows, environment  # noqa: E402
from tests.ext.fleet.test_shards import is_the_same  # noqa: E402
from tests.loopback import Answer, LoopbackServer  # noqa: E402
from tests.visitors import good, memory_items, purpose, write_visitors  # noqa: E402

PARTS = ("kills", "speed", "pools")
CANARY = "canary-key-of-the-workers-0815"
NAMESPACE, OUTSIDE, INSIDE = "alps-bench", "10.77.77.1", "10.77.77.2"
WORKERS, SPEED_WORKERS, SPEED_UP, POOLS_UP = 3, 4, 3.5, 1.7
QUERIES_EACH, BANK_FIELDS = 4, ("memory_id", "session_id", "value", "label")
SESSIONS = 320
SLEEPER = """
import time
from alps.ext.memory.turns import Turns

class Sleeper(Turns):
    settings = {}
    def __init__(self):
        super().__init__("bm25")
    def ingest(self, user, session):
        time.sleep(0.065 * len(session.turns))
        super().ingest(user, session)
"""


class Server(LoopbackServer):
    """A scripted server on an address that the namespace sees, too."""

    host = "127.0.0.1"

    def server_bind(self) -> None:
        """Bind to the address."""
        self.server_address = (self.host, 0)
        super().server_bind()

    @property
    def url(self) -> str:
        """The address of its endpoint."""
        return f"http://{self.host}:{self.server_port}/v1"


@contextmanager
def namespace() -> Iterator[bool]:
    """Make a network namespace of one worker, and a cable to it; yield whether it could be made."""
    inside = ("ip", "netns", "exec", NAMESPACE)
    cable = [
        ("ip", "netns", "add", NAMESPACE),
        ("ip", "link", "add", "alps-b0", "type", "veth", "peer", "name", "alps-b1"),
        ("ip", "link", "set", "alps-b1", "netns", NAMESPACE),
        ("ip", "addr", "add", f"{OUTSIDE}/24", "dev", "alps-b0"),
        ("ip", "link", "set", "alps-b0", "up"),
        (*inside, "ip", "addr", "add", f"{INSIDE}/24", "dev", "alps-b1"),
        (*inside, "ip", "link", "set", "alps-b1", "up"),
        (*inside, "ip", "link", "set", "lo", "up"),
    ]
    try:
        ended = (subprocess.run(one, check=False, capture_output=True) for one in cable)
        yield all(one.returncode == 0 for one in ended)
    except FileNotFoundError:  # no `ip` here
        yield False
    finally:
        for one in (("link", "del", "alps-b0"), ("netns", "del", NAMESPACE)):
            subprocess.run(("ip", *one), check=False, capture_output=True)


@dataclass
class Disturbed:
    """A run on a cluster that is disturbed.

    Attributes:
        place: The folder of the shards.
        settled: What the journals held at the kills.
        again: What of that was asked again.
    """

    cluster: Cluster
    place: Path
    apart: bool
    draw: Random
    settled: set[tuple[str, str]] = field(default_factory=set)
    again: list[tuple[str, str]] = field(default_factory=list)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: dict[str, Any]) -> Answer:
        """Answer a request well, and count it."""
        question = purpose(body)
        with self.lock:
            self.asked[question] += 1
            if question in self.settled:
                self.again.append(question)
        return Answer(good(body).text, delay=0.05)

    def note(self) -> None:
        """Note what the journals hold."""
        held = set()
        for name in ("predictions.jsonl", "verdicts.jsonl"):
            for path in self.place.rglob(name):
                held |= {(name, row["benchmark_id"]) for row in complete_rows(path)}
        with self.lock:
            self.settled |= held

    def start_worker(self) -> None:
        """Start a worker; there is always one in the namespace, where that could be made."""
        within = ("ip", "netns", "exec", NAMESPACE)
        there = [one for one in self.cluster.workers if "netns" in one.args]  # type: ignore[operator]
        if self.apart and not there:
            self.cluster.start_worker(within=within, host=INSIDE)
        else:
            self.cluster.start_worker()

    def kill_worker(self) -> None:
        """Kill a worker at random, and start another."""
        victim = self.draw.choice(self.cluster.workers)
        victim.kill()
        victim.wait()
        self.cluster.workers.remove(victim)
        self.note()
        self.start_worker()

    def restart_scheduler(self) -> None:
        """Kill the scheduler and the workers that end with it, and start all again."""
        self.cluster.scheduler.kill()
        self.cluster.scheduler.wait()
        self.note()
        for worker in self.cluster.workers:
            worker.kill()
            worker.wait()
        self.cluster.workers.clear()
        self.cluster.start_scheduler()
        for _ in range(WORKERS):
            self.start_worker()


def alps(folder: Path, *words: str, **variables: str) -> "subprocess.Popen[str]":
    """Start the command in a folder."""
    given = environment(folder, ALPS_CACHE="off", PYTHONPATH=str(ROOT), **variables)
    command = [sys.executable, "-m", "alps", *words]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, env=given, text=True, stdout=null, stderr=pipe)


def run_alps(folder: Path, *words: str, **variables: str) -> float:
    """Run the command to its end; return the seconds that it took."""
    started = time.monotonic()
    process = alps(folder, *words, **variables)
    _, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(f"alps {' '.join(words)}: exit {process.returncode}: {errors}")
    return time.monotonic() - started


def computing(folder: Path, *words: str) -> tuple[float, float]:
    """Run the command to its end; return its seconds of the clock and of processors.

    Those of its workers are among the latter: it waits for them.
    """
    before = os.times()
    seconds = run_alps(folder, *words)
    after = os.times()
    used = after.children_user - before.children_user
    return seconds, used + after.children_system - before.children_system


def kill_workers(folder: Path, *, kills: int, records: int, seed: int) -> list[Bound]:
    """Disturb a run on a cluster, and compare its end with that of an undisturbed local one."""
    write_visitors(folder / "data", records)
    with namespace() as apart:
        Server.host = OUTSIDE if apart else "127.0.0.1"
        keys = {"OPENAI_API_KEY": CANARY, "ALPS_CACHE": "off"}
        cluster = Cluster(folder, host=Server.host, env=keys)
        run = Disturbed(cluster, folder / "divided.shards", apart, Random(seed))
        server = Server(run.answer)
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        words = (
            *("run", "task=extraction", "data=data", "model=openai/scripted"),
            *(f"api_base={server.url}", "judge=openai/judge", f"judge_api_base={server.url}"),
            *("baseline_records=0", "structured=json", "judge_structured=json", "concurrency=4"),
        )
        try:
            return _disturb(folder, run, words, kills=kills)
        finally:
            cluster.end()
            server.shutdown()
            server.server_close()


def _disturb(folder: Path, run: Disturbed, words: Sequence[str], *, kills: int) -> list[Bound]:
    run_alps(folder, *words, "out=whole", OPENAI_API_KEY=CANARY)
    questions = len(run.asked)
    run.asked.clear()
    for _ in range(WORKERS):
        run.start_worker()
    run.cluster.wait_for_workers(WORKERS)
    dask = ("engine=dask", f"scheduler={run.cluster.address}", "workers=6", "out=divided")
    process, began, killed, states = alps(folder, *words, *dask), time.monotonic(), 0, []
    for number in range(kills + 1):
        # Some of the questions of each kill, so that the last one comes before the end.
        target = questions * (number + 1) // (kills + 2)
        while len(run.asked) < target and process.poll() is None:
            time.sleep(0.01)
        if process.poll() is not None:
            break
        if number == kills // 2:
            states.append(state_of(run.cluster.address))
            run.restart_scheduler()
        else:
            run.kill_worker()
            killed += 1
    _, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(f"the disturbed run: exit {process.returncode}: {errors}\n{run.cluster.log}")
    is_the_same(folder / "divided", folder / "whole")
    held = [*states, errors, run.cluster.log]
    held += [path.read_text() for path in (folder / "divided").rglob("*") if path.is_file()]
    found = sum(CANARY in text for text in held)
    where = "one in a network namespace" if run.apart else "all in this network: no namespace"
    twice = sum(count - 1 for count in run.asked.values())
    print(f"{killed} kills in {time.monotonic() - began:.0f} s; {where}; {twice} of {questions}")
    print("questions were under way at a kill, and asked again.")
    return [
        Bound("workers killed, the scheduler once", f"{kills}", f"{killed}", killed >= kills),
        Bound("other bytes than undisturbed", "none", "none", True),
        Bound("on disk, and asked again", "0", f"{len(run.again)}", not run.again),
        Bound("texts with the key", f"0 of {len(held)}", f"{found}", found == 0),
    ]


def _long_session(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a record of 20 turns: to check a system, each shard tells it some 100 turns first."""
    ids = {"benchmark_id": f"long_{number:04}", "session_id": f"s{number:04}", "task": "task1"}
    said = [{"role": "user", "text": f"Number {number} says part {turn}."} for turn in range(20)]
    gold = {"memory_items": memory_items(f"Visitor {number} says parts")}
    return {**ids, "input": {"dialogue": said}}, {**ids, "gold": gold}


def compare_speed(folder: Path) -> list[Bound]:
    """Run a memory system that sleeps in one process, and in four."""
    (folder / "sleeper.py").write_text(SLEEPER)
    write_track(folder / "data" / "dev" / "task1", map(_long_session, range(SESSIONS)))
    words = ("run", "task=extraction", "data=data", "model=rules", "memory=python:sleeper:Sleeper")
    one = run_alps(folder, *words, "out=one")
    many = ("engine=processes", f"workers={SPEED_WORKERS}", "out=four")
    four = run_alps(folder, *words, *many)
    is_the_same(folder / "four", folder / "one")
    print(f"sleeping memory system: {one:.1f} s in one process, {four:.1f} s in {SPEED_WORKERS}.")
    gain = one / four
    return [
        Bound("4 workers, a memory that sleeps", f"≥ {SPEED_UP} ×", f"{gain:.2f} ×", gain >= 3.5)
    ]


def _write_queries(folder: Path) -> None:
    """Write our samples with each query four times, and enough memories for pools of all sizes."""
    ours = open_split("samples", None)
    assert isinstance(ours, Split)
    shutil.copytree(ours.folder, folder / "dev")
    pairs, queries = list(read_track(ours.folder / QUERIES)), []
    for number in range(QUERIES_EACH):
        for pair in pairs:
            name = f"{pair.input['benchmark_id']}-{number}"
            ids = {"benchmark_id": name, "canonical_id": name, "session_id": f"s-{name}"}
            queries.append(({**pair.input, **ids}, {**(pair.gold or {}), **ids}))
    write_track(folder / "dev" / QUERIES, queries)
    with (folder / "dev" / QUERIES / BANK).open("ab") as bank:
        for memory in generated_memories(GENERATED, 0):
            row = {name: getattr(memory, name) for name in BANK_FIELDS}
            bank.write(dump(row))


def compare_pools(folder: Path) -> list[Bound]:
    """Rank pools of every size in one process, and in two."""
    _write_queries(folder / "data")
    words = ("run", "task=retrieval", "model=bm25", "data=data", "distractors=all")
    one, alone = computing(folder, *words, "out=one")
    two, both = computing(folder, *words, "engine=processes", "workers=2", "out=two")
    is_the_same(folder / "two", folder / "one")
    print(f"pools of BM25: {one:.1f} s in one process, {two:.1f} s in two;")
    print(f"{alone:.1f} s of processors in one, {both:.1f} s in two: what both do is done twice.")
    gain = one / two
    return [Bound("BM25 pools, 2 processes", f"≥ {POOLS_UP} ×", f"{gain:.2f} ×", gain >= POOLS_UP)]


def main() -> None:
    """Measure what the words name."""
    defaults = {"kills": "30", "records": "120", "parts": ",".join(PARTS), "seed": "0"}
    words = read_words(sys.argv[1:], defaults)
    parts, bounds = some_of(words, "parts", PARTS), []
    counts = {"kills": whole(words, "kills"), "records": whole(words, "records", least=9)}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        for part in parts:
            folder = Path(scratch) / part
            folder.mkdir()
            if part == "kills":
                bounds += kill_workers(folder, **counts, seed=whole(words, "seed", least=0))
            elif part == "speed":
                bounds += compare_speed(folder)
            else:
                bounds += compare_pools(folder)
    rows = [(bound.what, bound.limit, bound.measured) for bound in bounds]
    print(terminal([("what", "bound", "measured"), *rows]))
    print(f"load average over the last minute: {os.getloadavg()[0]:.1f}")
    if faults := missed(bounds):
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
