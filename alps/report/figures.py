"""Charts of single tasks: gold actions against predicted ones, and recall over the size of the
pool.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from alps.report.charts import COLOURS
from alps.report.numbers import interval, number
from alps.report.svg import drawing, element, joined, short, text, title

GOLD_ACTIONS = ("retain", "add", "modify", "delete", "none")
PREDICTED_ACTIONS = (*GOLD_ACTIONS, "failed")
DASHES = ("7 4", "2 4", "10 3 2 3")
_DEEPEST = 0.5
_CELL, _ROW, _LABELS, _HEAD = 66.0, 40.0, 108.0, 42.0
_LEFT, _TOP, _WIDE, _HIGH = 46.0, 14.0, 470.0, 250.0
_WIDTH, _HEIGHT = 548.0, 316.0
_APART = 15.0


@dataclass(frozen=True)
class Line:
    """Scores of one system over pool sizes; `letter` is empty for a floor."""

    name: str
    letter: str
    colour: int
    points: Sequence[tuple[int, Mapping[str, Any]]]


def action_matrix(counts: Mapping[str, float]) -> Markup:
    """Draw gold actions against predicted ones as a heat map: the number, shaded by its share of
    the gold row.

    Args:
        counts: Of a track of update, with `cell_GOLD_PREDICTED` among them; none of them gives no
            chart.
    """
    cells = {
        (gold, predicted): int(counts.get(f"cell_{gold}_{predicted}", 0))
        for gold in GOLD_ACTIONS
        for predicted in PREDICTED_ACTIONS
    }
    rows = [
        gold
        for gold in GOLD_ACTIONS
        if any(cells[gold, predicted] for predicted in PREDICTED_ACTIONS)
    ]
    columns = [
        name
        for name in PREDICTED_ACTIONS
        if name in rows or any(cells[gold, name] for gold in rows)
    ]
    if not rows:
        return Markup()
    width, height = _LABELS + _CELL * len(columns), _HEAD + _ROW * len(rows)
    middle = short(_LABELS + _CELL * len(columns) / 2)
    parts = [text("predicted", x=middle, y=12, text_anchor="middle", style="name")]
    for n, name in enumerate(columns):
        x = short(_LABELS + _CELL * (n + 0.5))
        parts.append(
            text(
                {"none": "not found"}.get(name, name), x=x, y=short(_HEAD - 9), text_anchor="middle"
            )
        )
    for n, gold in enumerate(rows):
        parts += _matrix_row(
            gold, _HEAD + _ROW * n, [(name, cells[gold, name]) for name in columns]
        )
    label = "; ".join(f"{g} as {p}: {count}" for (g, p), count in cells.items() if count)
    return drawing(
        parts,
        style="matrix",
        label=f"Gold as predicted actions: {label}",
        width=width,
        height=height,
    )


def _matrix_row(gold: str, y: float, cells: Sequence[tuple[str, int]]) -> list[Markup]:
    total = sum(count for _, count in cells)
    name = "not in gold" if gold == "none" else f"gold {gold}"
    parts = [text(name, x=short(_LABELS - 10), y=short(y + _ROW / 2 + 4), text_anchor="end")]
    for n, (predicted, count) in enumerate(cells):
        x, share = _LABELS + _CELL * n, count / total
        right = " right" if gold == predicted != "none" else ""
        told = f"{name}, predicted {predicted}: {count} of {total}"
        place = {
            "x": short(x + 1.5),
            "y": short(y + 1.5),
            "width": short(_CELL - 3),
            "height": short(_ROW - 3),
        }
        parts.append(element("rect", "cell-ground", **place, rx=3))
        parts.append(
            element(
                "rect",
                f"cell{right}",
                title(told),
                **place,
                rx=3,
                fill_opacity=f"{_DEEPEST * share:.3f}",
            )
        )
        middle = {
            "x": short(x + _CELL / 2),
            "y": short(y + _ROW / 2 + 4.5),
            "text_anchor": "middle",
        }
        parts.append(text(f"{count:,}", style="count" if count else "none", **middle))
    return parts


def recall_curve(lines: Sequence[Line], floors: Sequence[Line], *, name: str) -> Markup:
    """Draw recall over the size of the pool from 0 on, with the intervals as bands.

    Floors are dashed.

    Args:
        lines: The runs.
        floors: The floors.
        name: What is drawn, for who can't see it.
    """
    sizes = sorted({size for line in (*lines, *floors) for size, _ in line.points})
    if len(sizes) < 2:
        return Markup()
    parts = [_curve_grid(sizes)]
    parts += [_band(line, sizes[-1]) for line in lines]
    for n, floor in enumerate(floors):
        parts.append(
            _path(floor, sizes[-1], style="floor-line", stroke_dasharray=DASHES[n % len(DASHES)])
        )
    for line in lines:
        parts.append(_path(line, sizes[-1], style=f"run-line colour-{line.colour % COLOURS}"))
        parts += _marks(line, sizes[-1])
    parts += _letters(lines)
    said = "; ".join(f"{line.name}: {_told(line)}" for line in (*lines, *floors))
    return drawing(parts, style="curve", label=f"{name}. {said}", width=_WIDTH, height=_HEIGHT)


def _told(line: Line) -> str:
    return ", ".join(f"{size}: {number(score['value'])}" for size, score in line.points)


def floor_line_sign(position: int) -> Markup:
    """Draw the line of a floor for a legend."""
    line = element(
        "line",
        "floor-line",
        x1=0,
        x2=26,
        y1=9,
        y2=9,
        stroke_dasharray=DASHES[position % len(DASHES)],
    )
    return Markup('<svg class="sign" width="26" height="18" aria-hidden="true">{}</svg>').format(
        line
    )


def _curve_grid(sizes: Sequence[int]) -> Markup:
    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = _spot(0, tick, sizes[-1])
        said = {0.0: "0", 1.0: "1"}.get(tick, f"{tick:g}".lstrip("0"))
        parts.append(
            element("path", "grid" if tick else "ground", d=f"M{x} {y}H{short(_LEFT + _WIDE)}")
        )
        parts.append(text(said, x=short(_LEFT - 9), y=short(float(y) + 4), text_anchor="end"))
    for size in (0, *sizes):
        x, y = _spot(size, 0, sizes[-1])
        parts.append(element("path", "ground", d=f"M{x} {y}v5"))
        parts.append(text(f"{size:,}", x=x, y=short(float(y) + 20), text_anchor="middle"))
    middle = short(_LEFT + _WIDE / 2)
    parts.append(
        text(
            "distractors", x=middle, y=short(_TOP + _HIGH + 42), text_anchor="middle", style="name"
        )
    )
    return joined(parts)


def _band(line: Line, largest: int) -> Markup:
    held = [(size, score) for size, score in line.points if score["low"] is not None]
    if len(held) < 2:
        return Markup()
    upper = [" ".join(_spot(size, score["high"], largest)) for size, score in held]
    lower = [" ".join(_spot(size, score["low"], largest)) for size, score in reversed(held)]
    return element(
        "path", f"band colour-{line.colour % COLOURS}", d=f"M{'L'.join((*upper, *lower))}Z"
    )


def _path(line: Line, largest: int, *, style: str, **attributes: object) -> Markup:
    places = [" ".join(_spot(size, score["value"], largest)) for size, score in line.points]
    return element("path", style, title(line.name), d=f"M{'L'.join(places)}", **attributes)


def _marks(line: Line, largest: int) -> Iterator[Markup]:
    """Mark each measured size."""
    for size, score in line.points:
        x, y = _spot(size, score["value"], largest)
        told = f"{line.name}, {size:,} distractors: {number(score['value'])} {interval(score)}"
        yield element(
            "circle", f"spot colour-{line.colour % COLOURS}", title(told), cx=x, cy=y, r=4.5
        )


def _letters(lines: Sequence[Line]) -> Iterator[Markup]:
    """Name each line at its end; letters that would lie on each other are moved apart."""
    lowest = _TOP + _HIGH + _APART
    for line in sorted(lines, key=lambda line: float(line.points[-1][1]["value"])):
        lowest = min(lowest - _APART, _TOP + _HIGH * (1 - line.points[-1][1]["value"]))
        beside = {"x": short(_LEFT + _WIDE + 12), "y": short(lowest + 4)}
        yield text(line.letter, style=f"run-letter colour-{line.colour % COLOURS}", **beside)


def _spot(size: float, score: float, largest: int) -> tuple[str, str]:
    return short(_LEFT + _WIDE * size / largest), short(_TOP + _HIGH * (1 - score))
