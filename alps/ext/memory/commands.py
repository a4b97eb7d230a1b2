"""Commands on memory systems: `memory list`, `memory install`, `beside`, `diagnose`."""

import click

from alps.commands.common import (
    allow_typed,
    command,
    console,
    group,
    print_as,
    takes_time,
)
from alps.completion import takes, words_of


@group()
def memory() -> None:
    """Install memory systems that others make, and list them."""


@memory.command("list")
def memory_list() -> None:
    """List the memory systems that `memory=` takes, and which are installed."""
    from alps.ext.memory.check_table import list_memories

    list_memories(console())


@memory.command("install")
@click.argument("name")
def memory_install(name: str) -> None:
    """Make an environment with the packages of a memory system that clash with those of alps.

    \b
      alps memory install memos
    """
    from alps.ext.memory.environments import install

    click.echo(f"{name}: installed in {install(name)}; memory={name} runs it")


@command()
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@takes("[rows=…] [max_cost=…] [model=…] [format=json]", "alps.ext.memory.settings:BesideSettings")
@takes_time
def beside(run_folder: str, settings: tuple[str, ...]) -> None:
    """Run the same reader with no memory, full context, oracle evidence and others; compare.

    Rows are sorted by the paired difference from no memory. What was run before is not asked again.

    \b
      alps beside runs/personamem-rules-samples
    """
    from alps.ext.memory.comparison import beside as compare_memories
    from alps.ext.memory.comparison import print_beside
    from alps.ext.memory.comparison_runs import run_beside
    from alps.ext.memory.settings import BesideSettings
    from alps.parsing import parse_words
    from alps.run.opened import find_run

    parsed = parse_words(allow_typed(settings), BesideSettings)
    given = {} if parsed.max_cost is None else {"max_cost": parsed.max_cost}
    folder, rows = find_run(run_folder), parsed.rows.split(",")
    ran = run_beside(folder, rows, given, typed={"model": parsed.model})
    print_as(compare_memories(ran.folders, ran.left_out), parsed.format, print_beside)


@command()
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@click.argument("record", metavar="[ID]", default="")
@takes("[memory=…] [model=…] [format=json]", "alps.ext.memory.settings:DiagnoseSettings")
@takes_time
def diagnose(run_folder: str, record: str, settings: tuple[str, ...]) -> None:
    """Find where a memory system lost what each wrong answer of a run needed.

    The system is fed again, and the reader is asked again with the evidence alone. With ID, all
    that is known of one wrong answer.

    \b
      alps diagnose runs/personamem-rules-samples
      alps diagnose runs/mine memory=python:mine:Store
    """
    from alps.ext.memory.diagnose import diagnose as find_losses
    from alps.ext.memory.diagnose_table import print_diagnosis, print_miss
    from alps.ext.memory.settings import DiagnoseSettings
    from alps.parsing import parse_words
    from alps.run.opened import find_run

    if "=" in record:
        record, settings = "", (record, *settings)
    parsed = parse_words(settings, DiagnoseSettings)
    typed = {"model": parsed.model, "memory": parsed.memory}
    found = find_losses(find_run(run_folder), typed=typed)
    if record:
        print_miss(found, record, console())
    else:
        print_as(found, parsed.format, print_diagnosis)
