"""Commands on models of one's own machine: `local install`, `local try`."""

import click

from alps.commands import command, group


@group()
def local() -> None:
    """Install and try a small model on this machine."""


@command(name="install", group=local, quick=True)
def local_install() -> None:
    """Install a model of 93 MB and the server of llama.cpp.

    alps installs both in a separate environment.

    \b
      alps local install
      alps run task=extraction model=local limit=2 max_tokens=300
    """
    from alps.ext.local.server import ENVIRONMENT

    click.echo(f"local: installed in {ENVIRONMENT.install()}; model=local and judge=local run it")


@command(name="try", group=local, quick=True)
@click.argument("name", default="local")
def local_try(name: str) -> None:
    """Describe a model and measure its speed on this machine.

    \b
      alps local try
      alps local try local:FILE.gguf
    """
    from alps.ext.local.doctor import tried

    for line in tried(name):
        click.echo(line)
