"""Memory systems shown by themselves: those that there are, and the admission of one."""

from collections.abc import Iterator
from importlib.util import find_spec

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from alps.errors import UsageError
from alps.ext.memory.admit_run import checks_of
from alps.ext.memory.built_in import BOXED, PRODUCTS
from alps.ext.memory.environments import APART, environment, installed, packages
from alps.ext.memory.settings import DoctorKeys
from alps.rows import Check
from alps.show.formatting import counted, visible


def examine_memory(settings: BaseModel, console: Console) -> int | None:
    """Print the admission of the memory system that `memory=` names.

    Returns:
        0 where it passed, else 1; None where none is named.

    Raises:
        UsageError: If nothing is called so, or it is no memory system.
    """
    keys = DoctorKeys.of(settings)
    if keys.memory is None:
        if others := sorted(keys.model_fields_set & set(DoctorKeys.model_fields)):
            raise UsageError(f"{others[0]}= goes with memory=NAME")
        return None
    name = keys.memory
    checks = checks_of(keys)
    failed = sum(not check.passed for check in checks)
    console.print(_table(name, checks))
    passed = f"{counted(len(checks) - failed, 'check')} passed"
    console.print(f"{passed}, {failed} failed: no scores." if failed else f"{passed}: admitted.")
    return 1 if failed else 0


def _table(name: str, checks: list[Check]) -> Table:
    table = Table(title=f"Admission of {visible(name)}", title_justify="left", box=None)
    table.add_column("", no_wrap=True)
    table.add_column("check", overflow="fold")
    table.add_column("what is wrong", overflow="fold")
    table.add_column("s", justify="right", no_wrap=True)
    for check in checks:
        mark = Text("ok", "green") if check.passed else Text("bad", "bold red")
        table.add_row(mark, check.name, visible(check.fault), f"{check.seconds:.2f}")
    return table


def list_memories(console: Console) -> None:
    """Print the memory systems that `memory=` takes, and what is missing of each."""
    table = Table(box=None)
    table.add_column("memory=", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    # A command in two lines could not be copied.
    table.add_column("installed", no_wrap=True)
    for row in _known():
        table.add_row(*row)
    console.print(table)


def _known() -> Iterator[tuple[str, str, str]]:
    for name in BOXED:
        if name not in PRODUCTS:
            yield name, "in the box", "yes"
    for name in PRODUCTS:
        # An extra has the name of the module that it installs.
        missing = f"pip install 'alps-eval[{name}]'"
        yield name, "in the process of the run", "yes" if find_spec(name) else missing
    for name in APART:
        there = installed(name)
        what = f"in an environment of its own: {' '.join(packages(name))}"
        what += f" ({environment(name)})" if there else ""
        yield name, what, "yes" if there else f"alps memory install {name}"
