"""Memory systems in a task: what they are given, what a reader is shown, what their answers mean.

A task whose samples have a history says how a memory comes between the two: the memory is given the
history and the query, and the reader is asked about the sample as the memory left it. One whose
answer is the memory itself says what a memory is given and asked, and no reader has a part.

A system is compared by the texts of its memories. Its ids say alone which memory it rewrote: no
system knows those of the data, and one of its own may be one of theirs by chance.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from alps.schema import Action, Memory, Turn, UpdatedMemory, memory_fields
from alps.similarity import THRESHOLD, similar_pairs
from alps.text import fold

BYTES_A_TOKEN = 4
FULL, NOTHING, LAST, ORACLE, PLACEBO = "full", "none", "last:", "oracle", "placebo"


@dataclass(frozen=True)
class History:
    """The conversations of a user in their order: the turns of each, and when, in ISO 8601."""

    sessions: tuple[tuple[Turn, ...], ...]
    times: tuple[str, ...] = ()

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, one session after the other."""
        return tuple(turn for session in self.sessions for turn in session)


@dataclass(frozen=True)
class HistoryPlace:
    """Where in the life of a user a sample is asked.

    Attributes:
        key: The history: samples that share it differ in how far they reach alone.
        turns: How many turns of it come before the sample.
        query: What the user says then.
        at: When that is, ISO 8601; empty where the data don't tell.
    """

    key: str
    turns: int
    query: str
    at: str = ""


@dataclass(frozen=True)
class Context:
    """What a reader is shown in place of a history.

    Attributes:
        turns: Turns of the history.
        memories: Texts that a memory returned, the best first.
        positions: Positions of `turns` in the history; None if they are its end.
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
        return -(-sum(map(size_of, texts)) // BYTES_A_TOKEN)


@dataclass(frozen=True)
class Recall:
    """How the samples of a task are asked through a memory.

    Attributes:
        history: What a memory is given of a sample.
        place: Where that history ends and what is asked there, told without reading it.
        show: The sample as a reader is asked about it, once a memory has answered.
        evidence: What a perfect memory would return; None where the data don't tell.
        needed: Texts any of which an answer needs; none where the data don't tell.
        dated: Whether a reader is shown when each memory was said, where a memory tells it.
    """

    history: Callable[[Any], History]
    place: Callable[[Any], HistoryPlace]
    show: Callable[[Any, Context], Any]
    evidence: Callable[[Any], Context | None]
    needed: Callable[[Any], tuple[str, ...]] = lambda sample: ()
    dated: bool = False


@dataclass(frozen=True)
class Probe:
    """What a memory is asked when it knows so many turns of a history.

    Without a query it is asked for all memories that it holds. `at` is in ISO 8601; empty where the
    data don't tell.
    """

    turns: int
    query: str | None = None
    at: str = ""


@dataclass(frozen=True)
class Remembered:
    """A memory as a system returned it, under the system's own id."""

    id: str
    text: str


@dataclass(frozen=True)
class MemoryProbes:
    """How a memory system answers a task whose answer is the memory itself.

    Attributes:
        history: The history of a sample that the system ingests.
        probes: Queries to it, in the order of the history.
        prediction: The prediction, from what each probe returned; None where that is no answer.
        lists: Whether a probe asks for all memories: a system that can't list them has no score.
        shared: The key of a history that samples share, each up to another end of it; None where
            each sample has one of its own.
    """

    history: Callable[[Any], History]
    probes: Callable[[Any], tuple[Probe, ...]]
    prediction: Callable[[Any, Sequence[Sequence[Remembered]]], dict[str, Any] | None]
    lists: bool = True
    shared: Callable[[Any], str] | None = None


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


def size_of(text: str) -> int:
    """Return the bytes that a text takes of a budget of tokens, with the one that ends it."""
    return len(text.encode()) + BYTES_A_TOKEN


NO_CANDIDATE = "-"
"""What the places of a ranking are called at which a memory found no candidate: `-3`."""


def as_memories(held: Sequence[Remembered]) -> tuple[Memory, ...]:
    """Return the memories of a system: values alone, as it gives no labels."""
    memories = []
    for place, memory in enumerate(held, start=1):
        memories.append(Memory(**memory_fields(memory.text, memory_id=f"kept-{place}")))
    return tuple(memories)


def changes(
    old: Sequence[Memory], before: Sequence[Remembered], after: Sequence[Remembered]
) -> tuple[UpdatedMemory, ...]:
    """Return what a system did to its memories while it took in what came later.

    One with a text that it had before is retained. One under an id that it had before is modified;
    of a system that keeps no ids, one that is like a text which is gone. Others are added. What is
    left of those before, and in no way there any more, is deleted.

    Args:
        old: The memories that the data say were known before: what is modified or deleted names the
            one of them that says the same.
        before: What the system held then.
        after: What it holds now.
    """
    kept = {fold(memory.text) for memory in before}
    there = {fold(memory.text) for memory in after}
    gone = [memory for memory in before if fold(memory.text) not in there]
    new = [memory for memory in after if fold(memory.text) not in kept]
    replaced = _replaced(gone, new, keeps_ids=not _ids(before).isdisjoint(_ids(after)))
    names = _names(old, gone)
    rows = []
    for place, memory in enumerate(after, start=1):
        action: Action = "retain" if fold(memory.text) in kept else "add"
        earlier = replaced.get(memory.id) if action == "add" else None
        if earlier is not None:
            action = "modify"
        rows.append(_changed(memory, place, action, names.get(earlier or "")))
    rewritten = set(replaced.values())
    for memory in gone:
        if memory.id not in rewritten:
            rows.append(_changed(memory, len(rows) + 1, "delete", names.get(memory.id)))
    return tuple(rows)


def _ids(memories: Sequence[Remembered]) -> set[str]:
    return {memory.id for memory in memories}


def _replaced(
    gone: Sequence[Remembered], new: Sequence[Remembered], *, keeps_ids: bool
) -> Mapping[str, str]:
    """Return which memory before each new one takes the place of, by the system's ids."""
    if keeps_ids:
        return {name: name for name in _ids(new) & _ids(gone)}
    pairs = _alike([memory.text for memory in new], [memory.text for memory in gone])
    return {new[one].id: gone[other].id for one, other in pairs.items()}


def _names(old: Sequence[Memory], gone: Sequence[Remembered]) -> Mapping[str, str]:
    """Return the ids of the data for what a system does not hold any more, where they say it."""
    pairs = _alike([memory.text for memory in gone], [memory.value for memory in old])
    return {gone[one].id: old[other].memory_id for one, other in pairs.items()}


def _changed(memory: Remembered, place: int, action: Action, replaces: str | None) -> UpdatedMemory:
    fields = memory_fields(memory.text, memory_id=f"kept-{place}")
    return UpdatedMemory(**fields, action=action, replaces=replaces)


def _alike(texts: Sequence[str], others: Sequence[str]) -> dict[int, int]:
    """Return the text that each one is most like, by position; each is given once."""
    pairs = similar_pairs(texts, others, THRESHOLD)
    found: dict[int, int] = {}
    for one, other, _ in sorted(pairs, key=lambda pair: -pair[2]):
        if one not in found and other not in found.values():
            found[one] = other
    return found


def places_of(hits: Sequence[Remembered], values: Sequence[str]) -> list[int | None]:
    """Return which of `values` each hit is, by position; None for one that is none of them.

    A hit is the value that it repeats, else the longest that it contains, else the one that it is
    most like.
    """
    folded = [fold(value) for value in values]
    alike: dict[int, tuple[float, int]] = {}
    for one, other, strength in similar_pairs([hit.text for hit in hits], values, THRESHOLD):
        alike[one] = max(alike.get(one, (0.0, 0)), (strength, other))
    places = []
    for number, hit in enumerate(hits):
        text = fold(hit.text)
        said = [place for place, value in enumerate(folded) if value in text]
        longest = max(said, key=lambda place: len(folded[place]), default=None)
        places.append(alike[number][1] if longest is None and number in alike else longest)
    return places


def ranking_of(hits: Sequence[Remembered], pool: Mapping[str, str], k: int) -> list[str]:
    """Return the ids of the candidates that hits are, the best first, and `k` places in all.

    A hit that is no candidate, or one that is already ranked higher, keeps its place.

    Args:
        hits: What was found, the best first.
        pool: The values of the candidates by their ids.
        k: How many hits were asked for.
    """
    ids, places = list(pool), places_of(hits, list(pool.values()))
    ranking: list[str] = []
    for rank in range(1, max(k, len(hits)) + 1):
        place = places[rank - 1] if rank <= len(hits) else None
        name = "" if place is None else ids[place]
        ranking.append(name if name and name not in ranking else f"{NO_CANDIDATE}{rank}")
    return ranking


def is_no_candidate(name: str) -> bool:
    """Tell whether a place of a ranking is one at which no candidate was found."""
    return name.startswith(NO_CANDIDATE) and name.removeprefix(NO_CANDIDATE).isdecimal()
