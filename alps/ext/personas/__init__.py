"""Invented users whose texts a model writes, and questions that a model answers blind dropped."""

from typing import TYPE_CHECKING

import click

from alps.commands import command
from alps.extension import Extension

if TYPE_CHECKING:
    from alps.ext.personas.settings import PersonaSettings


@command(
    "out=DIR [n=…] [size=…] [language=…] [seed=…] [model=…] [filter=…]",
    "alps.ext.personas.settings:PersonaSettings",
    name="personas",
    quick=True,
)
def data_personas(settings: "PersonaSettings") -> None:
    """Write invented users and questions in PersonaMem's format.

    The same seed gives the same bytes. A model can write the texts, and a filter can drop
    questions that a model answers without the history. To resume, repeat the same command.

    \b
      alps data personas out=personas n=30 size=32k
      alps data personas out=users model=openai/gpt-4.1 filter=openai/gpt-4.1-mini
    """
    from alps.ext.personas.generate import generate
    from alps.show.formatting import counted

    done = generate(settings)
    questions, personas = counted(done.questions, "question"), counted(done.personas, "persona")
    click.echo(f"{questions} about {personas}: {settings.out}")
    if settings.filter is not None:
        dropped = counted(done.dropped, "question")
        click.echo(f"Dropped {dropped} that {settings.filter} answers without history")
    for reason in done.left_out:
        click.echo(f"left out: {reason}", err=True)


EXTENSION = Extension(
    "personas",
    needs=("datasets", "personamem"),
    commands={"data personas": "alps.ext.personas:data_personas"},
)
