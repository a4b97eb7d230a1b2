"""Stage at which a memory system lost the evidence of a wrong answer, and shares of stages.

A memory that says what is needed is searched by words, then by the judge that is an LLM.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from alps.ext.memory.replay import Found, Located, closeness, find
from alps.judges.base import Judge
from alps.judges.matching import Item, MatchQuestion, Relation
from alps.stats.bootstrap import Estimate, clustered_mean

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

_SAY_IT: tuple[Relation, ...] = ("same", "narrower", "bundle")
_ASKED = 5
"""Of how many memories, those that share most words, a judge is asked."""


@dataclass(frozen=True)
class ByMeaning:
    """Finds by words, and asks the judge of what shares most words where nothing has enough."""

    judge: Judge

    async def find(self, texts: Sequence[str], needed: Sequence[str]) -> Found | None:
        """Return the first of `texts` that says what is needed."""
        found = find(texts, needed)
        # An embedded judge compares words, too.
        if found is not None or not self.judge.comparable or not texts:
            return found
        if MatchQuestion not in self.judge.answers:
            return None
        near = sorted(range(len(texts)), key=lambda place: -_closest(texts[place], needed))[:_ASKED]
        question = MatchQuestion(_items("g", needed), _items("p", [texts[one] for one in near]))
        judgement = await self.judge.answer(question, about="diagnosis")
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
    return max(closeness(text, one) for one in needed)


def _items(prefix: str, values: Sequence[str]) -> tuple[Item, ...]:
    items = []
    for number, value in enumerate(values, 1):
        items.append(Item(f"{prefix}{number}", value, None, "", None))
    return tuple(items)
