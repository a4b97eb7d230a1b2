"""Curves over sizes in which every line is named at its end, for wide pages and for narrow ones.

Both drawings are in the page, and the style sheet shows the one that fits: a line's mark stands
next to its last point, with its name where there is room, and a legend names all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from alps.rows import Figure
from alps.show.formatting import interval, letter_of, number
from alps.show.svg import SHARES, Area, apart, drawing, element, short, text, title

# Units between two names, and those that a name is away from the end of its line.
_APART, _AWAY = 15.0, 16.0


@dataclass(frozen=True)
class NamedLine:
    """Scores over sizes; `style` is its colour, or `floor` or `reported`."""

    name: str
    style: str
    points: Sequence[tuple[int, Figure]]

    @property
    def coloured(self) -> bool:
        """Whether it is a system's of its own colour."""
        return self.style not in ("floor", "reported")


@dataclass(frozen=True)
class _Form:
    """One of the drawings: its class, the ground, its width, and whether names are written out."""

    style: str
    area: Area
    width: float
    named: bool


_FORMS = (
    _Form("lines wide", Area(40.0, 30.0, 560.0, 320.0), 880.0, True),
    _Form("lines narrow", Area(32.0, 30.0, 276.0, 320.0), 352.0, False),
)


def named_lines(lines: Sequence[NamedLine], *, name: str) -> Markup:
    """Draw scores over the size of the pool from zero on, wide and narrow.

    Args:
        lines: What is drawn. Fewer than two sizes give no chart.
        name: What is drawn, for who can't see it.
    """
    sizes = sorted({size for line in lines for size, _ in line.points})
    if len(sizes) < 2:
        return Markup()
    drawn = [_drawn(form, lines, sizes, name) for form in _FORMS]
    return Markup("").join(drawn)


def _drawn(form: _Form, lines: Sequence[NamedLine], sizes: Sequence[int], name: str) -> Markup:
    largest, area = sizes[-1], form.area
    # On a narrow page the numbers of neighbouring sizes would touch.
    shown = (0, *sizes) if form.named else (0, sizes[len(sizes) // 2], largest)
    ticks = [(size / largest, f"{size:,}") for size in shown]
    parts = area.grid(ticks, SHARES.labels, "distractors")
    # Those of the systems lie over the others.
    for line in sorted(lines, key=lambda line: line.coloured):
        parts += _line(form, line, largest)
    ends = [area.height_of(line.points[-1][1].value or 0.0) for line in lines]
    # A line may end at the top, and its mark may be as high as the drawing is.
    for n, height in apart(ends, _APART, area.top + area.height, _APART):
        parts += _end(form, lines[n], letter_of(n), ends[n], height)
    said = "; ".join(_said(line) for line in lines)
    label = f"{name}. {said}"
    return drawing(parts, style=form.style, label=label, width=form.width, height=398)


def _line(form: _Form, line: NamedLine, largest: int) -> Iterator[Markup]:
    points = [(size / largest, score.value or 0.0) for size, score in line.points]
    style = f"drawn {line.style}"
    yield element("path", style, title(line.name), d=form.area.path(points))
    for size, score in line.points if line.coloured else ():
        x, y = form.area.at(size / largest, score.value or 0.0)
        told = title(f"{line.name}, {size:,}: {number(score.value)} {interval(score)}")
        if score.low is not None and score.high is not None:
            top, bottom = form.area.height_of(score.high), form.area.height_of(score.low)
            path = f"M{x} {short(top)}V{short(bottom)}"
            yield element("path", f"spread {line.style}", d=path)
        yield element("circle", f"spot {line.style}", told, cx=x, cy=y, r=4)


def _end(form: _Form, line: NamedLine, mark: str, end: float, height: float) -> Iterator[Markup]:
    """Yield the mark of a line next to its last point, joined to it where it was moved away."""
    right = form.area.left + form.area.width
    path = f"M{short(right + 2)} {short(end)}L{short(right + _AWAY - 3)} {short(height)}"
    yield element("path", "leader", d=path)
    words = f"{mark} {line.name}" if form.named else mark
    x, y = short(right + _AWAY), short(height + 4)
    yield text(words, style=f"end {line.style}", x=x, y=y)


def _said(line: NamedLine) -> str:
    points = [f"{size}: {number(score.value)}" for size, score in line.points]
    return f"{line.name}: {', '.join(points)}"
