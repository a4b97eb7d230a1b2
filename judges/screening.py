"""Which predicted memories count, and which of them a judge is asked about.

A memory says one thing, once. A value that is longer than any memory is an invalid item: it counts as a prediction and
matches nothing. A near copy of another prediction is that prediction again: both count as one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from alps.judges.alike import alike
from alps.judges.matching import Item, Pair, identical_pairs, left_over
from alps.text import letters

LONGEST_VALUE = 1_000
"""Letters of the longest value that can be a memory; a wide character counts as two.

The longest gold value of the AlpsBench authors' public records has 311 letters; of 14,879 values that seven real models
predicted for 654 sessions the longest has 848, and 99.9 % have 467 at most.
"""
NEAR_COPY = 0.95
"""Lexical similarity from which two predictions are one.

Among the same 14,879 values 194 pairs within an answer reach it, 190 of them word for word; from .9 down, pairs begin
to differ in a name or a term.
"""


@dataclass(frozen=True)
class Screening:
    """What becomes of predicted memories before a judge sees them, by their positions.

    Attributes:
        identical: Pairs of a gold and a predicted memory with the same value.
        too_long: Invalid items: they count as predictions, and match nothing.
        copies: Near copies, and the prediction that each repeats; they do not count.
        gold: The gold memories that are left to be asked about.
        asked: The predictions that are left to be asked about.
    """

    identical: tuple[Pair, ...]
    too_long: tuple[int, ...]
    copies: Mapping[int, int]
    gold: tuple[int, ...]
    asked: tuple[int, ...]

    def counted(self, predictions: int) -> int:
        """Return how many of so many predictions count."""
        return predictions - len(self.copies)


def screen(gold: Sequence[Item], predicted: Sequence[Item]) -> Screening:
    """Pair identical values, and set aside what is no memory or stands in the list twice.

    What is identical to a gold memory is no copy: gold may hold two memories that are nearly alike.
    """
    too_long = tuple(n for n, item in enumerate(predicted) if letters(item.value) > LONGEST_VALUE)
    short = left_over(len(predicted), too_long) if too_long else range(len(predicted))
    identical = tuple(
        replace(pair, predicted=short[pair.predicted])
        for pair in identical_pairs(gold, [predicted[position] for position in short])
    )
    matched = {pair.predicted for pair in identical}
    copies = _near_copies(predicted, short, matched)
    rows = left_over(len(gold), (pair.gold for pair in identical))
    asked = tuple(n for n in short if n not in matched and n not in copies)
    return Screening(identical, too_long, copies, tuple(rows), asked)


def _near_copies(predicted: Sequence[Item], positions: Sequence[int], matched: set[int]) -> dict[int, int]:
    """Return the predictions that nearly repeat one before them, or one that is matched, and which."""
    if len(positions) < 2:
        return {}
    order = sorted(positions, key=lambda position: (position not in matched, position))
    values = [predicted[position].value for position in order]
    copies: dict[int, int] = {}
    for row, column, _ in alike(values, values, NEAR_COPY):
        original, copy = order[row], order[column]
        if row < column and copy not in matched and original not in copies:
            copies.setdefault(copy, original)
    return copies
