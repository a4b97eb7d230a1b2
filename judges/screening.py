"""The predicted memories that count, and those of them that a judge is asked about.

A memory says one thing, once. A value that is longer than any memory is an invalid item: it counts
as a prediction and matches nothing. A near copy of another prediction is that prediction again:
both count as one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from alps.judges.matching import Item, Pair, identical_pairs, left_over
from alps.similarity import similar_pairs
from alps.text import length_in_letters

# Letters of the longest value that can be a memory; a wide character counts as two. The longest
# gold value of the AlpsBench authors' public records has 311 letters; of 14,879 values that seven
# real models predicted for 654 sessions the longest has 848, and 99.9 % have 467 at most.
LONGEST_VALUE = 1_000
# Lexical similarity from which two predictions are one. Among the same 14,879 values 194 pairs
# within an answer reach it, 190 of them word for word; from .9 down, pairs begin to differ in a
# name or a term.
NEAR_COPY = 0.95
# Predictions that an answer may have beyond the number of gold memories; the longest of 4,662 real
# lists has 31.
MOST_EXTRA = 300


@dataclass(frozen=True)
class Screening:
    """What becomes of predicted memories before a judge sees them, by their positions.

    Attributes:
        identical: Pairs of a gold and a predicted memory with the same value.
        too_long: Invalid items: they count as predictions, and match nothing.
        too_many: Those at the end of an endless list, invalid as well.
        copies: Near copies, and the prediction that each repeats; they do not count.
        gold: The gold memories that are left to be asked about.
        asked: The predictions that are left to be asked about.
    """

    identical: tuple[Pair, ...]
    too_long: tuple[int, ...]
    too_many: tuple[int, ...]
    copies: Mapping[int, int]
    gold: tuple[int, ...]
    asked: tuple[int, ...]

    def counted(self, predictions: int) -> int:
        """Return how many of so many predictions count."""
        return predictions - len(self.copies)


def screen(gold: Sequence[Item], predicted: Sequence[Item]) -> Screening:
    """Pair identical values, and set aside what is no memory or stands in the list twice."""
    return _screen(tuple(item.value for item in gold), tuple(item.value for item in predicted))


@lru_cache(maxsize=64)
def _screen(gold: tuple[str, ...], predicted: tuple[str, ...]) -> Screening:
    # Kept for a while, as the same two lists are judged, checked and scored.
    most = len(gold) + MOST_EXTRA
    too_long = tuple(
        n for n, value in enumerate(predicted[:most]) if length_in_letters(value) > LONGEST_VALUE
    )
    too_many = tuple(range(most, len(predicted)))
    positions = left_over(min(most, len(predicted)), too_long)
    values = [predicted[position] for position in positions]
    identical, matched, rows_found = [], set(), set()
    for pair in identical_pairs(gold, values):
        identical.append(replace(pair, predicted=positions[pair.predicted]))
        matched.add(positions[pair.predicted])
        rows_found.add(pair.gold)
    # What is identical to a gold memory is no copy: gold may hold two that are nearly alike.
    copies = _near_copies(predicted, positions, matched)
    rows = left_over(len(gold), rows_found)
    asked = tuple(n for n in positions if n not in matched and n not in copies)
    return Screening(tuple(identical), too_long, too_many, copies, tuple(rows), asked)


def _near_copies(
    predicted: Sequence[str], positions: Sequence[int], matched: set[int]
) -> dict[int, int]:
    """Return the predictions that nearly repeat an earlier or a matched one, and which."""
    order = sorted(positions, key=lambda position: (position not in matched, position))
    near = _near(tuple(predicted[position] for position in order))
    copies: dict[int, int] = {}
    for copy, originals in sorted(near.items()):
        kept = [order[original] for original in originals if order[original] not in copies]
        if kept and order[copy] not in matched:
            copies[order[copy]] = kept[0]
    return copies


# A trivial baseline answers the same to every record.
@lru_cache(maxsize=256)
def _near(values: tuple[str, ...]) -> dict[int, list[int]]:
    """Return the values that nearly repeat an earlier one, by position, and which they repeat."""
    near: dict[int, list[int]] = {}
    if len(values) > 1:
        for original, copy, _ in similar_pairs(values, values, NEAR_COPY, later=True):
            near.setdefault(copy, []).append(original)
    return near
