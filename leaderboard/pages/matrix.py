"""What a system did with memories against what should have been done, as a table whose cells are
shaded.
"""

from dataclasses import dataclass

from markupsafe import Markup

from alps.leaderboard.provenance import Place, figure, whole

GOLD = ("retain", "add", "modify", "delete", "none")
PREDICTED = (*GOLD, "failed")
_DEEPEST = 10


@dataclass(frozen=True)
class Cell:
    """A count, shaded by its share of the row in tenths; `right` where done as it should be."""

    said: Markup
    shade: int
    right: bool


@dataclass(frozen=True)
class Matrix:
    """Rows by gold action, columns by predicted one; only those that occur."""

    columns: list[str]
    rows: list[tuple[str, list[Cell]]]


def matrix_of(counts: Place) -> Matrix:
    """Return the action matrix of the counts of an update track; without cells, one without rows."""
    held = {(g, p): counts[f"cell_{g}_{p}"] for g in GOLD for p in PREDICTED}
    golds = [g for g in GOLD if any(held[g, p].value for p in PREDICTED)]
    columns = [p for p in PREDICTED if p in golds or any(held[g, p].value for g in golds)]
    rows = []
    for gold in golds:
        total = sum(held[gold, predicted].value or 0 for predicted in PREDICTED)
        cells = [
            _cell(held[gold, predicted], total, gold == predicted != "none")
            for predicted in columns
        ]
        rows.append(({"none": "not in gold"}.get(gold, gold), cells))
    return Matrix([{"none": "not found"}.get(name, name) for name in columns], rows)


def _cell(count: Place, total: float, right: bool) -> Cell:
    if not count.value:
        return Cell(Markup('<span class="nothing">·</span>'), 0, right)
    share = count.value / total if total > 0 else 0.0
    return Cell(figure(count, whole), round(_DEEPEST * min(1.0, max(0.0, share))), right)
