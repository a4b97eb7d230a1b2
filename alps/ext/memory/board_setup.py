"""Setup of a memory system in a run, and its card: hits and comparison rows.

What must be the same for two of them to be ranked together is read out of the card, which is made
of the manifest; nobody types it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from alps.ext.memory.admission import declared_in
from alps.ext.memory.resolve import HTTP, MCP, PROGRAM, PYTHON
from alps.ext.memory.tables import failed_share, too_many_failed
from alps.leaderboard.comparison import record_scores
from alps.leaderboard.gold_data import needs_reader
from alps.leaderboard.pages import FilePlace
from alps.leaderboard.ranking import RowBeside
from alps.leaderboard.site_data import SiteSystem
from alps.leaderboard.submission import (
    BESIDE,
    DIARY,
    MemoryCard,
    PublishedTrack,
    RunCard,
    Submission,
    memory_folder,
    memory_of_run,
)
from alps.llm.options import SAMPLING
from alps.show.shared_records import SharedRecords
from alps.stats.bootstrap import Estimate
from alps.tasks import Metric, Task
from alps.tasks.base import DEFAULTS, OF_MEMORY
from alps.tasks.by_memory import FULL, NOTHING

_FIRST = (
    *("reader", "k", "max_context_tokens", "tokens_shown"),
    *("memory_llm", "memory_embedder"),
)
_NAMES = {
    "tokens_shown": "median tokens shown",
    "memory_llm": "LLM of the memory",
    "memory_embedder": "embedder",
}
_TRANSPORTS = {PYTHON: "Python class", PROGRAM: "program", MCP: "MCP tools"}


def setup_of(card: Submission, name: str, task: Task) -> dict[str, Any] | None:
    """Return how the memory system of a track was run; None where it had none.

    `task` is that of the track, under its conditions.
    """
    track = card.tracks[name]
    run = card.runs[track.run]
    if memory_of_run(run.settings) is None:
        return None
    setup: dict[str, Any] = reader_of(run, task) if needs_reader(task) else {}
    if setup and card.system.snapshot is not None:
        setup["snapshot"] = card.system.snapshot
    for key in ("k", "max_context_tokens"):
        if key in task.options:
            setup[key] = track.conditions.get(key, getattr(DEFAULTS, key))
    # Hits differ in length: at one k a system may show ten times the tokens of another.
    if track.tokens_shown is not None:
        setup["tokens_shown"] = band_of(track.tokens_shown.median)
    # A better model behind a memory would pass for a better memory.
    for key in ("memory_llm", "memory_embedder"):
        setup[key] = run.settings.get(key)
    return setup


def band_of(tokens: int) -> str:
    """Return the sizes that count as alike: up to a power of two, above half of it."""
    if tokens < 2:
        return str(tokens)
    most = 1 << (tokens - 1).bit_length()
    return f"{most // 2 + 1}–{most}"


def reader_of(run: RunCard, task: Task) -> dict[str, Any]:
    """Return who reads what a memory found: its name, its settings, and its prompt."""
    reader: dict[str, Any] = {"reader": run.settings.get("model")}
    for name in (*SAMPLING, "request"):
        if run.settings.get(name) is not None:
            reader[name] = run.settings[name]
    reader["prompt"] = f"{task.prompt.id} {run.prompts.get(task.prompt.id, '?')[:12]}"
    return reader


def beside_of(run: RunCard, track: PublishedTrack) -> dict[str, Any]:
    """Return the settings that a comparison row must share with its run."""
    conditions = {name: part for name, part in track.conditions.items() if name not in OF_MEMORY}
    # Another temperature or prompt would make a difference that no memory made.
    settings = {name: run.settings.get(name) for name in ("model", "seed", "repeats", *SAMPLING)}
    return {
        "settings": settings,
        "prompts": run.prompts,
        "data": track.data_sha256,
        "conditions": conditions,
        "n": track.n,
        "judge": track.judge_fingerprint,
    }


def transport_of(memory: str) -> str:
    """Describe how a memory system was called, by its published name."""
    # The card has the scheme alone: an address would name a host of the submitter.
    if memory in (scheme.partition(":")[0] for scheme in HTTP):
        return "server"
    for prefix, words in _TRANSPORTS.items():
        if memory.startswith(prefix):
            return words
    return "bundled with alps"


def words_of(setup: Mapping[str, Any]) -> str:
    """Describe how memory systems were run."""
    words = []
    first = [name for name in _FIRST if name in setup]
    for name in (*first, *sorted(setup.keys() - set(first))):
        value = setup[name]
        words.append(f"{_NAMES.get(name, name)} {'none' if value is None else value}")
    return ", ".join(words)


def without_memory(memory: MemoryCard, track: str) -> str | None:
    """Return the name of the row without memory on a track; None where there is none."""
    for row, other in memory.beside.items():
        if other.run.settings.get("memory") == NOTHING and track in other.tracks:
            return row
    return None


def declared(card: Submission, track: str) -> list[str]:
    """Return the checks that the memory system of a track was declared to do without."""
    memory = card.memory_of(card.tracks[track].run)
    made = memory.admission.values() if memory is not None else ()
    return declared_in(check.name for checks in made for check in checks)


def memory_of(system: SiteSystem, track: str) -> FilePlace | None:
    """Return the place of the memory system of a track's run; None where it had none."""
    run = system.card.tracks[track].run
    for n, memory in enumerate(system.card.memory or ()):
        if memory.run == run:
            return system.root["memory"][n]
    return None


def memory_name(system: SiteSystem, track: str) -> str:
    """Return the published name of the memory of a track's run."""
    return str(system.run(track)["settings"]["memory"].value or FULL)


def ahead(system: SiteSystem, track: str) -> FilePlace | None:
    """Return how far a memory system is ahead of no memory; None where that was not run."""
    memory = memory_of(system, track)
    ahead = memory["ahead"][track] if memory is not None else None
    return ahead if ahead is not None and ahead["value"] else None


def no_difference(system: SiteSystem, track: str) -> str:
    """Return why a memory system has no difference from no memory; empty where it has one."""
    if ahead(system, track) is not None:
        return ""
    memory = memory_of(system, track)
    reason = memory["ahead"][track]["reason"].value if memory is not None else None
    return str(reason or "no comparison run without memory")


def rows_beside(system: SiteSystem, track: str) -> Iterator[RowBeside]:
    """Yield each comparison row of a run: memory, track, difference from no memory."""
    memory = memory_of(system, track)
    for _, row in memory["beside"].items() if memory is not None else ():
        if row["tracks"][track]:
            name = str(row["run"]["settings"]["memory"].value or FULL)
            yield RowBeside(name, row["tracks"][track], row["ahead"][track])


def hits(system: SiteSystem, track: str) -> dict[str, list[Mapping[str, Any]]]:
    """Return what its memory system found on a track, by record and number of the search."""
    memory = system.card.memory_of(system.card.tracks[track].run)
    found: dict[str, list[Mapping[str, Any]]] = {}
    if memory is None:
        return found
    for row in system.entry.read(f"{memory_folder(memory)}/{DIARY}", "phase"):
        of_track, _, name = str(row.get("sample")).partition(" ")
        hits = row.get("hits")
        # Rows of a submission that nobody verified are anybody's.
        if of_track == track and isinstance(hits, list):
            found[name] = [hit for hit in hits if isinstance(hit, dict)]
    return found


def rows_without_memory(system: SiteSystem, track: str) -> Iterator[dict[str, Any]]:
    """Yield the score rows of the comparison run without memory."""
    memory = system.card.memory_of(system.card.tracks[track].run)
    row = without_memory(memory, track) if memory is not None else None
    if memory is not None and row is not None:
        name = f"{memory_folder(memory)}/{BESIDE}/{row}/{track}/scores.jsonl"
        yield from system.entry.read(name, "benchmark_id")


def ahead_of(
    rows: Iterable[Mapping[str, Any]],
    others: Iterable[Mapping[str, Any]],
    metric: Metric,
    sessions: Mapping[str, str],
) -> dict[str, Any]:
    """Return how far the scores of `rows` are ahead of those without memory, record by record.

    Records without a known session stand alone. There is no value where too many answers failed.
    """
    rows, others = list(rows), list(others)
    reason = too_many_failed(failed_share(rows), failed_share(others))
    if reason is not None:
        return Estimate(None, None, None, 0, reason).row
    both = [record_scores(one, [metric]).get(metric.name, {}) for one in (rows, others)]
    ids = sorted(both[0].keys() & both[1].keys())
    own = {name: sessions.get(name, name) for name in ids}
    return SharedRecords.of(metric, ids, both, own).difference(*both).estimate.row
