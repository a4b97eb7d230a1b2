"""Readers: memories that are no system, and a system behind a memory, each with its reader.

The first are the history or the end of it, nothing, and what the data name. Of a task whose answer
is the memory itself, the memory system is the system.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from alps.errors import UsageError
from alps.ext.memory.connection import MemoryFailed
from alps.ext.memory.journal import AnswerLog
from alps.ext.memory.protocol import Hit
from alps.ext.memory.store import NotEstimable, Store, fitting, newest, recall_of, sample_key
from alps.llm.types import Completes
from alps.schema import Prediction, ShownToReader, UsedToAnswer
from alps.systems.base import System, on_client
from alps.systems.embedded import Embedded
from alps.tasks import Task
from alps.tasks.by_memory import FULL, LAST, NOTHING, ORACLE, Context, Remembered
from alps.text import whole_number

SELECTORS = (FULL, NOTHING, f"{LAST}N", ORACLE)


class EmbeddedMemory(Protocol):
    """Something that chooses what of a history a reader is shown.

    Attributes:
        name: What `memory=` called it.
        settings: Everything that can change its choice; written into the manifest.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - an attribute, described above

    @property
    def settings(self) -> Mapping[str, Any]: ...  # noqa: D102

    async def recall(self, task: Task, sample: Any, max_tokens: int | None = None) -> Context:
        """Return the part of the history of `sample` that the reader sees.

        `max_tokens` is the most of it, as `Context.tokens` counts; None for any number.
        """
        ...


@dataclass(frozen=True)
class Selector:
    """A memory that is no system: what it shows of a sample follows from that sample alone."""

    name: str
    choose: Callable[[Task, Any, int | None], Context]
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, task: Task, sample: Any, max_tokens: int | None = None) -> Context:
        """Return what it chooses; see `EmbeddedMemory`."""
        return self.choose(task, sample, max_tokens)


def _whole(task: Task, sample: Any, max_tokens: int | None) -> Context:
    return newest(recall_of(task).history(sample).turns, max_tokens)


def _last(count: int, task: Task, sample: Any, max_tokens: int | None) -> Context:
    """Return the last turns of user and assistant."""
    # System turns of PersonaMem repeat the whole biography, which N turns must not contain.
    turns = [turn for turn in recall_of(task).history(sample).turns if turn.role != "system"]
    return newest(turns[-count:], max_tokens)


def _evidence(task: Task, sample: Any, max_tokens: int | None) -> Context:
    """Return the evidence that the data name: what a perfect memory would return.

    Raises:
        UsageError: If the data don't tell where it is.
    """
    evidence = recall_of(task).evidence(sample)
    if evidence is None:
        name = sample.benchmark_id
        raise UsageError(f"memory=oracle: the data has no evidence for {name}")
    if max_tokens is None:
        return evidence
    memories, whole = fitting(evidence.memories, max_tokens)
    left = max_tokens - Context(memories=tuple(memories)).tokens
    latest = newest(evidence.turns, left)
    positions = evidence.positions
    if positions is not None:
        positions = positions[len(positions) - len(latest.turns) :]
    left_out = latest.left_out + len(evidence.memories) - whole
    return Context(latest.turns, tuple(memories), positions, left_out)


def fixed(name: str, shown: Context) -> Selector:
    """Return a memory that shows the same whatever is asked, and reads no history."""
    return Selector(name, lambda task, sample, max_tokens: shown)


def open_embedded(name: str) -> EmbeddedMemory | None:
    """Return the built-in selector of a history; None if `name` is a memory system."""
    if name == FULL:
        return Selector(FULL, _whole)
    if name == NOTHING:
        return fixed(NOTHING, Context())
    if name == ORACLE:
        return Selector(ORACLE, _evidence)
    count = name.removeprefix(LAST)
    # `last:0` is no choice of turns; `none` is its name.
    if count != name and (turns := whole_number(count)):
        return Selector(name, partial(_last, turns))
    return None


class Probed(Protocol):
    """A memory that reports the hits of each probe of a record."""

    name: str
    settings: Mapping[str, Any]

    async def probed(self, task: Task, sample: Any) -> list[list[Hit]]:
        """Return it.

        Raises:
            MemoryFailed: If the memory failed.
            NotEstimable: If it can't be asked for that.
        """
        ...


class Direct:
    """Answers with the contents or hits of a memory, without the reader `system`."""

    def __init__(self, system: System, memory: Probed) -> None:
        self.system, self.memory = system, memory
        self.name = system.name
        self.settings: Mapping[str, Any] = {**system.settings, "memory": dict(memory.settings)}

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Tell the memory what the sample says, and ask it."""
        assert task.by_memory.answers is not None
        row: dict[str, Any] = {"benchmark_id": sample.benchmark_id, "track": task.track}
        try:
            found = await self.memory.probed(task, sample)
        except MemoryFailed as failed:
            return Prediction(**row, outcome=failed.outcome, error=str(failed))
        except NotEstimable:
            why = f"not estimable: {self.memory.name} can't list its memories"
            # No failure of the system: the record stays unscored, and counts for nobody.
            return Prediction(**row, outcome="transport", error=why)
        remembered = [[Remembered(hit.id, hit.text) for hit in hits] for hits in found]
        answer = task.by_memory.answers.prediction(sample, remembered)
        if answer is None:
            return Prediction(**row, outcome="empty", error="memory, search: no hits")
        return Prediction(**row, outcome="ok", prediction=answer)


class Reader:
    """Asks `system` about samples whose history was replaced by what `memory` chose of it.

    That is at most `max_tokens`; `log` notes what each answer takes.
    """

    def __init__(
        self,
        system: System,
        memory: EmbeddedMemory,
        max_tokens: int | None = None,
        log: AnswerLog | None = None,
    ) -> None:
        self.system, self.memory, self._max_tokens = system, memory, max_tokens
        self._log = log
        self.name = system.name
        self.settings: Mapping[str, Any] = {**system.settings, "memory": dict(memory.settings)}

    def on(self, client: Completes) -> "Reader | None":
        """Return the same reader, whose requests go to `client`; see `on_client`."""
        moved = on_client(self.system, client)
        return None if moved is None else Reader(moved, self.memory, self._max_tokens)

    def at(self, max_tokens: int, log: AnswerLog | None) -> "Reader":
        """Return the same reader, shown another number of tokens and noted elsewhere."""
        return Reader(self.system, self.memory, max_tokens, log)

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Ask the memory, then the system."""
        try:
            shown = await self.memory.recall(task, sample, self._max_tokens)
        except MemoryFailed as failed:
            row = {"benchmark_id": sample.benchmark_id, "track": task.track}
            return Prediction(**row, outcome=failed.outcome, error=str(failed))
        started = time.perf_counter()
        prediction = await self.system.answer(task, recall_of(task).show(sample, shown))
        if self._log is not None:
            seconds = round(time.perf_counter() - started, 6)
            # What a program or a class costs is not known; what is embedded asks nobody.
            free = UsedToAnswer() if isinstance(self.system, Embedded) else None
            self._log.note(sample_key(task, sample), seconds, prediction.used or free)
        return prediction.model_copy(update={"shown": noted(shown)})


def noted(part: Context) -> ShownToReader:
    """Return what is noted of the part of a history that a reader was shown."""
    return ShownToReader(
        turns=len(part.turns),
        memories=len(part.memories),
        tokens=part.tokens,
        left_out=part.left_out,
        positions=part.positions,
    )


def through(
    memory: EmbeddedMemory,
    system: System,
    task: Task,
    max_tokens: int | None = None,
    log: AnswerLog | None = None,
) -> System:
    """Return `system` as a run with `memory` asks it.

    A memory system answers by itself where the answer is the memory; a task without histories is
    asked as ever.
    """
    if task.by_memory.answers is not None and isinstance(memory, Store):
        return Direct(system, memory)
    return system if task.by_memory.recall is None else Reader(system, memory, max_tokens, log)
