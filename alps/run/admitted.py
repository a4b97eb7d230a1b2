"""Admission of a run's memory system: a run of one that fails a check has no scores."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from alps.errors import UsageError
from alps.event_loop import run_loop
from alps.rows import Check
from alps.run.services import Services
from alps.systems.memory.connection import MemoryFailed
from alps.systems.memory.resolve import MemoryOptions, open_memory
from alps.systems.memory.store import Store
from alps.tasks import Task


async def admitted(services: Services, when: Literal["before", "after"]) -> list[Check]:
    """Check the memory system of a run; nothing where it has none.

    Raises:
        UsageError: If a check failed, or none could be made; names the first.
    """
    memory = services.memory
    if not isinstance(memory, Store):
        return []
    try:
        checks = await memory.admit(when)
    except MemoryFailed as failure:
        why = f"{failure}; the same command goes on from here"
        raise UsageError(f"memory={memory.name}: not checked {when} the run: {why}") from failure
    failed = [check for check in checks if not check.passed]
    if failed:
        first = failed[0]
        others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise UsageError(
            f"memory={memory.name}: not admitted {when} the run, so there are no scores: "
            f"{first.name}: {first.fault}{others}; `alps doctor memory={memory.name}` says all"
        )
    return checks


def check_estimable(services: Services, tasks: Sequence[Task]) -> None:
    """Refuse tasks whose answer is all that a memory system holds, of one that can't list it.

    Raises:
        UsageError: If there is such a task; names those that are left.
    """
    memory = services.memory
    if not isinstance(memory, Store) or not memory.cannot_list:
        return
    lost: dict[str, None] = {}
    left: dict[str, None] = {}
    for task in tasks:
        needed = task.by_memory is not None and task.by_memory.lists
        (lost if needed else left)[task.name] = None
    if lost:
        mend = f"; give task={','.join(left)}" if left else ""
        raise UsageError(
            f"memory={memory.name}: it has no `memories`, so {' and '.join(lost)} can't be "
            f"estimated{mend}"
        )


def checks_of(name: str, timeout: float) -> list[Check]:
    """Check the memory system called `name` by itself.

    Args:
        name: What `memory=` says.
        timeout: Seconds that one call may take.

    Raises:
        UsageError: If nothing is called so, or it is no memory system.
    """
    with TemporaryDirectory() as folder:
        options = MemoryOptions(k=5, timeout=timeout, folder=Path(folder))
        memory = open_memory(name, options, lambda: ())
        if not isinstance(memory, Store):
            raise UsageError(f"memory={name}: no memory system, so there is nothing to check")
        return run_loop(_checked(memory))


async def _checked(memory: Store) -> list[Check]:
    try:
        return await memory.admit("before")
    finally:
        await memory.aclose()
