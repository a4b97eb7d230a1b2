"""Curves of a run: its headline at each size of the context, as a table and as a chart."""

from collections.abc import Iterator, Mapping, Sequence

from alps.ext.sizes.pareto import fronts, more_of
from alps.rows import Curve, Summary
from alps.run.opened import RunFolder
from alps.show.charts import (
    Chart,
    ChartLine,
    LegendKey,
    axis_of,
    colour_of,
    context_curve,
    letter_sign,
)
from alps.show.formatting import dollars, interval, number, seconds, tokens
from alps.show.parts import ChartedTrack, More, ShownPart
from alps.show.table import Cell, Table, figures, named, row_of, ungrouped, with_interval
from alps.tasks import Metric
from alps.tasks.by_memory import FULL
from alps.tasks.registry import track_title


class Shown(ShownPart):
    """What is shown of context sizes."""

    def facts(self, summary: Summary) -> Iterator[str]:
        """Yield the headline at each size of the context."""
        for track in summary.tracks.values():
            if track.curve is not None:
                points = track.curve.points
                shown = [f"{one.max_context_tokens:,} {number(one.score.value)}" for one in points]
                yield f"by context size: {', '.join(shown)}"

    def tables(self, summary: Summary, track: str, metrics: Sequence[Metric]) -> Iterator[Table]:
        """Yield the table of a track's curve; nothing for a run at one size of the context."""
        curve = summary.tracks[track].curve
        if curve is not None:
            yield _table(curve, metrics)

    def charts(self, sections: "Sequence[ChartedTrack]") -> Iterator[Chart]:
        """Draw the curves of runs, those on the same records together."""
        together: dict[tuple[str, ...], list[tuple[ChartedTrack, Curve]]] = {}
        for section in sections:
            if (curve := section.found.curve) is not None:
                # Conditions may differ: memories are what is compared at equal sizes.
                *same, _ = section.comparable_with
                together.setdefault((*same, curve.metric), []).append((section, curve))
        yield from map(_chart, together.values())

    def more(
        self, runs: Mapping[str, RunFolder], track: str, metric: Metric, sessions: Mapping[str, str]
    ) -> More | None:
        """Return the fronts of runs at several sizes."""
        return more_of(list(fronts(runs, track, metric, sessions)))


def _table(curve: Curve, metrics: Sequence[Metric]) -> Table:
    rows = []
    for point in curve.points:
        taken = (
            Cell(tokens(point.tokens), point.tokens),
            Cell(seconds(point.seconds), point.seconds),
        )
        cells = *with_interval(point.score), ungrouped(point.score.n), *taken
        rows.append(
            row_of(f"{point.max_context_tokens:,}", *cells, Cell(dollars(point.cost), point.cost))
        )
    rows.append(row_of("area", *with_interval(curve.area), ungrouped(curve.area.n), style="bold"))
    columns = [named("at most")]
    columns += figures("score", "95 % interval", "n", "shown", "seconds", "cost")
    return Table(f"{title_of(curve.metric, metrics)} by context size", columns, rows)


def title_of(metric: str, metrics: Sequence[Metric]) -> str:
    """Return what tables call a metric."""
    titles = [one.title.strip() for one in metrics if one.name == metric]
    return titles[0] if titles else metric


def _chart(drawn: "Sequence[tuple[ChartedTrack, Curve]]") -> Chart:
    first, _ = drawn[0]
    metric = first.metric
    lines, legend = [], []
    for section, curve in drawn:
        memory = str(section.found.memory or FULL)
        points = [(point.max_context_tokens, point.score) for point in curve.points]
        name = f"{section.run.model}, memory {memory}"
        lines.append(ChartLine(name, section.letter, colour_of(section.colour), points))
        area = f"memory {memory}, area {number(curve.area.value)} {interval(curve.area)}"
        legend.append(
            LegendKey(letter_sign(section.letter, section.colour), section.run.model, area)
        )
    title = metric.title.strip()
    about = (
        f"{title} by the limit on history tokens that the reader sees; the x-axis is log₂ "
        "of this limit. Bands are 95 % intervals. The area under a curve is the curve's mean "
        "height along this axis."
    )
    drawing = context_curve(lines, axis_of(metric), name=f"{title} over the size of the context")
    heading = f"Equal context sizes: {track_title(first.track)}"
    return Chart("contexts", "Context sizes", heading, about, drawing, legend)
