"""Admission of a memory system, printed by itself: each check, and what is wrong."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from alps.report.formatting import counted, visible
from alps.rows import Check
from alps.run.admitted import checks_of
from alps.settings import DoctorSettings


def examine_memory(settings: DoctorSettings, console: Console) -> int:
    """Print the admission of a memory system; return 0 where it passed, else 1.

    Raises:
        UsageError: If nothing is called so, or it is no memory system.
    """
    name = str(settings.memory)
    checks = checks_of(settings)
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
