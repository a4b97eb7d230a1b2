"""Memories that need no network: the history or parts of it, and turns found by a retriever."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from alps.errors import UsageError, closest
from alps.schema import Turn
from alps.systems.embedded import RETRIEVERS, Ranker, imported
from alps.tasks.recall import Recall, Shown, best, newest

FULL, NOTHING, LAST, ORACLE = "full", "none", "last:", "oracle"
KNOWN = (FULL, NOTHING, f"{LAST}N", *RETRIEVERS, ORACLE)


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

    async def recall(self, recall: Recall, sample: Any) -> Shown:
        """Return what a reader is shown of the history of `sample`."""
        ...


@dataclass(frozen=True)
class Whole:
    """The whole history, or the latest turns of it that fit into a budget of tokens."""

    max_tokens: int | None
    name: str = FULL
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, recall: Recall, sample: Any) -> Shown:
        """Return all turns that fit."""
        return newest(recall.history(sample).turns, self.max_tokens)


@dataclass(frozen=True)
class Nothing:
    """No history at all: what a reader makes of the query alone."""

    name: str = NOTHING
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, recall: Recall, sample: Any) -> Shown:
        """Return nothing, and read no history."""
        return Shown()


@dataclass(frozen=True)
class LastTurns:
    """The last `count` turns of user and assistant."""

    name: str
    count: int
    max_tokens: int | None
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, recall: Recall, sample: Any) -> Shown:
        """Return the last turns that fit."""
        turns = [turn for turn in recall.history(sample).turns if turn.role != "system"]
        return newest(turns[-self.count :], self.max_tokens)


@dataclass(frozen=True)
class Retrieved:
    """The `k` turns that a retriever ranks highest for the query, in the order of the history."""

    name: str
    ranker: Ranker
    k: int
    max_tokens: int | None

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the retriever was set to, and how many turns it returns."""
        return {**self.ranker.settings, "k": self.k}

    async def recall(self, recall: Recall, sample: Any) -> Shown:
        """Return the best turns that fit."""
        history = recall.history(sample)
        turns = history.turns
        said = _said(turns)
        order = self.ranker.rank(history.query, [turns[place].text for place in said])
        positions = [said[place] for place in order[: self.k]]
        return best(turns, positions, self.max_tokens)


@dataclass(frozen=True)
class Oracle:
    """The evidence that the data name: what a perfect memory would return."""

    max_tokens: int | None
    name: str = ORACLE
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def recall(self, recall: Recall, sample: Any) -> Shown:
        """Return the evidence.

        Raises:
            UsageError: If the data don't tell where it is.
        """
        evidence = recall.evidence(sample)
        if evidence is None:
            name = sample.benchmark_id
            raise UsageError(f"memory=oracle: the data don't tell where the evidence of {name} is")
        if self.max_tokens is None:
            return evidence
        return replace(newest(evidence.turns, self.max_tokens), memories=evidence.memories)


def _said(turns: tuple[Turn, ...]) -> list[int]:
    """Return the positions of what user and assistant said: system turns repeat a biography."""
    return [place for place, turn in enumerate(turns) if turn.role != "system"]


def check_memory(name: str) -> None:
    """Refuse a memory that nothing is called by.

    Raises:
        UsageError: If there is none by that name.
    """
    count = name.removeprefix(LAST)
    if name in (FULL, NOTHING, ORACLE, *RETRIEVERS):
        return
    if count != name and count.isdecimal() and int(count) > 0:
        return
    known = ", ".join(KNOWN)
    raise UsageError(f"memory={name}: unknown{closest(name, KNOWN)} (known: {known})")


def open_memory(name: str, *, k: int, max_tokens: int | None) -> Memory:
    """Return the memory called `name`.

    Args:
        name: What `memory=` says.
        k: How many turns a retriever returns.
        max_tokens: The most tokens that a reader is shown, at 4 bytes each; None for any number.

    Raises:
        UsageError: If there is none by that name, or it needs an extra that is not installed.
    """
    check_memory(name)
    if name == NOTHING:
        return Nothing()
    if name == ORACLE:
        return Oracle(max_tokens)
    if name in RETRIEVERS:
        return Retrieved(name, imported(RETRIEVERS[name])(), k, max_tokens)
    if name.startswith(LAST):
        return LastTurns(name, int(name.removeprefix(LAST)), max_tokens)
    return Whole(max_tokens)
