"""Search for a memory that says what is needed: by words, then by the judge that is an LLM."""

from collections.abc import Sequence
from dataclasses import dataclass

from alps.ext.memory.replay import Found, closeness, find
from alps.judges.base import Judge
from alps.judges.matching import Item, MatchQuestion, Relation

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


def _closest(text: str, needed: Sequence[str]) -> float:
    return max(closeness(text, one) for one in needed)


def _items(prefix: str, values: Sequence[str]) -> tuple[Item, ...]:
    items = []
    for number, value in enumerate(values, 1):
        items.append(Item(f"{prefix}{number}", value, None, "", None))
    return tuple(items)
