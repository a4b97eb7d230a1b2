"""The command `alps data personas`."""

import click

from alps.commands.common import command
from alps.completion import takes


@command("personas")
@takes(
    "out=DIR [n=…] [size=…] [language=…] [seed=…] [model=…] [filter=…]",
    "alps.ext.personas.settings:PersonaSettings",
)
def data_personas(settings: tuple[str, ...]) -> None:
    """Write invented users and questions about them in PersonaMem's files.

    The same seed gives the same bytes. A model may write the texts, and a filter may drop what a
    model answers without the history; what is killed goes on when it is given again.

    \b
      alps data personas out=personas n=30 size=32k
      alps data personas out=personas n=30 model=openai/gpt-4.1 filter=openai/gpt-4.1-mini
    """
    from alps.ext.personas.generate import generate
    from alps.ext.personas.settings import PersonaSettings
    from alps.parsing import parse_words

    parsed = parse_words(settings, PersonaSettings)
    done = generate(parsed)
    click.echo(f"{done.questions:,} questions about {done.personas:,} personas: {parsed.out}")
    if parsed.filter is not None:
        click.echo(f"{done.dropped:,} questions dropped: {parsed.filter} answers them blind")
    for reason in done.left_out:
        click.echo(f"left out: {reason}", err=True)
