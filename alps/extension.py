"""What an extension of `alps` is, and which there are.

The spine runs, scores and shows a task, and knows no extension by its name. Each folder of
`alps/ext` holds one, and a package of anybody's may bring others: an entry point of the group
`alps.extensions` that names an `Extension`.
"""

import pkgutil
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

GROUP = "alps.extensions"


def never(settings: Any, folder: Path) -> bool:
    """Have no part in any run."""
    return False


def _never_again(typed: Collection[str]) -> bool:
    return False


@dataclass(frozen=True)
class Extension:
    """A feature that a plain run does not need.

    What it names by `module:name` is imported where it is first needed, so that a run pays for
    nothing that it does not use.

    Attributes:
        name: What messages call it.
        commands: Where its commands lie, by the words that call each: `{"view": "mine:view"}`, or
            `{"data mine": "mine:build"}` for one of the group `data`.
        needs: The names of the extensions that it imports; without one of them it is left out.
        has_part: Tells, by its settings and its folder, whether it has a part in a run.
        part: The class of that part, an `alps.run.parts.RunPart`: `mine:Part`.
        engine: What carries out a run that it has a part in, in place of this process:
            `mine:run`, from settings to a `Finished`.
        files: Files and folders that its part writes into a run folder with the answers.
        journals: Those of the files that have rows, which shards of a run are merged by.
        rescores: Tells by the names of the typed settings whether `alps score` is its own.
        rescore: What carries that out, from the folder of the run and the typed settings to a
            `Finished`: `mine:score`.
        begun: Tells of a run folder that holds one of its files whether a run is to go on from
            there; None where it has no say: `mine:is_begun`.
        board: Its part on boards, an `alps.leaderboard.parts.BoardPart`: `mine:BOARD`.
        on_card: The setting of a run, or the field of a submission, that it has that part in.
    """

    name: str
    commands: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    has_part: Callable[[Any, Path], bool] = never
    part: str = ""
    engine: str = ""
    files: tuple[str, ...] = ()
    journals: tuple[str, ...] = ()
    rescores: Callable[[Collection[str]], bool] = _never_again
    rescore: str = ""
    begun: str = ""
    board: str = ""
    on_card: str = ""


@cache
def extensions() -> tuple[Extension, ...]:
    """Return all extensions, our own first; one that can't be imported is named and left out."""
    found = {extension.name: extension for extension in (*_of_others(), *_own())}
    kept = found
    # One that is left out may be needed by another.
    while lacking := [one.name for one in kept.values() if not set(one.needs) <= kept.keys()]:
        kept = {name: one for name, one in kept.items() if name not in lacking}
    return tuple(kept.values())


def extended_commands() -> dict[str, str]:
    """Return where the commands of extensions lie, by the words that call them."""
    commands: dict[str, str] = {}
    for extension in extensions():
        commands |= extension.commands
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
