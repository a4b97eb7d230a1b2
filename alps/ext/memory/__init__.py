"""Memories between a history and the system that reads it, by the name that `memory=` gives."""

from typing import Any

from alps.extension import Extension

FILE, CALLS = "memory.jsonl", "memory_calls.jsonl"
"""The journal of a memory system in a run folder, and the ledger of the models that it asked."""
ANSWERS = "answers.jsonl"
"""What a reader was shown, and how long it took."""
STORED = "memory"
"""Where a memory system keeps what it stores."""
STDERR = "memory.stderr.log"
_KEYS = (
    *("memory", "memory_options", "max_context_tokens"),
    *("memory_llm", "memory_embedder", "memory_llm_api_base", "memory_embedder_api_base"),
)


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
    examine="alps.ext.memory.part:examine_memory",
    exports={"MemorySystem": "alps.ext.memory.protocol:MemorySystem"},
    part_if=_KEYS,
    part_after=FILE,
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
