"""Memories by the name that `memory=` gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from alps.errors import UsageError, closest
from alps.systems.memory.boxed import BOXED, is_boxed, open_boxed
from alps.systems.memory.connection import ClassConnection, Connection
from alps.systems.memory.diary import FILE, Diary
from alps.systems.memory.embedded import KNOWN as EMBEDDED
from alps.systems.memory.embedded import Memory, open_embedded
from alps.systems.memory.protocol import Opening
from alps.systems.memory.store import Samples, Store

KNOWN = (*EMBEDDED, *BOXED)


@dataclass(frozen=True)
class MemoryOptions:
    """What a memory is opened with.

    Attributes:
        k: How many hits it is asked for.
        max_tokens: The most tokens that a reader is shown; None for any number.
        timeout: Seconds that one call may take.
        seed: Of every random draw.
        folder: The run folder; None where nothing is kept, as in a dry run.
        options: What the user gave as `memory.NAME=VALUE`.
    """

    k: int
    max_tokens: int | None = None
    timeout: float = 120.0
    seed: int = 0
    folder: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)


def is_ours(name: str) -> bool:
    """Tell whether `name` is a memory of the package that reads no file and runs no program."""
    boxed = is_boxed(name) and ":" not in name
    return boxed or open_embedded(name, None) is not None


def check_memory(name: str) -> None:
    """Refuse a memory that nothing is called by.

    Raises:
        UsageError: If there is none by that name.
    """
    if not is_boxed(name) and open_embedded(name, None) is None:
        known = ", ".join(KNOWN)
        raise UsageError(f"memory={name}: unknown{closest(name, KNOWN)} (known: {known})")


def open_memory(name: str, options: MemoryOptions, samples: Samples) -> Memory:
    """Return the memory called `name`.

    `samples` yields everything that it will be asked about.

    Raises:
        UsageError: If there is none by that name, or it needs an extra that is not installed.
    """
    check_memory(name)
    embedded = open_embedded(name, options.max_tokens)
    if embedded is not None:
        return embedded
    folder = options.folder
    scratch = Path() if folder is None else folder / "memory"
    opening = Opening(scratch, None, None, options.seed, options.options)
    return Store(
        name,
        _connect(name, options),
        opening,
        Diary(None if folder is None else folder / FILE),
        samples,
        k=options.k,
        max_tokens=options.max_tokens,
        timeout=options.timeout,
    )


def _connect(name: str, options: MemoryOptions) -> Connection:
    return ClassConnection(open_boxed(name, options.options))
