"""Groups of records by how long their texts are, the same wherever they are shown."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LENGTHS = ("short", "medium", "long")


def length_thirds(lengths: Sequence[int] | NDArray[np.float64]) -> list[str]:
    """Return the third that each length is in; one at a quantile is in the shorter third."""
    if not len(lengths):
        return []
    edges = np.quantile(lengths, (1 / 3, 2 / 3))
    return [LENGTHS[third] for third in np.searchsorted(edges, lengths)]
