"""Measure a memory product over scripted models: python bench/memory_products.py [system=mem0].

One run of all five tasks, with a server on loopback that answers as an LLM and as an embedder, each
after a delay. What the run metered has to equal what the server counted, and the seconds that it
metered in each phase the delays of its requests within 5 %: the rest is the product's own time.
Exits 1 where a bound is missed; `write=yes` writes the section of docs/benchmarks.md.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from document import Bound, Section, missed, terminal, write_section  # noqa: E402
from processes import Taken, taken  # noqa: E402
from words import read_words  # noqa: E402

from tests.loopback import serve  # noqa: E402
from tests.scripted_models import ScriptedModels  # noqa: E402

TASKS = "extraction,update,retrieval,utilization,personamem"
SESSIONS = 50
DELAYS = {"chat": 0.5, "embeddings": 0.4}
"""Seconds after which the server answers; those of a small hosted model."""
WITHIN = 0.05
HEAD = [
    "phase",
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


def ran(system: str, home: Path, url: str, words: Mapping[str, str]) -> Taken:
    """Run the system: one command."""
    models = []
    for key in ("memory_llm", "memory_embedder"):
        models += [f"{key}=openai/scripted", f"{key}_api_base={url}"]
    task = (f"task={TASKS}", f"limit={words['limit']}", "model=rules", f"memory={system}")
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
    phases: Mapping[str, Any], delays: Mapping[str, tuple[float, float]]
) -> Iterator[list[str]]:
    """Yield the heading and a row a phase."""
    yield HEAD
    for name, phase in phases.items():
        used = phase.get("used") or {"requests": 0, "prompt_tokens": 0, "completion_tokens": 0}
        tokens = used["prompt_tokens"] + used["completion_tokens"]
        asked = [f"{phase['calls']:,}", f"{used['requests']:,}", f"{tokens:,}"]
        times = [f"{phase[part]:.3f}" for part in ("p50", "p95", "seconds")]
        yield [name, *asked, *times, *(f"{part:.3f}" for part in delays.get(name, (0.0, 0.0)))]


def bounds(
    summary: Mapping[str, Any],
    folder: Path,
    models: ScriptedModels,
    delays: Mapping[str, tuple[float, float]],
) -> Iterator[Bound]:
    """Yield what is promised, and what came of it."""
    sessions = sum(row["phase"] == "ingest" for row in rows(folder / "memory.jsonl"))
    yield Bound("sessions that were ingested", f"≥ {SESSIONS}", str(sessions), sessions >= SESSIONS)
    passed = sum(not check.get("fault") for check in summary["admission"])
    checks = len(summary["admission"])
    yield Bound("checks of admission passed", "all", f"{passed} of {checks}", passed == checks > 0)
    for kind in ("prompt_tokens", "completion_tokens"):
        metered = 0
        for row in rows(folder / "memory_calls.jsonl"):
            metered += 0 if row["cached"] else row[kind]
        counted = getattr(models, kind)
        what = f"{kind.replace('_', ' ')}: metered, and counted by the server"
        yield Bound(what, "equal", f"{metered:,} and {counted:,}", metered == counted)
    for name in ("ingest", "search"):
        metered, delay = delays[name]
        off = metered / delay - 1
        what = f"{name}: seconds metered beyond the delays of the server"
        yield Bound(what, f"≤ {WITHIN:.0%}", f"{off:.1%}", abs(off) <= WITHIN)


def main() -> None:
    """Measure, print, write, and compare with the bounds."""
    words = read_words(sys.argv[1:], {"system": "mem0", "limit": "10"})
    if find_spec(words["system"]) is None:
        sys.exit(f"it needs the extra: pip install 'alps-eval[{words['system']}]'")
    models = ScriptedModels(delays=DELAYS)
    with tempfile.TemporaryDirectory() as name, serve(models) as server:
        home, system = Path(name), words["system"]
        took = ran(system, home, server.url, words)
        summary = json.loads((home / "run" / "summary.json").read_text(encoding="utf-8"))
        delays = planted(home / "run")
        promised = list(bounds(summary, home / "run", models, delays))
        cells = list(table(summary["phases"], delays))
    print(terminal(cells))
    for bound in promised:
        print(f"{bound.what}: {bound.measured} ({bound.limit})")
    notes = [f"The whole run took {took.seconds:.0f} s, admission before and after it among them"]
    if words["write"]:
        text = (
            f"Mem0 in the process of a run, over an LLM that answers in {DELAYS['chat']:g} s and "
            f"an embedder that answers in {DELAYS['embeddings']:g} s,\nboth scripted on loopback. "
            "`models` is what the run metered of them in a phase, `planted` what their "
            "delays come to; the rest is Mem0's own time."
        )
        command = "python bench/memory_products.py write=yes"
        heading = "A memory product, metered"
        section = Section("memory_products", heading, text, promised, command, cells, notes)
        write_section(section)
    misses = missed(promised)
    print("\n".join(misses))
    if misses:
        sys.exit(1)


if __name__ == "__main__":
    main()
