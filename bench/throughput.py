"""Measure how many calls a second get through, and how near a run comes to what its server allows.

    python bench/throughput.py [calls=2000] [turns=2] [inspect=PYTHON] [parts=waiting,instant]
    [write=yes]

`waiting`: a server that takes 500 ms an answer, 64 at once. `instant`: one that answers at once,
before alps and, where `inspect=` names the Python of an environment that has inspect-ai, Inspect
AI; in turns, the same questions, 64 at once. The log of bench/server.py is the witness. Prints a
row for each, and exits 1 where a bound is missed. `write=yes` puts the figures into
bench/RESULTS.md.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from document import Bound, Section, at_least, at_most, finish
from processes import Taken, taken
from server import Server, running
from throughput_questions import AT_ONCE, INSPECT_ASKS, JUDGE, MODEL
from words import program, read_words, some_of, version, whole

LATENCY, SLACK = 0.5, 1.15
OF_INSPECT = 2.0
ALPS, INSPECT = "alps", "Inspect AI"
DEFAULTS = {"calls": "2000", "turns": "2", "parts": "waiting,instant", "inspect": "", "write": ""}
HERE = Path(__file__).resolve().parent

CONFIG = f", config=GenerateConfig(max_connections={AT_ONCE})"
INSPECT_SCRIPT = INSPECT_ASKS.replace("CONFIG", CONFIG).replace("MORE", f", max_samples={AT_ONCE}")


@dataclass(frozen=True)
class Found:
    """One process that asked: what the server saw of it, and what it took.

    Attributes:
        span: Seconds from the first request to the last answer.
        wall: Seconds of the whole process.
        computing: Seconds of the processor.
        server: Seconds of the processor that the server took.
    """

    who: str
    calls: int
    span: float
    wall: float
    computing: float
    megabytes: float
    server: float

    @property
    def rate(self) -> float:
        """Calls a second from the first request to the last answer."""
        return self.calls / self.span

    @property
    def whole_rate(self) -> float:
        """Calls a second of the whole process."""
        return self.calls / self.wall

    def row(self, name: str) -> list[str]:
        """Return its row of the table, under `name`."""
        each = 1000 * self.computing / self.calls
        rates = f"{self.rate:.0f}", f"{self.whole_rate:.0f}"
        spent = f"{self.span:.2f}", f"{self.wall:.2f}", f"{each:.1f}", f"{self.megabytes:.0f}"
        return [name, *rates, *spent]


HEAD = ["who asks", "calls/s", "of wall", "traffic s", "wall s", "CPU ms", "peak MB"]


def alps_words(url: str, home: Path) -> list[str]:
    """Return the command of alps: the model and the LLM judge are on the same server."""
    model = [f"model={MODEL}", f"api_base={url}", f"judge={JUDGE}", f"judge_api_base={url}"]
    out = tempfile.mkdtemp(dir=home)
    where = [f"concurrency={AT_ONCE}", "baseline_records=0", "judge_check=no"]
    where += [f"data={home}/data", f"out={out}"]
    return ["-m", "alps", "run", "task=extraction", *model, *where]


WORDS: Mapping[str, Callable[[str, Path], list[str]]] = {
    ALPS: alps_words,
    # Its OpenAI-compatible provider, the cheapest of its scorers, its log on.
    INSPECT: lambda url, home: ["inspect_asks.py", str(home / "asked.jsonl"), url],
}


def asked(who: str, home: Path, calls: int, *, latency: float, program: str) -> Found:
    """Let `who` ask every question once, of a server of its own.

    Raises:
        SystemExit: If it failed, asked another number of questions, or more of them at once than it
            was told.
    """
    with running(latency=latency, log=home / "log") as server:
        took = taken(WORDS[who](server.url, home), home, program=program)
        return _witnessed(who, took, server, calls)


def _witnessed(who: str, took: Taken, server: Server, calls: int) -> Found:
    rows, counts = server.rows(), server.counts()
    well, questions, most = counts.get("well", 0), counts["questions"], counts["most_under_way"]
    if well != calls or questions != calls or len(rows) != calls or most > AT_ONCE:
        said = f"{well:,} answers to {questions:,} questions, {most} at once"
        sys.exit(f"{who}: {said}; {calls:,} were to be asked.")
    span = max(row["time"] for row in rows) - min(row["arrived"] for row in rows)
    return Found(who, calls, span, took.seconds, took.computing, took.megabytes, counts["cpu"])


def instant(home: Path, calls: int, turns: int, inspect: str) -> list[Found]:
    """Let everyone ask a server that answers at once, in turns.

    Return the turn of each with the shortest traffic.
    """
    programs = {ALPS: sys.executable, **({INSPECT: inspect} if inspect else {})}
    found: dict[str, list[Found]] = {who: [] for who in programs}
    for _ in range(turns):
        for who, python in programs.items():
            found[who].append(asked(who, home, calls, latency=0, program=python))
    return [min(every, key=lambda turn: turn.span) for every in found.values()]


def waiting_bounds(found: Found) -> Iterator[Bound]:
    """Yield what is promised where the server takes its time."""
    ideal = found.calls * LATENCY / AT_ONCE
    at = f"{1000 * LATENCY:.0f} ms an answer, {AT_ONCE} at once"
    what = f"{at}: traffic against the ideal {ideal:.1f} s"
    yield at_most(what, SLACK, found.span / ideal, "{:.3f} ×")


def instant_bounds(found: list[Found]) -> Iterator[Bound]:
    """Yield what is promised where the server answers at once."""
    ours, *others = found
    for other in others:
        what = f"calls a second against {other.who}, in traffic"
        yield at_least(what, OF_INSPECT, ours.rate / other.rate, "{:.2f} ×")
        what = f"the same by the wall of the process, {other.who}"
        yield at_least(what, OF_INSPECT, ours.whole_rate / other.whole_rate, "{:.2f} ×")


def prepare(home: Path, calls: int) -> None:
    """Write the samples and the questions about them.

    A process of its own does it, whose memory counts nowhere.
    """
    taken([str(HERE / "short_samples.py"), str(home / "data"), str(calls // 2)], home)
    script = str(HERE / "throughput_questions.py")
    taken([script, str(home / "data"), str(home / "asked.jsonl")], home)
    (home / "inspect_asks.py").write_text(INSPECT_SCRIPT, encoding="utf-8")


def notes(slow: Found | None, fast: list[Found], inspect: str) -> list[str]:
    """Return what belongs beside the figures."""
    named = [f"litellm {version(sys.executable, 'litellm')}", inspect]
    said = [", ".join(filter(None, named))]
    if slow is not None:
        ideal = slow.calls * LATENCY / AT_ONCE
        said.append(
            f"The bound at {1000 * LATENCY:.0f} ms is on the traffic, from the first request to "
            f"the last answer. The process took {slow.wall:.2f} s, {slow.wall / ideal:.3f} × the "
            f"ideal: {slow.wall - slow.span:.1f} s go to its start, most of it the import of "
            f"litellm, and to the summary."
        )
    if fast:
        server = max(one.server for one in fast)
        said.append(f"The server itself took at most {server:.1f} s of a processor in a run.")
    return said


TEXT = f"""
A run of calls to a server on loopback: samples of extraction, each asked of the model and of an
LLM judge, {AT_ONCE} at once. alps keeps its ledger, its journals, its reply cache, and scores
with floors and intervals. Inspect AI asks the same questions by its OpenAI-compatible provider,
with its cheapest scorer and its log. Calls a second, from the first request to the last answer
and of the whole process; seconds; milliseconds of the processor a call, the start of the process
among them; peak memory. Of several turns the best counts.
"""


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], DEFAULTS)
    calls = 2 * (whole(words, "calls", least=2) // 2)
    parts, inspect = some_of(words, "parts", ("waiting", "instant")), program(words, "inspect")
    named = f"{INSPECT} {version(inspect, 'inspect-ai', 'openai')}" if inspect else ""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        prepare(home, calls)
        slow = None
        if "waiting" in parts:
            slow = asked(ALPS, home, calls, latency=LATENCY, program=sys.executable)
        fast = instant(home, calls, whole(words, "turns"), inspect) if "instant" in parts else []
    rows = [HEAD]
    promised: list[Bound] = []
    if slow is not None:
        rows.append(slow.row(f"alps, {1000 * LATENCY:.0f} ms"))
        promised += waiting_bounds(slow)
    if fast:
        rows += [one.row(f"{one.who}, 0 ms") for one in fast]
        promised += instant_bounds(fast)
    said = [f"{calls:,} calls a row", *notes(slow, fast, named)]
    command = "python bench/throughput.py inspect=PYTHON write=yes"
    section = Section("throughput", "Throughput", TEXT, promised, command, rows, said)
    finish(section, write=words["write"])


if __name__ == "__main__":
    main()
