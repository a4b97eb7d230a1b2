"""Numbers of many records in few bytes."""

import math
from array import array
from typing import Any

import numpy as np

from alps.stats.bootstrap import Floats

_BYTES, _FLOATS = "B", "d"
_NOTHING = 255
"""The byte of a record without a number."""
_SMALL: dict[float, int] = {number: number for number in range(_NOTHING)}
"""The byte of each number that fits into one, whether it comes as 3 or as 3.0."""


class Column:
    """One number a record, or none: whole ones below 255 take a byte each, until one comes that is
    not among them.
    """

    def __init__(self) -> None:
        self._numbers: array[Any] = array(_BYTES)
        self._narrow = True

    def __len__(self) -> int:
        return len(self._numbers)

    def put(self, place: int, number: float) -> None:
        """Set the number of the record at `place`, behind all that were set.

        Those between have none.
        """
        gap = place - len(self._numbers)
        if gap:
            self._numbers.extend([_NOTHING if self._narrow else math.nan] * gap)
        if self._narrow:
            byte = _SMALL.get(number)
            if byte is not None:
                self._numbers.append(byte)
                return
            self._numbers, self._narrow = array(_FLOATS, self.numbers()), False
        self._numbers.append(number)

    def numbers(self) -> Floats:
        """Return what was set, shape (len(self),); NaN where a record has no number."""
        numbers = np.array(self._numbers, dtype=np.float64)
        if self._narrow:
            numbers[numbers == _NOTHING] = np.nan
        return numbers
