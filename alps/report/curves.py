"""Curves of a run: its headline at each size of the context, in the terminal and on pages."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from alps.report.formatting import dollars, interval, number, seconds, tokens
from alps.report.terminal import figures_table
from alps.rows import TrackSummary
from alps.tasks import Metric


def curve_tables(track: TrackSummary, metrics: Sequence[Metric]) -> Iterator[Table]:
    """Yield the table of a track's curve; nothing for a run at one size of the context."""
    curve = track.curve
    if curve is None:
        return
    name = title_of(curve.metric, metrics)
    columns = ("score", "95 % interval", "n", "shown", "seconds", "cost")
    table = figures_table(f"{name} by context size", "at most", *columns)
    for point in curve.points:
        scored = number(point.score.value), interval(point.score), str(point.score.n)
        taken = tokens(point.tokens), seconds(point.seconds), dollars(point.cost)
        table.add_row(f"{point.max_context_tokens:,}", *scored, *taken)
    area = number(curve.area.value), interval(curve.area), str(curve.area.n)
    table.add_row("area", *area, style="bold")
    yield table


def title_of(metric: str, metrics: Sequence[Metric]) -> str:
    """Return what tables call a metric."""
    titles = [one.title.strip() for one in metrics if one.name == metric]
    return titles[0] if titles else metric
