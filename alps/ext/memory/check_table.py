"""Tables of the known memory systems, and of one system's admission."""

from collections.abc import Iterator
from importlib.util import find_spec

from pydantic import BaseModel
from rich.console import Console

from alps.embeddings import EMBEDDERS
from alps.errors import UsageError
from alps.ext.memory.admit_run import checks_of
from alps.ext.memory.built_in import BOXED, PRODUCTS
from alps.ext.memory.environments import APART, environment, installed, packages
from alps.ext.memory.settings import DoctorKeys
from alps.rows import Check
from alps.show.formatting import counted
from alps.show.table import Cell, Table, figures, named, printed, row_of


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
            raise UsageError(f"{others[0]}= needs memory=NAME")
        return None
    name = keys.memory
    checks = checks_of(keys)
    failed = sum(not check.passed for check in checks)
    console.print(*printed([_table(name, checks)]))
    passed = f"{counted(len(checks) - failed, 'check')} passed"
    console.print(f"{passed}, {failed} failed: not admitted." if failed else f"{passed}: admitted.")
    return 1 if failed else 0


def _table(name: str, checks: list[Check]) -> Table:
    rows = []
    for check in checks:
        mark = Cell("ok", style="green") if check.passed else Cell("bad", style="bold red")
        took = Cell(f"{check.seconds:.2f}", check.seconds)
        rows.append(row_of(mark, check.name, check.fault, took))
    columns = [named(wraps="no"), named("check", "fold"), named("problem", "fold")]
    return Table(f"Admission of {name}", [*columns, *figures("s")], rows, layout="plain")


def list_memories(console: Console) -> None:
    """Print the memory systems that `memory=` accepts, and what each lacks."""
    # A command in two lines could not be copied.
    columns = [named("memory=", "no"), named("description", "fold"), named("installed", "no")]
    rows = [row_of(*cells) for cells in _known()]
    console.print(*printed([Table("", columns, rows, layout="plain")]))


def _known() -> Iterator[tuple[str, str, str]]:
    for name in BOXED:
        if name not in PRODUCTS:
            model = EMBEDDERS.get(name)
            missing = model.installation if model is not None and model.missing else ""
            yield name, "in the box", missing or "yes"
    for name in PRODUCTS:
        # An extra has the name of the module that it installs.
        missing = f"pip install 'alps-eval[{name}]'"
        yield name, "in the process of the run", "yes" if find_spec(name) else missing
    for name in APART:
        there = installed(name)
        what = f"in its own environment: {' '.join(packages(name))}"
        what += f" ({environment(name).folder})" if there else ""
        yield name, what, "yes" if there else f"alps memory install {name}"
