"""Completion: a script for a shell, and what answers Tab with commands, settings, values, runs."""

import click

from alps.commands import command, say
from alps.extension import UNLISTED, Extension

SHELLS = ("bash", "zsh", "fish")


@command(quick=True)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that lets Tab complete commands, settings, their values and runs.

    \b
      eval "$(alps completion bash)"        in ~/.bashrc
      eval "$(alps completion zsh)"         in ~/.zshrc, after compinit
      alps completion fish | source         in ~/.config/fish/config.fish
    """
    from alps.ext.completion.answers import script

    say(script(click.get_current_context().find_root().command, shell))


EXTENSION = Extension(
    "completion",
    heading=UNLISTED,
    commands={"completion": "alps.ext.completion:completion"},
    on_tab="alps.ext.completion.answers:answers",
)
