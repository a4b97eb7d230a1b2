"""Retrieval by meaning: the cosine of embeddings, by a model of an extra (`alps.embeddings`)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from alps.embeddings import DECIMALS, E5, MINILM, Embedder
from alps.systems.retrievers import best_first
from alps.text import digest


class EmbeddingRanker:
    """Rank values by the cosine of their embeddings with the query's.

    Raises:
        UsageError: If the extra is not installed.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.name = embedder.name
        self.settings: Mapping[str, Any] = {
            "model": embedder.model,
            "package": embedder.version(),
        }
        self._embedder = embedder

    def rank(self, query: str, values: Sequence[str]) -> list[int]:
        """Return the positions of all `values`, the best first."""
        if not values:
            return []
        asked = self._embedder.embed([query], queries=True)[0]
        pool = self._embedder.embed(values)
        scores = pool.astype(np.float64) @ asked.astype(np.float64)
        return best_first(scores, query, [digest(value) for value in values], decimals=DECIMALS)


minilm = partial(EmbeddingRanker, MINILM)
e5 = partial(EmbeddingRanker, E5)
