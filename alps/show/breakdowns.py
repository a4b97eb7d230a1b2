"""Breakdowns of a run: a table for each in the terminal, tables and drawn curves on a page."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from alps.rows import BreakdownRow, GroupRow, Interval
from alps.run.opened import open_run
from alps.show import charts
from alps.show.bins import Bin, curve_of_bins
from alps.show.formatting import counted
from alps.show.run_tables import NARROW, show_run
from alps.show.table import (
    BLANK,
    Cell,
    Cells,
    Part,
    Table,
    dim,
    figures,
    named,
    row_of,
    thousands,
    with_interval,
)


def show_whole_run(folder: Path) -> None:
    """Print a finished run again, with all its breakdowns.

    Raises:
        UsageError: If it is not finished.
        RunFolderError: If a file of it can't be read.
    """
    run = open_run(folder)
    parts: list[Part] = []
    for track in run.finished.tracks.values():
        for breakdown in track.breakdowns.values():
            parts += [breakdown_table(breakdown), BLANK]
    metrics = {track: task.metrics for track, task in run.tasks.items()}
    show_run(run.finished, metrics, folder=str(folder), breakdowns=parts)


def breakdown_table(breakdown: BreakdownRow) -> Table:
    """Return the table of a breakdown, and what to know before it is read."""
    between = figures("95 % interval", from_width=NARROW)
    columns = [named(), *figures(breakdown.metric), *between]
    if breakdown.standardised:
        columns += [*figures("standardised"), *between]
    rows = []
    for group in breakdown.groups:
        cells: list[Cells] = [Cell(group.group, note=group.also), *_cells(group.figure)]
        if breakdown.standardised:
            cells += _cells(group.standardised)
        rows.append(row_of(*cells, thousands(group.figure.n)))
    columns += figures("n")
    return Table(breakdown.title, columns, rows, list(map(dim, notes_of(breakdown))))


def _cells(figure: Interval | None) -> tuple[Cells, Cells]:
    return ("–", "–") if figure is None else with_interval(figure)


def notes_of(breakdown: BreakdownRow) -> Iterator[str]:
    """Yield what to know of a breakdown: its warning, and which groups lack strata."""
    if breakdown.warning:
        yield f"Warning: {breakdown.warning}."
    if any(group.figure.reason for group in breakdown.groups):
        yield "–: too few sessions, or records, for an interval."
    if not breakdown.standardised:
        return
    stratum = breakdown.standardised
    yield f"Standardised: each row with the mix of {stratum}s that all records have."
    lacking = []
    for group in breakdown.groups:
        if group.lacking:
            lacking.append(f"{group.group} ({counted(len(group.lacking), stratum)})")
    if lacking:
        yield f"Without any record of some {stratum}s, and so of another mix: {', '.join(lacking)}."


@dataclass(frozen=True)
class BreakdownGroup:
    """A row of a breakdown on a page, with its interval drawn."""

    row: GroupRow
    chart: Markup


@dataclass(frozen=True)
class BreakdownPart:
    """A breakdown on a page; a standardised one has a drawn curve."""

    row: BreakdownRow
    groups: list[BreakdownGroup]
    curve: Markup
    notes: list[str]


def page_part(row: BreakdownRow, style: str) -> BreakdownPart:
    """Return a breakdown as a page draws it, in the colour of its run."""
    groups = []
    for group in row.groups:
        drawn = charts.whisker(group.figure, name=group.group, style=style)
        groups.append(BreakdownGroup(group, drawn))
    curve = Markup()
    if row.standardised:
        bins = [Bin(one.group, one.figure, one.standardised) for one in row.groups]
        curve = curve_of_bins(bins, name=f"{row.title}: {row.metric}", style=style)
    return BreakdownPart(row, groups, curve, list(notes_of(row)))
