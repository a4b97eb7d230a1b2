"""Welcome text of `alps` alone: the three things people come for, with a command to copy."""

import os
import textwrap

import click

LINES = 80

# What people come for: a title, a command that works without network and key, and what it does.
CAME_FOR = (
    (
        "Run a system",
        "alps run task=extraction model=rules",
        "A baseline made of patterns reads 26 dialogues; its score stands next to trivial "
        "baselines. With model=openai/… it is your model that reads them.",
    ),
    (
        "Calibrate a judge",
        "alps calibrate judge=lexical labels=stress",
        "How often does a judge agree with answers that are known? "
        "With labels=DIR it is compared with labels that people gave.",
    ),
    (
        "Look at the leaderboard, and submit to it",
        "alps leaderboard build out=site",
        "Open site/index.html. A run of yours joins by: alps submit RUN name=… org=…",
    ),
)

_FURTHER = (
    ("alps --help", "every command, and COMMAND --help its settings"),
    ("alps completion --help", "Tab completes commands, settings and runs"),
    ("alps doctor", "versions, keys, cache, samples"),
)


def welcome() -> str:
    """Return the text, at most 80 columns wide, styled unless NO_COLOR is set."""
    parts = [_title("Evaluate how LLM assistants extract, update, retrieve and use memories."), ""]
    parts.append("Three things to begin with. They work as they stand: no network, no key.")
    for number, (title, command, told) in enumerate(CAME_FOR, start=1):
        parts += ["", _title(f"{number}  {title}"), f"   $ {_command(command)}"]
        parts += textwrap.wrap(told, width=LINES, initial_indent="   ", subsequent_indent="   ")
    width = max(len(command) for command, _ in _FURTHER) + 2
    parts.append("")
    for command, told in _FURTHER:
        parts.append(f"{_command(command)}{' ' * (width - len(command))}{told}")
    return "\n".join(parts)


def _title(text: str) -> str:
    return text if os.environ.get("NO_COLOR") else click.style(text, bold=True)


def _command(text: str) -> str:
    return text if os.environ.get("NO_COLOR") else click.style(text, fg="cyan")
