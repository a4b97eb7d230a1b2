"""History that a memory is given of a user, and what a reader is shown in its place.

A task whose samples have a history says here how a memory comes between the two: the memory is
given the history and the query, and the reader is asked about the sample as the memory left it. One
whose answer is the memory itself says what a memory is given and asked, and no reader has a part.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from alps.schema import Turn

BYTES_A_TOKEN = 4
FULL, NOTHING, LAST, ORACLE, PLACEBO = "full", "none", "last:", "oracle", "placebo"


def keeps_memories(memory: str) -> bool:
    """Tell whether `memory=` names a system, and no choice among the turns of a history."""
    return memory not in (FULL, NOTHING, ORACLE, PLACEBO) and not memory.startswith(LAST)


@dataclass(frozen=True)
class History:
    """The conversations of a user, in their order: the turns of each."""

    sessions: tuple[tuple[Turn, ...], ...]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, one session after the other."""
        return tuple(turn for session in self.sessions for turn in session)


@dataclass(frozen=True)
class Place:
    """Where in the life of a user a sample is asked.

    Attributes:
        key: The history: samples that share it differ in how far they reach alone.
        turns: How many turns of it come before the sample.
        query: What the user says then.
    """

    key: str
    turns: int
    query: str


@dataclass(frozen=True)
class Context:
    """What a reader is shown in place of a history.

    Attributes:
        turns: Turns of the history.
        memories: Texts that a memory returned, the best first.
        positions: Where `turns` stand in the history; None where they are its end.
        left_out: How many turns or memories a token budget left out or shortened.
    """

    turns: tuple[Turn, ...] = ()
    memories: tuple[str, ...] = ()
    positions: tuple[int, ...] | None = None
    left_out: int = 0

    @property
    def tokens(self) -> int:
        """The tokens of it, at 4 bytes each, rounded up; one more for each turn or memory."""
        texts = [*(turn.text for turn in self.turns), *self.memories]
        return -(-sum(map(_size, texts)) // BYTES_A_TOKEN)


@dataclass(frozen=True)
class Recall:
    """How the samples of a task are asked through a memory.

    Attributes:
        history: What a memory is given of a sample.
        place: Where that history ends and what is asked there, told without reading it.
        show: The sample as a reader is asked about it, once a memory has answered.
        evidence: What a perfect memory would return; None where the data don't tell.
        needed: Texts any of which an answer needs; none where the data don't tell.
    """

    history: Callable[[Any], History]
    place: Callable[[Any], Place]
    show: Callable[[Any, Context], Any]
    evidence: Callable[[Any], Context | None]
    needed: Callable[[Any], tuple[str, ...]] = lambda sample: ()


@dataclass(frozen=True)
class Probe:
    """What a memory is asked when it knows so many turns of a history.

    Attributes:
        turns: How many turns of it come before.
        query: What is searched for; None asks for all memories that it holds.
    """

    turns: int
    query: str | None = None


@dataclass(frozen=True)
class Remembered:
    """A memory as a system returned it, under the system's own id."""

    id: str
    text: str


@dataclass(frozen=True)
class MemoryProbes:
    """How a memory system answers a task whose answer is the memory itself.

    Attributes:
        history: What it is given of a sample.
        probes: What it is asked, in the order of the history.
        prediction: The prediction, from what each probe returned; None where that is no answer.
        lists: Whether a probe asks for all memories: a system that can't list them has no score.
    """

    history: Callable[[Any], History]
    probes: Callable[[Any], tuple[Probe, ...]]
    prediction: Callable[[Any, Sequence[Sequence[Remembered]]], dict[str, Any] | None]
    lists: bool = True


@dataclass(frozen=True)
class Ingest:
    """A user's session is taken in and settled; one with a known number is taken in again.

    Attributes:
        session: Its number among those of the user, from 1.
        user: The user, of those of the sample.
    """

    session: int
    turns: tuple[Turn, ...]
    user: int = 0


@dataclass(frozen=True)
class Forget:
    """The first user has something deleted: by `forget`, else in a session that asks for it.

    Attributes:
        session: The number of that session.
        what: What every memory that has to go says.
        turns: The session in which the user asks for it.
    """

    session: int
    what: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Reopen:
    """The system is opened again, in the folder it has; one that keeps nothing there is not."""


@dataclass(frozen=True)
class Search:
    """The first user's memories are searched."""

    query: str


Step = Ingest | Forget | Reopen | Search


@dataclass(frozen=True)
class Script:
    """How a memory system answers a task that needs more of it than a history and questions.

    Attributes:
        steps: What is done to the users of a sample, who are those of no other one.
        prediction: The prediction, from what each search returned, in the order of the steps.
    """

    lists: ClassVar[bool] = False

    steps: Callable[[Any], Sequence[Step]]
    prediction: Callable[[Any, Sequence[Sequence[Remembered]]], dict[str, Any] | None]


def fitting(texts: Iterable[str], max_tokens: int) -> tuple[list[str], int]:
    """Return the first texts that fit into `max_tokens`, and how many of them are whole.

    The last one is cut to what is left, the first one too: a budget that one long text exceeds
    would be none. Each text takes a token more than its own, which separates it from the next.
    """
    kept: list[str] = []
    room = max_tokens * BYTES_A_TOKEN
    for text in texts:
        # A character that does not fit whole is left out.
        part = text.encode()[: max(0, room - BYTES_A_TOKEN)].decode(errors="ignore")
        if part == text and room >= _size(text):
            kept.append(text)
            room -= _size(text)
            continue
        return ([*kept, part], len(kept)) if part else (kept, len(kept))
    return kept, len(kept)


def _size(text: str) -> int:
    return len(text.encode()) + BYTES_A_TOKEN


def newest(turns: Sequence[Turn], max_tokens: int | None) -> Context:
    """Return the latest turns that fit into `max_tokens`, the earliest of them cut to its end.

    All of them where it is None.
    """
    if max_tokens is None:
        return Context(tuple(turns))
    # By bytes, as no tokenizer is right for every model; backwards, as the end is kept.
    texts, whole = fitting((turn.text[::-1] for turn in reversed(turns)), max_tokens)
    kept: list[Turn] = []
    for turn, text in zip(reversed(turns), texts, strict=False):
        kept.append(turn.model_copy(update={"text": text[::-1]}))
    return Context(tuple(reversed(kept)), left_out=len(turns) - whole)
