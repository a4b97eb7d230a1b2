"""Systems that need neither a network nor a process: functions of the sample, and retrievers.

Functions of the sample are the trivial baselines (`floor/…`) and the oracle; `model=rules` is one,
too, of `alps.systems.rules`.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from alps.errors import AlpsError, UsageError
from alps.llm.types import Completes
from alps.schema import (
    ExtractionSample,
    Memory,
    Prediction,
    RetrievalSample,
    UpdateSample,
    UtilizationSample,
    memory_fields,
)
from alps.similarity import similarity
from alps.systems.base import Tracebacks, described
from alps.tasks import Task

RETRIEVERS = {
    "bm25": "retrievers:BM25",
    "tfidf": "retrievers:TfIdf",
    "minilm": "retrievers:minilm",
    "e5": "retrievers:e5",
}
"""Retrievers by name: where their class stands, imported when asked for."""
_EXCERPT = 300
"""The most characters of a message that a baseline repeats."""


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


def empty(sample: ExtractionSample) -> dict[str, Any]:
    """Answer with no memories at all."""
    return {"memory_items": []}


def content_free(sample: ExtractionSample) -> dict[str, Any]:
    """Answer with three fixed items whose value is "x": only their labels and types can match."""
    return _fixed("x", "x", "x")


def content_free_fluent(sample: ExtractionSample) -> dict[str, Any]:
    """Answer with three fixed items that are true of nearly every user."""
    return _fixed(
        "The user has interests and preferences",
        "The user asked the assistant questions about a topic",
        "The user wants helpful and accurate answers",
    )


def excerpts(sample: ExtractionSample) -> dict[str, Any]:
    """Answer with the beginning of each message of the user, word for word: nothing is chosen."""
    turns = [turn.text for turn in sample.dialogue if turn.role == "user"]
    texts = [" ".join(text.split())[:_EXCERPT] for text in turns]
    said = filter(None, dict.fromkeys(texts))
    items = [_item(f"m{n}", text, *_DRESS[0]).model_dump() for n, text in enumerate(said, 1)]
    return {"memory_items": items}


def oracle(sample: ExtractionSample) -> dict[str, Any]:
    """Answer with the gold memories: what a perfect system would score.

    Raises:
        UsageError: If the gold is withheld.
    """
    return {"memory_items": [memory.model_dump() for memory in _gold_of(sample)]}


def _gold_of(sample: Any) -> Any:
    if sample.gold is None:
        raise UsageError("model=oracle: needs gold, which this split withholds")
    return sample.gold


def no_op(sample: UpdateSample) -> dict[str, Any]:
    """Answer with the old memories, as they were."""
    return _without_actions(sample.memory)


def _without_actions(memories: Iterable[Memory]) -> dict[str, Any]:
    """Return a list of memories whose actions are left to be found by comparison."""
    rows = [{**memory.model_dump(), "action": None, "replaces": None} for memory in memories]
    return {"memory_items": rows}


def positional(sample: UpdateSample) -> dict[str, Any]:
    """Add the user's third and second turn from the end; drop the old memory most like them.

    In the AlpsBench authors' public records each update has one addition, told in one of these two
    turns in 609 of 638 records that quote it, and one modification: a rule that reads nothing finds
    them.
    """
    turns = [turn.text for turn in sample.new_dialogue if turn.role == "user"]
    texts = [" ".join(text.split())[:_EXCERPT] for text in turns[-3:-1]]
    likeness = {
        memory.memory_id: max((similarity(memory.value, text) for text in texts), default=0.0)
        for memory in sample.memory
    }
    dropped = max(likeness, key=lambda name: likeness[name], default=None)
    kept = [memory for memory in sample.memory if memory.memory_id != dropped]
    added = [_item(f"m_new_{n}", text, *_DRESS[0]) for n, text in enumerate(texts, 1) if text]
    return _without_actions([*kept, *added])


def oracle_update(sample: UpdateSample) -> dict[str, Any]:
    """Answer with the gold list, without naming actions.

    Raises:
        UsageError: If the gold is withheld.
    """
    return _without_actions(_gold_of(sample))


def random_candidate(sample: RetrievalSample) -> dict[str, Any]:
    """Rank the candidates by a hash of the query's id and their text: chance, reproducibly."""

    def order(text: str) -> str:
        return hashlib.sha256(f"{sample.benchmark_id}\x00{text}".encode()).hexdigest()

    shuffled = sorted(sample.candidates, key=lambda candidate: order(candidate.value))
    return ranked([candidate.id for candidate in shuffled])


def lowest_unique_id(sample: RetrievalSample) -> dict[str, Any]:
    """Choose the lowest id that occurs once: in the published pools ids give gold away."""
    return ranked([lowest_unique([candidate.id for candidate in sample.candidates])])


def lowest_unique(ids: Sequence[str]) -> str:
    """Return the lowest of `ids` that occurs once, by length and then by letters; else of all."""
    times = Counter(ids)
    unique = [name for name in ids if times[name] == 1]
    return min(unique or ids, key=lambda name: (len(name), name))


def oracle_retrieval(sample: RetrievalSample) -> dict[str, Any]:
    """Choose the gold memory.

    Raises:
        UsageError: If the gold is withheld.
    """
    return ranked([_gold_of(sample)])


def generic(sample: UtilizationSample) -> dict[str, Any]:
    """Answer with one polite sentence that fits everything."""
    return {
        "answer": "Thank you for your message, I am happy to help you with that in any way I can."
    }


def refusal(sample: UtilizationSample) -> dict[str, Any]:
    """Answer with one refusal: by a lax rubric it breaks no constraint, believes no fiction."""
    return {"answer": "I'm sorry, but I can't help with that."}


# The commonest types and labels of real gold, as an exploit would give them
_DRESS: tuple[tuple[Literal["direct", "indirect"], str], ...] = (
    ("direct", "Preferences/Interaction_Preferences"),
    ("indirect", "Thoughts/Curiosity"),
    ("direct", "Personal_Background/Occupation"),
)


# The same for every record of a run.
@lru_cache(maxsize=8)
def _fixed(*values: str) -> dict[str, Any]:
    items = []
    for number, (value, dress) in enumerate(zip(values, _DRESS, strict=True), start=1):
        items.append(_item(f"m{number}", value, *dress).model_dump())
    return {"memory_items": items}


def _item(name: str, value: str, kind: Literal["direct", "indirect"], label: str) -> Memory:
    known = {"memory_id": name, "type": kind, "label": label, "time_scope": "long_term"}
    return Memory(**memory_fields(value, confidence=0.95, **known))
