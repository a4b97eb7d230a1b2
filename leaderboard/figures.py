"""SVG of the site, drawn on the server: whiskers, recall over pool sizes, the precision–recall
plane.

No figure holds a number of its own beside its axis: what it shows stands in a table on the same
page, with its origin.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from alps.leaderboard.provenance import Place
from alps.report.svg import drawing, element, joined, percent, short, text, title

COLOURED = 6
"""How many systems a figure tells apart by colour; the others are drawn in grey."""
ISO_F1 = (0.2, 0.4, 0.6, 0.8)
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_APART = 14.0
_LEFT, _TOP, _WIDE, _HIGH = 44.0, 12.0, 560.0, 280.0
_SIDE = 380.0


def letter_of(position: int) -> str:
    """Return the mark of the system at `position` of a legend: a letter, as a number would look
    like a rank.
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
        text(_tick(lowest + share * (highest - lowest)), x=percent(share), y=10, text_anchor=anchor)
        for share, anchor in places
    ]
    return Markup('<svg class="axis" aria-hidden="true">{}</svg>').format(joined(ends))


def recall_curve(lines: Sequence[Line], *, name: str) -> Markup:
    """Draw recall over the size of the pool from 0 on, with intervals as bands around the systems
    in colour.

    Args:
        lines: Systems, the best first; then floors and what is reported. Fewer than two sizes give
            no figure.
        name: What is drawn, for who can't see it.
    """
    sizes = sorted({size for line in lines for size, _ in line.points})
    if len(sizes) < 2:
        return Markup()
    largest = sizes[-1]
    parts = [
        *_grid(_WIDE, _HIGH, [(size / largest, f"{size:,}") for size in (0, *sizes)], "distractors")
    ]
    coloured = [line for line in lines if line.mark]
    parts += [_drawn(line, "", largest) for line in reversed(lines) if not line.mark]
    for n, line in enumerate(coloured):
        dots = [
            _dot(" ".join(_spot(size / largest, score["value"].value)), f" s{n}")
            for size, score in line.points
        ]
        parts.append(
            element(
                "g", "", joined([_band(line, n, largest), _drawn(line, f" s{n}", largest), *dots])
            )
        )
    parts += _marks(coloured)
    return drawing(
        parts, style="curve", label=name, width=_LEFT + _WIDE + 34, height=_TOP + _HIGH + 52
    )


def _drawn(line: Line, colour: str, largest: int) -> Markup:
    places = [" ".join(_spot(size / largest, score["value"].value)) for size, score in line.points]
    return element("path", f"{line.style}{colour}", title(line.name), d=f"M{'L'.join(places)}")


def _band(line: Line, colour: int, largest: int) -> Markup:
    held = [
        (size / largest, score) for size, score in line.points if score["low"] and score["high"]
    ]
    if len(held) < 2:
        return Markup()
    upper = [" ".join(_spot(share, score["high"].value)) for share, score in held]
    lower = [" ".join(_spot(share, score["low"].value)) for share, score in reversed(held)]
    return element("path", f"band s{colour}", d=f"M{'L'.join((*upper, *lower))}Z")


def _dot(place: str, colour: str) -> Markup:
    x, y = place.split()
    return element("circle", f"dot{colour}", cx=x, cy=y, r=4)


def _marks(lines: Sequence[Line]) -> Iterator[Markup]:
    """Name each line at its end; marks that would lie on each other are moved apart."""
    lowest = _TOP + _HIGH + _APART
    ends = sorted(
        ((line.points[-1][1]["value"].value, n) for n, line in enumerate(lines)),
        key=lambda end: end,
    )
    for value, n in ends:
        lowest = min(lowest - _APART, _TOP + _HIGH * (1 - value))
        where = {"x": short(_LEFT + _WIDE + 12), "y": short(lowest + 4)}
        yield text(lines[n].mark, style=f"mark s{n}", **where)


def plane(points: Sequence[Point], *, name: str) -> Markup:
    """Draw the precision–recall plane with curves of equal F1.

    Systems in colour carry their mark and intervals.
    """
    if not points:
        return Markup()
    ticks = [(tick, _tick(tick)) for tick in _TICKS]
    parts = [*_grid(_SIDE, _SIDE, ticks, "recall", upright=True), *(_iso(f1) for f1 in ISO_F1)]
    coloured = [point for point in points if point.mark]
    for point in reversed(points):
        colour = f" s{coloured.index(point)}" if point.mark else ""
        parts += _cross(point, colour) if point.mark else ()
        x, y = _spot(point.recall["value"].value, point.precision["value"].value, _SIDE, _SIDE)
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
    return drawing(
        parts, style="plane", label=name, width=_LEFT + _SIDE + 14, height=_TOP + _SIDE + 52
    )


def _cross(point: Point, colour: str) -> Iterator[Markup]:
    recall, precision = point.recall["value"].value, point.precision["value"].value
    across = [(end, precision) for end in (point.recall["low"].value, point.recall["high"].value)]
    upright = [
        (recall, end) for end in (point.precision["low"].value, point.precision["high"].value)
    ]
    for ends in (across, upright):
        if None not in (*ends[0], *ends[1]):
            (x1, y1), (x2, y2) = (_spot(*end, _SIDE, _SIDE) for end in ends)
            yield element("line", f"cross{colour}", x1=x1, y1=y1, x2=x2, y2=y2)


def _iso(f1: float) -> Markup:
    """Draw the curve of equal F1: precision = F·recall / (2·recall − F)."""
    first, steps = f1 / (2 - f1), 40
    recalls = [first + (1 - first) * (step / steps) ** 2 for step in range(steps + 1)]
    places = [
        " ".join(_spot(recall, f1 * recall / (2 * recall - f1), _SIDE, _SIDE)) for recall in recalls
    ]
    x, y = _spot(1, f1 / (2 - f1), _SIDE, _SIDE)
    label = text(
        f"F1 {_tick(f1)}",
        style="iso",
        x=short(float(x) - 4),
        y=short(float(y) - 4),
        text_anchor="end",
    )
    return element("path", "iso", d=f"M{'L'.join(places)}") + label


def _grid(
    wide: float,
    high: float,
    across: Iterable[tuple[float, str]],
    name: str,
    *,
    upright: bool = False,
) -> Iterator[Markup]:
    bottom = short(_TOP + high)
    for tick in _TICKS:
        _, y = _spot(0, tick, wide, high)
        yield element(
            "path", "grid" if tick else "ground", d=f"M{short(_LEFT)} {y}H{short(_LEFT + wide)}"
        )
        yield text(_tick(tick), x=short(_LEFT - 8), y=short(float(y) + 4), text_anchor="end")
    for share, said in across:
        x, _ = _spot(share, 0, wide, high)
        if upright:
            yield element("path", "grid" if share else "ground", d=f"M{x} {short(_TOP)}V{bottom}")
        yield text(said, x=x, y=short(_TOP + high + 18), text_anchor="middle")
    yield text(
        name,
        style="name",
        x=short(_LEFT + wide / 2),
        y=short(_TOP + high + 40),
        text_anchor="middle",
    )
    if upright:
        turned = f"rotate(-90 10 {short(_TOP + high / 2)})"
        yield text(
            "precision",
            style="name",
            x=10,
            y=short(_TOP + high / 2),
            text_anchor="middle",
            transform=turned,
        )


def _tick(value: float) -> str:
    said = f"{value:g}"
    return said.lstrip("0") if said.startswith("0.") else said


def _spot(across: float, up: float, wide: float = _WIDE, high: float = _HIGH) -> tuple[str, str]:
    return short(_LEFT + wide * across), short(_TOP + high * (1 - min(1.0, max(0.0, up))))
