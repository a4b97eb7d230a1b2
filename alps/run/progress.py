"""Progress of a run: a line that stays in its place in a terminal, and lines of a log elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from alps.llm.ledger import Totals
from alps.waiting import Ticking, in_words, log_line, paused, period


class Advance(Protocol):
    """Counts a record that is finished."""

    def __call__(self, scored: bool, failure: str = "") -> None:
        """Take whether it was scored, and the kind of its failure, if it failed."""


Watched = Callable[[str, int, Totals], AbstractContextManager[Advance]]
"""Shows how a run goes on: given its title, its number of answers and its totals so far."""
# Seconds without an answer after which it is said that one is waited for
_A_WHILE = 5.0


@dataclass
class Failures:
    """Failures by kind: of records that are scored all the same, and of unscored ones."""

    failed: Counter[str] = field(default_factory=Counter)
    unscored: Counter[str] = field(default_factory=Counter)

    def add(self, scored: bool, failure: str) -> None:
        """Count a record; see `Advance`."""
        if failure or not scored:
            (self.failed if scored else self.unscored)[failure or "unscored"] += 1

    @property
    def count(self) -> int:
        """How many there are."""
        return self.failed.total() + self.unscored.total()

    def line(self) -> str:
        """Say how many there are, by kind: `1 failed (1 invalid)  0 unscored`."""
        parts = []
        for name, counts in (("failed", self.failed), ("unscored", self.unscored)):
            kinds = f" ({_listed(counts)})" if counts.keys() - {name} else ""
            parts.append(f"{counts.total():,} {name}{kinds}")
        return "  ".join(parts)

    def kinds(self) -> str:
        """Say it in short: `1 invalid, 2 transport`, or `0 failed`."""
        return _listed(self.failed + self.unscored) or "0 failed"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items())


@dataclass
class Progress:
    """How far something is; `totals` are of its calls."""

    total: int
    totals: Totals
    done: int = 0
    failures: Failures = field(default_factory=Failures)
    began: float = field(default_factory=time.monotonic)

    def advance(self, scored: bool, failure: str = "") -> None:
        """Count a record that is finished; see `Advance`."""
        self.done += 1
        self.failures.add(scored, failure)

    def line(self, *, short: bool = False) -> str:
        """Say how far it is and how fast, what failed and what it cost, and how long it lasts.

        In `short`, and beside a wait, of failures the kinds alone; a wait has no rate.
        """
        waiting = self.waiting()
        percent = int(100 * self.done / max(1, self.total))
        parts = [f"{self.done:,}/{self.total:,}", f"{percent} %", "" if waiting else self.rate()]
        parts.append(self.failures.kinds() if short or waiting else self.failures.line())
        if self.totals.calls:
            parts.append(spent(self.totals))
        parts += [self.totals.rate, self.totals.stage]
        return "  ".join(filter(None, [*parts, waiting or self.left()]))

    def rate(self) -> str:
        """Say how many records are finished a second, or a minute; nothing at the ends."""
        took = time.monotonic() - self.began
        if not self.done or self.done >= self.total or not took:
            return ""
        a_second = self.done / took
        if a_second < 1:
            return f"{60 * a_second:.2g}/min"
        return f"{a_second:.2g}/s" if a_second < 10 else f"{a_second:,.0f}/s"

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
        requests = "request" if under_way == 1 else "requests"
        asked = f"{under_way:,} {requests} pending" if under_way else "retrying"
        return f"no answer for {in_words(silent)}, {asked}"


@contextmanager
def progress_line(title: str, total: int, totals: Totals) -> Iterator[Advance]:
    """Show done, failed, cost and time left, in a terminal or a log; yield what to call."""
    progress = Progress(total, totals)
    with paused(then="computing scores"):
        if sys.stderr.isatty():
            with _bar(title, progress):
                yield progress.advance
            return
        with log_of(f"{title}: {total:,} records", progress.line):
            yield progress.advance


@contextmanager
def log_of(begin: str, line: Callable[[], str]) -> Iterator[None]:
    """Write lines of a log: one at the beginning, one every `period()` seconds, one at the end.

    Args:
        begin: What is done, and on how much.
        line: Says how far it is.
    """
    if (every := period()) is None:
        yield
        return
    log_line(begin)
    ticking = Ticking(every, lambda: log_line(line()))
    try:
        yield
    finally:
        ticking.stop()
        log_line(line())


@contextmanager
def _bar(title: str, progress: Progress) -> Iterator[None]:
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.table import Column
    from rich.text import Text

    class Figures(ProgressColumn):
        """How far it is, as it is when the line is drawn."""

        def render(self, task: Any) -> Text:
            task.completed = progress.done
            return Text(progress.line(short=True))

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
    """Say what was spent: `$0.0123`, with `+?` if some calls have no price, `$–` if none has."""
    nothing_priced = totals.unpriced and totals.cost == 0
    if nothing_priced:
        return "$–"
    return f"${totals.cost:.4f}" + ("+?" if totals.unpriced else "")
