"""A memory system that is fed again, to look where what a sample needs is lost.

It is opened in another folder, with users of other ids, and taken through the same sessions to the
same ends. So nothing that is looked for here can be known to the system that was scored.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from alps.ext.memory.connection import MemoryFailed
from alps.ext.memory.journal import Diary
from alps.ext.memory.protocol import Hit, stamp
from alps.ext.memory.store import Store, sessions_after
from alps.similarity import features
from alps.tasks import Task
from alps.tasks.by_memory import History
from alps.text import fold_value

DEEPER = 10
"""How many times k the searches ask for that look for what is ranked too low."""
COVERED = 0.75
"""The share of one text's content from which the other is taken to say it.

Other turns of a generated history reach .67 of a turn that tells a preference.
"""
_FEWEST = 2.0


@dataclass(frozen=True)
class Found:
    """A memory that says what a sample needs, and its place from 1 in what was looked through."""

    text: str
    place: int


@dataclass(frozen=True)
class Located:
    """Where a memory system has what a sample needs.

    Attributes:
        listed: How many memories it lists when the sample is asked; None where it lists none.
        hit: Among the hits of the run.
        was: Among those that it listed where it was settled first once that was told.
        kept: Among those that it lists when the sample is asked.
        ranked: Among the hits for the query, up to `DEEPER` times k.
        indexed: Among as many hits for the words of `kept`, or else for those that were told.
        same: Whether the first k hits are those of the run.
    """

    listed: int | None = None
    hit: Found | None = None
    was: Found | None = None
    kept: Found | None = None
    ranked: Found | None = None
    indexed: Found | None = None
    same: bool = True


@dataclass(frozen=True)
class SoughtSample:
    """A sample that is looked for.

    Attributes:
        key: Its key in the diary.
        query: What is asked.
        needed: Texts any of which an answer needs.
        told: How many turns the history has where the system is settled first once it was told;
            None where that is not known.
        hits: What the run found for it.
    """

    key: str
    query: str
    needed: tuple[str, ...]
    told: int | None
    hits: tuple[Hit, ...]


@dataclass
class Life:
    """A user as the run took the system through it.

    Attributes:
        ends: A sample for each end at which the run asked, which has the history up to there.
        wanted: What is looked for at which end.
    """

    ends: dict[int, tuple[Task, Any]] = field(default_factory=dict)
    wanted: dict[int, list[SoughtSample]] = field(default_factory=dict)


def find(texts: Iterable[str], needed: Sequence[str]) -> Found | None:
    """Return the first of `texts` that says what is needed, by its words."""
    for place, text in enumerate(texts, 1):
        if any(says(text, one) for one in needed):
            return Found(text, place)
    return None


def is_verbatim(text: str, needed: Sequence[str]) -> bool:
    """Tell whether a text contains one of the needed texts verbatim."""
    folded = fold_value(text)
    return any(fold_value(one) in folded for one in needed)


def says(text: str, needed: str) -> bool:
    """Tell whether a memory contains an ingested text, or a statement from it."""
    if is_verbatim(text, (needed,)):
        return True
    return closeness(text, needed) >= COVERED


def closeness(text: str, needed: str) -> float:
    """Return the share of the lighter text's content that the other has, too."""
    return _share(features(text).content, features(needed).content)


def _share(memory: Mapping[str, float], told: Mapping[str, float]) -> float:
    least = min(sum(memory.values()), sum(told.values()))
    if least < _FEWEST:
        return 0.0
    shared = sum(min(memory[piece], told[piece]) for piece in memory.keys() & told.keys())
    return shared / least


class Finder(Protocol):
    """Finds a memory that says what is needed."""

    async def find(self, texts: Sequence[str], needed: Sequence[str]) -> Found | None:
        """Return the first of `texts` that says it."""
        ...


class Replay:
    """Takes a memory system through lives, and looks in it for what is wanted."""

    def __init__(self, store: Store, finder: Finder, *, k: int, timeout: float) -> None:
        self._connection, self._opening = store.behind
        self._find, self._k, self._timeout = finder.find, k, timeout
        self._ids = Diary(None)

    async def open(self, folder: Path) -> None:
        """Open the system in a folder of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        await self._call("open", replace(self._opening, folder=folder))

    async def look(self, name: str, life: Life) -> dict[str, Located]:
        """Return by key where the system has the wanted memories of a user.

        Raises:
            MemoryFailed: If it failed at any stage.
        """
        user, reached, last = self._ids.user(name), 0, max(life.wanted)
        was: dict[str, Found] = {}
        located: dict[str, Located] = {}
        for end in sorted(end for end in life.ends if end <= last):
            task, sample = life.ends[end]
            assert task.by_memory.recall is not None
            history = task.by_memory.recall.history(sample)
            for stop in _stops(life, reached, end):
                await self._feed(user, history.until(stop), reached)
                reached = stop
                was |= await self._told(user, life, stop)
            wanted = life.wanted.get(end, ())
            listed = await self._memories(user) if wanted else None
            for one in wanted:
                at = task.by_memory.recall.place(sample).at or stamp(len(history.sessions), 0)
                found = await self._locate(user, one, at, listed)
                located[one.key] = replace(found, was=was.get(one.key))
        await self._call("reset", user)
        return located

    async def _feed(self, user: str, history: History, reached: int) -> None:
        for session in sessions_after(history, reached):
            await self._call("ingest", user, session)
        settled = await self._call("settle", user, self._timeout)
        if settled != "ready":
            raise MemoryFailed("settle", f"{settled!r:.200} after {self._timeout:g} s")

    async def _told(self, user: str, life: Life, stop: int) -> dict[str, Found]:
        """Return what is kept of what a session told that has just been settled."""
        told: list[SoughtSample] = []
        for wanted in life.wanted.values():
            told += [one for one in wanted if one.told == stop]
        listed = await self._memories(user) if told else None
        kept: dict[str, Found] = {}
        for one in told if listed is not None else ():
            if found := await self._find(listed or (), one.needed):
                kept[one.key] = found
        return kept

    async def _locate(
        self, user: str, one: SoughtSample, at: str, listed: list[str] | None
    ) -> Located:
        kept = None if listed is None else await self._find(listed, one.needed)
        hits = await self._search(user, one.query, at)
        own = one.needed[0] if kept is None else kept.text
        indexed = await self._search(user, own, at)
        first = [hit.text for hit in one.hits]
        return Located(
            listed=None if listed is None else len(listed),
            hit=await self._find(first, one.needed),
            kept=kept,
            ranked=await self._find(hits, one.needed),
            indexed=await self._find(indexed, one.needed),
            same=hits[: len(first)] == first,
        )

    async def _memories(self, user: str) -> list[str] | None:
        if "memories" not in self._connection.can:
            return None
        return _texts(await self._call("memories", user))

    async def _search(self, user: str, query: str, at: str) -> list[str]:
        return _texts(await self._call("search", user, query, DEEPER * self._k, at))

    async def _call(self, method: str, *arguments: Any) -> Any:
        answered = await self._connection.call(method, *arguments, timeout=self._timeout)
        return answered.value


def _texts(hits: Sequence[Hit]) -> list[str]:
    return [hit.text for hit in hits]


def _stops(life: Life, reached: int, end: int) -> list[int]:
    """Return where the system is settled on its way from one end to the next."""
    told = {one.told for wanted in life.wanted.values() for one in wanted}
    between = [stop for stop in told if stop is not None and reached < stop < end]
    return [*sorted(between), *([end] if end > reached else [])]
