"""The protocol of a memory system: what the suite calls, and what it is given back.

A memory system lives over the sessions of many users. The suite owns the ids of users, the clock,
the order of sessions and how many hits it asks for. A system is never told a task, an id of the
benchmark, a gold answer or the options of a question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol

from alps.schema import Turn

# A fixed day: today's would be in prompts, and no kept reply would be found tomorrow.
FIRST_DAY = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""When the first session of every user begins; each later one begins a day after."""


def stamp(session: int, turn: int, began: str = "") -> str:
    """Return when a turn of a session is said: a minute a turn, from when the session `began`.

    Where that is not known, a day a session.
    """
    first = datetime.fromisoformat(began) if began else FIRST_DAY + timedelta(days=session)
    return (first + timedelta(minutes=turn)).isoformat()


@dataclass(frozen=True)
class SpokenTurn:
    """One turn of a session: who said it (`user`, `assistant` or `system`), its text, and when."""

    role: str
    text: str
    at: str


@dataclass(frozen=True)
class Session:
    """One conversation of a user; times are ISO 8601, and rise from session to session.

    A long conversation may come in parts, each a session of its own.
    """

    id: str
    started_at: str
    turns: tuple[SpokenTurn, ...]


def session_of(told: Sequence[Turn], day: int, start: int = 0, began: str = "") -> Session:
    """Return the turns of a day from `start` on as a session; a remainder gets its own id."""
    turns = []
    for place, turn in enumerate(told[start:], start=start):
        turns.append(SpokenTurn(turn.role, turn.text, stamp(day, place, began)))
    # Numbers of days: an id of the data could be looked up by a system that knows the set.
    name = f"s{day + 1}" if start == 0 else f"s{day + 1}.{start}"
    return Session(name, stamp(day, start, began), tuple(turns))


LONGEST_ID = 500
"""Characters of an id, a time and a source: a longer one can't be submitted."""


@dataclass(frozen=True)
class Hit:
    """One memory that was found.

    Attributes:
        id: Its id in the system, of at most `LONGEST_ID` characters.
        text: What a reader is shown.
        score: How well it fits, the higher the better, where the system tells.
        created_at: When what it says was said, ISO 8601.
        sources: The ids of the sessions that it comes from.
    """

    id: str
    text: str
    score: float | None = None
    created_at: str | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class MeteredEndpoint:
    """An OpenAI-compatible endpoint that the suite meters: where it is, and the model behind it."""

    api_base: str
    api_key: str
    model: str


@dataclass(frozen=True)
class Opening:
    """What a system is opened with.

    Attributes:
        folder: Where it may keep files; a run that goes on finds them again.
        llm: Whom it may ask; None where the run gives it no model.
        embedder: Who embeds for it; None where the run gives it none.
        seed: Of every random draw.
        options: What the user gave as `memory.NAME=VALUE`.
    """

    folder: Path
    llm: MeteredEndpoint | None
    embedder: MeteredEndpoint | None
    seed: int
    options: Mapping[str, str]


Settled = Literal["ready", "pending", "failed"]


class MemorySystem(Protocol):
    """A memory system; its methods may be plain or `async`.

    What a method raises is a failure of that stage, and counts as one. A system may have more:
    `memories(user)`, all hits that it holds of a user; `forget(user, what)`; `respond(user, query,
    at)`, a text of its own; `size(user)`, the bytes it takes; `close()`. One whose `persistent` is
    true finds in its folder what it had settled.
    """

    def open(self, opening: Opening) -> None:
        """Begin, or go on in the folder of the opening."""
        ...

    def ingest(self, user: str, session: Session) -> None:
        """Take in a session of a user."""
        ...

    def settle(self, user: str, timeout: float) -> Settled:
        """Wait until what was ingested can be found, `timeout` seconds at most."""
        ...

    def search(self, user: str, query: str, k: int, at: str) -> Sequence[Hit]:
        """Return the `k` best hits for a query at a time, the best first, or fewer."""
        ...

    def reset(self, user: str) -> None:
        """Forget everything about a user."""
        ...
