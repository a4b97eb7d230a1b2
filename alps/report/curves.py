"""Curves of a run: its headline at each size of the context, in the terminal and on pages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from rich.table import Table

from alps.report.charts import Line, axis_of, colour_of, context_curve
from alps.report.formatting import dollars, interval, number, seconds, tokens
from alps.report.terminal import figures_table
from alps.rows import Curve, Interval, TrackSummary
from alps.tasks import Metric


@dataclass(frozen=True)
class Curved:
    """A track of a run that was asked at several sizes of the context.

    Attributes:
        letter: That of the run, and `colour` its place on the page.
        name: What was evaluated.
        memory: Who chose what was shown.
        alike: What two must share to be drawn on one axis.
    """

    letter: str
    colour: int
    name: str
    memory: str
    curve: Curve
    metric: Metric
    alike: tuple[str, ...]

    @property
    def area(self) -> Interval:
        """The area under it."""
        return self.curve.area


@dataclass(frozen=True)
class ContextFigure:
    """Curves of runs on the same records, on one axis."""

    track: str
    metric: str
    members: list[Curved]
    drawing: Markup


def context_figures(curved: Sequence[Curved]) -> list[ContextFigure]:
    """Draw the curves of runs, those on the same records together."""
    together: dict[tuple[str, ...], list[Curved]] = {}
    for one in curved:
        together.setdefault(one.alike, []).append(one)
    figures = []
    for (track, *_), members in together.items():
        metric = members[0].metric
        lines = []
        for one in members:
            points = [(point.max_context_tokens, point.score) for point in one.curve.points]
            lines.append(
                Line(f"{one.name}, memory {one.memory}", one.letter, colour_of(one.colour), points)
            )
        name = f"{metric.title.strip()} over the size of the context"
        drawing = context_curve(lines, axis_of(metric), name=name)
        figures.append(ContextFigure(track, metric.title.strip(), members, drawing))
    return figures


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
