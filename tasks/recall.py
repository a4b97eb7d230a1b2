"""What a memory is given of a user, and what a reader is shown in its place.

A task whose samples have a history says here how a memory comes between the two: the memory is
given the history and the query, and the reader is asked about the sample as the memory left it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from alps.schema import Turn

BYTES_A_TOKEN = 4


@dataclass(frozen=True)
class Session:
    """One conversation of a user.

    Attributes:
        id: Its id in the data.
        turns: What was said.
        started_at: When it began, as the data say it; None where they don't.
    """

    id: str
    turns: tuple[Turn, ...]
    started_at: str | None = None


@dataclass(frozen=True)
class History:
    """The conversations of a user before a query, in their order.

    Attributes:
        user: The user; samples about the same one share it.
        sessions: The conversations.
        query: What the user says now.
    """

    user: str
    sessions: tuple[Session, ...]
    query: str

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, one session after the other."""
        return tuple(turn for session in self.sessions for turn in session.turns)


@dataclass(frozen=True)
class Shown:
    """What a reader is shown in place of a history.

    Attributes:
        turns: Turns of the history.
        memories: Texts that a memory returned, the best first.
        positions: Where `turns` stand in the history; None where they are its end.
        left_out: How many turns or memories a token budget cut.
    """

    turns: tuple[Turn, ...] = ()
    memories: tuple[str, ...] = ()
    positions: tuple[int, ...] | None = None
    left_out: int = 0

    @property
    def tokens(self) -> int:
        """The tokens of it, at 4 bytes each, rounded up."""
        size = sum(len(turn.text.encode()) for turn in self.turns)
        size += sum(len(text.encode()) for text in self.memories)
        return -(-size // BYTES_A_TOKEN)


@dataclass(frozen=True)
class Recall:
    """How the samples of a task are asked through a memory.

    Attributes:
        history: What a memory is given of a sample.
        show: The sample as a reader is asked about it, once a memory has answered.
        evidence: What a perfect memory would return; None where the data don't tell.
    """

    history: Callable[[Any], History]
    show: Callable[[Any, Shown], Any]
    evidence: Callable[[Any], Shown | None]


def newest(turns: Sequence[Turn], max_tokens: int | None) -> Shown:
    """Return the latest turns that fit into `max_tokens`, at least one; all where it is None."""
    # By bytes, as no tokenizer is right for every model.
    room = float("inf") if max_tokens is None else max_tokens * BYTES_A_TOKEN
    kept: list[Turn] = []
    for turn in reversed(turns):
        room -= len(turn.text.encode())
        if room < 0 and kept:
            break
        kept.append(turn)
    return Shown(tuple(reversed(kept)), left_out=len(turns) - len(kept))


def best(turns: Sequence[Turn], positions: Sequence[int], max_tokens: int | None) -> Shown:
    """Return the turns at `positions`, which stand best first, in the order of the history.

    The first of them that no longer fits into `max_tokens` goes with all behind it; the best stays.
    """
    room = float("inf") if max_tokens is None else max_tokens * BYTES_A_TOKEN
    kept: list[int] = []
    for position in positions:
        room -= len(turns[position].text.encode())
        if room < 0 and kept:
            break
        kept.append(position)
    left_out, kept = len(positions) - len(kept), sorted(kept)
    shown = tuple(turns[position] for position in kept)
    return Shown(shown, positions=tuple(kept), left_out=left_out)
