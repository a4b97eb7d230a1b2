"""Models on one's own machine: a small one that comes with it, and any file of llama.cpp's."""

from pathlib import Path
from typing import Any

import click

from alps.commands import command, group
from alps.extension import Extension

MODEL, FILE = "local", "local:"
"""The name of the model that comes with it, and how the name of another one's file begins."""
SERVED = ("model", "judge", "memory_llm")
"""Settings that may name such a model."""


def serves(name: str) -> bool:
    """Tell whether `model=` or `judge=` names a model that is served for the run alone."""
    return name == MODEL or name.startswith(FILE)


def _has_part(settings: Any, folder: Path) -> bool:
    return any(serves(str(getattr(settings, key, None))) for key in SERVED)


@group()
def local() -> None:
    """Install and try a small model on this machine."""


@command(name="install", group=local, quick=True)
def local_install() -> None:
    """Install a 93 MB model and the llama.cpp server.

    alps installs both in a separate environment.

    \b
      alps local install
      alps run task=extraction model=local limit=2 max_tokens=300
    """
    from alps.ext.local.server import ENVIRONMENT

    click.echo(f"local: installed in {ENVIRONMENT.install()}; use model=local or judge=local")


@command(name="try", group=local, quick=True)
@click.argument("name", default="local")
def local_try(name: str) -> None:
    """Describe a model and measure its speed on this machine.

    \b
      alps local try
      alps local try local:FILE.gguf
    """
    from alps.ext.local.server import tried

    for line in tried(name):
        click.echo(line)


EXTENSION = Extension(
    "local",
    needs=("memory",),
    heading="Scale",
    commands={"local": "alps.ext.local:local"},
    examine="alps.ext.local.server:examine",
    has_part=_has_part,
    part="alps.ext.local.server:LocalRunPart",
    serves=serves,
    references="alps.ext.local:local.json",
    sends="alps.ext.local.sending:sender",
)
