"""Live table of a sweep, systems × tasks, on one screen; plain lines in a log."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from alps.ext.sweeps.plan import SweepCell
from alps.llm.ledger import Totals
from alps.run.progress import Advance, Failures, Watched, log_of, spent
from alps.show.formatting import counted
from alps.waiting import paused

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

_COLUMNS = ("system", "tasks", "done", "failed", "cost", "/s", "left")
_LEAST_NAME = 12
# Lines of a screen that are no row: title, head, rule, sum, what is left out, legend.
_OTHER_LINES = 8
_LEGEND = "tasks, in order: . waiting  0–9 tenths done  + done  x failed"


@dataclass
class SweepRow:
    """How far one run is; `totals` are of its calls, earlier sessions included."""

    cell: SweepCell
    total: int
    done: int = 0
    failures: Failures = field(default_factory=Failures)
    totals: Totals = field(default_factory=Totals)
    began: float | None = None
    ended: float | None = None
    fault: str = ""

    @property
    def sign(self) -> str:
        """One character for how far it is."""
        if self.ended is not None:
            return "x" if self.fault else "+"
        if self.began is None:
            return "."
        return str(min(9, 10 * self.done // max(1, self.total)))


@dataclass(frozen=True)
class Sum:
    """Rows of one system, or of all of them."""

    rows: tuple[SweepRow, ...]

    @property
    def done(self) -> int:
        """Records that are worked through."""
        return sum(row.done for row in self.rows)

    @property
    def total(self) -> int:
        """Records that there are; those of a run that failed are not waited for."""
        return sum(row.total if row.ended is None else row.done for row in self.rows)

    @property
    def failures(self) -> Failures:
        """Failures of all of them, by kind."""
        together = Failures()
        for row in self.rows:
            together.failed += row.failures.failed
            together.unscored += row.failures.unscored
        return together

    @property
    def state(self) -> str:
        """`waiting`, `running`, `done` or `failed`."""
        if all(row.ended is not None for row in self.rows):
            return "failed" if any(row.fault for row in self.rows) else "done"
        return "running" if any(row.began is not None for row in self.rows) else "waiting"

    def cost(self) -> str:
        """Say what was spent, as a progress line does."""
        together = Totals()
        for row in self.rows:
            together.cost += row.totals.cost
            together.unpriced += row.totals.unpriced
        return spent(together)

    def speed(self, now: float) -> float | None:
        """Return the records a second since the first of them began; None before."""
        began = [row.began for row in self.rows if row.began is not None]
        if not began or not self.done:
            return None
        ends = [row.ended for row in self.rows if row.ended is not None]
        # A system that is done keeps its speed while others go on.
        until = max(ends) if len(ends) == len(self.rows) else now
        return self.done / max(0.1, until - min(began))

    def left(self, now: float) -> str:
        """Say how long the rest takes at that speed."""
        speed, rest = self.speed(now), self.total - self.done
        if not rest:
            return ""
        if speed is None:
            return "–"
        seconds = int(rest / speed)
        hours, minutes = seconds // 3600, seconds // 60 % 60
        return (
            f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
        )


class SweepProgress:
    """Progress of a sweep, on stderr."""

    def __init__(self) -> None:
        self.rows: list[SweepRow] = []
        self._live: Live | None = None
        self._ended = 0
        self._shown = ExitStack()

    def expect(self, cells: Sequence[SweepCell], totals: Sequence[int]) -> None:
        """Take the runs that will be carried out, and how many records each has."""
        self.rows = [SweepRow(cell, total) for cell, total in zip(cells, totals, strict=True)]

    def watched(self, place: int) -> Watched:
        """Return how the run at `place` tells its progress."""

        @contextmanager
        def watched(title: str, total: int, totals: Totals) -> Iterator[Advance]:
            row = self.rows[place]
            row.total, row.totals, row.began = total, totals, time.monotonic()

            def advance(scored: bool, failure: str = "") -> None:
                row.done += 1
                row.failures.add(scored, failure)

            yield advance

        return watched

    def end(self, place: int, fault: str) -> None:
        """Note that a run has ended; `fault` is why it is not complete, if it is not."""
        row = self.rows[place]
        row.ended, row.fault = time.monotonic(), fault
        self._ended += 1
        # A log has no table: each run leaves a line of its own.
        if self._live is None:
            which = f"{self._ended}/{len(self.rows)} {row.cell}"
            account = f"{row.done} of {row.total} records, {row.failures.kinds()}"
            told = f"{account}, {spent(row.totals)}"
            print(f"{which}: {told}{'; ' + fault if fault else ''}", file=sys.stderr, flush=True)

    def __enter__(self) -> None:
        """Show the table, where stderr is a terminal."""
        if not self.rows:
            return
        self._shown.enter_context(paused(then="computing scores"))
        if not sys.stderr.isatty():
            runs, records = len(self.rows), Sum(tuple(self.rows)).total
            of = f"{runs} run{'' if runs == 1 else 's'}, "
            of += f"{records:,} record{'' if records == 1 else 's'}"
            self._shown.enter_context(log_of(f"sweep: {of}", self.line))
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, emoji=False, highlight=False)
        self._live = Live(
            console=console,
            get_renderable=lambda: table_of(
                self.rows, console.width, console.height, time.monotonic()
            ),
            refresh_per_second=2,
            # The result's own tables take the place of this one.
            transient=True,
        )
        self._live.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the table away."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._shown.close()

    def line(self) -> str:
        """Say how far all runs are together."""
        together = Sum(tuple(self.rows))
        share = together.done / max(1, together.total)
        done = f"{together.done:,}/{together.total:,}  {100 * share:.0f} %"
        left = together.left(time.monotonic())
        failed = together.failures.line()
        return "  ".join(filter(None, (done, failed, together.cost(), left and f"{left} left")))


def table_of(rows: Sequence[SweepRow], width: int, height: int, now: float) -> "Group":
    """Return the table of a sweep, no larger than a screen of `width` columns and `height` lines.

    Systems under way come first. Those that find no line are counted in the last one.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    systems = _by_system(rows)
    order = ("running", "failed", "waiting", "done")
    names = sorted(systems, key=lambda name: order.index(systems[name].state))
    shown = names[: max(1, height - _OTHER_LINES)]
    lines = []
    for name in shown:
        signs = "".join(row.sign for row in systems[name].rows)
        lines.append((name, signs, *_figures(systems[name], now)))
    finished = f"{sum(row.ended is not None for row in rows)}/{len(rows)}"
    lines.append(("all", finished, *_figures(Sum(tuple(rows)), now)))
    widths = [max(map(len, column)) + 2 for column in zip(_COLUMNS, *lines, strict=True)]
    # Figures are never cut: what is left is the system's.
    room = max(_LEAST_NAME, width - sum(widths[1:]))

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in _COLUMNS[:2] else "right", no_wrap=True)
    for name, line in zip(shown, lines, strict=False):
        style = {"failed": "red", "running": ""}.get(systems[name].state, "dim")
        table.add_row(Text(_shortened(name, room - 2)), *line[1:], style=style)
    table.add_section()
    table.add_row(*lines[-1], style="bold")
    notes = [_LEGEND]
    if others := [systems[name].state for name in names[len(shown) :]]:
        counts = (f"{others.count(state)} {state}" for state in order if state in others)
        notes.insert(0, f"and {counted(len(others), 'more system')}: {', '.join(counts)}")
    texts = [Text(note, style="dim", no_wrap=True, overflow="ellipsis") for note in notes]
    return Group(table, *texts)


def _shortened(name: str, room: int) -> str:
    """Cut a name in its middle: names of one family differ at their ends."""
    if len(name) <= room:
        return name
    head = (room - 1) // 3
    return f"{name[:head]}…{name[len(name) - (room - 1 - head) :]}"


def _by_system(rows: Sequence[SweepRow]) -> dict[str, Sum]:
    by_system: dict[str, list[SweepRow]] = {}
    for row in rows:
        by_system.setdefault(row.cell.system, []).append(row)
    return {name: Sum(tuple(own)) for name, own in by_system.items()}


def _figures(one: Sum, now: float) -> tuple[str, ...]:
    speed = one.speed(now)
    fast = "–" if speed is None else f"{speed:.3g}"
    return f"{one.done}/{one.total}", str(one.failures.count), one.cost(), fast, one.left(now)
