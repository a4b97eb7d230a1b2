"""Retrievers as systems: they rank the whole pool by a function of the query and the values."""

import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from alps.schema import Prediction, RetrievalSample
from alps.systems.embedded import Embedded

RETRIEVERS = {"bm25": ("bm25", "BM25"), "tfidf": ("tfidf", "TfIdf"), "minilm": ("minilm", "MiniLM")}
"""Retrievers by name: the module beside this one, and the class in it, imported when it is asked
for.
"""


class Ranker(Protocol):
    """Ranks the values of a pool for a query.

    Attributes:
        settings: Everything that can change its ranking.
    """

    settings: Any

    def rank(self, query: str, values: Sequence[str]) -> list[int]:
        """Return the positions of `values`, the best first."""
        ...


class Retriever(Embedded):
    """Answers with the first of the ranking, and the ranking.

    Attributes:
        seconds: How long it has been ranking.
        queries: For how many queries.
    """

    def __init__(self, name: str, track: str, ranker: Ranker) -> None:
        super().__init__(name, track, self._rank)
        self.settings = dict(ranker.settings)
        self.seconds = 0.0
        self.queries = 0
        self._ranker = ranker

    def answer(self, sample: Any) -> Prediction:
        """Answer `sample`, on the clock."""
        started = time.perf_counter()
        prediction = super().answer(sample)
        self.seconds += time.perf_counter() - started
        self.queries += 1
        return prediction

    def _rank(self, sample: RetrievalSample) -> dict[str, Any]:
        order = self._ranker.rank(
            sample.query, [candidate.value for candidate in sample.candidates]
        )
        ranking = [sample.candidates[place].id for place in order]
        return {"selected_memory_id": ranking[0], "answer": "", "reason": "", "ranking": ranking}


def retriever(name: str, track: str) -> Retriever:
    """Return the retriever called `name`.

    Raises:
        UsageError: If it needs an extra that is not installed.
    """
    module, kind = RETRIEVERS[name]
    return Retriever(name, track, getattr(import_module(f"alps.systems.{module}"), kind)())
