"""Stage at which a memory system lost the evidence of a wrong answer, and shares of stages.

The system is fed again: opened in another folder, with users of other ids, and taken through the
same sessions to the same ends. So nothing that is looked for here can be known to the system that
was scored. A memory that says what is needed is searched by words, then by the judge that is an
LLM.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from alps.ext.memory.connection import require_ready
from alps.ext.memory.journal import Diary
from alps.ext.memory.protocol import Hit, stamp
from alps.ext.memory.store import Store, recall_of, sessions_after, until
from alps.judges.base import Item, Judge, MatchQuestion, Relation
from alps.similarity import features
from alps.stats.bootstrap import Estimate, clustered_mean
from alps.tasks import Task
from alps.tasks.by_memory import History
from alps.text import fold_value

Stage = Literal[
    "memory failed",
    "not extracted",
    "lost in update",
    "not indexed",
    "ranked too low",
    "cut by the budget",
    "not used by the reader",
    "gold suspect",
    "not estimable",
]
STAGES: tuple[Stage, ...] = get_args(Stage)

# A narrower memory and a bundle have the evidence in them; a broader or related one lost a part.
_SAY_IT: tuple[Relation, ...] = ("same", "narrower", "bundle")
_ASKED = 5
"""Of how many memories, those that share most words, a judge is asked."""

DEEPER = 10
"""How many times k the searches ask for that look for what is ranked too low."""
COVERED = 0.75
"""The share of one text's content from which the other is taken to say it.

Other turns of a generated history reach .67 of a turn that tells a preference.
"""
# Two content words: a text of one would be covered by any memory that has the word.
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
    return is_verbatim(text, (needed,)) or _closeness(text, needed) >= COVERED


def _closeness(text: str, needed: str) -> float:
    """Return the share of the lighter text's content that the other has, too."""
    memory, told = features(text).content, features(needed).content
    # The lighter text: a memory is shorter than a turn, and a turn may hold more than the evidence.
    least = min(sum(memory.values()), sum(told.values()))
    if least < _FEWEST:
        return 0.0
    shared = sum(min(memory[piece], told[piece]) for piece in memory.keys() & told.keys())
    return shared / least


class Replay:
    """Takes a memory system through lives, and looks in it for what is wanted."""

    def __init__(self, store: Store, judge: Judge, *, k: int, timeout: float) -> None:
        self._connection, self._opening = store.behind
        self._find, self._k, self._timeout = partial(find_by_meaning, judge), k, timeout
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
            recall = recall_of(task)
            history = recall.history(sample)
            for stop in _stops(life, reached, end):
                await self._feed(user, until(history, stop), reached)
                reached = stop
                was |= await self._told(user, life, stop)
            wanted = life.wanted.get(end, ())
            listed = await self._memories(user) if wanted else None
            for one in wanted:
                at = recall.place(sample).at or stamp(len(history.sessions), 0)
                found = await self._locate(user, one, at, listed)
                located[one.key] = replace(found, was=was.get(one.key))
        # A system that keeps its users in memory would hold the whole run a second time.
        await self._call("reset", user)
        return located

    async def _feed(self, user: str, history: History, reached: int) -> None:
        for session in sessions_after(history, reached):
            await self._call("ingest", user, session)
        require_ready(await self._call("settle", user, self._timeout), self._timeout)

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


async def find_by_meaning(
    judge: Judge, texts: Sequence[str], needed: Sequence[str]
) -> Found | None:
    """Return the first of `texts` that says what is needed, by its words, else by the judge.

    The judge is asked of those that share most words.
    """
    found = find(texts, needed)
    # An embedded judge compares words, too.
    if found is not None or not judge.comparable or not texts:
        return found
    if MatchQuestion not in judge.answers:
        return None
    near = sorted(range(len(texts)), key=lambda place: -_closest(texts[place], needed))[:_ASKED]
    question = MatchQuestion(_items("g", needed), _items("p", [texts[one] for one in near]))
    judgement = await judge.answer(question, about="diagnosis")
    say_it = [near[pair.predicted] for pair in judgement.pairs if pair.relation in _SAY_IT]
    return Found(texts[min(say_it)], min(say_it) + 1) if say_it else None


@dataclass(frozen=True)
class AnswerFacts:
    """Facts about a wrong answer.

    Attributes:
        known: Whether the data tell what it needs.
        failed: How the memory system failed when it was asked; empty where it did not.
        shown: What of the memories that the reader was shown says what is needed.
        hit: What of all hits does.
        located: Where the system has it when it is fed again; None where it failed then.
        with_evidence: Whether the reader is right with the evidence alone; None if not heard.
        with_memory: Whether it is right with the system's own memory of it alone; None where there
            is none, or it was not heard.
        verbatim: Whether that memory has what is needed word for word.
    """

    known: bool = True
    failed: str = ""
    shown: Found | None = None
    hit: Found | None = None
    located: Located | None = None
    with_evidence: bool | None = None
    with_memory: bool | None = None
    verbatim: bool = False


def held(shown: Found | None, hit: Found | None, located: Located | None) -> Found | None:
    """Return the memory that says what is needed, where the system has one in the end."""
    if located is None:
        return shown or hit
    return shown or hit or located.ranked or located.kept or located.indexed


def stage_of(facts: AnswerFacts) -> Stage:
    """Return the stage that lost what an answer needed, by the first rule that applies.

    A reader that is wrong with the evidence alone tells nothing of the memory. A memory that has
    the right words and with which alone the reader is wrong was not extracted whole.
    """
    if facts.failed:
        return "memory failed"
    if not facts.known or facts.with_evidence is None:
        return "not estimable"
    return _lost_in_memory(facts) if facts.with_evidence else "gold suspect"


def _lost_in_memory(facts: AnswerFacts) -> Stage:
    """Return the stage where the reader is right with the evidence alone."""
    if held(facts.shown, facts.hit, facts.located) and not facts.verbatim:
        if facts.with_memory is None:
            return "not estimable"
        if not facts.with_memory:
            return "not extracted"
    if facts.shown is not None:
        return "not used by the reader"
    if facts.hit is not None:
        return "cut by the budget"
    return "not estimable" if facts.located is None else _stage_in(facts.located)


def _stage_in(located: Located) -> Stage:
    """Return the stage inside a system, none of whose hits says what is needed."""
    if located.ranked is not None or located.indexed is not None:
        return "ranked too low"
    # What no search finds may be nowhere, or hidden: only a system that lists it can tell.
    if located.listed is None:
        return "not estimable"
    if located.kept is not None:
        return "not indexed"
    return "not extracted" if located.was is None else "lost in update"


def shares(stages: Sequence[Stage], users: Sequence[Hashable]) -> Mapping[Stage, Estimate]:
    """Return the share of each stage among the misses; the intervals are between users."""
    return {
        stage: clustered_mean(np.array([own == stage for own in stages], dtype=np.float64), users)
        for stage in STAGES
    }


def _closest(text: str, needed: Sequence[str]) -> float:
    return max(_closeness(text, one) for one in needed)


def _items(prefix: str, values: Sequence[str]) -> tuple[Item, ...]:
    return tuple(Item(f"{prefix}{n}", text, None, "", None) for n, text in enumerate(values, 1))
