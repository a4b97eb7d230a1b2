"""Memories that are no system: the history or the end of it, nothing, and what the data name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from alps.errors import UsageError
from alps.tasks import Task
from alps.tasks.recall import FULL, LAST, NOTHING, ORACLE, Recall, Shown, newest

KNOWN = (FULL, NOTHING, f"{LAST}N", ORACLE)


class Memory(Protocol):
    """Something that chooses what of a history a reader is shown.

    Attributes:
        name: What `memory=` called it.
        settings: Everything that can change its choice; written into the manifest.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - an attribute, described above

    @property
    def settings(self) -> Mapping[str, Any]: ...  # noqa: D102

    async def recall(self, task: Task, sample: Any) -> Shown:
        """Return what a reader is shown of the history of `sample`."""
        ...


@dataclass(frozen=True)
class Whole:
    """The whole history, or the latest turns of it that fit into a budget of tokens."""

    max_tokens: int | None
    name: str = FULL
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, task: Task, sample: Any) -> Shown:
        """Return all turns that fit."""
        return newest(_recall(task).history(sample).turns, self.max_tokens)


@dataclass(frozen=True)
class Nothing:
    """No history at all: what a reader makes of the query alone."""

    name: str = NOTHING
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, task: Task, sample: Any) -> Shown:
        """Return nothing, and read no history."""
        return Shown()


@dataclass(frozen=True)
class LastTurns:
    """The last `count` turns of user and assistant."""

    name: str
    count: int
    max_tokens: int | None
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, task: Task, sample: Any) -> Shown:
        """Return the last turns that fit."""
        turns = [turn for turn in _recall(task).history(sample).turns if turn.role != "system"]
        return newest(turns[-self.count :], self.max_tokens)


@dataclass(frozen=True)
class Oracle:
    """The evidence that the data name: what a perfect memory would return."""

    max_tokens: int | None
    name: str = ORACLE
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, task: Task, sample: Any) -> Shown:
        """Return the evidence.

        Raises:
            UsageError: If the data don't tell where it is.
        """
        evidence = _recall(task).evidence(sample)
        if evidence is None:
            name = sample.benchmark_id
            raise UsageError(f"memory=oracle: the data don't tell where the evidence of {name} is")
        if self.max_tokens is None:
            return evidence
        return replace(newest(evidence.turns, self.max_tokens), memories=evidence.memories)


def _recall(task: Task) -> Recall:
    assert task.recall is not None
    return task.recall


def open_embedded(name: str, max_tokens: int | None) -> Memory | None:
    """Return what chooses from a history by itself; None where `name` is a system of its own.

    Args:
        name: What `memory=` says.
        max_tokens: The most tokens that a reader is shown, at 4 bytes each; None for any number.
    """
    if name == FULL:
        return Whole(max_tokens)
    if name == NOTHING:
        return Nothing()
    if name == ORACLE:
        return Oracle(max_tokens)
    count = name.removeprefix(LAST)
    if count != name and count.isdecimal() and int(count) > 0:
        return LastTurns(name, int(count), max_tokens)
    return None
