"""Charts of every page: whiskers, bars, the precision–recall plane, curves and heat maps.

One-dimensional charts are laid out in percent, so that they stretch with the page while their text
and dots keep their size.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from alps.rows import Figure, Score
from alps.show.formatting import GOLD_ACTIONS, PREDICTED_ACTIONS, interval, number
from alps.show.svg import (
    SHARES,
    Area,
    Axis,
    apart,
    centred,
    drawing,
    element,
    frame,
    joined,
    level,
    percent,
    rail,
    short,
    text,
    title,
    upright,
    upward_name,
)
from alps.tasks import Metric

COLOURS = 6
ISO_F1 = (0.2, 0.4, 0.6, 0.8)
DASHES = ("7 4", "2 4", "10 3 2 3")
LARGEST_WITH_TEXT = 12
_LARGEST_DOT, _SMALLEST_DOT = 24.0, 5.0
_DEEPEST = 0.5
_WIDEST_CELLS = {2: 112.0, 3: 80.0, 4: 64.0, 5: 56.0}
_LETTER_WIDTH = 6.9
_APART = 15.0
_PLANE = Area(50.0, 16.0, 380.0, 380.0)
_CURVE = Area(46.0, 14.0, 470.0, 250.0)


def colour_of(position: int) -> str:
    """Return the style at `position`."""
    return f"colour-{position % COLOURS}"


def axis_of(metric: Metric) -> Axis:
    """Return the axis that scores of a metric lie on."""
    return Axis(metric.lowest, metric.highest)


class LegendKey(NamedTuple):
    """An entry of a legend: sign, meaning and details."""

    sign: Markup
    name: str
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """A drawing on a page.

    Attributes:
        name: Name of its fragment; charts of one name are grouped and numbered.
        contents: What the table of contents calls it.
        title: Its heading.
        about: What is drawn, in sentences.
        drawing: The drawing.
        legend: Its signs.
    """

    name: str
    contents: str
    title: str
    about: str
    drawing: Markup
    legend: Sequence[LegendKey] = ()


def letter_sign(letter: str, colour: int) -> Markup:
    """Draw the letter of a run in its colour."""
    sign = '<span class="letter colour-{}" aria-hidden="true">{}</span>'
    return Markup(sign).format(colour % COLOURS, letter)


@dataclass(frozen=True)
class ChartPoint:
    """A system in the precision–recall plane.

    Where `letter` is empty, it is a small dot without intervals; where `sign` is a number, one of
    the hollow signs of trivial baselines.
    """

    name: str
    letter: str
    style: str
    precision: Figure
    recall: Figure
    sign: int | None = None


@dataclass(frozen=True)
class ChartLine:
    """Scores of one system over sizes: of a pool, or of a context.

    Where `letter` is empty, it is a bare line; `dashes` are those of SVG.
    """

    name: str
    letter: str
    style: str
    points: Sequence[tuple[int, Figure]]
    dashes: str = ""


def whisker(
    score: Figure,
    *,
    name: str = "",
    axis: Axis = SHARES,
    style: str = "colour-0",
    mark: str = "dot",
    beside: Figure | None = None,
    tick: tuple[str, float] | None = None,
) -> Markup:
    """Draw a value with its interval on an axis; nothing where it does not lie on the axis.

    Where records are unscored, the worst and the best case are a band behind it.

    Args:
        score: The value.
        name: Text alternative; empty where the chart only repeats the numbers next to it.
        axis: Its axis.
        style: Its colour in the style sheet.
        mark: `dot`, or `diamond`.
        beside: Another value, drawn as a diamond behind it.
        tick: The name and place of a tick behind it: a trivial baseline, or no difference.
    """
    value = score.value
    # A user's own metric may leave the range that it names; a mark at the end would be a lie.
    if value is None or not axis.holds(value):
        return Markup()
    parts = [rail(axis)] if name else []
    if isinstance(score, Score) and score.worst_case is not None and score.best_case is not None:
        # Of an error the best case is the lower one.
        left, right = sorted((axis.at(score.worst_case), axis.at(score.best_case)))
        width = percent(right - left)
        parts.append(element("rect", "bounds", x=percent(left), y=5, width=width, height=14, rx=2))
    parts += _interval(score, axis, "interval")
    label = _score_label(name, score) if name else ""
    if beside is not None and beside.value is not None:
        label += f"; people {number(beside.value)}"
        parts.append(_mark("diamond", axis.at(beside.value), "beside"))
    if tick is not None and axis.holds(tick[1]):
        label += f"; {tick[0]} {number(tick[1])}"
        parts.append(upright("baseline", axis.at(tick[1]), 2, 22))
    parts.append(_mark(mark, axis.at(value), "dot"))
    return frame(parts, style=f"whisker {style}", label=label, height=24)


def bar(score: Figure, *, name: str, axis: Axis = SHARES, style: str = "colour-0") -> Markup:
    """Draw a value as a bar from the beginning of its axis, with its interval over its end."""
    if score.value is None or not axis.holds(score.value):
        return Markup()
    width = percent(axis.at(score.value))
    parts = [rail(axis), element("rect", "bar", x=0, y=5, width=width, height=14, rx=1)]
    parts += _interval(score, axis, "over")
    return frame(parts, style=f"bars {style}", label=_score_label(name, score), height=24)


def _interval(score: Figure, axis: Axis, style: str) -> list[Markup]:
    if score.low is None or score.high is None:
        return []
    low, high = axis.at(score.low), axis.at(score.high)
    return [level(style, low, high), upright(style, low, 8, 16), upright(style, high, 8, 16)]


def _mark(kind: str, at: float, style: str) -> Markup:
    if kind == "dot":
        return element("circle", style, cx=percent(at), cy=12, r=4.5)
    # The style sheet turns the square, and moves its middle to where it belongs.
    return element("rect", style, x=percent(at), y=8, width=8, height=8)


def _score_label(name: str, score: Figure) -> str:
    between = "" if score.low is None else f", 95 % interval {interval(score)}"
    return f"{name}: {number(score.value)}{between}"


def plane(
    points: Sequence[ChartPoint], records: Iterable[tuple[float, float]], *, name: str
) -> Markup:
    """Draw the precision–recall plane with curves of equal F1.

    Args:
        points: Systems at their mean precision and recall; those with a letter have the intervals
            of both as a cross.
        records: (recall, precision) of single records: one circle a place, its area their number.
        name: What the chart shows, for who can't see it.
    """
    parts = _PLANE.grid(SHARES.labels, SHARES.labels, "recall", "precision")
    parts += [*map(_iso, ISO_F1), *_record_dots(records)]
    lettered = [point for point in points if point.letter]
    # The first is drawn last and so lies on top: boards list the best first.
    for point in reversed(points):
        x, y = _place(point)
        if point.sign is not None:
            parts.append(_sign(point.sign, float(x), float(y), point.name))
        elif not point.letter:
            parts.append(element("circle", "other", title(point.name), cx=x, cy=y, r=3.5))
    parts += map(_cross, lettered)
    parts += map(_letter, lettered)
    return drawing(parts, style="plane", label=name, width=446, height=442)


def floor_sign(position: int) -> Markup:
    """Draw the sign of a trivial baseline for a legend."""
    return Markup('<svg class="sign" width="18" height="18" aria-hidden="true">{}</svg>').format(
        _sign(position, 9, 9)
    )


def _place(point: ChartPoint) -> tuple[str, str]:
    return _PLANE.at(point.recall.value or 0.0, point.precision.value or 0.0)


def _iso(f1: float) -> Markup:
    x, y = _PLANE.at(f1, f1)
    label = centred(f"F1 {number(f1).rstrip('0')}", x, short(float(y) + 4), "iso")
    return element("path", "iso", d=_PLANE.iso_f1(f1)) + label


def _record_dots(records: Iterable[tuple[float, float]]) -> Iterator[Markup]:
    # Records of few memories share few places: hundreds of dots would be drawn over each other.
    counts = Counter((round(recall, 4), round(precision, 4)) for recall, precision in records)
    if not counts:
        return
    unit = min(_SMALLEST_DOT, _LARGEST_DOT / math.sqrt(max(counts.values())))
    # The largest first, so that no dot hides a smaller one.
    for (recall, precision), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        x, y = _PLANE.at(recall, precision)
        scores = f"precision {number(precision)}, recall {number(recall)}"
        told = title(f"{count} record{'s' * (count != 1)}: {scores}")
        yield element("circle", "record-dot", told, cx=x, cy=y, r=short(unit * math.sqrt(count)))


def _cross(point: ChartPoint) -> Markup:
    recall, precision = point.recall, point.precision
    x, y = _place(point)
    strokes = ""
    if recall.low is not None and recall.high is not None:
        strokes += f"M{_PLANE.at(recall.low, 0)[0]} {y}H{_PLANE.at(recall.high, 0)[0]}"
    if precision.low is not None and precision.high is not None:
        strokes += f"M{x} {_PLANE.at(0, precision.low)[1]}V{_PLANE.at(0, precision.high)[1]}"
    return element("path", f"cross {point.style}", d=strokes) if strokes else Markup()


def _letter(point: ChartPoint) -> Markup:
    x, y = _place(point)
    precision, recall = number(point.precision.value), number(point.recall.value)
    tooltip = title(f"{point.name}: precision {precision}, recall {recall}")
    circle = element("circle", f"macro {point.style}", tooltip, cx=x, cy=y, r=9)
    return circle + centred(point.letter, x, short(float(y) + 4), "on-macro")


def _sign(position: int, x: float, y: float, name: str = "") -> Markup:
    """Draw one of three hollow signs, so that baselines at one place can be told apart."""
    shapes = (
        f"M{short(x)} {short(y - 8)}l8 8l-8 8l-8 -8z",
        f"M{short(x - 5)} {short(y - 5)}h10v10h-10z",
        f"M{short(x)} {short(y - 7)}l7 12h-14z",
    )
    return element(
        "path", "floor-sign", title(name) if name else "", d=shapes[position % len(shapes)]
    )


@dataclass(frozen=True)
class Across:
    """The horizontal axis of curves.

    Attributes:
        name: Name of the quantity, shown below the axis and in the names of points.
        ticks: Its labels.
        at: Position of a size on the axis, from 0 to 1.
        up: The vertical axis.
    """

    name: str
    ticks: Sequence[tuple[float, str]]
    at: Callable[[int], float]
    up: Axis = SHARES


def recall_curve(lines: Sequence[ChartLine], *, name: str) -> Markup:
    """Draw recall over the size of the pool from 0 on, with intervals as bands.

    Args:
        lines: Systems; only those with a letter have bands and a mark at each measured size. Fewer
            than two sizes give no chart.
        name: What is drawn, for who can't see it.
    """
    sizes = _sizes(lines)
    if len(sizes) < 2:
        return Markup()
    largest = sizes[-1]
    ticks = [(size / largest, f"{size:,}") for size in (0, *sizes)]
    return _curves(lines, Across("distractors", ticks, lambda size: size / largest), name=name)


def context_curve(
    lines: Sequence[ChartLine], axis: Axis, *, name: str, across: str = "context tokens"
) -> Markup:
    """Draw a score over log2 of the size of the context, or of `across`; see `recall_curve`."""
    sizes = _sizes(lines)
    if len(sizes) < 2:
        return Markup()
    reach = math.log2(sizes[-1] / sizes[0])

    def at(size: int) -> float:
        return math.log2(size / sizes[0]) / reach

    ticks = [(at(size), f"{size:,}") for size in sizes]
    return _curves(lines, Across(across, ticks, at, axis), name=name)


def _sizes(lines: Sequence[ChartLine]) -> list[int]:
    measured: set[int] = set()
    for line in lines:
        measured.update(size for size, _ in line.points)
    return sorted(measured)


def _curves(lines: Sequence[ChartLine], across: Across, *, name: str) -> Markup:
    up = [(across.up.at(tick), label) for tick, label in across.up.labels]
    parts = _CURVE.grid(across.ticks, up, across.name)
    lettered: list[ChartLine] = []
    for line in lines:
        # Bare lines first: those of the systems lie over them.
        if line.letter:
            lettered.append(line)
        else:
            parts.append(_curve(line, across))
    for line in lettered:
        # A group each: a page may show the band of the line that is pointed at alone.
        shapes = [_band(line, across), _curve(line, across), *_spots(line, across)]
        parts.append(element("g", line.style, joined(shapes)))
    ends = [_CURVE.height_of(_up(line.points[-1][1], across)) for line in lettered]
    for n, height in apart(ends, _APART, _CURVE.top + _CURVE.height, _CURVE.top):
        end = {"x": short(_CURVE.left + _CURVE.width + 12), "y": short(height + 4)}
        parts.append(text(lettered[n].letter, style=f"run-letter {lettered[n].style}", **end))
    label = f"{name}. {'; '.join(map(_curve_label, lines))}"
    return drawing(parts, style="curve", label=label, width=548, height=316)


def _up(score: Figure, across: Across) -> float:
    return across.up.at(across.up.lowest if score.value is None else score.value)


def line_sign(dashes: str) -> Markup:
    """Draw the line of a trivial baseline for a legend."""
    line = element("line", "floor-line", x1=0, x2=26, y1=9, y2=9, stroke_dasharray=dashes)
    return Markup('<svg class="sign" width="26" height="18" aria-hidden="true">{}</svg>').format(
        line
    )


def _curve_label(line: ChartLine) -> str:
    points = [f"{size}: {number(score.value)}" for size, score in line.points]
    return f"{line.name}: {', '.join(points)}"


def _band(line: ChartLine, across: Across) -> Markup:
    upper: list[tuple[float, float]] = []
    lower: list[tuple[float, float]] = []
    for size, score in line.points:
        if score.low is not None and score.high is not None:
            upper.append((across.at(size), across.up.at(score.high)))
            lower.insert(0, (across.at(size), across.up.at(score.low)))
    if len(upper) < 2:
        return Markup()
    return element("path", "band", d=_CURVE.path([*upper, *lower], closed=True))


def _curve(line: ChartLine, across: Across) -> Markup:
    points = [(across.at(size), _up(score, across)) for size, score in line.points]
    style = "run-line" if line.letter else line.style
    path = _CURVE.path(points)
    return element("path", style, title(line.name), d=path, stroke_dasharray=line.dashes)


def _spots(line: ChartLine, across: Across) -> Iterator[Markup]:
    """Mark each measured size."""
    for size, score in line.points:
        x, y = _CURVE.at(across.at(size), _up(score, across))
        scored = f"{line.name}, {size:,} {across.name}: {number(score.value)} {interval(score)}"
        yield element("circle", "spot", title(scored), cx=x, cy=y, r=4.5)


@dataclass(frozen=True)
class HeatMap:
    """Counts by row and column.

    Attributes:
        rows: The names of the rows, and `columns` those of the columns.
        counts: Shape (rows, columns).
        right: The cells, as (row, column), that are done as they should be: they are framed.
        down: What the rows are, and `across` what the columns are.
        shares: Whether cells carry their share of the row, and rows their total.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    counts: Sequence[Sequence[int]]
    right: frozenset[tuple[int, int]]
    down: str
    across: str
    shares: bool = True


def occurring_actions(counts: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """Return the gold actions and the predicted ones that occur among counts of actions.

    Args:
        counts: With `cell_GOLD_PREDICTED` among them where a task counts actions.
    """
    golds: list[str] = []
    predicted: set[str] = set()
    for gold in GOLD_ACTIONS:
        hit = {name for name in PREDICTED_ACTIONS if counts.get(f"cell_{gold}_{name}")}
        if hit:
            golds.append(gold)
            predicted |= hit | {gold}
    return golds, [name for name in PREDICTED_ACTIONS if name in predicted]


def heat_map(found: HeatMap, *, label: str) -> Markup:
    """Draw counts, shaded by their share of the row; `label` is read before their list."""
    names, size = [*found.columns, *found.rows], len(found.columns)
    with_text = size <= LARGEST_WITH_TEXT
    cell = _WIDEST_CELLS.get(size, 46.0) if with_text else 480.0 / size
    cell = cell if found.shares else 70.0
    high = 66.0 if size == 2 else min(cell, 56.0 if found.shares else 40.0)
    widest = _LETTER_WIDTH * max(map(len, names))
    # Text of a drawing has no width until it is drawn: that of a letter is taken for all.
    turned = _LETTER_WIDTH * max(map(len, found.columns)) > cell - 6
    left = (34.0 if found.down else 14.0) + widest
    head = 26.0 + (0.64 * widest + 14 if turned else 20.0)
    parts = [centred(found.across, short(left + cell * size / 2), 12, "name")]
    if found.down:
        parts.append(upward_name(found.down, short(head + high * len(found.rows) / 2)))
    for n, name in enumerate(found.columns):
        x, y = short(left + cell * (n + 0.5)), short(head - 9)
        how = {"transform": f"rotate(-40 {x} {y})"} if turned else {"text_anchor": "middle"}
        parts.append(text(name, x=x, y=y, **how))
    cells: list[str] = []
    for n, name in enumerate(found.rows):
        top = head + high * n
        parts.append(text(name, x=short(left - 10), y=short(top + high / 2 + 4), text_anchor="end"))
        parts += _heat_row(found, n, (left, top), (cell, high))
        cells += _cell_labels(found, n)
    totals = 14 + 6.6 * len(f"of {max(map(sum, found.counts)):,}") if found.shares else 4.0
    width = left + cell * size + max(totals, 0.7 * widest - cell / 2 if turned else 0)
    extent = {"width": width, "height": head + high * len(found.rows) + 4}
    drawn = drawing(parts, style="matrix", label=f"{label} {'; '.join(cells)}", **extent)
    # As many pixels as units at most: a table of four cells need not be a poster.
    return Markup('<div style="max-width:{}px">{}</div>').format(short(width * 1.1), drawn)


def _cell_labels(found: HeatMap, row: int) -> Iterator[str]:
    total = sum(found.counts[row])
    for name, count in zip(found.columns, found.counts[row], strict=True):
        if count:
            share = f" ({share_label(count / total)})" if found.shares else ""
            of = f"{count:,} of {total:,}{share}"
            yield f"{found.down} {found.rows[row]}, {found.across} {name}: {of}".lstrip()


def _heat_row(
    found: HeatMap, row: int, corner: tuple[float, float], cell: tuple[float, float]
) -> Iterator[Markup]:
    counts, (left, top), (wide, high) = found.counts[row], corner, cell
    total, with_text = sum(counts), len(counts) <= LARGEST_WITH_TEXT
    gap = 1.5 if with_text else 0.5
    for column, count in enumerate(counts):
        share, x = count / total if total else 0.0, left + wide * column
        box = {"x": short(x + gap), "y": short(top + gap), "width": short(wide - 2 * gap)}
        box |= {"height": short(high - 2 * gap), "rx": "3"}
        names = f"{found.down} {found.rows[row]}, {found.across} {found.columns[column]}".lstrip()
        tooltip = title(f"{names}: {count:,} of {total:,}")
        style = "cell right" if (row, column) in found.right else "cell"
        yield element("rect", "cell-ground", **box)
        yield element("rect", style, tooltip, **box, fill_opacity=f"{_DEEPEST * share:.3f}")
        if with_text:
            middle = top + high / 2
            yield from _cell_text(count, share, short(x + wide / 2), middle, shares=found.shares)
    if found.shares:
        end, middle = short(left + wide * len(counts) + 8), top + high / 2
        yield text(f"of {total:,}", style="total", x=end, y=short(middle + 4))


def _cell_text(
    count: int, share: float, x: str, middle: float, *, shares: bool
) -> Iterator[Markup]:
    if not count or not shares:
        yield centred(f"{count:,}", x, short(middle + 4), "count" if count else "none")
        return
    yield centred(f"{count:,}", x, short(middle - 1), "count")
    yield centred(share_label(share), x, short(middle + 13), "share")


def share_label(part: float) -> str:
    """Return a share in whole percent; <1 % and >99 % are what only rounds to none or all."""
    if 0 < part < 0.005:
        return "<1 %"
    if 0.995 <= part < 1:
        return ">99 %"
    return f"{100 * part:.0f} %"
