"""Charts of distributions: scores and outcomes of records, and a figure over bins of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from alps.rows import Interval
from alps.show.formatting import interval, number
from alps.show.svg import (
    SHARES,
    Area,
    Axis,
    centred,
    drawing,
    element,
    frame,
    joined,
    number_on_axis,
    percent,
    short,
    text,
    title,
)

_AREA = Area(12.0, 22.0, 416.0, 150.0)
_BINS = 10
_GAP = 2.0
_FEWEST_VALUES = 3
_LABELLED_SHARE = 0.06


def histogram(values: Sequence[float], *, axis: Axis, name: str, style: str) -> Markup:
    """Draw how many records have which score; nothing where scores are 0 or 1 alone.

    The axis is cut into ten bins of one width; `style` is the colour in the style sheet.
    """
    # Of scores that are 0 or 1 the mean says all.
    if len(set(values)) < _FEWEST_VALUES:
        return Markup()
    counts = [0] * _BINS
    for value in values:
        # The best score lies on the last bin's edge, and belongs to it.
        counts[min(_BINS - 1, int(axis.at(value) * _BINS))] += 1
    width, bottom = _AREA.width / _BINS, _AREA.top + _AREA.height
    parts = []
    for n, count in enumerate(counts):
        if not count:
            continue
        height = _AREA.height * count / max(counts)
        left, top = _AREA.left + n * width, bottom - height
        size = {"width": short(width - _GAP), "height": short(height)}
        place = {"x": short(left + _GAP / 2), "y": short(top)}
        parts.append(element("rect", "bar", title(f"{count:,}"), **place, **size))
        parts.append(centred(f"{count:,}", short(left + width / 2), short(top - 6), "count"))
    ends = f"M{short(_AREA.left)} {short(bottom)}H{short(_AREA.left + _AREA.width)}"
    parts.append(element("path", "rail", d=ends))
    for tick in axis.ticks:
        x, _ = _AREA.at(axis.at(tick), 0)
        parts.append(centred(number_on_axis(tick), x, short(bottom + 16)))
    centre = short(_AREA.left + _AREA.width / 2)
    parts.append(centred(f"{name} of a record", centre, short(bottom + 38), "name"))
    label = f"Number of records by {name}, in ten bins: {', '.join(map(str, counts))}."
    extent = {"width": 440.0, "height": bottom + 46}
    return drawing(parts, style=f"curve histogram {style}", label=label, **extent)


_BINNED = Area(46.0, 14.0, 560.0, 230.0)
_APART = 5.0
"""Units between the marks of the two figures of a bin, which would else hide each other."""
_CAP = 3.0


@dataclass(frozen=True)
class Bin:
    """One bin: its label, its raw figure, and the standardised one where there is one."""

    label: str
    raw: Interval
    standardised: Interval | None


def curve_of_bins(bins: Sequence[Bin], *, name: str, style: str) -> Markup:
    """Draw a figure over bins in their order; nothing for fewer than two.

    The standardised figure is filled and joined by a line, the raw one hollow and dashed: shape and
    line tell them apart without colour. Distances between bins mean nothing; `name` is for who
    can't see the drawing.
    """
    if len(bins) < 2:
        return Markup()
    places = [(number_ + 0.5) / len(bins) for number_ in range(len(bins))]
    labels = [(at, one.label) for at, one in zip(places, bins, strict=True)]
    parts = _BINNED.grid(labels, SHARES.labels, "")
    bottom = _BINNED.top + _BINNED.height
    for at, one in zip(places, bins, strict=True):
        x, _ = _BINNED.at(at, 0)
        parts.append(centred(f"n {one.raw.n:,}", x, short(bottom + 34), "count"))
    raw = [one.raw for one in bins]
    parts.append(element("g", "floor-line", joined(_series(places, raw, -_APART, hollow=True))))
    own = [one.standardised for one in bins]
    parts.append(element("g", style, joined(_series(places, own, _APART, hollow=False))))
    told = "; ".join(map(_told, bins))
    extent = {"width": 622.0, "height": bottom + 46}
    return drawing(parts, style="curve bins", label=f"{name}. {told}", **extent)


def _series(
    places: Sequence[float], figures: Sequence[Interval | None], shift: float, *, hollow: bool
) -> Iterator[Markup]:
    """Yield the line through the figures, their whiskers, and a mark at each."""
    points = []
    whiskers, marks = [], []
    for at, figure in zip(places, figures, strict=True):
        if figure is None or figure.value is None:
            continue
        x = float(_BINNED.at(at, 0)[0]) + shift
        y = _BINNED.height_of(figure.value)
        points.append(f"{short(x)} {short(y)}")
        whiskers += _whisker(x, figure)
        shown = title(f"{'raw' if hollow else 'standardised'}: {number(figure.value)}")
        spot = "hollow" if hollow else "spot"
        marks.append(element("circle", spot, shown, cx=short(x), cy=short(y), r=4.5))
    line = {"d": f"M{'L'.join(points)}", "stroke_dasharray": "4 4" if hollow else ""}
    yield element("path", "joining" if hollow else "run-line", **line)
    yield from (*whiskers, *marks)


def _whisker(x: float, figure: Interval) -> list[Markup]:
    if figure.low is None or figure.high is None:
        return []
    low, high = (short(_BINNED.height_of(end)) for end in (figure.low, figure.high))
    caps = ""
    for end in (low, high):
        caps += f"M{short(x - _CAP)} {end}H{short(x + _CAP)}"
    return [element("path", "whisker-line", d=f"M{short(x)} {low}V{high}{caps}")]


def _told(one: Bin) -> str:
    told = f"{one.label}: {number(one.raw.value)} {interval(one.raw)}"
    if one.standardised is not None:
        told += f", standardised {number(one.standardised.value)} {interval(one.standardised)}"
    return f"{told}, n {one.raw.n}"


@dataclass(frozen=True)
class BarPart:
    """A part of a stacked bar: a name, its style in the style sheet, and how many there are."""

    name: str
    style: str
    count: int


def stacked(parts: Sequence[BarPart], *, name: str) -> Markup:
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


def _stacked_part(part: BarPart, start: float, share: float, *, hatching: str) -> Iterator[Markup]:
    extent: dict[str, Any] = {"x": percent(start), "y": 0, "width": percent(share), "height": 28}
    # Hatched, so that what is unknown is told from what failed without colour.
    if part.style == "unscored":
        extent["fill"] = f"url(#{hatching})"
    told = title(f"{part.name}: {part.count}")
    yield element("rect", f"part {part.style}", told, **extent)
    if share >= _LABELLED_SHARE:
        middle = {"x": percent(start + share / 2), "y": 19, "text_anchor": "middle"}
        yield text(f"{part.count:,}", style=part.style, **middle)


def _hatching(name: str) -> Markup:
    return Markup(
        '<defs><pattern id="{}" width="6" height="6" patternUnits="userSpaceOnUse"'
        ' patternTransform="rotate(45)"><rect class="hatch-ground" width="6" height="6"/>'
        '<rect class="hatch" width="2.5" height="6"/></pattern></defs>'
    ).format(name)
