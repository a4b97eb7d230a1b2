"""Memories between a history and the system that reads it, by the name that `memory=` gives."""

from pathlib import Path
from typing import Any

from alps.extension import Extension

FILE, CALLS = "memory.jsonl", "memory_calls.jsonl"
"""The journal of a memory system in a run folder, and the ledger of the models that it asked."""
ANSWERS = "answers.jsonl"
"""What a reader was shown, and how long it took."""
STORED = "memory"
"""Where a memory system keeps what it stores."""
STDERR = "memory.stderr.log"
_KEYS = ("memory_llm", "memory_embedder", "memory_llm_api_base", "memory_embedder_api_base")


def _has_part(settings: Any, folder: Path) -> bool:
    if settings.memory != "full" or settings.max_context_tokens is not None:
        return True
    given = any(getattr(settings, key) is not None for key in _KEYS)
    return given or bool(settings.memory_options) or (folder / FILE).exists()


def _shows(summary: Any) -> bool:
    measured = summary.admission or summary.phases or summary.bytes_per_1000_turns is not None
    return bool(measured) or any(track.memory is not None for track in summary.tracks.values())


EXTENSION = Extension(
    "memory",
    needs=("adapters",),
    commands={"memory": "alps.ext.memory.commands:memory"},
    heading="Memory",
    moved={"beside": "memory compare", "diagnose": "memory diagnose"},
    doctor="alps.ext.memory.settings:DoctorKeys",
    examine="alps.ext.memory.admit_run:examine_memory",
    exports={"MemorySystem": "alps.ext.memory.protocol:MemorySystem"},
    has_part=_has_part,
    part="alps.ext.memory.part:Part",
    settings="alps.ext.memory.settings:MemoryKeys",
    files=(STORED, CALLS, ANSWERS, STDERR, FILE),
    journals=(FILE, CALLS, ANSWERS),
    begun="alps.ext.memory.journal:is_begun",
    shows=_shows,
    shown="alps.ext.memory.tables:Shown",
    board="alps.ext.memory.board:BOARD",
    on_card="memory",
)
