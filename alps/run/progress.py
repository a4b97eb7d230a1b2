"""A progress line that stays in its place; silent where nobody watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from alps.llm.ledger import Totals

Watched = Callable[[str, int, Totals], AbstractContextManager[Callable[[bool], None]]]
"""Shows how a run goes on: given its title, its number of answers and its totals so far."""


@contextmanager
def progress_line(title: str, total: int, totals: Totals) -> Iterator[Callable[[bool], None]]:
    """Show done, failed, cost and the time left on one line of the terminal.

    Yields what to call per sample.
    """
    if not sys.stderr.isatty():
        yield lambda scored: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]} unscored"),
        TextColumn("{task.fields[cost]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True, emoji=False), transient=True) as bar:
        task = bar.add_task(title, total=total, failed=0, cost="")
        failed = 0

        def advance(scored: bool) -> None:
            nonlocal failed
            failed += not scored
            bar.update(task, advance=1, failed=failed, cost=spent(totals))

        yield advance


def spent(totals: Totals) -> str:
    """Say what was spent, such as `$0.0123`.

    With `+?` where some calls have no known price, and `$–` where none has.
    """
    nothing_priced = totals.unpriced and totals.cost == 0
    if nothing_priced:
        return "$–"
    return f"${totals.cost:.4f}" + ("+?" if totals.unpriced else "")
