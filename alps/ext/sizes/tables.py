"""Tables of context sizes: curves of a run, and Pareto fronts of several.

A curve is the headline at each size of the context. Fronts are of the score against tokens, seconds
and dollars; a point is a run at one size. One that is beaten, and yet can't be told from the best
point that costs no more, ties with it: the records don't say that it is worse.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.ext.memory.journal import question_of, tokens_shown
from alps.ext.sizes.part import folder_of
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
from alps.show.shared_records import SharedRecords, Values, metric_values, values_in
from alps.show.table import (
    BLANK,
    Cell,
    Part,
    Table,
    change,
    figures,
    named,
    row_of,
    scored,
    ungrouped,
    with_interval,
)
from alps.stats.bootstrap import Estimate
from alps.stats.paired import SIGNIFICANT, Difference, Spot, front_of, holm
from alps.tasks import Metric
from alps.tasks.by_memory import FULL
from alps.tasks.registry import track_title

AXES = {
    "tokens": ("context tokens shown", tokens),
    "seconds": ("seconds per question", seconds),
    "cost": ("US dollars per question", dollars),
}
"""What a score is held against, with its title and how it is written."""


EXPLANATION = (
    "front: no other point scores as high with the same or a smaller amount of the resource in "
    "the table (tokens, time or money). ties: the point's score is not significantly below the "
    "score of the best point that uses no more of the resource (p > .05, Holm)."
)


@dataclass(frozen=True)
class SizePoint:
    """A run at one size of the context; `size` is None where the run has no bound.

    What it took is on average a question, None where nobody noted it.
    """

    run: str
    size: int | None
    values: Values
    score: Estimate
    tokens: float | None
    seconds: float | None
    cost: float | None

    @property
    def name(self) -> str:
        """The letter of the run and the size."""
        return self.run if self.size is None else f"{self.run} {self.size:,}"


@dataclass(frozen=True)
class FrontPlace:
    """A point compared with a front.

    Attributes:
        rival: The best point of the front that costs no more; None for one of the front itself.
        difference: How far the rival is ahead of it.
        corrected: Its p by Holm's method over all points that are not on the front.
    """

    point: SizePoint
    taken: float
    rival: SizePoint | None = None
    difference: Difference | None = None
    corrected: float | None = None

    @property
    def ties(self) -> bool:
        """Whether it does not differ significantly from its rival."""
        # Without a p, as with one session, nothing tells them apart.
        return self.rival is not None and (self.corrected is None or self.corrected > SIGNIFICANT)

    @property
    def standing(self) -> str:
        """Relation to the front, in words."""
        if self.rival is None:
            return "front"
        return f"ties with {self.rival.name}" if self.ties else f"below {self.rival.name}"


@dataclass(frozen=True)
class Front:
    """The points of a track against what they take, the least first."""

    track: str
    metric: str
    axis: str
    places: tuple[FrontPlace, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        rows = []
        for place in self.places:
            point = place.point
            row: dict[str, Any] = {"run": point.run, "max_context_tokens": point.size}
            row |= {self.axis: place.taken, "score": point.score.row, "front": place.rival is None}
            if place.rival is not None and place.difference is not None:
                rival = {"run": place.rival.run, "max_context_tokens": place.rival.size}
                ahead = place.difference.estimate.row
                row |= {"rival": rival, "behind": ahead, "p_holm": place.corrected}
            rows.append({**row, "ties": place.ties})
        return {"track": self.track, "metric": self.metric, "axis": self.axis, "points": rows}


class SizesShownPart(ShownPart):
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
        return _more_of(list(fronts(runs, track, metric, sessions)))


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
        f"The lines show {title} against the maximum number of history tokens given to the model; "
        "the x-axis is log₂ of this number. Bands show 95 % intervals. The area under a curve is "
        "the curve's mean height along this axis."
    )
    # Where sizes double, a linear axis would have all but the last two at its left end.
    drawing = context_curve(lines, axis_of(metric), name=f"{title} by context size")
    heading = f"Equal context sizes: {track_title(first.track)}"
    return Chart("contexts", "Context sizes", heading, about, drawing, legend)


def fronts(
    runs: Mapping[str, RunFolder], track: str, metric: Metric, sessions: Mapping[str, str]
) -> Iterator[Front]:
    """Yield the fronts of a track on the records that all its points have; see `AXES`.

    Args:
        runs: By their letters; nothing comes of them where none was asked at several sizes.
        track: The track.
        metric: What is scored.
        sessions: The session of each record that the runs share.
    """
    # Runs at one size each have a comparison of their own, with tests of every pair.
    if not any(run.summary_of(track).curve for run in runs.values()):
        return
    columns = {}
    for letter, run in runs.items():
        for size, inside in _sizes_of(run, track):
            scored = values_in(inside / "scores.jsonl", track=track).get(track, {})
            columns[letter, size, inside] = metric_values(scored, metric)
    # On other records each, points would differ by the records.
    records = SharedRecords.of(metric, sessions, columns.values(), sessions)
    points = []
    for (letter, size, inside), values in columns.items():
        run = runs[letter]
        question, mean = question_of(run.folder, inside, track), records.mean(values)
        each = tokens_shown(inside, track), question.seconds, question.cost
        points.append(SizePoint(letter, size, values, mean, *each))
    for axis in AXES:
        taken = [getattr(point, axis) for point in points]
        # Where nobody noted it, or all is free, there is nothing to weigh a score against.
        if len(records.ids) and None not in taken and any(taken):
            places = _places(points, axis, records, metric)
            yield Front(track, metric.title.strip(), axis, tuple(places))


def _sizes_of(run: RunFolder, track: str) -> Iterator[tuple[int | None, Path]]:
    summary = run.summary_of(track)
    if summary.curve is None:
        yield summary.max_context_tokens, run.folder
        return
    *less, largest = [point.max_context_tokens for point in summary.curve.points]
    for size in less:
        yield size, folder_of(run.folder, size)
    yield largest, run.folder


def rival_of(place: int, spots: Sequence[Spot], front: Sequence[int]) -> int:
    """Return the place of the best point of the front that costs no more than that at `place`."""
    reached = [one for one in front if spots[one].cost <= spots[place].cost]
    return max(reached, key=lambda one: spots[one].score)


def _places(
    points: Sequence[SizePoint], axis: str, records: SharedRecords, metric: Metric
) -> list[FrontPlace]:
    sign = -1.0 if metric.lower_is_better else 1.0
    spots = [Spot(getattr(point, axis), sign * (point.score.value or 0.0)) for point in points]
    front = front_of(spots)
    order = sorted(range(len(points)), key=lambda place: (spots[place].cost, place))
    places = []
    for place in order:
        point, taken = points[place], spots[place].cost
        if place in front:
            places.append(FrontPlace(point, taken))
            continue
        # Against a dearer point a loss would say nothing: it may be what the price buys.
        rival = points[rival_of(place, spots, front)]
        ahead = records.difference(rival.values, point.values)
        places.append(FrontPlace(point, taken, rival, ahead))
    return _corrected(places)


def _corrected(places: Sequence[FrontPlace]) -> list[FrontPlace]:
    """Correct every p for all points that are held to the front."""
    # Only what is held to the front is a test: points on it are compared with nothing.
    ps = []
    for place in places:
        if place.difference is not None and place.difference.p is not None:
            ps.append(place.difference.p)
    held = iter(holm(ps))
    corrected = []
    for place in places:
        p = None if place.difference is None or place.difference.p is None else next(held)
        corrected.append(FrontPlace(place.point, place.taken, place.rival, place.difference, p))
    return corrected


def _more_of(found: Sequence[Front]) -> More | None:
    """Return fronts as a comparison adds them to a track; None where there is none."""
    if not found:
        return None
    tables: list[Part] = []
    for front in found:
        tables += [BLANK, _front_table(front)]
    return More({"pareto": [front.as_json() for front in found]}, tables, EXPLANATION)


def _front_table(front: Front) -> Table:
    title, written = AXES[front.axis]
    rows = []
    for place in front.places:
        point = place.point
        behind = ("", "") if place.difference is None else change(place.difference.estimate)
        size = "–" if point.size is None else f"{point.size:,}"
        cells = size, Cell(written(place.taken), place.taken), scored(point.score), *behind
        style = "bold" if place.rival is None else ""
        rows.append(row_of(point.run, *cells, place.standing, style=style))
    head = f"{track_title(front.track)}: {front.metric} against {title} (Pareto)"
    columns = "at most", front.axis, "score", "behind", "95 % interval", ""
    return Table(head, [named("run"), *figures(*columns)], rows)
