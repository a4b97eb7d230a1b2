"""Chart of scores against what they cost, with the line of the best at every cost (Pareto)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from alps.leaderboard.pages.charts import style_of
from alps.leaderboard.pages.common import page_of
from alps.leaderboard.provenance import Place, computed, figure, money, seconds
from alps.leaderboard.ranking import Board, Standing
from alps.leaderboard.site_data import System
from alps.show.charts import COLOURS, axis_of
from alps.show.formatting import letter_of
from alps.show.svg import Area, Axis, centred, drawing, element, short, title
from alps.stats.curves import Spot, front_of

_AREA = Area(40.0, 12.0, 300.0, 190.0, inset=10.0)
_WIDTH, _HEIGHT = 352, 250


@dataclass(frozen=True)
class Measure:
    """What is held against the score: its name, where it stands, and how it is written."""

    name: str
    of: Callable[[Standing, Board], float | None]
    figure: Callable[[Standing, Board], Markup]
    written: Callable[[float], str]


@dataclass(frozen=True)
class CostChart:
    """A chart of one board, and the systems on its front, each with its mark and its figures."""

    board: Board
    page: str
    across: str
    drawn: Markup
    front: Sequence[tuple[str, System, Markup, Markup]]
    others: bool


@dataclass(frozen=True)
class _Point:
    row: Standing
    cost: float
    score: float


def cost_chart(board: Board) -> CostChart | None:
    """Return the chart of a board, by the first of dollars, tokens and time that tells them apart.

    None where fewer than two systems are known to differ by any of them.
    """
    for measure in _MEASURES:
        points = list(_points(board, measure))
        if len({point.cost for point in points}) > 1 and any(point.cost > 0 for point in points):
            return _chart(board, measure, points)
    return None


def _points(board: Board, measure: Measure) -> list[_Point]:
    points = []
    for row in board.standings:
        cost = measure.of(row, board)
        score = row.lead(board.metric.name)["value"].value
        # A score that nobody could recompute is in the table, marked, and in no chart.
        if row.recomputed and not row.system.refuted and cost is not None and score is not None:
            points.append(_Point(row, float(cost), float(score)))
    return points


def _dollars(row: Standing, board: Board) -> Place:
    return row.system.run(board.key.track)["calls"]["cost"]


def _tokens(row: Standing, board: Board) -> int:
    calls = row.system.run(board.key.track)["calls"]
    return int(calls["prompt_tokens"].value + calls["completion_tokens"].value)


def _tokens_figure(row: Standing, board: Board) -> Markup:
    return computed(_tokens(row, board), "tokens", row.system.slug, board.key.track)


def _seconds(row: Standing, board: Board) -> Place:
    return row.track["seconds_per_query"]


def _short_count(value: float) -> str:
    """Write a count at a tick: 10k, 1M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


_MEASURES = (
    Measure(
        "cost of the run",
        lambda row, board: _dollars(row, board).value,
        lambda row, board: figure(_dollars(row, board), money),
        money,
    ),
    Measure("tokens of the run", _tokens, _tokens_figure, _short_count),
    Measure(
        "time a query",
        lambda row, board: _seconds(row, board).value,
        lambda row, board: figure(_seconds(row, board), seconds),
        seconds,
    ),
)


def _chart(board: Board, measure: Measure, points: Sequence[_Point]) -> CostChart:
    up, across = axis_of(board.metric), _Across([point.cost for point in points])
    front = front_of([Spot(point.cost, point.score) for point in points])[:COLOURS]
    marks = {place: letter_of(n) for n, place in enumerate(front)}
    ticks = [(up.at(tick), label) for tick, label in up.labels]
    parts = _AREA.grid(across.ticks(measure.written), ticks, measure.name)
    parts.append(_line([points[place] for place in front], across, up))
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
        named.append((mark, point.row.system, score, measure.figure(point.row, board)))
    heading = board.task.heading
    label = f"{heading}: score against {measure.name}, of {len(points)} systems"
    drawn = drawing(parts, style="plane cost", label=label, width=_WIDTH, height=_HEIGHT)
    return CostChart(
        board, page_of(board.task), measure.name, drawn, named, len(points) > len(named)
    )


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


def _line(front: Sequence[_Point], across: _Across, up: Axis) -> Markup:
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
