"""Short form of a run in the terminal, and what its other tables share with pages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Group

from alps.rows import BreakdownRow, Score, Summary, TrackSummary
from alps.show.formatting import (
    counted,
)
from alps.show.short_form import short_form
from alps.show.table import (
    Cell,
    Table,
    named,
    printed,
    row_of,
    terminal,
)
from alps.tasks import Metric


def show_run(
    summary: Summary,
    metrics: Mapping[str, Sequence[Metric]],
    *,
    folder: str,
    resumed: int = 0,
    took: float | None = None,
) -> None:
    """Print the short form of a run.

    Args:
        summary: What it found.
        metrics: The columns of each track.
        folder: Where it is.
        resumed: How many of its answers an earlier command had left.
        took: The seconds of the command that carried it out.
    """
    console = terminal()
    parts = short_form(
        summary, metrics, Path(folder), width=console.width, resumed=resumed, took=took
    )
    console.print(Group(*printed(parts, console.width)))


def run_legend(runs: Iterable[tuple[str, Path, str]]) -> Table:
    """Lay out the run of each letter: folder and content."""
    rows = []
    for letter, folder, about in runs:
        rows.append(row_of(Cell(letter, style="bold"), Cell(str(folder), note=about)))
    return Table("", [named(wraps="no"), named(wraps="fold")], rows, layout="legend")


def has_floors(track: TrackSummary) -> bool:
    """Tell whether any trivial baseline has a score that its judge can tell."""
    return any(floor.scores[floor.lead].unscored is None for floor in track.floors.values())


def empty_line(count: int) -> str:
    """Say how many records have no gold memories, none predicted."""
    has, got = ("has", "an empty prediction") if count == 1 else ("have", "empty predictions")
    return f"{counted(count, 'record')} {has} no gold memories and correctly got {got} (score 1)."


def undefined(track: TrackSummary, metrics: Sequence[Metric]) -> list[str]:
    """Return the titles of the metrics that no scored record of a track defines."""
    titles = []
    for metric in metrics:
        score = track.scores.get(metric.name)
        if score is not None and score.value is None and score.unscored is None:
            titles.append(metric.title.strip())
    return titles


def method_lines(tracks: Iterable[TrackSummary]) -> Iterator[str]:
    """Say which intervals were made in another way than usual, and how."""
    methods: dict[str, None] = {}
    for track in tracks:
        methods |= dict.fromkeys(score.method for score in all_scores(track) if score.method)
    for method in methods:
        what = "Scores from few, large sessions and means over question types"
        yield f"{what} have intervals by another method: {method}."


def all_scores(track: TrackSummary) -> Iterator[Score]:
    """Yield the scores of a track and of its trivial baselines."""
    yield from track.scores.values()
    for floor in track.floors.values():
        yield from floor.scores.values()


def notes_of(breakdown: BreakdownRow) -> Iterator[str]:
    """Yield what to know of a breakdown: its warning, and which groups lack strata."""
    if breakdown.warning:
        yield f"Warning: {breakdown.warning}."
    if any(group.figure.reason for group in breakdown.groups):
        yield "– means too few sessions or records for an interval."
    if not (stratum := breakdown.standardised):
        return
    yield f"Standardised scores assume the {stratum} mix of all records in each row."
    lacking = []
    for group in breakdown.groups:
        if group.lacking:
            lacking.append(f"{group.group} ({counted(len(group.lacking), stratum)})")
    if lacking:
        yield f"The mix differs in rows that lack records of some {stratum}s: {', '.join(lacking)}."
