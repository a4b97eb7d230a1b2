"""Memories between a history and the system that reads it, by the name that `memory=` gives."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alps.commands import command, console, group, print_as
from alps.extension import Extension

if TYPE_CHECKING:
    from alps.ext.memory.settings import BesideSettings, DiagnoseSettings

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


@group()
def memory() -> None:
    """Work with memory systems."""


@command(
    "[rows=…] [max_cost=…] [model=…] [format=json]",
    "alps.ext.memory.settings:BesideSettings",
    name="compare",
    group=memory,
    run=True,
)
def memory_compare(run: Path, settings: "BesideSettings") -> None:
    """Run the same reader with no memory and with other values of memory=.

    The rows show whether the memory helps: they are sorted by the paired difference from no
    memory. Existing runs are not repeated.

    \b
      alps memory compare runs/personamem-rules-samples
    """
    from alps.ext.memory.comparison import beside as compare_memories
    from alps.ext.memory.comparison import check_baseline, print_beside, run_beside

    rows = list(map(str.strip, settings.rows.split(",")))
    check_baseline(run, rows)
    given = {} if settings.max_cost is None else {"max_cost": settings.max_cost}
    ran = run_beside(run, rows, given, typed={"model": settings.model})
    print_as(compare_memories(ran.folders, ran.left_out), settings.format, print_beside)


@command(
    "[memory=…] [model=…] [format=json]",
    "alps.ext.memory.settings:DiagnoseSettings",
    name="diagnose",
    group=memory,
    run=True,
    record=True,
)
def memory_diagnose(run: Path, record: str, settings: "DiagnoseSettings") -> None:
    """Find where the memory system lost the evidence of each wrong answer.

    The system ingests the history again, and the reader answers again with the evidence alone.
    With ID, alps prints all facts about one wrong answer.

    \b
      alps memory diagnose runs/personamem-rules-samples
      alps memory diagnose runs/mine memory=python:mine:Store
    """
    from alps.ext.memory.diagnose import diagnose, print_diagnosis, print_miss

    typed = {"model": settings.model, "memory": settings.memory}
    found = diagnose(run, typed=typed)
    if record:
        print_miss(found, record, console())
    else:
        print_as(found, settings.format, print_diagnosis)


@command(name="list", group=memory, quick=True)
def memory_list() -> None:
    """List memory systems, and show which are installed."""
    from alps.ext.memory.resolve import list_memories

    list_memories(console())


@command(name="install", group=memory, quick=True)
@click.argument("name")
def memory_install(name: str) -> None:
    """Install a memory system in a separate environment.

    \b
      alps memory install memos
    """
    from alps.ext.memory.programs import environment

    click.echo(f"{name}: installed in {environment(name).install()}; memory={name} runs it")


EXTENSION = Extension(
    "memory",
    needs=("adapters",),
    commands={"memory": "alps.ext.memory:memory"},
    heading="Memory",
    moved={"beside": "memory compare", "diagnose": "memory diagnose"},
    doctor="alps.ext.memory.settings:DoctorKeys",
    examine="alps.ext.memory.part:examine_memory",
    exports={"MemorySystem": "alps.ext.memory.protocol:MemorySystem"},
    part_if=_KEYS,
    part_after=FILE,
    part="alps.ext.memory.part:MemoryRunPart",
    settings="alps.ext.memory.settings:MemoryKeys",
    code={"mcp:": "alps.ext.adapters.command_code:hashes_of_command"},
    files=(STORED, CALLS, ANSWERS, STDERR, FILE),
    journals=(FILE, CALLS, ANSWERS),
    begun="alps.ext.memory.journal:is_begun",
    shows=_shows,
    shown="alps.ext.memory.tables:MemoryShownPart",
    board="alps.ext.memory.board:BOARD",
    on_card="memory",
)
