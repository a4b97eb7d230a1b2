"""Inline SVG for the report: dots with whiskers, a stacked bar, the precision–recall plane.

One-dimensional charts are laid out in percent, so that they stretch with the page while their text
and dots keep their size. Colours come from the style sheet; shape, pattern and letters tell the
same without colour.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from alps.report.numbers import interval, number
from alps.report.svg import drawing, element, frame, joined, percent, short, text, title

COLOURS = 6
ISO_F1 = (0.2, 0.4, 0.6, 0.8)
_LABELLED_SHARE = 0.06
_LEFT, _TOP, _SIDE, _WIDTH, _HEIGHT = 50.0, 16.0, 380.0, 446.0, 442.0
_LARGEST_DOT, _SMALLEST_DOT = 24.0, 5.0


@dataclass(frozen=True)
class Part:
    """A part of a stacked bar: a name, its style in the style sheet, and how many there are."""

    name: str
    style: str
    count: int


@dataclass(frozen=True)
class Point:
    """A system in the precision–recall plane; `letter` is empty for a floor."""

    name: str
    letter: str
    colour: int
    precision: Mapping[str, Any]
    recall: Mapping[str, Any]


def whisker(
    score: Mapping[str, Any],
    *,
    name: str,
    colour: int = 0,
    floor: bool = False,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> Markup:
    """Draw a value with its interval on an axis.

    Where records are unscored, its bounds as a band behind it.
    """
    value = score["value"]
    if value is None or not lowest <= value <= highest:
        return Markup()
    at = _scale(lowest, highest)
    parts = [_line("rail", 0, 1), *(_tick(place) for place in (0.25, 0.5, 0.75))]
    if "worst_case" in score:
        left, right = sorted(
            (at(score["worst_case"]), at(score["best_case"]))
        )  # of an error the best is the lower
        parts.append(
            element(
                "rect", "bounds", x=percent(left), y=5, width=percent(right - left), height=14, rx=2
            )
        )
    if score["low"] is not None:
        low, high = at(score["low"]), at(score["high"])
        parts += [_line("interval", low, high), _cap(low), _cap(high)]
    parts.append(element("circle", "dot", cx=percent(at(value)), cy=12, r=4.5))
    label = f"{name}: {number(value)}, 95 % interval {interval(score)}"
    style = f"whisker {'floor' if floor else f'colour-{colour % COLOURS}'}"
    return frame(parts, style=style, label=label, height=24)


def bar(
    score: Mapping[str, Any],
    *,
    name: str,
    colour: int = 0,
    lowest: float = 0.0,
    highest: float = 1.0,
) -> Markup:
    """Draw a value as a bar from the beginning of its axis, with its interval over its end."""
    value = score["value"]
    if value is None or not lowest <= value <= highest:
        return Markup()
    at = _scale(lowest, highest)
    parts = [_line("rail", 0, 1), *(_tick(place) for place in (0.25, 0.5, 0.75))]
    parts.append(element("rect", "bar", x=0, y=5, width=percent(at(value)), height=14, rx=1))
    if score["low"] is not None:
        low, high = at(score["low"]), at(score["high"])
        parts += [_line("over", low, high), _cap(low, "over"), _cap(high, "over")]
    label = f"{name}: {number(value)}, 95 % interval {interval(score)}"
    return frame(parts, style=f"bars colour-{colour % COLOURS}", label=label, height=24)


def axis(lowest: float = 0.0, highest: float = 1.0) -> Markup:
    """Draw the numbers of the axis of `whisker` and `bar`."""
    labels = []
    for place, style in ((0.0, ""), (0.25, "minor"), (0.5, ""), (0.75, "minor"), (1.0, "")):
        said = f"{lowest + place * (highest - lowest):g}"
        said = said.lstrip("0") if said.startswith("0.") else said
        labels.append(text(said, x=percent(place), y=12, text_anchor="middle", style=style))
    return Markup('<svg class="axis" width="100%" height="16" aria-hidden="true">{}</svg>').format(
        joined(labels)
    )


def stacked(parts: Sequence[Part], *, name: str) -> Markup:
    """Draw counts as one bar of their shares; a part that is wide enough carries its count."""
    total = sum(part.count for part in parts)
    if not total:
        return Markup()
    drawn: list[Markup] = [_hatching(name)]
    start = 0.0
    for part in parts:
        share = part.count / total
        if part.count:
            hatched = {"fill": f"url(#{name})"} if part.style == "unscored" else {}
            extent = {"x": percent(start), "y": 0, "width": percent(share), "height": 28}
            drawn.append(
                element(
                    "rect",
                    f"part {part.style}",
                    title(f"{part.name}: {part.count}"),
                    **extent,
                    **hatched,
                )
            )
            if share >= _LABELLED_SHARE:
                drawn.append(
                    text(
                        f"{part.count:,}",
                        x=percent(start + share / 2),
                        y=19,
                        text_anchor="middle",
                        style=part.style,
                    )
                )
        start += share
    label = ", ".join(f"{part.count} {part.name}" for part in parts if part.count)
    return frame(drawn, style="stacked", label=label, height=28)


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
        floors: The floors, hollow.
        records: (recall, precision) of single records: one circle a place, its area their number.
        name: What the chart shows, for who can't see it.
    """
    parts = [_plane_grid(), *(_iso(f1) for f1 in ISO_F1), *_dots(records)]
    parts += [_floor_mark(n, floor) for n, floor in enumerate(floors)]
    parts += [_cross(point) for point in points] + [_letter(point) for point in points]
    return drawing(parts, style="plane", label=name, width=_WIDTH, height=_HEIGHT)


def floor_sign(position: int) -> Markup:
    """Draw the sign of a floor for a legend."""
    return Markup('<svg class="sign" width="18" height="18" aria-hidden="true">{}</svg>').format(
        _sign(position, 9, 9)
    )


def _plane_grid() -> Markup:
    parts = [
        element(
            "rect", "ground", x=short(_LEFT), y=short(_TOP), width=short(_SIDE), height=short(_SIDE)
        )
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = _place(tick, tick)
        said = {0.0: "0", 1.0: "1"}.get(tick, f"{tick:g}".lstrip("0"))
        if 0 < tick < 1:
            parts.append(
                element(
                    "path",
                    "grid",
                    d=f"M{x} {short(_TOP)}V{short(_TOP + _SIDE)}M{short(_LEFT)} {y}H{short(_LEFT + _SIDE)}",
                )
            )
        parts.append(text(said, x=x, y=short(_TOP + _SIDE + 19), text_anchor="middle"))
        parts.append(text(said, x=short(_LEFT - 11), y=short(float(y) + 4), text_anchor="end"))
    middle = _LEFT + _SIDE / 2
    parts.append(
        text(
            "recall",
            x=short(middle),
            y=short(_TOP + _SIDE + 40),
            text_anchor="middle",
            style="name",
        )
    )
    turned = f"rotate(-90 12 {short(_TOP + _SIDE / 2)})"
    parts.append(
        text(
            "precision",
            x=12,
            y=short(_TOP + _SIDE / 2),
            text_anchor="middle",
            style="name",
            transform=turned,
        )
    )
    return joined(parts)


def _iso(f1: float) -> Markup:
    """Draw the curve of equal F1: precision = F·recall / (2·recall − F)."""
    first = f1 / (2 - f1)
    steps = 40
    recalls = [first + (1 - first) * (step / steps) ** 2 for step in range(steps + 1)]
    places = [" ".join(_place(recall, f1 * recall / (2 * recall - f1))) for recall in recalls]
    x, y = _place(f1, f1)
    label = text(
        f"F1 {number(f1).rstrip('0')}",
        x=x,
        y=short(float(y) + 4),
        text_anchor="middle",
        style="iso",
    )
    return element("path", "iso", d=f"M{'L'.join(places)}") + label


def _dots(records: Iterable[tuple[float, float]]) -> list[Markup]:
    counts = Counter((round(recall, 4), round(precision, 4)) for recall, precision in records)
    if not counts:
        return []
    unit = min(_SMALLEST_DOT, _LARGEST_DOT / math.sqrt(max(counts.values())))
    dots = []
    for (recall, precision), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        x, y = _place(recall, precision)
        told = f"{count} record{'s' * (count != 1)}: precision {number(precision)}, recall {number(recall)}"
        dots.append(
            element(
                "circle", "record-dot", title(told), cx=x, cy=y, r=short(unit * math.sqrt(count))
            )
        )
    return dots


def _cross(point: Point) -> Markup:
    recall, precision = point.recall, point.precision
    parts = []
    if recall["low"] is not None:
        (left, y), (right, _) = (_place(recall[end], precision["value"]) for end in ("low", "high"))
        parts.append(f"M{left} {y}H{right}")
    if precision["low"] is not None:
        (x, bottom), (_, top) = (_place(recall["value"], precision[end]) for end in ("low", "high"))
        parts.append(f"M{x} {bottom}V{top}")
    return (
        element("path", f"cross colour-{point.colour % COLOURS}", d="".join(parts))
        if parts
        else Markup()
    )


def _letter(point: Point) -> Markup:
    x, y = _place(point.recall["value"], point.precision["value"])
    told = f"{point.name}: precision {number(point.precision['value'])}, recall {number(point.recall['value'])}"
    circle = element(
        "circle", f"macro colour-{point.colour % COLOURS}", title(told), cx=x, cy=y, r=9
    )
    return circle + text(
        point.letter, x=x, y=short(float(y) + 4), text_anchor="middle", style="on-macro"
    )


def _floor_mark(position: int, floor: Point) -> Markup:
    x, y = _place(floor.recall["value"], floor.precision["value"])
    return _sign(position, float(x), float(y))


def _sign(position: int, x: float, y: float) -> Markup:
    """Draw one of three hollow signs, so that floors at one place can be told apart."""
    shapes = (
        f"M{short(x)} {short(y - 8)}l8 8l-8 8l-8 -8z",
        f"M{short(x - 5)} {short(y - 5)}h10v10h-10z",
        f"M{short(x)} {short(y - 7)}l7 12h-14z",
    )
    return element("path", "floor-sign", d=shapes[position % len(shapes)])


def _place(recall: float, precision: float) -> tuple[str, str]:
    return short(_LEFT + _SIDE * recall), short(_TOP + _SIDE * (1 - precision))


def _hatching(name: str) -> Markup:
    return Markup(
        '<defs><pattern id="{}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect class="hatch-ground" width="6" height="6"/><rect class="hatch" width="2.5" height="6"/></pattern></defs>'
    ).format(name)


def _scale(lowest: float, highest: float) -> Callable[[float], float]:
    """Return what places a figure on its axis, in [0, 1]."""
    return lambda figure: (min(highest, max(lowest, figure)) - lowest) / (highest - lowest)


def _line(style: str, start: float, end: float) -> Markup:
    return element("line", style, x1=percent(start), x2=percent(end), y1=12, y2=12)


def _tick(at: float) -> Markup:
    return element("line", "tick", x1=percent(at), x2=percent(at), y1=9, y2=15)


def _cap(at: float, style: str = "interval") -> Markup:
    return element("line", style, x1=percent(at), x2=percent(at), y1=8, y2=16)
