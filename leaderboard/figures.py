"""Charts of the site: whiskers, recall over pool sizes, the precision–recall plane.

No figure holds a number of its own beside its axis: what it shows stands in a table on the same
page, with its origin.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from alps.leaderboard.provenance import Place
from alps.report.charts import (
    ISO_F1,
    TICKS,
    Area,
    drawing,
    element,
    joined,
    percent,
    short,
    text,
    tick_label,
    title,
)

COLOURED = 6
"""How many systems a figure tells apart by colour; the others are drawn in grey."""
_APART = 14.0
_CURVE = Area(44.0, 12.0, 560.0, 280.0)
_PLANE = Area(44.0, 12.0, 380.0, 380.0)


def letter_of(position: int) -> str:
    """Return the letter of the system at `position` of a legend.

    A number would look like a rank.
    """
    return chr(ord("A") + position)


@dataclass(frozen=True)
class Line:
    """Scores of one system over pool sizes.

    `style` is `system`, `floor` or `reported`, `mark` stands at its end.
    """

    name: str
    style: str
    mark: str
    points: Sequence[tuple[int, Place]]


@dataclass(frozen=True)
class Point:
    """A system in the precision–recall plane."""

    name: str
    style: str
    mark: str
    precision: Place
    recall: Place


def whisker(score: Place, *, lowest: float, highest: float, style: str = "") -> Markup:
    """Draw a score with its interval on an axis; it only repeats the numbers beside it."""
    value, low, high = (score[name].value for name in ("value", "low", "high"))
    if value is None or not lowest <= value <= highest:
        return Markup()
    drawn = ""
    if low is not None and high is not None:
        ends = (percent(_share(end, lowest, highest)) for end in (low, high))
        drawn = '<line class="i" x1="{}" x2="{}" y1="8" y2="8"/>'.format(*ends)
    at = percent(_share(value, lowest, highest))
    named = f"w {style}" if style else "w"
    return Markup(
        f'<svg class="{named}" aria-hidden="true">{drawn}<circle cx="{at}" cy="8" r="4"/></svg>'
    )


def _share(value: float, lowest: float, highest: float) -> float:
    return min(1.0, max(0.0, (value - lowest) / (highest - lowest)))


def scale(lowest: float, highest: float) -> Markup:
    """Draw the ends and the middle of the axis of `whisker`."""
    places = ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
    ends = [
        text(
            tick_label(lowest + share * (highest - lowest)),
            x=percent(share),
            y=10,
            text_anchor=anchor,
        )
        for share, anchor in places
    ]
    return Markup('<svg class="axis" aria-hidden="true">{}</svg>').format(joined(ends))


def recall_curve(lines: Sequence[Line], *, name: str) -> Markup:
    """Draw recall over the size of the pool from 0 on.

    Intervals are bands around the systems in colour.

    Args:
        lines: Systems, the best first; then floors and what is reported. Fewer than two sizes give
            no figure.
        name: What is drawn, for who can't see it.
    """
    sizes = sorted({size for line in lines for size, _ in line.points})
    if len(sizes) < 2:
        return Markup()
    largest = sizes[-1]
    parts = list(_grid(_CURVE, [(size / largest, f"{size:,}") for size in (0, *sizes)]))
    coloured = [line for line in lines if line.mark]
    parts += [_drawn(line, "", largest) for line in reversed(lines) if not line.mark]
    for n, line in enumerate(coloured):
        group = [_band(line, n, largest), _drawn(line, f" s{n}", largest)]
        for across, up in _points(line, largest):
            x, y = _CURVE.at(across, up)
            group.append(element("circle", f"dot s{n}", cx=x, cy=y, r=4))
        parts.append(element("g", "", joined(group)))
    ends = [line.points[-1][1]["value"].value for line in coloured]
    for n, height in _CURVE.label_heights(ends, _APART):
        end = {"x": short(_CURVE.left + _CURVE.width + 12), "y": short(height + 4)}
        parts.append(text(coloured[n].mark, style=f"mark s{n}", **end))
    return drawing(parts, style="curve", label=name, width=638, height=344)


def _points(line: Line, largest: int) -> list[tuple[float, float]]:
    return [(size / largest, score["value"].value) for size, score in line.points]


def _drawn(line: Line, colour: str, largest: int) -> Markup:
    path = _CURVE.path(_points(line, largest))
    return element("path", f"{line.style}{colour}", title(line.name), d=path)


def _band(line: Line, colour: int, largest: int) -> Markup:
    upper: list[tuple[float, float]] = []
    lower: list[tuple[float, float]] = []
    for size, score in line.points:
        if score["low"] and score["high"]:
            upper.append((size / largest, score["high"].value))
            lower.insert(0, (size / largest, score["low"].value))
    if len(upper) < 2:
        return Markup()
    return element("path", f"band s{colour}", d=_CURVE.path([*upper, *lower], closed=True))


def plane(points: Sequence[Point], *, name: str) -> Markup:
    """Draw the precision–recall plane with curves of equal F1.

    Systems in colour carry their mark and intervals.
    """
    if not points:
        return Markup()
    ticks = [(tick, tick_label(tick)) for tick in TICKS]
    parts = [*_grid(_PLANE, ticks), *map(_iso, ISO_F1)]
    coloured = [point for point in points if point.mark]
    for point in reversed(points):
        colour = f" s{coloured.index(point)}" if point.mark else ""
        parts += _cross(point, colour) if point.mark else ()
        x, y = _PLANE.at(point.recall["value"].value, point.precision["value"].value)
        told = title(point.name)
        if point.style == "floor":
            corner = {"x": short(float(x) - 4), "y": short(float(y) - 4), "width": 8, "height": 8}
            parts.append(element("rect", "point floor", told, **corner))
        else:
            radius = 9 if point.mark else 3.5
            parts.append(element("circle", f"point{colour}", told, cx=x, cy=y, r=radius))
        if point.mark:
            parts.append(
                text(point.mark, style="inside", x=x, y=short(float(y) + 4), text_anchor="middle")
            )
    return drawing(parts, style="plane", label=name, width=438, height=444)


def _cross(point: Point, colour: str) -> Iterator[Markup]:
    recall, precision = point.recall["value"].value, point.precision["value"].value
    across = [(end, precision) for end in (point.recall["low"].value, point.recall["high"].value)]
    upright = [
        (recall, end) for end in (point.precision["low"].value, point.precision["high"].value)
    ]
    for ends in (across, upright):
        if None not in (*ends[0], *ends[1]):
            (x1, y1), (x2, y2) = (_PLANE.at(*end) for end in ends)
            yield element("line", f"cross{colour}", x1=x1, y1=y1, x2=x2, y2=y2)


def _iso(f1: float) -> Markup:
    x, y = _PLANE.at(1, f1 / (2 - f1))
    corner = {"x": short(float(x) - 4), "y": short(float(y) - 4), "text_anchor": "end"}
    label = text(f"F1 {tick_label(f1)}", style="iso", **corner)
    return element("path", "iso", d=_PLANE.iso_f1(f1)) + label


def _grid(area: Area, across: Iterable[tuple[float, str]]) -> Iterator[Markup]:
    """Draw the axes of the curve, or of the plane, which has lines in both directions."""
    upright = area is _PLANE
    left, top, bottom = short(area.left), short(area.top), area.top + area.height
    for tick in TICKS:
        _, y = area.at(0, tick)
        style = "grid" if tick else "ground"
        yield element("path", style, d=f"M{left} {y}H{short(area.left + area.width)}")
        label = {"x": short(area.left - 8), "y": short(float(y) + 4), "text_anchor": "end"}
        yield text(tick_label(tick), **label)
    for share, name in across:
        x, _ = area.at(share, 0)
        if upright:
            style = "grid" if share else "ground"
            yield element("path", style, d=f"M{x} {top}V{short(bottom)}")
        yield text(name, x=x, y=short(bottom + 18), text_anchor="middle")
    middle = {"x": short(area.left + area.width / 2), "y": short(bottom + 40)}
    name = "recall" if upright else "distractors"
    yield text(name, style="name", **middle, text_anchor="middle")
    if upright:
        halfway = short(area.top + area.height / 2)
        turned = {"text_anchor": "middle", "transform": f"rotate(-90 10 {halfway})"}
        yield text("precision", style="name", x=10, y=halfway, **turned)
