"""Measure memory products over scripted models: python bench/memory_products.py [systems=mem0].

One run a product of all five tasks, with a server on loopback that answers as an LLM and as an
embedder, each after a delay. What the run metered has to equal what the server counted, and the
seconds that it metered in each phase the delays of its requests within 5 %: the rest is the
product's own time. It needs the extras mem0 and langmem, and `alps memory install memos`. Exits 1
where a bound is missed; `write=yes` writes the section of docs/benchmarks.md.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from document import Bound, Section, missed, terminal, write_section  # noqa: E402
from processes import Taken, taken  # noqa: E402
from words import read_words  # noqa: E402

from alps.ext.memory.environments import APART, installed  # noqa: E402
from tests.loopback import serve  # noqa: E402
from tests.scripted_models import ScriptedModels  # noqa: E402

TASKS = "extraction,update,retrieval,utilization,personamem"
SESSIONS = {"mem0": 50, "langmem": 50, "memos": 10}
"""How many each is told at least; one that comes in an environment of its own fewer."""
DELAYS = {"chat": 0.5, "embeddings": 0.4}
"""Seconds after which the server answers; those of a small hosted model."""
WITHIN = 0.05
HEAD = [
    "product, phase",
    "calls",
    "requests",
    "tokens",
    "p50 s",
    "p95 s",
    "in all s",
    "models s",
    "planted s",
]


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def ran(system: str, home: Path, url: str) -> Taken:
    """Run the system: one command."""
    models = []
    for key in ("memory_llm", "memory_embedder"):
        models += [f"{key}=openai/scripted", f"{key}_api_base={url}"]
    task = (
        f"task={TASKS}",
        f"limit={SESSIONS[system] // len(TASKS.split(','))}",
        "model=rules",
        f"memory={system}",
    )
    return taken(["-m", "alps", "run", *task, *models, f"out={home / 'run'}"], home)


def planted(folder: Path) -> dict[str, tuple[float, float]]:
    """Return by phase the seconds that were metered, and those of the server's delays."""
    seconds: dict[str, tuple[float, float]] = {}
    for row in rows(folder / "memory_calls.jsonl"):
        if not row["cached"]:
            metered, delays = seconds.get(row["phase"], (0.0, 0.0))
            metered, delays = metered + row["seconds"], delays + DELAYS[row["asked"]]
            seconds[row["phase"]] = metered, delays
    return seconds


def table(
    system: str, phases: Mapping[str, Any], delays: Mapping[str, tuple[float, float]]
) -> Iterator[list[str]]:
    """Yield a row a phase."""
    for name, phase in phases.items():
        used = phase.get("used") or {"requests": 0, "prompt_tokens": 0, "completion_tokens": 0}
        tokens = used["prompt_tokens"] + used["completion_tokens"]
        asked = [f"{phase['calls']:,}", f"{used['requests']:,}", f"{tokens:,}"]
        times = [f"{phase[part]:.3f}" for part in ("p50", "p95", "seconds")]
        yield [
            f"{system}, {name}",
            *asked,
            *times,
            *(f"{part:.3f}" for part in delays.get(name, (0.0, 0.0))),
        ]


def bounds(
    system: str,
    summary: Mapping[str, Any],
    folder: Path,
    models: ScriptedModels,
    delays: Mapping[str, tuple[float, float]],
) -> Iterator[Bound]:
    """Yield what is promised, and what came of it."""
    sessions = sum(row["phase"] == "ingest" for row in rows(folder / "memory.jsonl"))
    least, what = SESSIONS[system], f"{system}: sessions that were ingested"
    yield Bound(what, f"≥ {least}", str(sessions), sessions >= least)
    passed = sum(not check.get("fault") for check in summary["admission"])
    checks = len(summary["admission"])
    yield Bound(
        f"{system}: checks of admission passed",
        "all",
        f"{passed} of {checks}",
        passed == checks > 0,
    )
    for kind in ("prompt_tokens", "completion_tokens"):
        metered = 0
        for row in rows(folder / "memory_calls.jsonl"):
            metered += 0 if row["cached"] else row[kind]
        counted = getattr(models, kind)
        what = f"{system}: {kind.replace('_', ' ')} metered, and counted by the server"
        yield Bound(what, "equal", f"{metered:,} and {counted:,}", metered == counted)
    for name in ("ingest", "search"):
        metered, delay = delays[name]
        off = metered / delay - 1
        what = f"{system}, {name}: seconds metered beyond the delays of the server"
        yield Bound(what, f"≤ {WITHIN:.0%}", f"{off:.1%}", abs(off) <= WITHIN)


class Measured(NamedTuple):
    """What came of one product."""

    promised: list[Bound]
    cells: list[list[str]]
    note: str


def measured(system: str) -> Measured:
    """Measure one product."""
    models = ScriptedModels(delays=DELAYS)
    with tempfile.TemporaryDirectory() as name, serve(models) as server:
        home = Path(name)
        took = ran(system, home, server.url)
        summary = json.loads((home / "run" / "summary.json").read_text(encoding="utf-8"))
        delays = planted(home / "run")
        promised = list(bounds(system, summary, home / "run", models, delays))
        cells = list(table(system, summary["phases"], delays))
    return Measured(promised, cells, f"{system}: {took.seconds:.0f} s in all, with two admissions")


def missing(system: str) -> str:
    """Return how a product is installed; empty where it is there."""
    if system in APART:
        return "" if installed(system) else f"alps memory install {system}"
    return "" if find_spec(system) else f"pip install 'alps-eval[{system}]'"


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], {"systems": ",".join(SESSIONS)})
    systems = words["systems"].split(",")
    for system in systems:
        if how := missing(system):
            sys.exit(f"{system}: not installed — {how}")
    every = [measured(system) for system in systems]
    cells = [HEAD, *chain.from_iterable(one.cells for one in every)]
    promised = list(chain.from_iterable(one.promised for one in every))
    print(terminal(cells))
    for bound in promised:
        print(f"{bound.what}: {bound.measured} ({bound.limit})")
    notes = [one.note for one in every]
    print("\n".join(notes))
    if words["write"]:
        text = (
            f"Products over an LLM that answers in {DELAYS['chat']:g} s and an embedder that "
            f"answers in {DELAYS['embeddings']:g} s,\nboth scripted on loopback. `models` is what "
            "the run metered of them in a phase, `planted` what their\ndelays come to; the rest "
            "is the product's own time."
        )
        command = "python bench/memory_products.py write=yes"
        heading = "Memory products, metered"
        section = Section("memory_products", heading, text, promised, command, cells, notes)
        write_section(section)
    misses = missed(promised)
    print("\n".join(misses))
    if misses:
        sys.exit(1)


if __name__ == "__main__":
    main()
