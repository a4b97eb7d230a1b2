"""SVG elements, axes and areas: what every chart is drawn from.

Numbers are written with two decimals at most: the same on every machine. Colours come from the
style sheet; shape, pattern and letters tell the same without colour.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup, escape

_ISO_STEPS = 40
_MOST_STEPS = 7
_PLAIN = re.compile(r"[\w .%-]*", re.ASCII).fullmatch


# SVG by hand: a drawing library would bring fonts, or scripts that run when the page is read.


def frame(parts: Iterable[Markup], *, style: str, label: str, height: int) -> Markup:
    """Return a chart `height` pixels high; screen readers skip one without a `label`."""
    said = Markup('role="img" aria-label="{}"').format(label) if label else 'aria-hidden="true"'
    opening = Markup('<svg class="{}" width="100%" height="{}" {}>')
    return Markup(f"{opening.format(style, height, Markup(said))}{joined(parts)}</svg>")


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
    # A site draws a hundred thousand elements: joined once, not formatted attribute by attribute.
    written = [f"<{tag}"]
    for name, value in {"class": style, **attributes}.items():
        # A zero stays: it is a coordinate.
        if value != "":
            # Nearly all are lengths and names of classes, and `escape` takes longer than the rest.
            said = value if _PLAIN(str(value)) else escape(value)
            written.append(f' {name.replace("_", "-")}="{said}"')
    written.append(f">{escape(content)}</{tag}>" if content else "/>")
    return Markup("".join(written))


def title(content: str) -> Markup:
    """Return the text that a browser shows when an element is pointed at."""
    return Markup("<title>{}</title>").format(content)


def joined(parts: Iterable[Markup]) -> Markup:
    """Join markup."""
    return Markup("".join(parts))


def percent(share: float) -> str:
    """Return a share as a length."""
    return f"{short(100 * share)}%"


def short(value: float) -> str:
    """Return a number with two decimals at most: the same on every machine."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def level(style: str, start: float, end: float) -> Markup:
    """Return a horizontal line in the middle of a chart that is laid out in percent."""
    return element("line", style, x1=percent(start), x2=percent(end), y1=12, y2=12)


def upright(style: str, at: float, top: int, bottom: int) -> Markup:
    """Return a vertical line of a chart that is laid out in percent."""
    return element("line", style, x1=percent(at), x2=percent(at), y1=top, y2=bottom)


def centred(content: str, x: object, y: object, style: str = "") -> Markup:
    """Return a text around a point."""
    return text(content, x=x, y=y, text_anchor="middle", style=style)


def number_on_axis(value: float) -> str:
    """Return the label of a tick: short, without a leading zero."""
    label = f"{value:g}"
    return label.replace("0.", ".", 1) if label.lstrip("-").startswith("0.") else label


@dataclass(frozen=True)
class Axis:
    """A range of numbers that marks are placed on."""

    lowest: float = 0.0
    highest: float = 1.0

    def at(self, value: float) -> float:
        """Return the position of a value, from 0 to 1; values beyond an end get that end."""
        inside = min(self.highest, max(self.lowest, value))
        # Of the halves, as the difference of two numbers can be larger than any number.
        return (inside / 2 - self.lowest / 2) / (self.highest / 2 - self.lowest / 2)

    def holds(self, value: float | None) -> bool:
        """Tell whether there is a value and the axis contains it."""
        return value is not None and self.lowest <= value <= self.highest

    @property
    def ticks(self) -> list[float]:
        """The numbers that are marked on it."""
        step = self.highest
        for step in round_numbers():
            if self.highest / step - self.lowest / step <= _MOST_STEPS:
                break
        # A tick at an end is one, though the division may fall a last digit short of it.
        first = math.ceil(self.lowest / step - 1e-9)
        last = math.floor(self.highest / step + 1e-9)
        return [step * n for n in range(first, last + 1)]

    @property
    def labels(self) -> "Ticks":
        """The numbers that are marked on it, as they are written there."""
        return [(tick, number_on_axis(tick)) for tick in self.ticks]


SHARES = Axis()


def round_numbers() -> Iterator[float]:
    """Yield round numbers, each larger than the one before."""
    for power in range(-3, 308):
        for factor in (1, 2.5, 5):
            yield 10.0**power * factor


@lru_cache(maxsize=64)
def rail(axis: Axis) -> Markup:
    """Return the line of an axis with its ticks, which marks are drawn over."""
    # Cached above: a page of boards draws the same few axes in every row.
    ticks = [upright("tick", axis.at(tick), 9, 15) for tick in axis.ticks]
    return joined([level("rail", 0, 1), *ticks])


@lru_cache(maxsize=64)
def axis_labels(axis: Axis) -> Markup:
    """Draw the numbers of an axis; those between its ends and its middle are minor."""
    ticks = axis.ticks
    major = {0, len(ticks) - 1}
    if len(ticks) % 2:
        major.add(len(ticks) // 2)
    labels = []
    for n, tick in enumerate(ticks):
        style = "" if n in major or tick == 0 else "minor"
        labels.append(centred(number_on_axis(tick), percent(axis.at(tick)), 12, style))
    ends = f"axis from {number_on_axis(axis.lowest)} to {number_on_axis(axis.highest)}"
    return frame(labels, style="axis", label=ends, height=16)


Ticks = Sequence[tuple[float, str]]
"""Where the labels of an axis stand, from 0 to 1, and what they say."""


@dataclass(frozen=True)
class Area:
    """The rectangle of a chart; places in it reach from 0 to 1, `inset` units from every side."""

    left: float
    top: float
    width: float
    height: float
    inset: float = 0.0

    def at(self, across: float, up: float) -> tuple[str, str]:
        """Return the coordinates of a point; a height beyond the axis is drawn at its end."""
        x = self.left + self.inset + (self.width - 2 * self.inset) * across
        return short(x), short(self.height_of(up))

    def height_of(self, up: float) -> float:
        """Return the vertical coordinate of a height."""
        reach = self.height - 2 * self.inset
        return self.top + self.inset + reach * (1 - min(1.0, max(0.0, up)))

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

    def grid(self, across: Ticks, up: Ticks, across_name: str, up_name: str = "") -> list[Markup]:
        """Return the ground with a line and a label at every tick, and the names of the axes."""
        left, top, right = short(self.left), short(self.top), short(self.left + self.width)
        bottom, middle = self.top + self.height, short(self.top + self.height / 2)
        size = {"width": short(self.width), "height": short(self.height)}
        parts = [element("rect", "ground", x=left, y=top, **size)]
        for share, label in across:
            x, _ = self.at(share, 0)
            parts.append(element("path", "grid", d=f"M{x} {top}V{short(bottom)}"))
            parts.append(centred(label, x, short(bottom + 18)))
        for share, label in up:
            _, y = self.at(0, share)
            parts.append(element("path", "grid", d=f"M{left} {y}H{right}"))
            beside = {"x": short(self.left - 9), "y": short(float(y) + 4), "text_anchor": "end"}
            parts.append(text(label, **beside))
        centre = short(self.left + self.width / 2)
        parts.append(centred(across_name, centre, short(bottom + 40), "name"))
        if up_name:
            parts.append(upward_name(up_name, middle))
        return parts


def upward_name(content: str, y: str) -> Markup:
    """Return the name of a vertical axis."""
    turned = f"rotate(-90 12 {y})"
    return text(content, x=12, y=y, text_anchor="middle", style="name", transform=turned)


def apart(
    places: Sequence[float], gap: float, lowest: float, highest: float
) -> Iterator[tuple[int, float]]:
    """Yield where labels of lines that end at `places` go, moved apart, from `lowest` upwards.

    Heights count downwards, so `highest` is the smaller one. Where not all fit, they are closer.
    """
    gap = min(gap, (lowest - highest) / max(len(places) - 1, 1))
    order = sorted(range(len(places)), key=lambda line: -places[line])
    height = lowest + gap
    for above, line in zip(reversed(range(len(order))), order, strict=True):
        # As many labels as are above this one need their room, too.
        height = min(height - gap, max(places[line], highest + gap * above))
        yield line, height
