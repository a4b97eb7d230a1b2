"""Charts of the site: whiskers, recall curves, the precision–recall plane, action matrices.

No chart holds a number of its own beside its axis: what it shows stands in a table on the same
page, with its origin.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from alps.leaderboard.provenance import Place, figure, whole
from alps.report.charts import drawing, element, joined, percent, short, text, title

# How many systems a chart tells apart by colour; the others are drawn in grey.
COLOURED = 6
GOLD = ("retain", "add", "modify", "delete", "none")
PREDICTED = (*GOLD, "failed")
ISO_F1 = (0.2, 0.4, 0.6, 0.8)
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_APART = 14.0
_LEFT, _TOP, _WIDE, _HIGH = 44.0, 12.0, 560.0, 280.0
_SIDE = 380.0


def letter_of(position: int) -> str:
    """Return the mark of the system at `position` of a legend."""
    # A letter, as a number would look like a rank.
    return chr(ord("A") + position)


@dataclass(frozen=True)
class Line:
    """Scores of one system over pool sizes; `style` is `system`, `floor` or `reported`."""

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
    """Draw recall over the size of the pool, with bands for the intervals of coloured systems.

    Args:
        lines: Systems, the best first; then floors and what is reported. Fewer than two sizes give
            no figure.
        name: What is drawn, for who can't see it.
    """
    sizes = sorted({size for line in lines for size, _ in line.points})
    if len(sizes) < 2:
        return Markup()
    largest = sizes[-1]
    ticks = [(size / largest, f"{size:,}") for size in (0, *sizes)]
    parts = [*_grid(_WIDE, _HIGH, ticks, "distractors")]
    coloured = [line for line in lines if line.mark]
    parts += [_drawn(line, "", largest) for line in reversed(lines) if not line.mark]
    for n, line in enumerate(coloured):
        shapes = [_band(line, n, largest), _drawn(line, f" s{n}", largest)]
        for size, score in line.points:
            x, y = _spot(size / largest, score["value"].value)
            shapes.append(element("circle", f"dot s{n}", cx=x, cy=y, r=4))
        parts.append(element("g", "", joined(shapes)))
    parts += _marks(coloured)
    width, height = _LEFT + _WIDE + 34, _TOP + _HIGH + 52
    return drawing(parts, style="curve", label=name, width=width, height=height)


def _drawn(line: Line, colour: str, largest: int) -> Markup:
    spots = [_spot(size / largest, score["value"].value) for size, score in line.points]
    return element("path", f"{line.style}{colour}", title(line.name), d=_path(spots))


def _path(spots: Iterable[tuple[str, str]]) -> str:
    return "M" + "L".join(f"{x} {y}" for x, y in spots)


def _band(line: Line, colour: int, largest: int) -> Markup:
    upper, lower = [], []
    for size, score in line.points:
        if score["low"] and score["high"]:
            upper.append(_spot(size / largest, score["high"].value))
            lower.append(_spot(size / largest, score["low"].value))
    if len(upper) < 2:
        return Markup()
    return element("path", f"band s{colour}", d=f"{_path([*upper, *reversed(lower)])}Z")


def _marks(lines: Sequence[Line]) -> Iterator[Markup]:
    """Name each line at its end; marks that would lie on each other are moved apart."""
    lowest = _TOP + _HIGH + _APART
    for value, n in sorted((line.points[-1][1]["value"].value, n) for n, line in enumerate(lines)):
        lowest = min(lowest - _APART, _TOP + _HIGH * (1 - value))
        x, y = short(_LEFT + _WIDE + 12), short(lowest + 4)
        yield text(lines[n].mark, style=f"mark s{n}", x=x, y=y)


def plane(points: Sequence[Point], *, name: str) -> Markup:
    """Draw the precision–recall plane with curves of equal F1; coloured systems carry intervals."""
    if not points:
        return Markup()
    ticks = [(tick, _tick(tick)) for tick in _TICKS]
    parts = [*_grid(_SIDE, _SIDE, ticks, "recall", upright=True), *(_iso(f1) for f1 in ISO_F1)]
    coloured = [point for point in points if point.mark]
    for point in reversed(points):
        colour = f" s{coloured.index(point)}" if point.mark else ""
        parts += _cross(point, colour) if point.mark else ()
        x, y = _spot(point.recall["value"].value, point.precision["value"].value, _SIDE, _SIDE)
        tooltip = title(point.name)
        if point.style == "floor":
            left, top = short(float(x) - 4), short(float(y) - 4)
            square = element("rect", "point floor", tooltip, x=left, y=top, width=8, height=8)
            parts.append(square)
        else:
            radius = 9 if point.mark else 3.5
            parts.append(element("circle", f"point{colour}", tooltip, cx=x, cy=y, r=radius))
        if point.mark:
            below = short(float(y) + 4)
            parts.append(text(point.mark, style="inside", x=x, y=below, text_anchor="middle"))
    width, height = _LEFT + _SIDE + 14, _TOP + _SIDE + 52
    return drawing(parts, style="plane", label=name, width=width, height=height)


def _cross(point: Point, colour: str) -> Iterator[Markup]:
    recall, precision = point.recall["value"].value, point.precision["value"].value
    across = [(point.recall[end].value, precision) for end in ("low", "high")]
    upright = [(recall, point.precision[end].value) for end in ("low", "high")]
    for start, end in (across, upright):
        if None not in (*start, *end):
            (x1, y1), (x2, y2) = _spot(*start, _SIDE, _SIDE), _spot(*end, _SIDE, _SIDE)
            yield element("line", f"cross{colour}", x1=x1, y1=y1, x2=x2, y2=y2)


def _iso(f1: float) -> Markup:
    """Draw the curve of equal F1: precision = F·recall / (2·recall − F)."""
    first, steps = f1 / (2 - f1), 40
    recalls = [first + (1 - first) * (step / steps) ** 2 for step in range(steps + 1)]
    spots = [_spot(recall, f1 * recall / (2 * recall - f1), _SIDE, _SIDE) for recall in recalls]
    x, y = _spot(1, f1 / (2 - f1), _SIDE, _SIDE)
    left, above = short(float(x) - 4), short(float(y) - 4)
    label = text(f"F1 {_tick(f1)}", style="iso", x=left, y=above, text_anchor="end")
    return element("path", "iso", d=_path(spots)) + label


def _grid(
    wide: float,
    high: float,
    across: Iterable[tuple[float, str]],
    name: str,
    *,
    upright: bool = False,
) -> Iterator[Markup]:
    bottom, middle = short(_TOP + high), short(_TOP + high / 2)
    for tick in _TICKS:
        _, y = _spot(0, tick, wide, high)
        line = f"M{short(_LEFT)} {y}H{short(_LEFT + wide)}"
        yield element("path", "grid" if tick else "ground", d=line)
        yield text(_tick(tick), x=short(_LEFT - 8), y=short(float(y) + 4), text_anchor="end")
    for share, label in across:
        x, _ = _spot(share, 0, wide, high)
        if upright:
            yield element("path", "grid" if share else "ground", d=f"M{x} {short(_TOP)}V{bottom}")
        yield text(label, x=x, y=short(_TOP + high + 18), text_anchor="middle")
    x, y = short(_LEFT + wide / 2), short(_TOP + high + 40)
    yield text(name, style="name", x=x, y=y, text_anchor="middle")
    if upright:
        turned = {"text_anchor": "middle", "transform": f"rotate(-90 10 {middle})"}
        yield text("precision", style="name", x=10, y=middle, **turned)


def _tick(value: float) -> str:
    written = f"{value:g}"
    return written.lstrip("0") if written.startswith("0.") else written


def _spot(across: float, up: float, wide: float = _WIDE, high: float = _HIGH) -> tuple[str, str]:
    return short(_LEFT + wide * across), short(_TOP + high * (1 - min(1.0, max(0.0, up))))


@dataclass(frozen=True)
class Cell:
    """A count, shaded by its share of the row in tenths; `right` where done as it should be."""

    written: Markup
    shade: int
    right: bool


@dataclass(frozen=True)
class Matrix:
    """Rows by gold action, columns by predicted one; only those that occur."""

    columns: list[str]
    rows: list[tuple[str, list[Cell]]]


def matrix_of(counts: Place) -> Matrix:
    """Return the action matrix of the counts of an update track; it may have no rows."""
    cells = {(g, p): counts[f"cell_{g}_{p}"] for g in GOLD for p in PREDICTED}
    golds = [g for g in GOLD if any(cells[g, p].value for p in PREDICTED)]
    columns = [p for p in PREDICTED if p in golds or any(cells[g, p].value for g in golds)]
    rows = []
    for gold in golds:
        total = sum(cells[gold, p].value or 0 for p in PREDICTED)
        of_gold = [_cell(cells[gold, p], total, gold == p != "none") for p in columns]
        rows.append(("not in gold" if gold == "none" else gold, of_gold))
    return Matrix(["not found" if p == "none" else p for p in columns], rows)


def _cell(count: Place, total: float, right: bool) -> Cell:
    if not count.value:
        return Cell(Markup('<span class="nothing">·</span>'), 0, right)
    share = count.value / total if total > 0 else 0.0
    return Cell(figure(count, whole), round(10 * min(1.0, max(0.0, share))), right)
