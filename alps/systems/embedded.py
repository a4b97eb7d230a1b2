"""Systems that need neither a network nor a process: functions of the sample, and retrievers."""

import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from alps.errors import AlpsError
from alps.llm.types import Completes
from alps.schema import Prediction, RetrievalSample
from alps.systems.base import Tracebacks, described
from alps.tasks import Task

RETRIEVERS = {
    "bm25": "retrievers:BM25",
    "tfidf": "retrievers:TfIdf",
    "minilm": "retrievers:minilm",
    "e5": "retrievers:e5",
}
"""Retrievers by name: where their class stands, imported when asked for."""


class Unheard:
    """A system that is not asked any more, as where a finished run is judged again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.settings: Mapping[str, Any] = {}

    def on(self, client: Completes) -> "Unheard":
        """Return the system itself: it makes no requests."""
        return self

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Say that `sample` was not answered."""
        error = "no prediction in the judged run"
        return Prediction(
            benchmark_id=sample.benchmark_id, track=task.track, outcome="transport", error=error
        )


class Embedded:
    """A system that answers at once, without a network.

    A function of the user's own task may raise: that is an invalid answer, and its traceback goes
    to `tracebacks`.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[Any], dict[str, Any]],
        *,
        tracebacks: Path | None = None,
    ) -> None:
        self.name = name
        self.settings: Mapping[str, Any] = {}
        self._function = function
        self._tracebacks = Tracebacks(tracebacks)

    def on(self, client: Completes) -> "Embedded":
        """Return the system itself: it makes no requests."""
        return self

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Answer `sample`."""
        return self.answer_at_once(task, sample)

    def answer_at_once(self, task: Task, sample: Any) -> Prediction:
        """Answer `sample` outside an event loop."""
        row: dict[str, Any] = {"benchmark_id": sample.benchmark_id, "track": task.track}
        try:
            return Prediction(**row, outcome="ok", prediction=self._function(sample))
        except AlpsError:
            raise
        except Exception as error:
            about = f"{self.name} on {task.track}, {sample.benchmark_id}"
            self._tracebacks.keep(error, about=about)
            return Prediction(**row, outcome="invalid", error=f"raised {described(error)}")


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

    def __init__(self, name: str, ranker: Ranker) -> None:
        super().__init__(name, self._rank)
        self.settings = dict(ranker.settings)
        self.seconds = 0.0
        self.queries = 0
        self._ranker = ranker

    def answer_at_once(self, task: Task, sample: Any) -> Prediction:
        """Answer `sample`, on the clock."""
        started = time.perf_counter()
        prediction = super().answer_at_once(task, sample)
        self.seconds += time.perf_counter() - started
        self.queries += 1
        return prediction

    def _rank(self, sample: RetrievalSample) -> dict[str, Any]:
        values = [candidate.value for candidate in sample.candidates]
        order = self._ranker.rank(sample.query, values)
        return ranked([sample.candidates[position].id for position in order])


def ranked(ids: Sequence[str]) -> dict[str, Any]:
    """Return a retrieval answer that chooses the first of `ids` (best first)."""
    return {"selected_memory_id": ids[0], "answer": "", "reason": "", "ranking": list(ids)}


def retriever(name: str) -> Retriever:
    """Return the retriever called `name`.

    Raises:
        UsageError: If it needs an extra that is not installed.
    """
    return Retriever(name, imported(RETRIEVERS[name])())


def imported(place: str) -> Any:
    """Import and return `module:name` from a module of this folder."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"alps.systems.{module}"), name)


def embedded(name: str, task: Task, *, tracebacks: Path | None = None) -> Embedded:
    """Return the system that answers `task` without a model under this name.

    Raises:
        UsageError: If it needs an extra that is not installed.
    """
    answer = task.systems[name]
    if not isinstance(answer, str):
        return Embedded(name, answer, tracebacks=tracebacks)
    if answer in RETRIEVERS:
        return retriever(answer)
    return Embedded(name, imported(answer), tracebacks=tracebacks)
