"""Progress of a run: a line that stays in its place in a terminal, and lines of a log elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from alps.llm.ledger import Totals
from alps.waiting import Ticking, in_words, log_line, paused, period

Watched = Callable[[str, int, Totals], AbstractContextManager[Callable[[bool], None]]]
"""Shows how a run goes on: given its title, its number of answers and its totals so far."""
# Seconds without an answer after which it is said that one is waited for
_A_WHILE = 5.0
# Seconds between two looks at whether a line is due
_LOOK = 0.1


@dataclass
class Progress:
    """How far something is; `totals` are of its calls."""

    total: int
    totals: Totals
    done: int = 0
    unscored: int = 0
    began: float = field(default_factory=time.monotonic)

    def advance(self, scored: bool) -> None:
        """Count a record that is finished."""
        self.done += 1
        self.unscored += not scored

    def share(self) -> float:
        """Return how much of it is done, from 0 to 1."""
        return self.done / max(1, self.total)

    def line(self) -> str:
        """Say how far it is, what it cost and how long the rest takes."""
        percent = int(100 * self.share())
        parts = [f"{self.done:,}/{self.total:,}", f"{percent} %", f"{self.unscored:,} unscored"]
        if self.totals.calls:
            parts.append(spent(self.totals))
        parts += [self.totals.rate] if self.totals.rate else []
        return "  ".join([*parts, self.waiting() or self.left()])

    def left(self) -> str:
        """Say how long the rest takes at the speed so far; how long it took where it is done."""
        took = time.monotonic() - self.began
        if self.done >= self.total:
            return f"done in {in_words(took)}"
        return f"{in_words(took / self.done * (self.total - self.done))} left" if self.done else ""

    def waiting(self) -> str:
        """Say since when no request was answered, and how many are under way; else nothing."""
        silent, under_way = self.totals.silent_for(), self.totals.under_way
        if silent is None or silent < min(_A_WHILE, period() or _A_WHILE):
            return ""
        asked = f"{under_way:,} under way" if under_way else "trying again"
        return f"no answer for {in_words(silent)}, {asked}"


@contextmanager
def progress_line(title: str, total: int, totals: Totals) -> Iterator[Callable[[bool], None]]:
    """Show done, failed, cost and the time left: in a terminal, or in lines of a log.

    Yields what to call per sample.
    """
    progress = Progress(total, totals)
    with paused(then="computing scores"):
        if sys.stderr.isatty():
            with _bar(title, progress):
                yield progress.advance
            return
        with log_of(f"{title}: {total:,} records", progress.line, progress.share):
            yield progress.advance


@contextmanager
def log_of(begin: str, line: Callable[[], str], share: Callable[[], float]) -> Iterator[None]:
    """Write lines of a log: one at the beginning, then every tenth or `period()` seconds.

    Args:
        begin: What is done, and on how much.
        line: Says how far it is.
        share: Returns how far it is, from 0 to 1.
    """
    if (every := period()) is None:
        yield
        return
    written, tenth, lock = time.monotonic(), 0, threading.Lock()

    def look() -> None:
        nonlocal written, tenth
        with lock:
            now, done = time.monotonic(), int(10 * share() + 1e-9)
            if done > tenth or now - written >= every:
                written, tenth = now, done
                log_line(line())

    log_line(begin)
    ticking = Ticking(min(_LOOK, every), look)
    try:
        yield
    finally:
        ticking.stop()
        look()


@contextmanager
def _bar(title: str, progress: Progress) -> Iterator[None]:
    """Show a bar in the terminal, drawn again while nothing happens."""
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.table import Column
    from rich.text import Text

    class Figures(ProgressColumn):
        """How far it is, as it is when the line is drawn."""

        def render(self, task: Any) -> Text:
            task.completed = progress.done
            return Text(progress.line())

    # What is cut in a narrow terminal is the name, and no figure.
    name = TextColumn(
        "{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)
    )
    figures = Figures(table_column=Column(no_wrap=True))
    columns = (name, BarColumn(bar_width=10), figures)
    console = Console(stderr=True, emoji=False)
    with Bar(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task(title, total=progress.total)
        try:
            yield
        finally:
            bar.update(task, completed=progress.done)


def spent(totals: Totals) -> str:
    """Say what was spent, such as `$0.0123`.

    With `+?` where some calls have no known price, and `$–` where none has.
    """
    nothing_priced = totals.unpriced and totals.cost == 0
    if nothing_priced:
        return "$–"
    return f"${totals.cost:.4f}" + ("+?" if totals.unpriced else "")
