"""What an extension of `alps` is, and which there are.

The spine runs, scores and shows a task, and knows no extension by its name. Each folder of
`alps/ext` holds one, and a package of anybody's may bring others: an entry point of the group
`alps.extensions` that names an `Extension`.
"""

import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

GROUP = "alps.extensions"


@dataclass(frozen=True)
class Extension:
    """A feature that a plain run does not need.

    What it names by `module:name` is imported where it is first needed, so that a run pays for
    nothing that it does not use.

    Attributes:
        name: What messages call it.
        commands: Where its commands lie, by the words that call each: `{"view": "mine:view"}`, or
            `{"data mine": "mine:build"}` for one of the group `data`.
    """

    name: str
    commands: dict[str, str]


@cache
def extensions() -> tuple[Extension, ...]:
    """Return all extensions, our own first; one that can't be imported is named and left out."""
    return (*_own(), *_of_others())


def extended_commands() -> dict[str, str]:
    """Return where the commands of extensions lie, by the words that call them."""
    commands: dict[str, str] = {}
    for extension in extensions():
        commands = {**extension.commands, **commands}
    return commands


def load(where: str) -> Any:
    """Import what `module:name` says."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def _own() -> Iterator[Extension]:
    from alps import ext

    for module in pkgutil.iter_modules(ext.__path__, f"{ext.__name__}."):
        yield import_module(module.name).EXTENSION


def _of_others() -> Iterator[Extension]:
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            found = entry.load()
        # Whatever a stranger's module raises: a broken extension must not break every command.
        except Exception as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            _leave_out(entry.name, entry.value, why)
            continue
        if isinstance(found, Extension):
            yield found
        else:
            _leave_out(entry.name, entry.value, "it is no alps.extension.Extension")


def _leave_out(name: str, where: str, why: str) -> None:
    print(f"alps: the extension {name} ({where}) is left out: {why}", file=sys.stderr)
