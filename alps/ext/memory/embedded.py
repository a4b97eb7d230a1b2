"""Memories that are no system: the history or the end of it, nothing, and what the data name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from alps.errors import UsageError
from alps.tasks import Task
from alps.tasks.by_memory import FULL, LAST, NOTHING, ORACLE, Context, Recall, fitting, newest
from alps.text import whole_number

KNOWN = (FULL, NOTHING, f"{LAST}N", ORACLE)


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
class WholeHistory:
    """The whole history, or the latest turns of it that fit."""

    name: str = FULL
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, task: Task, sample: Any, max_tokens: int | None = None) -> Context:
        """Return all turns that fit."""
        return newest(_recall(task).history(sample).turns, max_tokens)


@dataclass(frozen=True)
class Nothing:
    """No history: the reader sees only the query."""

    name: str = NOTHING
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, task: Task, sample: Any, max_tokens: int | None = None) -> Context:
        """Return nothing, and read no history."""
        return Context()


@dataclass(frozen=True)
class LastTurns:
    """The last `count` turns of user and assistant."""

    name: str
    count: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, task: Task, sample: Any, max_tokens: int | None = None) -> Context:
        """Return the last turns that fit."""
        turns = [turn for turn in _recall(task).history(sample).turns if turn.role != "system"]
        return newest(turns[-self.count :], max_tokens)


@dataclass(frozen=True)
class Oracle:
    """The evidence that the data name: what a perfect memory would return."""

    name: str = ORACLE
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, task: Task, sample: Any, max_tokens: int | None = None) -> Context:
        """Return the evidence.

        Raises:
            UsageError: If the data don't tell where it is.
        """
        evidence = _recall(task).evidence(sample)
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


def _recall(task: Task) -> Recall:
    assert task.by_memory.recall is not None
    return task.by_memory.recall


def open_embedded(name: str) -> EmbeddedMemory | None:
    """Return the built-in selector of a history; None if `name` is a memory system."""
    if name == FULL:
        return WholeHistory()
    if name == NOTHING:
        return Nothing()
    if name == ORACLE:
        return Oracle()
    count = name.removeprefix(LAST)
    if count != name and (turns := whole_number(count)):
        return LastTurns(name, turns)
    return None
