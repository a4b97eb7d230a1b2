"""Retrieval by meaning: the cosine of embeddings; it needs `pip install 'alps-eval[minilm]'`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from alps.embeddings import DECIMALS, MODEL, embed, model_package
from alps.systems.retrievers import best_first
from alps.text import digest


class MiniLM:
    """Rank values by the cosine of their embeddings with the query's.

    Raises:
        UsageError: If the extra is not installed.
    """

    name = "minilm"

    def __init__(self) -> None:
        self.settings: Mapping[str, Any] = {"model": MODEL, "package": model_package()}

    def rank(self, query: str, values: Sequence[str]) -> list[int]:
        """Return the positions of all `values`, the best first."""
        if not values:
            return []
        asked, *pool = embed([query, *values])
        scores = np.stack(pool).astype(np.float64) @ asked.astype(np.float64)
        return best_first(scores, query, [digest(value) for value in values], decimals=DECIMALS)
