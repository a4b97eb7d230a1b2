"""Charts of the site, drawn as those of every page, and its matrices of actions.

No chart holds a number of its own beside its axis: what it shows stands in a table on the same
page, with its origin.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from alps.leaderboard.pages import FilePlace, computed, figure, money, seconds, whole
from alps.leaderboard.ranking import Board, RankedSystem
from alps.rows import Figure, Interval
from alps.show.charts import COLOURS, axis_of, colour_of, occurring_actions, whisker
from alps.show.formatting import interval, letter_of, number
from alps.show.svg import SHARES, Area, Axis, apart, centred, drawing, element, short, text, title
from alps.stats.paired import Spot, front_of


def style_of(letter: str) -> str:
    """Return the colour of a marked system; the others are drawn in grey."""
    return colour_of(ord(letter) - ord("A")) if letter else "other"


def score_of(place: FilePlace) -> Interval:
    """Return a score of a card."""
    return Interval(value=place["value"].value, low=place["low"].value, high=place["high"].value)


def score_whisker(place: FilePlace, axis: Axis, style: str = "") -> Markup:
    """Draw a score of a card; it repeats the numbers next to it."""
    return whisker(score_of(place), axis=axis, style=style or "system")


@dataclass(frozen=True)
class ShadedCell:
    """A count, shaded by its share of the row in tenths; `right` where done as it should be."""

    written: Markup
    shade: int
    right: bool


@dataclass(frozen=True)
class Matrix:
    """A table of counts, each with its origin: gold actions down, predicted ones across."""

    columns: list[str]
    rows: list[tuple[str, list[ShadedCell]]]


def matrix_of(counts: FilePlace) -> Matrix:
    """Return the action matrix of the counts of a track; it may have no rows."""
    numbers = {name: count.value or 0 for name, count in counts.items()}
    golds, columns = occurring_actions(numbers)
    rows = []
    for gold in golds:
        names = [f"cell_{gold}_{name}" for name in columns]
        total = sum(numbers.get(name, 0) for name in names)
        right, title = f"cell_{gold}_{gold}", gold
        # To do nothing where there is nothing to do is no hit: of those there is no end.
        if gold == "none":
            right, title = "", "not in gold"
        cells = [_cell(counts[name], total, right=name == right) for name in names]
        rows.append((title, cells))
    return Matrix(["not found" if name == "none" else name for name in columns], rows)


def _cell(count: FilePlace, total: float, *, right: bool) -> ShadedCell:
    if not count.value:
        return ShadedCell(Markup('<span class="nothing">·</span>'), 0, right)
    share = count.value / total if total > 0 else 0.0
    return ShadedCell(figure(count, whole), round(10 * min(1.0, max(0.0, share))), right)


# Units between two names, and those that a name is away from the end of its line.
_APART, _AWAY = 15.0, 16.0


@dataclass(frozen=True)
class NamedLine:
    """Scores over sizes; `style` is its colour, or `floor` or `reported`."""

    name: str
    style: str
    points: Sequence[tuple[int, Figure]]

    @property
    def coloured(self) -> bool:
        """Whether it is a system's of its own colour."""
        return self.style not in ("floor", "reported")


@dataclass(frozen=True)
class _Drawing:
    """One of the drawings: its class, the ground, its width, and whether names are written out."""

    style: str
    area: Area
    width: float
    named: bool


_FORMS = (
    _Drawing("lines wide", Area(40.0, 30.0, 560.0, 320.0), 880.0, True),
    _Drawing("lines narrow", Area(32.0, 30.0, 276.0, 320.0), 352.0, False),
)


def named_lines(lines: Sequence[NamedLine], *, name: str) -> Markup:
    """Draw scores over the size of the pool from zero on, wide and narrow; nothing of one size.

    `name` says what is drawn for who can't see it.
    """
    sizes = sorted({size for line in lines for size, _ in line.points})
    if len(sizes) < 2:
        return Markup()
    drawn = [_in_form(form, lines, sizes, name) for form in _FORMS]
    return Markup("").join(drawn)


def _in_form(form: _Drawing, lines: Sequence[NamedLine], sizes: Sequence[int], name: str) -> Markup:
    largest, area = sizes[-1], form.area
    # On a narrow page the numbers of neighbouring sizes would touch.
    shown = (0, *sizes) if form.named else (0, sizes[len(sizes) // 2], largest)
    ticks = [(size / largest, f"{size:,}") for size in shown]
    parts = area.grid(ticks, SHARES.labels, "distractors")
    # Those of the systems lie over the others.
    for line in sorted(lines, key=lambda line: line.coloured):
        parts += _curve(form, line, largest)
    ends = [area.height_of(line.points[-1][1].value or 0.0) for line in lines]
    # A line may end at the top, and its mark may be as high as the drawing is.
    for n, height in apart(ends, _APART, area.top + area.height, _APART):
        parts += _end(form, lines[n], letter_of(n), ends[n], height)
    said = "; ".join(_said(line) for line in lines)
    label = f"{name}. {said}"
    return drawing(parts, style=form.style, label=label, width=form.width, height=398)


def _curve(form: _Drawing, line: NamedLine, largest: int) -> Iterator[Markup]:
    points = [(size / largest, score.value or 0.0) for size, score in line.points]
    style = f"drawn {line.style}"
    yield element("path", style, title(line.name), d=form.area.path(points))
    for size, score in line.points if line.coloured else ():
        x, y = form.area.at(size / largest, score.value or 0.0)
        told = title(f"{line.name}, {size:,}: {number(score.value)} {interval(score)}")
        if score.low is not None and score.high is not None:
            top, bottom = form.area.height_of(score.high), form.area.height_of(score.low)
            path = f"M{x} {short(top)}V{short(bottom)}"
            yield element("path", f"spread {line.style}", d=path)
        yield element("circle", f"spot {line.style}", told, cx=x, cy=y, r=4)


def _end(form: _Drawing, line: NamedLine, mark: str, end: float, height: float) -> Iterator[Markup]:
    """Yield the mark of a line next to its last point, joined to it where it was moved away."""
    right = form.area.left + form.area.width
    path = f"M{short(right + 2)} {short(end)}L{short(right + _AWAY - 3)} {short(height)}"
    yield element("path", "leader", d=path)
    words = f"{mark} {line.name}" if form.named else mark
    x, y = short(right + _AWAY), short(height + 4)
    yield text(words, style=f"end {line.style}", x=x, y=y)


def _said(line: NamedLine) -> str:
    points = [f"{size}: {number(score.value)}" for size, score in line.points]
    return f"{line.name}: {', '.join(points)}"


_AREA = Area(40.0, 12.0, 300.0, 190.0, inset=10.0)
_WIDTH, _HEIGHT = 352, 250


@dataclass(frozen=True)
class Measure:
    """Second axis of a chart: its name, the value and figure of a system, and its format."""

    name: str
    of: Callable[[RankedSystem, Board], tuple[float | None, Markup]]
    written: Callable[[float], str]


@dataclass(frozen=True)
class _Point:
    row: RankedSystem
    cost: float
    figure: Markup
    score: float


def cost_chart(board: Board) -> dict[str, object] | None:
    """Return the chart of a board over dollars, tokens or time, the first on which systems differ.

    It comes with the systems on its front, each with its mark and its figures. None where fewer
    than two systems are known to differ by any of them.
    """
    for measure in _MEASURES:
        points = list(_points(board, measure))
        if len({point.cost for point in points}) > 1 and any(point.cost > 0 for point in points):
            return _cost_chart(board, measure, points)
    return None


def _points(board: Board, measure: Measure) -> list[_Point]:
    points = []
    for row in board.standings:
        cost, written = measure.of(row, board)
        score = row.lead(board.metric.name)["value"].value
        # A score that nobody could recompute is in the table, marked, and in no chart.
        if row.recomputed and not row.system.refuted and cost is not None and score is not None:
            points.append(_Point(row, float(cost), written, float(score)))
    return points


def _dollars(row: RankedSystem, board: Board) -> tuple[float | None, Markup]:
    cost = row.system.run(board.key.track)["calls"]["cost"]
    # What came from a cache was paid for in a run that is not here.
    known = None if row.system.from_cache(board.key.track) else cost.value
    return known, figure(cost, money)


def _tokens(row: RankedSystem, board: Board) -> tuple[float | None, Markup]:
    calls = row.system.run(board.key.track)["calls"]
    tokens = calls["prompt_tokens"].value + calls["completion_tokens"].value
    known = None if row.system.from_cache(board.key.track) else tokens
    return known, computed(tokens, "tokens", row.system.slug, board.key.track)


def _seconds(row: RankedSystem, board: Board) -> tuple[float | None, Markup]:
    place = row.track["seconds_per_query"]
    return place.value, figure(place, seconds)


def _short_count(value: float) -> str:
    """Write a count at a tick: 10k, 1M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


_MEASURES = (
    Measure("cost of the run", _dollars, money),
    Measure("tokens of the run", _tokens, _short_count),
    Measure("time per query", _seconds, seconds),
)


def _cost_chart(board: Board, measure: Measure, points: Sequence[_Point]) -> dict[str, object]:
    up, across = axis_of(board.metric), _Across([point.cost for point in points])
    front = front_of([Spot(point.cost, point.score) for point in points])[:COLOURS]
    marks = {place: letter_of(n) for n, place in enumerate(front)}
    ticks = [(up.at(tick), label) for tick, label in up.labels]
    parts = _AREA.grid(across.ticks(measure.written), ticks, measure.name)
    parts.append(_front([points[place] for place in front], across, up))
    for place, point in enumerate(points):
        if place not in marks:
            x, y = _AREA.at(across.at(point.cost), up.at(point.score))
            name = title(point.row.system.card.name)
            parts.append(element("circle", "other", name, cx=x, cy=y, r=3.5))
    named = []
    for place, mark in marks.items():
        point = points[place]
        parts += _mark(point, mark, across, up)
        score = figure(point.row.lead(board.metric.name)["value"])
        named.append((mark, point.row.system, score, point.figure))
    heading = board.task.heading
    label = f"{heading}: score against {measure.name} for {len(points)} systems"
    drawn = drawing(parts, style="plane cost", label=label, width=_WIDTH, height=_HEIGHT)
    others = len(points) > len(named)
    about = {"board": board, "across": measure.name, "drawn": drawn}
    return {**about, "front": named, "others": others}


class _Across:
    """A logarithmic axis of what something costs; what costs nothing stands at its beginning."""

    def __init__(self, costs: Sequence[float]) -> None:
        known = [cost for cost in costs if cost > 0]
        self._free = min(costs) <= 0
        self._lowest = math.floor(math.log10(min(known)))
        self._highest = max(math.ceil(math.log10(max(known))), self._lowest + 1)
        self._start = 0.15 if self._free else 0.0

    def at(self, cost: float) -> float:
        """Return where a cost lies, from 0 to 1."""
        if cost <= 0:
            return 0.0
        reach = (math.log10(cost) - self._lowest) / (self._highest - self._lowest)
        return self._start + (1 - self._start) * reach

    def ticks(self, written: Callable[[float], str]) -> list[tuple[float, str]]:
        """Return the labels of its powers of ten, four at most."""
        step = max(1, math.ceil((self._highest - self._lowest) / 3))
        powers = range(self._lowest, self._highest + 1, step)
        ticks = [(self.at(10.0**power), written(10.0**power)) for power in powers]
        return [(0.0, "0"), *ticks] if self._free else ticks


def _front(front: Sequence[_Point], across: _Across, up: Axis) -> Markup:
    """Draw the front as steps: at every cost, the best score that it buys."""
    path: list[tuple[float, float]] = []
    for point in front:
        here = across.at(point.cost), up.at(point.score)
        if path:
            path.append((here[0], path[-1][1]))
        path.append(here)
    path.append((1.0, path[-1][1]))
    return element("path", "front", title("Pareto front"), d=_AREA.path(path))


def _mark(point: _Point, mark: str, across: _Across, up: Axis) -> list[Markup]:
    x, y = _AREA.at(across.at(point.cost), up.at(point.score))
    name = title(point.row.system.card.name)
    circle = element("circle", f"macro {style_of(mark)}", name, cx=x, cy=y, r=8)
    return [circle, centred(mark, x, short(float(y) + 4), "on-macro")]
