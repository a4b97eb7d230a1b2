"""Commands on memory systems: `memory list`, `memory install`, `beside`, `diagnose`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from alps.commands.common import command, console, group, print_as

if TYPE_CHECKING:
    from alps.ext.memory.settings import BesideSettings, DiagnoseSettings


@group()
def memory() -> None:
    """Install memory systems that others make, and list them."""


@command(name="list", group=memory, quick=True)
def memory_list() -> None:
    """List the memory systems that `memory=` takes, and which are installed."""
    from alps.ext.memory.check_table import list_memories

    list_memories(console())


@command(name="install", group=memory, quick=True)
@click.argument("name")
def memory_install(name: str) -> None:
    """Make an environment with the packages of a memory system that clash with those of alps.

    \b
      alps memory install memos
    """
    from alps.ext.memory.environments import environment

    click.echo(f"{name}: installed in {environment(name).install()}; memory={name} runs it")


@command(
    "[rows=…] [max_cost=…] [model=…] [format=json]",
    "alps.ext.memory.settings:BesideSettings",
    run=True,
)
def beside(run: Path, settings: "BesideSettings") -> None:
    """Run the same reader with no memory, full context, oracle evidence and others; compare.

    Rows are sorted by the paired difference from no memory. What was run before is not asked again.

    \b
      alps beside runs/personamem-rules-samples
    """
    from alps.ext.memory.comparison import beside as compare_memories
    from alps.ext.memory.comparison import print_beside
    from alps.ext.memory.comparison_runs import run_beside

    given = {} if settings.max_cost is None else {"max_cost": settings.max_cost}
    ran = run_beside(run, settings.rows.split(","), given, typed={"model": settings.model})
    print_as(compare_memories(ran.folders, ran.left_out), settings.format, print_beside)


@command(
    "[memory=…] [model=…] [format=json]",
    "alps.ext.memory.settings:DiagnoseSettings",
    run=True,
    record=True,
)
def diagnose(run: Path, record: str, settings: "DiagnoseSettings") -> None:
    """Find where a memory system lost what each wrong answer of a run needed.

    The system is fed again, and the reader is asked again with the evidence alone. With ID, all
    that is known of one wrong answer.

    \b
      alps diagnose runs/personamem-rules-samples
      alps diagnose runs/mine memory=python:mine:Store
    """
    from alps.ext.memory.diagnose import diagnose as find_losses
    from alps.ext.memory.diagnose_table import print_diagnosis, print_miss

    typed = {"model": settings.model, "memory": settings.memory}
    found = find_losses(run, typed=typed)
    if record:
        print_miss(found, record, console())
    else:
        print_as(found, settings.format, print_diagnosis)
