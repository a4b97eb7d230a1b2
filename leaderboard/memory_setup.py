"""Setup of a memory system in a run: what must be the same for two of them to be ranked together.

It is read out of the card, which is made of the manifest; nobody types it.
"""

from collections.abc import Mapping
from typing import Any

from alps.ext.memory.resolve import HTTP, MCP, PROGRAM, PYTHON
from alps.leaderboard.gold_data import needs_reader
from alps.leaderboard.submission import RunCard, Submission, Track, memory_of_run
from alps.llm.options import SAMPLING
from alps.tasks import Task
from alps.tasks.base import DEFAULTS, OF_MEMORY

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

    Args:
        card: The card of its submission.
        name: The track.
        task: Its task, under its conditions.
    """
    track = card.tracks[name]
    run = card.runs[track.run]
    if memory_of_run(run.settings) is None:
        return None
    setup: dict[str, Any] = _reader(card, run, task) if needs_reader(task) else {}
    for key in ("k", "max_context_tokens"):
        if key in task.options:
            setup[key] = track.conditions.get(key, getattr(DEFAULTS, key))
    if track.tokens_shown is not None:
        setup["tokens_shown"] = band_of(track.tokens_shown.median)
    for key in ("memory_llm", "memory_embedder"):
        setup[key] = run.settings.get(key)
    return setup


def band_of(tokens: int) -> str:
    """Return the sizes that count as alike: up to a power of two, above half of it."""
    if tokens < 2:
        return str(tokens)
    most = 1 << (tokens - 1).bit_length()
    return f"{most // 2 + 1}–{most}"


def _reader(card: Submission, run: RunCard, task: Task) -> dict[str, Any]:
    snapshot = card.system.snapshot
    return reader_of(run, task) | ({} if snapshot is None else {"snapshot": snapshot})


def reader_of(run: RunCard, task: Task) -> dict[str, Any]:
    """Return who reads what a memory found: its name, its settings, and its prompt."""
    reader: dict[str, Any] = {"reader": run.settings.get("model")}
    for name in (*SAMPLING, "request"):
        if run.settings.get(name) is not None:
            reader[name] = run.settings[name]
    reader["prompt"] = f"{task.prompt.id} {run.prompts.get(task.prompt.id, '?')[:12]}"
    return reader


def beside_of(run: RunCard, track: Track) -> dict[str, Any]:
    """Return what a row beside a run has to share with it."""
    conditions = {name: part for name, part in track.conditions.items() if name not in OF_MEMORY}
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
    """Return in words how a memory system was called, by its published name."""
    if memory in (scheme.partition(":")[0] for scheme in HTTP):
        return "server"
    for prefix, words in _TRANSPORTS.items():
        if memory.startswith(prefix):
            return words
    return "in the package"


def _place(name: str) -> tuple[int, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)


def words_of(setup: Mapping[str, Any]) -> str:
    """Return in words how memory systems were run."""
    words = []
    for name in sorted(setup, key=_place):
        value = setup[name]
        words.append(f"{_NAMES.get(name, name)} {'none' if value is None else value}")
    return ", ".join(words)
