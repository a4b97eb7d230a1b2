"""Inline SVG for the page of a calibration: intervals, shares, confusion and reliability.

Every drawing carries its content as text for who can't see it. Colours come from the style sheet;
the shape of a mark tells the judge from people without colour.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from markupsafe import Markup

from alps.report.charts import element, joined, percent, short, text, title
from alps.report.formatting import interval, number

JUDGE, PEOPLE = "judge", "people"
LARGEST_WITH_TEXT = 12
_LONGEST_NAME, _LETTER = 14, 6.9
_DEEPEST = 0.5
_WIDEST_CELLS = {2: 112.0, 3: 80.0, 4: 64.0, 5: 56.0}
_LEFT, _SIDE, _INSET, _RIGHT, _BOTTOM = 48.0, 300.0, 18.0, 12.0, 44.0
_LARGEST_DOT, _SMALLEST_DOT = 16.0, 4.0
_DIGIT, _STRIP = 6.4, 15.0


@dataclass(frozen=True)
class Axis:
    """A range of numbers that dots are placed on."""

    lowest: float = 0.0
    highest: float = 1.0

    def at(self, figure: float) -> float:
        """Return where a figure lies, from 0 to 1; what is beyond an end is drawn at it."""
        inside = min(self.highest, max(self.lowest, figure))
        # Of the halves, as the difference of two numbers can be larger than any number.
        return (inside / 2 - self.lowest / 2) / (self.highest / 2 - self.lowest / 2)

    @property
    def ticks(self) -> list[float]:
        """The numbers that are marked on it."""
        fitting = (step for step in _steps() if self.highest / step - self.lowest / step <= 7)
        step = next(fitting, self.highest)
        first = math.ceil(self.lowest / step - 1e-9)
        last = math.floor(self.highest / step + 1e-9)
        return [step * n for n in range(first, last + 1)]


def axis_for(estimates: Iterable[Mapping[str, Any]]) -> Axis:
    """Return an axis to 1 that begins at 0, or below where one of the figures does."""
    lowest = min((_ends(estimate)[0] for estimate in estimates), default=0.0)
    return Axis(next((start for start in (0.0, -0.25, -0.5, -0.75) if lowest >= start), -1.0))


def axis_around_zero(estimates: Iterable[Mapping[str, Any]]) -> Axis:
    """Return an axis with 0 in its middle that holds every figure."""
    furthest = max((abs(end) for estimate in estimates for end in _ends(estimate)), default=1.0)
    reach = next((step for step in _steps() if step >= furthest), furthest)
    return Axis(-reach, reach)


def axis_labels(axis: Axis) -> Markup:
    """Draw the numbers of an axis."""
    ticks = axis.ticks
    major = {0, len(ticks) - 1}
    if len(ticks) % 2:
        major.add(len(ticks) // 2)
    labels = [title(f"axis from {number_on_axis(axis.lowest)} to {number_on_axis(axis.highest)}")]
    for n, tick in enumerate(ticks):
        style = "" if n in major or tick == 0 else "minor"
        labels.append(_centred(number_on_axis(tick), percent(axis.at(tick)), 12, style))
    return _strip(labels, "axis", 16)


def number_on_axis(figure: float) -> str:
    """Return a number as it stands at a tick: short, without a leading zero."""
    text = f"{figure:g}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def interval_dot(
    estimate: Mapping[str, Any],
    *,
    name: str,
    axis: Axis,
    kind: str = JUDGE,
    people: Mapping[str, Any] | None = None,
) -> Markup:
    """Draw a figure with its interval on an axis: a disc for the judge, a diamond for people.

    Args:
        estimate: The figure; one that lies beyond the axis gives no drawing.
        name: What it is, for who can't see it.
        axis: Where it lies.
        kind: `judge` or `people`.
        people: What people reach, as a diamond behind it.
    """
    value = estimate["value"]
    if value is None or not axis.lowest <= value <= axis.highest:
        return Markup()
    description = f"{name}: {number(value)}"
    drawn = [_rail(axis)]
    if estimate["low"] is not None:
        description += f", 95 % interval {interval(estimate)}"
        low, high = axis.at(estimate["low"]), axis.at(estimate["high"])
        drawn.append(element("line", "interval", x1=percent(low), x2=percent(high), y1=12, y2=12))
        drawn += [_upright("interval", end, 8, 16) for end in (low, high)]
    if people is not None:
        description += f"; people {number(people['value'])}"
        drawn.append(_mark(PEOPLE, axis.at(people["value"]), "beside"))
    return _strip([title(description), *drawn, _mark(kind, axis.at(value))], f"whisker {kind}", 24)


def twin_bars(people: float, judge: float, *, name: str) -> Markup:
    """Draw two shares, people's over the judge's."""
    description = f"{name}: people {share(people)}, judge {share(judge)}"
    parts = [title(description), element("line", "rail", x1=0, x2=0, y1=0, y2=24)]
    for kind, value, y in ((PEOPLE, people, 3), (JUDGE, judge, 13)):
        width = percent(min(1.0, max(0.0, value)))
        parts.append(element("rect", f"bar {kind}", x=0, y=y, width=width, height=8, rx=1))
    return _strip(parts, "twins", 24)


def share(part: float) -> str:
    """Return a share in whole percent; <1 % and >99 % are what only rounds to none or all."""
    if 0 < part < 0.005:
        return "<1 %"
    if 0.995 <= part < 1:
        return ">99 %"
    return f"{100 * part:.0f} %"


def p_value(p: float) -> str:
    """Return what a p-value is: equal to three decimals, or less than what they can say."""
    return "< .001" if p < 0.001 else f"= {number(p)}"


def confusion_map(values: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup:
    """Draw the confusion matrix: counts and row shares, shaded by the share.

    Args:
        values: The labels of the scale, in order.
        counts: Shape (values, values): rows are people's labels, columns the judge's.
    """
    size = len(values)
    if not any(map(sum, counts)):
        return Markup()
    cell = _WIDEST_CELLS.get(size, 46.0) if size <= LARGEST_WITH_TEXT else 480.0 / size
    names = [_clipped(value) for value in values]
    longest = _LETTER * max(map(len, names))
    turned = longest > cell - 6
    left, head = 34.0 + longest, 26.0 + (0.64 * longest + 14 if turned else 20.0)
    totals = 14 + 6.6 * len(f"of {max(map(sum, counts)):,}")
    high = 66.0 if size == 2 else min(cell, 56.0)
    parts = [
        title(_confusion_description(values, counts)),
        _centred("the judge says", short(left + cell * size / 2), 12, "name"),
        _upwards("people say", 12, short(head + high * size / 2)),
    ]
    for n, name in enumerate(names):
        x, y = short(left + cell * (n + 0.5)), short(head - 9)
        how = {"transform": f"rotate(-40 {x} {y})"} if turned else {"text_anchor": "middle"}
        parts.append(text(name, x=x, y=y, **how))
        parts.append(
            text(name, x=short(left - 10), y=short(head + high * (n + 0.5) + 4), text_anchor="end")
        )
    for row in range(size):
        corner = (left, head + high * row)
        parts += _confusion_row(row, values, counts[row], corner, (cell, high))
    width = left + cell * size + max(totals, 0.7 * longest - cell / 2 if turned else 0)
    # As many pixels as units at most: a table of four cells need not be a poster.
    drawn = _drawing(parts, "matrix", width, head + high * size + 4)
    return Markup('<div style="max-width:{}px">{}</div>').format(short(width * 1.1), drawn)


def _confusion_row(
    row: int,
    values: Sequence[str],
    counts: Sequence[int],
    corner: tuple[float, float],
    cell: tuple[float, float],
) -> list[Markup]:
    total, (x, y), (wide, high) = sum(counts), corner, cell
    with_text = len(values) <= LARGEST_WITH_TEXT
    gap = 1.5 if with_text else 0.5
    parts = []
    for column, count in enumerate(counts):
        part, left = count / total if total else 0.0, x + wide * column
        box = {"x": short(left + gap), "y": short(y + gap), "width": short(wide - 2 * gap)}
        box |= {"height": short(high - 2 * gap), "rx": "3"}
        label = title(f"people {values[row]}, judge {values[column]}: {count:,} of {total:,}")
        style = "cell right" if row == column else "cell"
        shade = f"{_DEEPEST * part:.3f}"
        parts.append(element("rect", "cell-ground", **box))
        parts.append(element("rect", style, label, **box, fill_opacity=shade))
        if with_text:
            parts += _cell_text(count, part, short(left + wide / 2), y + high / 2)
    end, middle = short(x + wide * len(values) + 8), short(y + high / 2 + 4)
    parts.append(text(f"of {total:,}", style="total", x=end, y=middle))
    return parts


def _cell_text(count: int, part: float, x: str, middle: float) -> list[Markup]:
    place = {"x": x, "text_anchor": "middle"}
    if not count:
        return [text("0", style="none", y=short(middle + 4), **place)]
    return [
        text(f"{count:,}", style="count", y=short(middle - 1), **place),
        text(share(part), style="share", y=short(middle + 13), **place),
    ]


def _confusion_description(values: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    cells = []
    for row, line in enumerate(counts):
        for column, count in enumerate(line):
            if count:
                of_row = f"{count:,} of {sum(line):,} ({share(count / sum(line))})"
                cells.append(f"people {values[row]} and judge {values[column]}: {of_row}")
    return f"What the judge says against what people say. {'; '.join(cells)}"


@dataclass(frozen=True)
class Plane:
    """The plane of a reliability diagram: both axes reach from `lowest` to `highest`.

    `across` and `up` are the ticks, as (place, name).
    """

    lowest: float
    highest: float
    across: Sequence[tuple[float, str]]
    up: Sequence[tuple[float, str]]
    across_name: str
    up_name: str


def plane_of(by: str, values: Sequence[Any], bins: Sequence[Mapping[str, Any]]) -> Plane | None:
    """Return the plane of some bins: of probabilities, of two verdicts, or of the steps of a scale.

    Args:
        by: `probability` or `verdict`.
        values: The labels of the scale, in order; names stand one step apart.
        bins: What shall fit into it.
    """
    names = [str(value) for value in values]
    steps = [(tick, number_on_axis(tick)) for tick in Axis().ticks]
    positive = f"share that people call {_clipped(names[-1]) if len(names) == 2 else 'positive'}"
    if by == "probability":
        return Plane(0.0, 1.0, steps, steps, "the judge's probability", positive)
    if len(names) == 2:
        verdicts = list(zip((0.0, 1.0), map(_clipped, names), strict=True))
        return Plane(0.0, 1.0, verdicts, steps, "what the judge says", positive)
    numeric = all(isinstance(value, int | float) for value in values)
    places = [float(value if numeric else n) for n, value in enumerate(values)]
    figures = [*places]
    for one in bins:
        figures += float(one["judge"]), float(one["people"])
    if not figures or min(figures) == max(figures):
        return None
    each = -(-len(names) // LARGEST_WITH_TEXT) or 1
    ticks = list(zip(places, map(_clipped, names), strict=True))[::each]
    across, up = "what the judge says", "what people say on average"
    return Plane(min(figures), max(figures), ticks, ticks, across, up)


def reliability_diagram(bins: Sequence[Mapping[str, Any]], plane: Plane) -> Markup:
    """Draw what people say of items over what the judge says, with the line of equality.

    Args:
        bins: `{"judge", "people", "low", "high", "n"}` each; the area of a dot is its n.
        plane: The axes.
    """
    if not bins:
        return Markup()
    ordered = sorted(bins, key=lambda one: float(one["judge"]))
    lines = _label_lines(ordered)
    top = 12.0 + _STRIP * len(lines)
    description = "; ".join(map(_bin_description, ordered))
    label = f"{plane.up_name} over {plane.across_name}. {description}"
    parts = [title(label), *_plane_grid(plane, top), *_counts_strip(lines, plane, top)]
    most = max(one["n"] for one in ordered) or 1
    for one in sorted(ordered, key=lambda one: -int(one["n"])):
        r = short(max(_SMALLEST_DOT, _LARGEST_DOT * math.sqrt(one["n"] / most)))
        parts += _dot(one, plane, top, r)
    return _drawing(parts, "reliability", _LEFT + _SIDE + _RIGHT, top + _SIDE + _BOTTOM)


def _dot(one: Mapping[str, Any], plane: Plane, top: float, r: str) -> list[Markup]:
    x, y = _place(plane, top, one["judge"], one["people"])
    parts = [element("circle", "spot", title(_bin_description(one)), cx=x, cy=y, r=r)]
    if one["low"] is not None and one["high"] is not None:
        low, high = (_place(plane, top, one["judge"], one[end])[1] for end in ("low", "high"))
        left, right = short(float(x) - 4), short(float(x) + 4)
        cross = f"M{x} {low}V{high}M{left} {low}H{right}M{left} {high}H{right}"
        parts.append(element("path", "cross", d=cross))
    return [*parts, element("circle", "heart", cx=x, cy=y, r=2.5)]


def _bin_description(one: Mapping[str, Any]) -> str:
    between = "" if one["low"] is None else f" {interval(one)}"
    return f"judge {number(one['judge'])}, people {number(one['people'])}{between}, n {one['n']:,}"


def _plane_grid(plane: Plane, top: float) -> list[Markup]:
    side, left, right = short(_SIDE), short(_LEFT), short(_LEFT + _SIDE)
    parts = [element("rect", "ground", x=left, y=short(top), width=side, height=side)]
    for tick, name in plane.across:
        x, _ = _place(plane, top, tick, plane.lowest)
        parts.append(element("path", "grid", d=f"M{x} {short(top)}V{short(top + _SIDE)}"))
        parts.append(_centred(name, x, short(top + _SIDE + 17)))
    for tick, name in plane.up:
        _, y = _place(plane, top, plane.lowest, tick)
        parts.append(element("path", "grid", d=f"M{left} {y}H{right}"))
        parts.append(text(name, x=short(_LEFT - 8), y=short(float(y) + 4), text_anchor="end"))
    first, last = (_place(plane, top, end, end) for end in (plane.lowest, plane.highest))
    parts.append(element("path", "equal", d=f"M{' '.join(first)}L{' '.join(last)}"))
    under = short(top + _SIDE + 38)
    parts.append(_centred(plane.across_name, short(_LEFT + _SIDE / 2), under, "name"))
    parts.append(_upwards(plane.up_name, 11, short(top + _SIDE / 2)))
    return parts


def _centred(content: str, x: str, y: object, style: str = "") -> Markup:
    return text(content, x=x, y=y, text_anchor="middle", style=style)


def _upwards(content: str, x: int, y: str) -> Markup:
    """Return the name of a vertical axis."""
    turned = f"rotate(-90 {x} {y})"
    return text(content, x=x, y=y, text_anchor="middle", style="name", transform=turned)


def _label_lines(bins: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Spread the counts over one line above the plane, or two where one is too short.

    Too many are left out.
    """
    for lines in ([list(bins)], [list(bins[::2]), list(bins[1::2])]):
        if all(sum(_label_width(one) for one in line) <= _SIDE + _RIGHT for line in lines):
            return lines
    return []


def _label_width(one: Mapping[str, Any]) -> float:
    return _DIGIT * len(f"{one['n']:,}") + 7


def _counts_strip(
    lines: Sequence[Sequence[Mapping[str, Any]]], plane: Plane, top: float
) -> list[Markup]:
    """Write above each dot how many items it is of; counts that would touch are moved apart."""
    parts = []
    for n, line in enumerate(lines):
        y = top - 10 - _STRIP * n
        dots = [float(_place(plane, top, one["judge"], plane.lowest)[0]) for one in line]
        widths = [_label_width(one) for one in line]
        for one, dot, x in zip(line, dots, _apart(dots, widths), strict=True):
            leader = f"M{short(x)} {short(y + 3)}L{short(dot)} {short(top)}"
            parts.append(element("path", "leader", d=leader))
            parts.append(_centred(f"{one['n']:,}", short(x), short(y), "count"))
        if not n:
            parts.append(text("n", x=short(_LEFT - 8), y=short(y), text_anchor="end"))
    return parts


def _apart(dots: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Move labels so that none touches its neighbour, and the last ends with the plane."""
    moved: list[float] = []
    for n, (dot, width) in enumerate(zip(dots, widths, strict=True)):
        lowest = moved[-1] + (widths[n - 1] + width) / 2 if moved else _LEFT + width / 2
        moved.append(max(dot, lowest))
    limit = _LEFT + _SIDE + _RIGHT
    for n in range(len(moved) - 1, -1, -1):
        moved[n] = min(moved[n], limit - widths[n] / 2)
        limit = moved[n] - widths[n] / 2
    return moved


def _place(plane: Plane, top: float, across: float, up: float) -> tuple[str, str]:
    axis, reach = Axis(plane.lowest, plane.highest), _SIDE - 2 * _INSET
    x, y = _LEFT + _INSET + reach * axis.at(across), top + _SIDE - _INSET - reach * axis.at(up)
    return short(x), short(y)


def _ends(estimate: Mapping[str, Any]) -> tuple[float, float]:
    value = 0.0 if estimate["value"] is None else estimate["value"]
    if estimate["low"] is None:
        return value, value
    return min(value, estimate["low"]), max(value, estimate["high"])


def _steps() -> Iterable[float]:
    """Yield round numbers, each larger than the one before."""
    for power in range(-3, 308):
        for factor in (1, 2.5, 5):
            yield 10.0**power * factor


@lru_cache(maxsize=64)
def _rail(axis: Axis) -> Markup:
    ticks = [_upright("tick", axis.at(tick), 9, 15) for tick in axis.ticks]
    return joined([element("line", "rail", x1="0%", x2="100%", y1=12, y2=12), *ticks])


def _upright(style: str, at: float, top: float, bottom: float) -> Markup:
    return element("line", style, x1=percent(at), x2=percent(at), y1=short(top), y2=short(bottom))


def _mark(kind: str, at: float, style: str = "dot") -> Markup:
    if kind == JUDGE:
        return element("circle", style, cx=percent(at), cy=12, r=4.5)
    # The style sheet turns the square, and moves its middle to where it belongs.
    return element("rect", style, x=percent(at), y=8, width=8, height=8)


def _clipped(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _strip(parts: Iterable[Markup], style: str, height: int) -> Markup:
    """Put `parts`, the first of them a title, into a drawing as wide as its place."""
    opening = Markup('<svg class="{}" width="100%" height="{}" role="img">').format(style, height)
    return opening + joined(parts) + Markup("</svg>")


def _drawing(parts: Iterable[Markup], style: str, width: float, height: float) -> Markup:
    """Put `parts`, the first of them a title, into a drawing that is scaled to its place."""
    opening = Markup('<svg class="{}" viewBox="0 0 {} {}" role="img">')
    opening = opening.format(style, short(width), short(height))
    return opening + joined(parts) + Markup("</svg>")
