"""Welcome text of `alps` alone: the things people come for, with a command to copy."""

import os
from typing import Any

import click

_TITLE = "Evaluate how LLM assistants extract, update, retrieve and use memories."
CAME_FOR = {
    "first score, offline": "alps run task=extraction model=rules",
    "your model": "alps run task=all model=openai/… judge=openai/… limit=3",
    "your memory system": "alps run task=personamem memory=python:mine:Mine …",
    "your judge": "alps calibrate judge=openai/… labels=DIR",
}
"""What people come for, and the command for it; the first works without network and key."""
_FURTHER = {"All commands": "alps --help", "Check this machine": "alps doctor"}


def welcome() -> str:
    """Return the text, at most 80 columns wide, styled unless NO_COLOR is set."""
    width = max(map(len, CAME_FOR)) + 2
    lines = [_styled(_TITLE, bold=True), ""]
    for what, command in CAME_FOR.items():
        lines.append(f"  {what.ljust(width)}{_styled(command, fg='cyan')}")
    further = [f"{what}: {_styled(command, fg='cyan')}" for what, command in _FURTHER.items()]
    return "\n".join([*lines, "", "       ".join(further)])


def _styled(text: str, **style: Any) -> str:
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)
