"""Keep a run going for thousands of samples while its server is ill in every way at once.

    python bench/soak.py [samples=5000] [phases=soak,capacity,hung,interrupted] [write=yes]

Each run is `alps run` as a process of its own; model and judge are on `bench/server.py`, whose log
is the witness. A calm run, whose server answers at once and well, is what the others are compared
with. Prints a row for each run, and exits 1 where a bound is missed. `write=yes` puts the figures
into bench/RESULTS.md.
"""

import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from document import Bound, Section, at_most, finish
from server import FAULTS, UNUSABLE, Server, running
from soaking import (
    JOURNALS,
    Command,
    Ended,
    Row,
    differing,
    ideal,
    lasting,
    read,
    refused_share,
    summary,
    too_early,
    write_samples,
)
from words import read_words, some_of, whole

PHASES = ("soak", "capacity", "hung", "interrupted")
WORDS = {"samples": "5000", "phases": ",".join(PHASES)}
AT_ONCE, TIMEOUT, MEGABYTES, SLACK, GRACE = 64, 15, 50.0, 1.5, 0.5
PROBABILITIES = {**dict.fromkeys(FAULTS, 0.01), "429": 0.001, "hang": 0.002, "refusal": 0.003}
PLACES, PER_SECOND, CAPACITY_LATENCY = 16, 40.0, 0.8
USED, REFUSED_LATER, FIRST_BURST = 0.8, 0.05, 5.0
HUNG_TIMEOUT, AT_ONCE_TWICE, ENOUGH = 6, 1.0, 2_000


@dataclass
class Found:
    """What the phases found: rows of the table, bounds, and notes."""

    rows: list[list[str]] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def hold(self, what: str, limit: str, measured: str, held: bool) -> None:
        """Add a bound."""
        self.bounds.append(Bound(what, limit, measured, held))

    def most(self, what: str, limit: float, measured: float, form: str = "{:,}") -> None:
        """Add the bound of what is not to pass a limit."""
        self.bounds.append(at_most(what, limit, measured, form))

    def none(self, what: str, number: int) -> None:
        """Add the bound that something does not happen."""
        self.hold(what, "0", f"{number:,}", number == 0)

    def run(self, name: str, samples: int, ended: Ended, log: list[Row]) -> None:
        """Add the row of a run."""
        throttled = sum(row["status"] == 429 for row in log)
        # What resumes begins with its tenth.
        growth = f"{ended.growth()[1]:.0f}" if ended.memory[0][2] == 0 else "–"
        peak = max(megabytes for _, megabytes, _ in ended.memory)
        figures = f"{ended.seconds:.1f} {ended.cpu:.1f} {peak:.0f} {growth} {ended.code}".split()
        self.rows.append([name, f"{samples:,}", f"{len(log):,}", f"{throttled:,}", *figures])
        print("  ".join(self.rows[-1]), file=sys.stderr, flush=True)


HEAD = ["run", "samples", "calls", "429", "wall s", "CPU s", "peak MB", "grown MB", "exit"]


@contextmanager
def serving(home: Path, name: str, **settings: object) -> Iterator[Server]:
    """Run a server that logs into `home`."""
    with running(log=home / f"{name}.log", **settings) as server:
        yield server


def calm(home: Path, count: int, found: Found) -> Path:
    """Run everything against a server that answers well and at once; return the run folder."""
    with serving(home, "calm") as server:
        ended = Command(home, server.url, "calm", f"concurrency={AT_ONCE}").ended()
        log = server.rows()
    found.run("calm, answered at once", count, ended, log)
    track = summary(home / "calm") if ended.code == 0 else {"scored": -1}
    if track["scored"] != count:
        sys.exit(f"the calm run failed: exit {ended.code}, {ended.lines[-1:]}")
    return home / "calm"


def soak(home: Path, count: int, found: Found) -> None:
    """Every kind of fault at once."""
    words = f"concurrency={AT_ONCE}", f"timeout={TIMEOUT}"
    with serving(home, "soaked", latency="0-2", seed=1, faults=PROBABILITIES) as server:
        ended = Command(home, server.url, "soaked", *words).ended()
        log, counts = server.rows(), server.counts()
    found.run("soaked, every fault", count, ended, log)
    kinds = Counter(row["fault"] for row in log if row["fault"])
    told = ", ".join(f"{kind} {kinds[kind]:,}" for kind in FAULTS)
    unheard = kinds["cut"] + kinds["garbage"]
    best = ideal(log, AT_ONCE)
    found.notes += [
        f"Faults of the soaked run: {told}.",
        f"Paid for and not heard: {unheard:,} answers that were cut off or garbled on their way.",
    ]
    # In fewer, not every kind need be drawn, and one hang at the end is most of the wall.
    if count >= ENOUGH:
        times = lasting(log) / best
        what = "soaked: wall, against every place always taken"
        found.hold(what, f"≤ {SLACK:g} ×", f"{times:.2f} × {best:.0f} s", times <= SLACK)
        lacking = sum(kinds[kind] == 0 for kind in FAULTS)
        found.none("soaked: kinds of fault that did not occur", lacking)
    nothing_lost(home, count, ended, log, found)
    found.none("soaked: questions answered well more than once", counts["well_twice"])
    attempts = (home / "soaked" / "calls.jsonl").read_bytes().count(b"\n")
    found.none("soaked: requests without a row in calls.jsonl", abs(len(log) - attempts))
    most = counts["most_under_way"]
    found.most("soaked: most under way, model and judge together", AT_ONCE, most)
    at, growth = ended.growth()
    form = f"{{:.0f}} MB (from {at:.0f})"
    found.most("soaked: memory grown since the first tenth", MEGABYTES, growth, form)
    honoured("soaked", log, found)


def nothing_lost(home: Path, count: int, ended: Ended, log: list[Row], found: Found) -> None:
    """Compare the soaked run with its server's log and with the calm run."""
    if not (home / "soaked" / "summary.json").exists():
        found.hold("soaked: exit code", "0", f"{ended.code}: {ended.lines[-1:]}", False)
        return
    track = summary(home / "soaked")
    found.hold("soaked: exit code", "0", str(ended.code), ended.code == 0)
    predictions, verdicts, scores = (read(home / "soaked" / name) for name in JOURNALS)
    refused = []
    for judging in (False, True):
        meant = [row for row in log if row["fault"] == "refusal"]
        of_role = {row["question"] for row in meant if ("judge" in row["model"]) == judging}
        refused.append(len(of_role))
    lost = (count - len(predictions)) + (count - refused[0] - len(verdicts)) + (count - len(scores))
    unheld = count - track["scored"] - track["unscored"]
    found.none("soaked: rows lost", abs(lost) + abs(track["n"] - count) + abs(unheld))
    beyond = short = 0
    for name, times in zip(("failed_predictions", "failed_judgements"), refused, strict=True):
        failed = Counter(track[name])
        beyond += (failed - Counter({"refused": times})).total()
        short += abs(times - failed["refused"])
    found.none("soaked: failures that the server did not mean", beyond + short)
    heard, different = differing(home / "soaked", home / "calm", count)
    found.none(f"soaked: of {heard:,} heard in both, other than in the calm run", different)
    found.notes.append(
        f"Refused by the scripted model {refused[0]}, by the judge {refused[1]}: failures it meant."
    )


def honoured(name: str, log: list[Row], found: Found) -> None:
    """Check from the log that nothing started before the time that a 429 asked for."""
    early, asked, latest = too_early(log, GRACE)
    found.none(f"{name}: started before Retry-After ({asked:,} asked)", early)
    if latest:
        found.notes.append(
            f"{name}: the latest request on its way when a 429 was sent came {latest:.2f} s after "
            "it."
        )


def capacity(home: Path, count: int, found: Found) -> None:
    """Servers that answer 429: one to what is beyond its places, one to what is beyond its rate."""
    models: dict[str, tuple[dict[str, float], float, str]] = {
        "places": ({"at_once": PLACES}, PLACES / CAPACITY_LATENCY, f"{PLACES} places"),
        "rate": ({"rate": PER_SECOND}, PER_SECOND, f"{PER_SECOND:g} a second"),
    }
    for name, (given, most, told) in models.items():
        with serving(home, name, latency=CAPACITY_LATENCY, **given) as server:
            words = f"concurrency={AT_ONCE}", f"limit={count}"
            ended = Command(home, server.url, name, *words, judge=False).ended()
            log = server.rows()
        found.run(f"capacity of {told}", count, ended, log)
        burst, ever = FIRST_BURST, float("inf")
        first, later = refused_share(log, 0, burst), refused_share(log, burst, ever)
        share = sum(row["well"] for row in log) / lasting(log) / most
        found.hold(f"{told}: capacity used", f"≥ {USED:.0%}", f"{share:.0%}", share >= USED)
        measured, limit = f"{later:.1%} (before: {first:.1%})", f"≤ {REFUSED_LATER:.0%}"
        what = f"{told}: share of 429 after {burst:g} s"
        found.hold(what, limit, measured, later <= REFUSED_LATER)
        lost = count - summary(home / name).get("scored", 0)
        found.none(f"{told}: samples without a score", lost)
        honoured(told, log, found)


def hung(home: Path, count: int, found: Found) -> None:
    """One request that is never answered, beside the same run without it."""
    logs, walls = {}, {}
    for name, text in (("unhung", ""), ("hung", "at house 7.")):
        with serving(home, name, latency="0-1", seed=2, hung=text) as server:
            words = f"concurrency={AT_ONCE // 2}", f"limit={count}", f"timeout={HUNG_TIMEOUT}"
            ended = Command(home, server.url, name, *words).ended()
            logs[name] = server.rows()
        walls[name] = lasting([row for row in logs[name] if row["fault"] != "hang"])
        title = "one never answered" if text else "the same, all answered"
        found.run(title, count, ended, logs[name])
    later = walls["hung"] - walls["unhung"]
    found.most("hung: the others done later by", 2.0, later, "{:.1f} s")
    most = max(lasting(logs["unhung"]), 3 * HUNG_TIMEOUT) + 5
    found.most("hung: from first request to end", round(most), lasting(logs["hung"]), "{:.1f} s")
    track = summary(home / "hung")
    became = track["scored"], track["unscored"], track["failed_predictions"]
    measured, limit = f"{became[0]} and {became[1]}", f"{count - 1} and 1"
    held = became == (count - 1, 1, {"transport": 1})
    found.hold("hung: scored, and unscored", limit, measured, held)


def interrupted(home: Path, count: int, found: Found) -> None:
    """Ctrl-C once, and twice at several moments; resumed, both end as if nothing had been."""
    for name, pauses in (("once", (None,)), ("twice", (0.02, 0.2, 0.5))):
        with serving(home, name, latency="0-2", seed=3) as server:
            words = f"concurrency={AT_ONCE}", f"limit={count}"
            taken, codes, resumable = [], Counter[int](), 0
            for number, pause in enumerate(pauses, start=1):
                command = Command(home, server.url, name, *words)
                if not command.reached(number * count // (len(pauses) + 2)):
                    break
                command.interrupt()
                if pause is not None:
                    time.sleep(pause)
                    command.interrupt()
                pressed = time.monotonic()
                ended = command.ended(60)
                taken.append(time.monotonic() - pressed)
                codes[ended.code] += 1
                said = ended.lines
                resumable += len(said) == 1 and "to resume, repeat the same" in said[0]
            last = Command(home, server.url, name, *words).ended()
            log, counts = server.rows(), server.counts()
        found.run(f"Ctrl-C {name}, resumed", count, last, log)
        known = ", ".join(map(str, codes))
        found.hold(f"Ctrl-C {name}: exit code", "130", known, set(codes) == {130})
        found.none(f"Ctrl-C {name}: ends that do not say how to resume", len(pauses) - resumable)
        limit, slowest = AT_ONCE_TWICE if name == "twice" else 5.0, max(taken, default=99.0)
        found.most(f"Ctrl-C {name}: seconds until the end", limit, slowest, "{:.2f} s")
        what = f"Ctrl-C {name}: answered well twice, of those under way"
        found.most(what, AT_ONCE * len(pauses), counts["well_twice"])
        heard, different = differing(home / name, home / "calm", count)
        what = f"Ctrl-C {name}: other than in the calm run once resumed"
        found.none(what, count - heard + different)


RARE = ", ".join(f"{kind} {PROBABILITIES[kind]:.1%}" for kind in ("429", "hang", "refusal"))
TEXT = f"""
Extraction over dialogues of four turns, `concurrency={AT_ONCE}`; model and judge are LLMs on a
loopback server. In the soaked run every answer takes 0 to 2 s, and a request meets one of these
faults, each by a probability of 1 % ({RARE}): {", ".join(FAULTS)}; a question meets at most two.
A question counts as answered well where the whole of a usable answer was sent; an answer that is
{", ".join(UNUSABLE)} is asked for again by design. Retry-After is checked in the server's log:
what came within {GRACE:g} s after a 429 was on its way already. The capacity runs ask the model
alone: a server with {PLACES} places, and one of {PER_SECOND:g} requests a second, answer 429 to
everything beyond; both ask to wait 1 s, and answer after {CAPACITY_LATENCY:g} s.
"""


def main() -> None:
    """Run the phases, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], WORDS)
    # A shell has what it starts in the background ignore Ctrl-C, and so would every run.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    samples, found = whole(words, "samples", least=100), Found()
    phases = some_of(words, "phases", PHASES)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        write_samples(home / "data", samples)
        if {"soak", "interrupted"} & set(phases):
            calm(home, samples, found)
        for phase, most in ((soak, samples), (capacity, 900), (hung, 300), (interrupted, 300)):
            if phase.__name__ in phases:
                phase(home, min(samples, most), found)
    command = f"python bench/soak.py samples={words['samples']} write=yes"
    table = [HEAD, *found.rows]
    finish(
        Section("soak", "Soak", TEXT, found.bounds, command, table, found.notes),
        write=words["write"],
    )


if __name__ == "__main__":
    main()
