"""Charts that only the page of a calibration has: paired shares and reliability diagrams.

Every drawing carries its content as text for who can't see it. Colours come from the style sheet;
the shape of a mark tells the judge from people without colour.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from markupsafe import Markup

from alps.rows import Interval
from alps.show.charts import HeatMap, heat_map, share_label, whisker
from alps.show.formatting import interval, number
from alps.show.svg import (
    Area,
    Axis,
    Ticks,
    centred,
    drawing,
    element,
    frame,
    number_on_axis,
    percent,
    round_numbers,
    short,
    text,
    title,
)

JUDGE, PEOPLE = "judge", "people"
_LONGEST_NAME = 14
_LARGEST_SCALE = 12
_LEFT, _SIDE, _INSET, _RIGHT, _BOTTOM = 48.0, 300.0, 18.0, 12.0, 44.0
_LARGEST_DOT, _SMALLEST_DOT = 16.0, 4.0
# A drawing can't measure its text: a digit is taken to be this wide.
_DIGIT, _STRIP = 6.4, 15.0


def axis_for(estimates: Iterable[Mapping[str, Any]]) -> Axis:
    """Return an axis to 1 that begins at 0, or below where one of the figures does."""
    # Kappa and rank correlations may be negative, rates never are.
    lowest = min((_ends(estimate)[0] for estimate in estimates), default=0.0)
    # In steps of a quarter, whose ticks are round numbers.
    return Axis(math.floor(4 * max(-1.0, min(lowest, 0.0))) / 4)


def axis_around_zero(estimates: Iterable[Mapping[str, Any]]) -> Axis:
    """Return an axis with 0 in its middle that holds every figure."""
    ends = list(chain.from_iterable(map(_ends, estimates)))
    furthest = max(map(abs, ends), default=1.0)
    reach = next((step for step in round_numbers() if step >= furthest), furthest)
    return Axis(-reach, reach)


def interval_dot(
    estimate: Mapping[str, Any],
    *,
    name: str,
    axis: Axis,
    kind: str = JUDGE,
    people: Mapping[str, Any] | None = None,
) -> Markup:
    """Draw a figure with its interval on an axis: a disc for the judge, a diamond for people.

    `people` is what people reach, as a diamond behind it.
    """
    mark = "dot" if kind == JUDGE else "diamond"
    beside = _figure(people) if people is not None else None
    return whisker(_figure(estimate), name=name, axis=axis, style=kind, mark=mark, beside=beside)


def _figure(estimate: Mapping[str, Any]) -> Interval:
    low, high = estimate.get("low"), estimate.get("high")
    return Interval(value=estimate["value"], low=low, high=high)


def twin_bars(people: float, judge: float, *, name: str) -> Markup:
    """Draw two shares, people's over the judge's."""
    description = f"{name}: people {share_label(people)}, judge {share_label(judge)}"
    parts = [element("line", "rail", x1=0, x2=0, y1=0, y2=24)]
    for kind, value, y in ((PEOPLE, people, 3), (JUDGE, judge, 13)):
        width = percent(min(1.0, max(0.0, value)))
        parts.append(element("rect", f"bar {kind}", x=0, y=y, width=width, height=8, rx=1))
    return frame(parts, style="twins", label=description, height=24)


def p_value(p: float) -> str:
    """Return what a p-value is: equal to three decimals, or less than what they can say."""
    return "< .001" if p < 0.001 else f"= {number(p)}"


def confusion_map(values: Sequence[str], counts: Sequence[Sequence[int]]) -> Markup:
    """Draw the confusion matrix: counts and row shares, a row for each label of people."""
    if not any(map(sum, counts)):
        return Markup()
    names = list(map(_clipped, values))
    right = frozenset((n, n) for n in range(len(values)))
    return heat_map(
        HeatMap(names, names, counts, right, down="people", across="judge"),
        label="Number of items by people's label and the judge's label.",
    )


@dataclass(frozen=True)
class Plane:
    """The plane of a reliability diagram: both axes reach from `lowest` to `highest`.

    `across` and `up` are the ticks, as (number, name).
    """

    lowest: float
    highest: float
    across: Ticks
    up: Ticks
    across_name: str
    up_name: str


def plane_of(by: str, values: Sequence[Any], bins: Sequence[Mapping[str, Any]]) -> Plane | None:
    """Return the plane of some bins: of probabilities, of two verdicts, or of the steps of a scale.

    `by` is `probability` or `verdict`; the names of `values` stand one step apart.
    """
    names = list(map(str, values))
    steps = [(tick, number_on_axis(tick)) for tick in Axis().ticks]
    positive = f"share that people call {_clipped(names[-1]) if len(names) == 2 else 'positive'}"
    if by == "probability":
        return Plane(0.0, 1.0, steps, steps, "the judge's probability", positive)
    if len(names) == 2:
        verdicts = list(zip((0.0, 1.0), map(_clipped, names), strict=True))
        return Plane(0.0, 1.0, verdicts, steps, "label by the judge", positive)
    return _plane_of_steps(values, names, bins)


def _plane_of_steps(
    values: Sequence[Any], names: Sequence[str], bins: Sequence[Mapping[str, Any]]
) -> Plane | None:
    numeric = all(isinstance(value, int | float) for value in values)
    places = list(map(float, values if numeric else range(len(values))))
    # A mean may lie beyond every verdict that the judge gave: the plane holds both.
    figures = [*places]
    for one in bins:
        figures += float(one["judge"]), float(one["people"])
    if not figures or min(figures) == max(figures):
        return None
    # A name stands at every step, or at every second, third … where they would touch.
    each = -(-len(names) // _LARGEST_SCALE) or 1
    ticks = list(zip(places, map(_clipped, names), strict=True))[::each]
    across, up = "label by the judge", "mean human label"
    return Plane(min(figures), max(figures), ticks, ticks, across, up)


def reliability_diagram(bins: Sequence[Mapping[str, Any]], plane: Plane) -> Markup:
    """Draw people's labels over the judge's, with the line of equality.

    A bin is `{"judge", "people", "low", "high", "n"}`; the area of its dot is its n.
    """
    if not bins:
        return Markup()
    ordered = sorted(bins, key=lambda one: float(one["judge"]))
    lines = _label_lines(ordered)
    top = 12.0 + _STRIP * len(lines)
    area = Area(_LEFT, top, _SIDE, _SIDE, _INSET)
    axis = Axis(plane.lowest, plane.highest)
    across = [(axis.at(tick), name) for tick, name in plane.across]
    up = [(axis.at(tick), name) for tick, name in plane.up]
    parts = area.grid(across, up, plane.across_name, plane.up_name)
    parts.append(element("path", "equal", d=area.path([(0, 0), (1, 1)])))
    parts += _counts_strip(lines, axis, area)
    most = max(one["n"] for one in ordered) or 1
    # Small dots come last: under large ones they would not be seen.
    for one in sorted(ordered, key=lambda one: -int(one["n"])):
        r = short(max(_SMALLEST_DOT, _LARGEST_DOT * math.sqrt(one["n"] / most)))
        parts += _dot(one, axis, area, r)
    description = "; ".join(map(_bin_description, ordered))
    label = f"{plane.up_name} over {plane.across_name}. {description}"
    width, height = _LEFT + _SIDE + _RIGHT, top + _SIDE + _BOTTOM
    return drawing(parts, style="reliability", label=label, width=width, height=height)


def _dot(one: Mapping[str, Any], axis: Axis, area: Area, r: str) -> list[Markup]:
    across = axis.at(one["judge"])
    x, y = area.at(across, axis.at(one["people"]))
    parts = [element("circle", "spot", title(_bin_description(one)), cx=x, cy=y, r=r)]
    if one["low"] is not None and one["high"] is not None:
        low, high = (area.at(across, axis.at(one[end]))[1] for end in ("low", "high"))
        left, right = short(float(x) - 4), short(float(x) + 4)
        cross = f"M{x} {low}V{high}M{left} {low}H{right}M{left} {high}H{right}"
        parts.append(element("path", "cross", d=cross))
    return [*parts, element("circle", "heart", cx=x, cy=y, r=2.5)]


def _bin_description(one: Mapping[str, Any]) -> str:
    between = "" if one["low"] is None else f" {interval(one)}"
    return f"judge {number(one['judge'])}, people {number(one['people'])}{between}, n {one['n']:,}"


def _label_lines(bins: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Spread the counts over one line above the plane, or two where one is too short.

    Too many are left out.
    """
    for lines in ([list(bins)], [list(bins[::2]), list(bins[1::2])]):
        if max(sum(map(_label_width, line)) for line in lines) <= _SIDE + _RIGHT:
            return lines
    return []


def _label_width(one: Mapping[str, Any]) -> float:
    return _DIGIT * len(f"{one['n']:,}") + 7


def _counts_strip(
    lines: Sequence[Sequence[Mapping[str, Any]]], axis: Axis, area: Area
) -> list[Markup]:
    """Write above each dot how many items it is of; counts that would touch are moved apart."""
    parts = []
    for n, line in enumerate(lines):
        y = area.top - 10 - _STRIP * n
        dots = [float(area.at(axis.at(one["judge"]), 0)[0]) for one in line]
        widths = list(map(_label_width, line))
        for one, dot, x in zip(line, dots, _apart(dots, widths), strict=True):
            leader = f"M{short(x)} {short(y + 3)}L{short(dot)} {short(area.top)}"
            parts.append(element("path", "leader", d=leader))
            parts.append(centred(f"{one['n']:,}", short(x), short(y), "count"))
        if not n:
            parts.append(text("n", x=short(_LEFT - 8), y=short(y), text_anchor="end"))
    return parts


def _apart(dots: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Move labels so that none touches its neighbour, and the last ends with the plane."""
    moved: list[float] = []
    for n, (dot, width) in enumerate(zip(dots, widths, strict=True)):
        lowest = moved[-1] + (widths[n - 1] + width) / 2 if moved else _LEFT + width / 2
        moved.append(max(dot, lowest))
    # Moved apart to the right only, the last ones could leave the drawing.
    limit = _LEFT + _SIDE + _RIGHT
    for n in range(len(moved) - 1, -1, -1):
        moved[n] = min(moved[n], limit - widths[n] / 2)
        limit = moved[n] - widths[n] / 2
    return moved


def _ends(estimate: Mapping[str, Any]) -> tuple[float, float]:
    value = 0.0 if estimate["value"] is None else estimate["value"]
    if estimate["low"] is None:
        return value, value
    return min(value, estimate["low"]), max(value, estimate["high"])


def _clipped(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
