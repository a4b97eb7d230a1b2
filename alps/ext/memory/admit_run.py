"""Admission of a run's memory system: a run of one that fails a check has no scores."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from alps.errors import UsageError
from alps.event_loop import run_loop
from alps.ext.memory.connection import MemoryFailed
from alps.ext.memory.embedded import EmbeddedMemory
from alps.ext.memory.models import asked_models, check_memory_models, memory_models
from alps.ext.memory.resolve import SPOKEN, MemoryOptions, open_memory
from alps.ext.memory.settings import DoctorKeys
from alps.ext.memory.store import Store
from alps.extension import sender_of
from alps.keys import passed
from alps.llm.ledger import Ledger
from alps.rows import Check
from alps.run.services import UsedModel, check_models, close_clients
from alps.show.formatting import counted
from alps.tasks import Task
from alps.waiting import tell

if TYPE_CHECKING:
    from rich.console import Console

    from alps.llm.client import Client
    from alps.show.table import Table


async def admitted(memory: EmbeddedMemory | None, when: Literal["before", "after"]) -> list[Check]:
    """Check the memory system of a run; nothing where it has none.

    Raises:
        UsageError: If a check failed, or none could be made; names the first.
    """
    if not isinstance(memory, Store):
        return []
    tell("checking the memory system", announced=True)
    try:
        checks = await memory.admit(when)
    except MemoryFailed as failure:
        why = f"{failure}; to resume the run, repeat the command"
        raise UsageError(f"memory={memory.name} was not checked {when} the run: {why}") from failure
    failed = [check for check in checks if not check.passed]
    if failed:
        first = failed[0]
        others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise UsageError(
            f"memory={memory.name}: not admitted {when} the run, so alps gives no scores: "
            f"{first.name}: {first.fault}{others}; all checks: alps doctor memory={memory.name}"
        )
    return checks


def check_estimable(memory: EmbeddedMemory | None, tasks: Sequence[Task]) -> None:
    """Refuse tasks whose answer is all that a memory system holds, of one that can't list it.

    Raises:
        UsageError: If there is such a task; names those that are left.
    """
    if not isinstance(memory, Store) or not memory.cannot_list:
        return
    lost: dict[str, None] = {}
    left: dict[str, None] = {}
    for task in tasks:
        needed = task.by_memory.answers is not None and task.by_memory.answers.lists
        (lost if needed else left)[task.name] = None
    if lost:
        mend = f"; give task={','.join(left)}" if left else ""
        raise UsageError(
            f"memory={memory.name} has no `memories`, so {' and '.join(lost)} can't be "
            f"estimated{mend}"
        )


def checks_of(settings: DoctorKeys) -> list[Check]:
    """Check the memory system of `memory=` without a run, with its models.

    Raises:
        AlpsError: If nothing is called so, it is no memory system, or a model can't be asked.
    """
    name = str(settings.memory)
    if settings.env is not None and not name.startswith(SPOKEN):
        why = "only program:CMD and mcp:CMD use env=; leave it out"
        raise UsageError(f"env={settings.env} would change nothing: {why}")
    check_memory_models(settings, name)
    models = asked_models(settings)
    check_models(UsedModel(key, model, api_base, {}, None) for key, model, api_base in models)
    with TemporaryDirectory() as folder, closing(Ledger(Path(folder) / "calls.jsonl")) as ledger:
        clients: list[Client] = []

        def client(api_base: str | None, model: str) -> "Client":
            from alps.llm.client import Client
            from alps.llm.types import EndpointCalls

            timeout = settings.timeout
            own = sender_of(EndpointCalls(model, api_base, timeout))
            asking = Client(
                concurrency=None, ledger=ledger, cache=None, timeout=timeout, sender=own
            )
            clients.append(asking)
            return asking

        given = memory_models(settings, client)
        options = MemoryOptions(
            k=5,
            timeout=settings.timeout,
            folder=Path(folder),
            options=settings.memory_options or {},
            env=passed(settings.env),
            llm=given.llm,
            embedder=given.embedder,
        )
        memory = open_memory(name, options, lambda: ())
        if not isinstance(memory, Store):
            raise UsageError(
                f"memory={name}: not a memory system; doctor checks only memory systems"
            )
        return run_loop(_checked(memory, clients))


async def _checked(memory: Store, clients: "Sequence[Client]") -> list[Check]:
    try:
        return await memory.admit("before")
    except MemoryFailed as failed:
        raise UsageError(f"memory={memory.name}: {failed}") from failed
    finally:
        await memory.aclose()
        await close_clients(clients)


def examine_memory(settings: BaseModel, console: "Console") -> int | None:
    """Print the admission of the memory system that `memory=` names.

    Returns:
        0 where it passed, else 1; None where none is named.

    Raises:
        UsageError: If nothing is called so, or it is no memory system.
    """
    from alps.show.table import printed

    keys = DoctorKeys.of(settings)
    if keys.memory is None:
        if others := sorted(keys.model_fields_set & set(DoctorKeys.model_fields)):
            raise UsageError(f"{others[0]}= needs memory=NAME")
        return None
    name = keys.memory
    checks = checks_of(keys)
    failed = sum(not check.passed for check in checks)
    console.print(*printed([_table(name, checks)]))
    passed = f"{counted(len(checks) - failed, 'check')} passed"
    console.print(f"{passed}, {failed} failed: not admitted." if failed else f"{passed}: admitted.")
    return 1 if failed else 0


def _table(name: str, checks: list[Check]) -> "Table":
    from alps.show.table import Cell, Table, figures, named, row_of

    rows = []
    for check in checks:
        mark = Cell("ok", style="green") if check.passed else Cell("bad", style="bold red")
        took = Cell(f"{check.seconds:.2f}", check.seconds)
        rows.append(row_of(mark, check.name, check.fault, took))
    columns = [named(wraps="no"), named("check", "fold"), named("problem", "fold")]
    return Table(f"Admission of {name}", [*columns, *figures("s")], rows, layout="plain")
