"""Charts of the site, drawn as those of every page, and its matrices of actions.

No chart holds a number of its own beside its axis: what it shows stands in a table on the same
page, with its origin.
"""

from dataclasses import dataclass

from markupsafe import Markup

from alps.leaderboard.provenance import Place, figure, whole
from alps.rows import Interval
from alps.show.charts import colour_of, occurring_actions, whisker
from alps.show.svg import Axis


def style_of(letter: str) -> str:
    """Return the colour of a marked system; the others are drawn in grey."""
    return colour_of(ord(letter) - ord("A")) if letter else "other"


def score_of(place: Place) -> Interval:
    """Return a score of a card."""
    return Interval(value=place["value"].value, low=place["low"].value, high=place["high"].value)


def score_whisker(place: Place, axis: Axis, style: str = "") -> Markup:
    """Draw a score of a card; it only repeats the numbers beside it."""
    return whisker(score_of(place), axis=axis, style=style or "system")


@dataclass(frozen=True)
class Cell:
    """A count, shaded by its share of the row in tenths; `right` where done as it should be."""

    written: Markup
    shade: int
    right: bool


@dataclass(frozen=True)
class Matrix:
    """A table of counts, each with its origin: gold actions down, predicted ones across."""

    columns: list[str]
    rows: list[tuple[str, list[Cell]]]


def matrix_of(counts: Place) -> Matrix:
    """Return the action matrix of the counts of a track; it may have no rows."""
    numbers = {name: count.value or 0 for name, count in counts.items()}
    golds, columns = occurring_actions(numbers)
    rows = []
    for gold in golds:
        names = [f"cell_{gold}_{name}" for name in columns]
        total = sum(numbers.get(name, 0) for name in names)
        # To do nothing where there is nothing to do is no hit: of those there is no end.
        right = f"cell_{gold}_{gold}" if gold != "none" else ""
        cells = [_cell(counts[name], total, right=name == right) for name in names]
        rows.append(("not in gold" if gold == "none" else gold, cells))
    return Matrix(["not found" if name == "none" else name for name in columns], rows)


def _cell(count: Place, total: float, *, right: bool) -> Cell:
    if not count.value:
        return Cell(Markup('<span class="nothing">·</span>'), 0, right)
    share = count.value / total if total > 0 else 0.0
    return Cell(figure(count, whole), round(10 * min(1.0, max(0.0, share))), right)
