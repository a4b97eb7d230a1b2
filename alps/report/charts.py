"""Inline SVG for every page: whiskers, bars, the precision–recall plane, curves and heat maps.

One-dimensional charts are laid out in percent, so that they stretch with the page while their text
and dots keep their size. Colours come from the style sheet; shape, pattern and letters tell the
same without colour. Numbers are written with two decimals at most: the same on every machine.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from alps.report.formatting import interval, number
from alps.rows import Score

COLOURS = 6
ISO_F1 = (0.2, 0.4, 0.6, 0.8)
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
GOLD_ACTIONS = ("retain", "add", "modify", "delete", "none")
PREDICTED_ACTIONS = (*GOLD_ACTIONS, "failed")
DASHES = ("7 4", "2 4", "10 3 2 3")
_ISO_STEPS = 40
_LABELLED_SHARE = 0.06
_LARGEST_DOT, _SMALLEST_DOT = 24.0, 5.0
_DEEPEST = 0.5
_CELL, _ROW, _LABELS, _HEAD = 66.0, 40.0, 108.0, 42.0
_APART = 15.0


# SVG by hand: a drawing library would bring fonts, or scripts that run when the page is read.


def frame(parts: Iterable[Markup], *, style: str, label: str, height: int) -> Markup:
    """Return a chart as wide as its container and `height` pixels high; `label` is read aloud."""
    opening = Markup('<svg class="{}" width="100%" height="{}" role="img" aria-label="{}">').format(
        style, height, label
    )
    return opening + joined(parts) + Markup("</svg>")


def drawing(
    parts: Iterable[Markup], *, style: str, label: str, width: float, height: float
) -> Markup:
    """Return a chart of `width` by `height` units that is scaled to its container."""
    return Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        style, short(width), short(height), label, joined(parts)
    )


def text(content: str, *, style: str = "", **attributes: object) -> Markup:
    """Return a text element."""
    return element("text", style, content, **attributes)


def element(tag: str, style: str, content: str | Markup = "", **attributes: object) -> Markup:
    """Return an element of the class `style`; empty attributes are left out."""
    written = Markup("")
    for name, value in {"class": style, **attributes}.items():
        if value != "":
            written += Markup(' {}="{}"').format(name.replace("_", "-"), value)
    opening = Markup("<{}{}").format(Markup(tag), written)
    return opening + (Markup(">{}</{}>").format(content, Markup(tag)) if content else Markup("/>"))


def title(content: str) -> Markup:
    """Return the text that a browser shows when an element is pointed at."""
    return Markup("<title>{}</title>").format(content)


def joined(parts: Iterable[Markup]) -> Markup:
    """Join markup."""
    return Markup("").join(parts)


def percent(share: float) -> str:
    """Return a share as a length."""
    return f"{short(100 * share)}%"


def short(value: float) -> str:
    """Return a number with two decimals at most: the same on every machine."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def tick_label(value: float) -> str:
    """Return the number at a tick, without a leading zero."""
    label = f"{value:g}"
    return label.lstrip("0") if label.startswith("0.") else label


@dataclass(frozen=True)
class Area:
    """The rectangle of a chart in which both axes reach from 0 to 1, in units of the drawing."""

    left: float
    top: float
    width: float
    height: float

    def at(self, across: float, up: float) -> tuple[str, str]:
        """Return the coordinates of a point; a height beyond the axis is drawn at its end."""
        return short(self.left + self.width * across), short(self._height_of(up))

    def path(self, points: Iterable[tuple[float, float]], *, closed: bool = False) -> str:
        """Return the path through some points, as the attribute `d`."""
        corners = [" ".join(self.at(across, up)) for across, up in points]
        return f"M{'L'.join(corners)}{'Z' if closed else ''}"

    def iso_f1(self, f1: float) -> str:
        """Return the curve of equal F1: precision = F·recall / (2·recall − F)."""
        first = f1 / (2 - f1)
        points = []
        for step in range(_ISO_STEPS + 1):
            # Squared steps: the curve is steepest where it begins.
            recall = first + (1 - first) * (step / _ISO_STEPS) ** 2
            points.append((recall, f1 * recall / (2 * recall - f1)))
        return self.path(points)

    def label_heights(self, ends: Sequence[float], apart: float) -> Iterator[tuple[int, float]]:
        """Yield where the labels of some lines go that end at `ends`, the lowest line first.

        Labels that would overlap are moved apart.
        """
        lowest = self.top + self.height + apart
        for line in sorted(range(len(ends)), key=lambda line: ends[line]):
            lowest = min(lowest - apart, self._height_of(ends[line]))
            yield line, lowest

    def _height_of(self, up: float) -> float:
        return self.top + self.height * (1 - min(1.0, max(0.0, up)))


_PLANE = Area(50.0, 16.0, 380.0, 380.0)
_CURVE = Area(46.0, 14.0, 470.0, 250.0)


@dataclass(frozen=True)
class Part:
    """A part of a stacked bar: a name, its style in the style sheet, and how many there are."""

    name: str
    style: str
    count: int


@dataclass(frozen=True)
class Point:
    """A system in the precision–recall plane; `letter` is empty for a trivial baseline."""

    name: str
    letter: str
    colour: int
    precision: Score
    recall: Score


@dataclass(frozen=True)
class Line:
    """Scores of one system over pool sizes; `letter` is empty for a trivial baseline."""

    name: str
    letter: str
    colour: int
    points: Sequence[tuple[int, Score]]


def whisker(
    score: Score,
    *,
    name: str,
    colour: int = 0,
    floor: bool = False,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> Markup:
    """Draw a value with its interval on an axis.

    Where records are unscored, the worst and the best case are a band behind it.
    """
    value = score.value
    if value is None or not lowest <= value <= highest:
        return Markup()
    at = _scale(lowest, highest)
    parts = _rail()
    if score.worst_case is not None and score.best_case is not None:
        # Of an error the best case is the lower one.
        left, right = sorted((at(score.worst_case), at(score.best_case)))
        width = percent(right - left)
        parts.append(element("rect", "bounds", x=percent(left), y=5, width=width, height=14, rx=2))
    if score.low is not None and score.high is not None:
        parts += _interval(at(score.low), at(score.high), "interval")
    parts.append(element("circle", "dot", cx=percent(at(value)), cy=12, r=4.5))
    style = f"whisker {'floor' if floor else f'colour-{colour % COLOURS}'}"
    return frame(parts, style=style, label=_score_label(name, score), height=24)


def bar(
    score: Score,
    *,
    name: str,
    colour: int = 0,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> Markup:
    """Draw a value as a bar from the beginning of its axis, with its interval over its end."""
    value = score.value
    if value is None or not lowest <= value <= highest:
        return Markup()
    at = _scale(lowest, highest)
    parts = _rail()
    parts.append(element("rect", "bar", x=0, y=5, width=percent(at(value)), height=14, rx=1))
    if score.low is not None and score.high is not None:
        parts += _interval(at(score.low), at(score.high), "over")
    style = f"bars colour-{colour % COLOURS}"
    return frame(parts, style=style, label=_score_label(name, score), height=24)


def axis(lowest: float = 0.0, highest: float = 1.0) -> Markup:
    """Draw the numbers of the axis of `whisker` and `bar`."""
    labels = []
    for share in TICKS:
        label = tick_label(lowest + share * (highest - lowest))
        style = "minor" if share in (0.25, 0.75) else ""
        labels.append(text(label, x=percent(share), y=12, text_anchor="middle", style=style))
    return Markup('<svg class="axis" width="100%" height="16" aria-hidden="true">{}</svg>').format(
        joined(labels)
    )


def stacked(parts: Sequence[Part], *, name: str) -> Markup:
    """Draw counts as one bar of their shares; a part that is wide enough carries its count."""
    total = sum(part.count for part in parts)
    if not total:
        return Markup()
    drawn = [_hatching(name)]
    start = 0.0
    for part in parts:
        if part.count:
            drawn += _stacked_part(part, start, part.count / total, hatching=name)
        start += part.count / total
    label = ", ".join(f"{part.count} {part.name}" for part in parts if part.count)
    return frame(drawn, style="stacked", label=label, height=28)


def _stacked_part(part: Part, start: float, share: float, *, hatching: str) -> Iterator[Markup]:
    extent: dict[str, Any] = {"x": percent(start), "y": 0, "width": percent(share), "height": 28}
    if part.style == "unscored":
        extent["fill"] = f"url(#{hatching})"
    told = title(f"{part.name}: {part.count}")
    yield element("rect", f"part {part.style}", told, **extent)
    if share >= _LABELLED_SHARE:
        middle = {"x": percent(start + share / 2), "y": 19, "text_anchor": "middle"}
        yield text(f"{part.count:,}", style=part.style, **middle)


def plane(
    points: Sequence[Point],
    floors: Sequence[Point],
    records: Iterable[tuple[float, float]],
    *,
    name: str,
) -> Markup:
    """Draw the precision–recall plane.

    Args:
        points: The runs at their macro precision and recall, with the intervals of both as a cross.
        floors: The trivial baselines, hollow.
        records: (recall, precision) of single records: one circle a place, its area their number.
        name: What the chart shows, for who can't see it.
    """
    parts = [*_plane_grid(), *map(_iso, ISO_F1), *_record_dots(records)]
    for position, floor in enumerate(floors):
        x, y = _PLANE.at(floor.recall.known, floor.precision.known)
        parts.append(_sign(position, float(x), float(y)))
    parts += map(_cross, points)
    parts += map(_letter, points)
    return drawing(parts, style="plane", label=name, width=446, height=442)


def floor_sign(position: int) -> Markup:
    """Draw the sign of a trivial baseline for a legend."""
    return Markup('<svg class="sign" width="18" height="18" aria-hidden="true">{}</svg>').format(
        _sign(position, 9, 9)
    )


def _plane_grid() -> Iterator[Markup]:
    left, top, side = _PLANE.left, _PLANE.top, _PLANE.width
    corner = {"x": short(left), "y": short(top)}
    yield element("rect", "ground", **corner, width=short(side), height=short(side))
    for tick in TICKS:
        x, y = _PLANE.at(tick, tick)
        if 0 < tick < 1:
            lines = f"M{x} {short(top)}V{short(top + side)}M{short(left)} {y}H{short(left + side)}"
            yield element("path", "grid", d=lines)
        label = tick_label(tick)
        yield text(label, x=x, y=short(top + side + 19), text_anchor="middle")
        yield text(label, x=short(left - 11), y=short(float(y) + 4), text_anchor="end")
    yield _axis_name("recall", short(left + side / 2), short(top + side + 40))
    middle = short(top + side / 2)
    yield _axis_name("precision", 12, middle, transform=f"rotate(-90 12 {middle})")


def _axis_name(name: str, x: object, y: str, **attributes: object) -> Markup:
    return text(name, x=x, y=y, text_anchor="middle", style="name", **attributes)


def _iso(f1: float) -> Markup:
    x, y = _PLANE.at(f1, f1)
    middle = {"x": x, "y": short(float(y) + 4), "text_anchor": "middle"}
    label = text(f"F1 {number(f1).rstrip('0')}", style="iso", **middle)
    return element("path", "iso", d=_PLANE.iso_f1(f1)) + label


def _record_dots(records: Iterable[tuple[float, float]]) -> Iterator[Markup]:
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


def _cross(point: Point) -> Markup:
    recall, precision = point.recall, point.precision
    strokes = ""
    if recall.low is not None and recall.high is not None:
        left, y = _PLANE.at(recall.low, precision.known)
        right, _ = _PLANE.at(recall.high, precision.known)
        strokes += f"M{left} {y}H{right}"
    if precision.low is not None and precision.high is not None:
        x, bottom = _PLANE.at(recall.known, precision.low)
        _, top = _PLANE.at(recall.known, precision.high)
        strokes += f"M{x} {bottom}V{top}"
    return (
        element("path", f"cross colour-{point.colour % COLOURS}", d=strokes)
        if strokes
        else Markup()
    )


def _letter(point: Point) -> Markup:
    precision, recall = point.precision.known, point.recall.known
    x, y = _PLANE.at(recall, precision)
    told = title(f"{point.name}: precision {number(precision)}, recall {number(recall)}")
    circle = element("circle", f"macro colour-{point.colour % COLOURS}", told, cx=x, cy=y, r=9)
    middle = {"x": x, "y": short(float(y) + 4), "text_anchor": "middle"}
    return circle + text(point.letter, style="on-macro", **middle)


def _sign(position: int, x: float, y: float) -> Markup:
    """Draw one of three hollow signs, so that baselines at one place can be told apart."""
    shapes = (
        f"M{short(x)} {short(y - 8)}l8 8l-8 8l-8 -8z",
        f"M{short(x - 5)} {short(y - 5)}h10v10h-10z",
        f"M{short(x)} {short(y - 7)}l7 12h-14z",
    )
    return element("path", "floor-sign", d=shapes[position % len(shapes)])


def action_matrix(counts: Mapping[str, float]) -> Markup:
    """Draw gold actions against predicted ones: the number, shaded by its share of the gold row.

    Args:
        counts: Of a track of update, with `cell_GOLD_PREDICTED` among them; none of them gives no
            chart.
    """
    cells: dict[str, dict[str, int]] = {}
    for gold in GOLD_ACTIONS:
        row = {name: int(counts.get(f"cell_{gold}_{name}", 0)) for name in PREDICTED_ACTIONS}
        if any(row.values()):
            cells[gold] = row
    if not cells:
        return Markup()
    columns = []
    for name in PREDICTED_ACTIONS:
        if name in cells or any(row[name] for row in cells.values()):
            columns.append(name)
    width, height = _LABELS + _CELL * len(columns), _HEAD + _ROW * len(cells)
    middle = short(_LABELS + _CELL * len(columns) / 2)
    parts = [text("predicted", x=middle, y=12, text_anchor="middle", style="name")]
    for n, name in enumerate(columns):
        x = short(_LABELS + _CELL * (n + 0.5))
        heading = "not found" if name == "none" else name
        parts.append(text(heading, x=x, y=short(_HEAD - 9), text_anchor="middle"))
    told = []
    for n, (gold, row) in enumerate(cells.items()):
        parts += _matrix_row(gold, _HEAD + _ROW * n, row, columns)
        told += [f"{gold} as {name}: {count}" for name, count in row.items() if count]
    label = f"Gold as predicted actions: {'; '.join(told)}"
    return drawing(parts, style="matrix", label=label, width=width, height=height)


def _matrix_row(
    gold: str, y: float, row: Mapping[str, int], columns: Sequence[str]
) -> Iterator[Markup]:
    total = sum(row.values())
    name = "not in gold" if gold == "none" else f"gold {gold}"
    middle = y + _ROW / 2
    yield text(name, x=short(_LABELS - 10), y=short(middle + 4), text_anchor="end")
    for n, predicted in enumerate(columns):
        x, count = _LABELS + _CELL * n, row[predicted]
        extent = {"x": short(x + 1.5), "y": short(y + 1.5), "width": short(_CELL - 3)}
        extent |= {"height": short(_ROW - 3), "rx": "3"}
        told = f"{name}, predicted {predicted}: {count} of {total}"
        yield heat_cell(extent, told, count / total, right=gold == predicted != "none")
        place = {"x": short(x + _CELL / 2), "y": short(middle + 4.5), "text_anchor": "middle"}
        yield text(f"{count:,}", style="count" if count else "none", **place)


def heat_cell(extent: Mapping[str, Any], told: str, share: float, *, right: bool) -> Markup:
    """Draw a cell of a heat map, shaded by its share of the row; `right` is framed."""
    style = "cell right" if right else "cell"
    shade = element("rect", style, title(told), **extent, fill_opacity=f"{_DEEPEST * share:.3f}")
    return element("rect", "cell-ground", **extent) + shade


def recall_curve(lines: Sequence[Line], floors: Sequence[Line], *, name: str) -> Markup:
    """Draw recall over the size of the pool from 0 on, with the intervals as bands.

    Args:
        lines: The runs.
        floors: The trivial baselines, which are dashed.
        name: What is drawn, for who can't see it.
    """
    sizes = sorted({size for line in (*lines, *floors) for size, _ in line.points})
    if len(sizes) < 2:
        return Markup()
    largest = sizes[-1]
    parts = list(_curve_grid(sizes))
    parts += [_band(line, largest) for line in lines]
    for n, floor in enumerate(floors):
        dashes = DASHES[n % len(DASHES)]
        parts.append(_curve(floor, largest, style="floor-line", stroke_dasharray=dashes))
    for line in lines:
        parts.append(_curve(line, largest, style=f"run-line colour-{line.colour % COLOURS}"))
        parts += _spots(line, largest)
    ends = [line.points[-1][1].known for line in lines]
    for n, height in _CURVE.label_heights(ends, _APART):
        end = {"x": short(_CURVE.left + _CURVE.width + 12), "y": short(height + 4)}
        style = f"run-letter colour-{lines[n].colour % COLOURS}"
        parts.append(text(lines[n].letter, style=style, **end))
    label = f"{name}. {'; '.join(map(_curve_label, (*lines, *floors)))}"
    return drawing(parts, style="curve", label=label, width=548, height=316)


def floor_line_sign(position: int) -> Markup:
    """Draw the line of a trivial baseline for a legend."""
    dashes = DASHES[position % len(DASHES)]
    line = element("line", "floor-line", x1=0, x2=26, y1=9, y2=9, stroke_dasharray=dashes)
    return Markup('<svg class="sign" width="26" height="18" aria-hidden="true">{}</svg>').format(
        line
    )


def _curve_label(line: Line) -> str:
    points = [f"{size}: {number(score.value)}" for size, score in line.points]
    return f"{line.name}: {', '.join(points)}"


def _curve_grid(sizes: Sequence[int]) -> Iterator[Markup]:
    left, right = short(_CURVE.left - 9), short(_CURVE.left + _CURVE.width)
    for tick in TICKS:
        x, y = _CURVE.at(0, tick)
        yield element("path", "grid" if tick else "ground", d=f"M{x} {y}H{right}")
        yield text(tick_label(tick), x=left, y=short(float(y) + 4), text_anchor="end")
    for size in (0, *sizes):
        x, y = _CURVE.at(size / sizes[-1], 0)
        yield element("path", "ground", d=f"M{x} {y}v5")
        yield text(f"{size:,}", x=x, y=short(float(y) + 20), text_anchor="middle")
    bottom = short(_CURVE.top + _CURVE.height + 42)
    yield _axis_name("distractors", short(_CURVE.left + _CURVE.width / 2), bottom)


def _band(line: Line, largest: int) -> Markup:
    upper: list[tuple[float, float]] = []
    lower: list[tuple[float, float]] = []
    for size, score in line.points:
        if score.low is not None and score.high is not None:
            upper.append((size / largest, score.high))
            lower.insert(0, (size / largest, score.low))
    if len(upper) < 2:
        return Markup()
    outline = _CURVE.path([*upper, *lower], closed=True)
    return element("path", f"band colour-{line.colour % COLOURS}", d=outline)


def _curve(line: Line, largest: int, *, style: str, **attributes: object) -> Markup:
    points = [(size / largest, score.known) for size, score in line.points]
    return element("path", style, title(line.name), d=_CURVE.path(points), **attributes)


def _spots(line: Line, largest: int) -> Iterator[Markup]:
    """Mark each measured size."""
    style = f"spot colour-{line.colour % COLOURS}"
    for size, score in line.points:
        x, y = _CURVE.at(size / largest, score.known)
        told = f"{line.name}, {size:,} distractors: {number(score.value)} {interval(score)}"
        yield element("circle", style, title(told), cx=x, cy=y, r=4.5)


def _score_label(name: str, score: Score) -> str:
    return f"{name}: {number(score.value)}, 95 % interval {interval(score)}"


def _hatching(name: str) -> Markup:
    return Markup(
        '<defs><pattern id="{}" width="6" height="6" patternUnits="userSpaceOnUse"'
        ' patternTransform="rotate(45)"><rect class="hatch-ground" width="6" height="6"/>'
        '<rect class="hatch" width="2.5" height="6"/></pattern></defs>'
    ).format(name)


def _scale(lowest: float, highest: float) -> Callable[[float], float]:
    """Return the function that places a score on its axis, in [0, 1]."""
    return lambda score: (min(highest, max(lowest, score)) - lowest) / (highest - lowest)


def _rail() -> list[Markup]:
    ticks = [_upright("tick", share, 9, 15) for share in (0.25, 0.5, 0.75)]
    return [_level("rail", 0, 1), *ticks]


def _interval(low: float, high: float, style: str) -> list[Markup]:
    return [_level(style, low, high), _upright(style, low, 8, 16), _upright(style, high, 8, 16)]


def _level(style: str, start: float, end: float) -> Markup:
    return element("line", style, x1=percent(start), x2=percent(end), y1=12, y2=12)


def _upright(style: str, at: float, top: int, bottom: int) -> Markup:
    return element("line", style, x1=percent(at), x2=percent(at), y1=top, y2=bottom)
