"""Commands on memory systems that others make: `memory list`, `memory install`."""

import click

from alps.commands.common import console, group


@group()
def memory() -> None:
    """Install memory systems that others make, and list them."""


@memory.command("list")
def memory_list() -> None:
    """List the memory systems that `memory=` takes, and which are installed."""
    from alps.report.memory import list_memories

    list_memories(console())


@memory.command("install")
@click.argument("name")
def memory_install(name: str) -> None:
    """Make an environment with the packages of a memory system that clash with those of alps.

    \b
      alps memory install memos
    """
    from alps.systems.memory.apart import install

    click.echo(f"{name}: installed in {install(name)}; memory={name} runs it")
