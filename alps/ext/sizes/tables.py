"""Curves of a run: its headline at each size of the context, in the terminal and on pages."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup
from rich.table import Table

from alps.rows import Curve, Interval, TrackSummary
from alps.show.charts import Line, axis_of, colour_of, context_curve
from alps.show.formatting import dollars, interval, number, seconds, tokens
from alps.show.terminal import figures_table
from alps.tasks import Metric
from alps.tasks.by_memory import FULL

if TYPE_CHECKING:
    from alps.show.report_sections import Section


@dataclass(frozen=True)
class Curved:
    """The curve of one run: its letter and place on the page, its model and its memory."""

    letter: str
    colour: int
    name: str
    memory: str
    curve: Curve

    @property
    def area(self) -> Interval:
        """The area under it."""
        return self.curve.area

    def line(self) -> Line:
        """Return it as it is drawn."""
        points = [(point.max_context_tokens, point.score) for point in self.curve.points]
        name = f"{self.name}, memory {self.memory}"
        return Line(name, self.letter, colour_of(self.colour), points)


@dataclass(frozen=True)
class ContextFigure:
    """Curves of runs on the same records, on one axis."""

    track: str
    metric: str
    members: list[Curved]
    drawing: Markup


def context_figures(sections: Iterable["Section"]) -> list[ContextFigure]:
    """Draw the curves of runs, those on the same records together."""
    together: dict[tuple[str, ...], list[Section]] = {}
    for section in sections:
        if section.found.curve is not None:
            # Conditions may differ: memories are what is compared at equal sizes.
            *same, _ = section.comparable_with
            together.setdefault((*same, section.found.curve.metric), []).append(section)
    return list(map(_context_figure, together.values()))


def _context_figure(sections: Sequence["Section"]) -> ContextFigure:
    metric = sections[0].headline.metric
    members = []
    for one in sections:
        assert one.found.curve is not None
        memory = str(one.found.memory or FULL)
        members.append(Curved(one.letter, one.colour, one.run.model, memory, one.found.curve))
    title = metric.title.strip()
    lines = [one.line() for one in members]
    drawing = context_curve(lines, axis_of(metric), name=f"{title} over the size of the context")
    return ContextFigure(sections[0].track, title, members, drawing)


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
