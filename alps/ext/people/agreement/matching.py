"""Matching rules: which texts of two people are the same.

`publishers` is the rule of the AlpsBench authors: values that are the same but for case and white
space, then greedily, one to one, those whose ROUGE-L F1 over words is highest, down to .5. Every
other rule is a judge: it relates memories as it does those of a run, and the best one-to-one set of
them is taken.

ROUGE-L: Lin, ROUGE, ACL workshop on text summarization (2004) 74.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rapidfuzz.distance import LCSseq

from alps.ext.people.agreement.annotations import AnnotatedMemory
from alps.judges.base import Judge, fingerprint_id
from alps.judges.matching import assign
from alps.judges.relate import RUBRICS, match_memories
from alps.schema import Memory, Outcome

PUBLISHERS = "publishers"
LEAST = 0.5
"""ROUGE-L F1 from which the publishers' rule takes two values for one."""
_WORD = re.compile(r"\w+")

Pairs = list[tuple[int, int]]
"""Positions in both lists."""


@dataclass(frozen=True)
class Matched:
    """The pairs of two lists; unless `ok`, the rule gave no result."""

    pairs: Pairs
    outcome: Outcome = "ok"


class SameRule(Protocol):
    """Says which items of two lists are the same, one to one.

    Attributes:
        row: The rule as files have it.
        title: The rule in words.
    """

    row: Mapping[str, Any]
    title: str

    async def match(
        self, first: Sequence[AnnotatedMemory], second: Sequence[AnnotatedMemory], *, about: str
    ) -> Matched:
        """Match two lists; `about` names the session, for the ledger."""
        ...


def folded(value: str) -> str:
    """Return a value without case and extra white space, as the publishers compare values."""
    return " ".join(value.lower().split())


class PublishersRule:
    """The matching rule of the publishers (see the module docstring)."""

    row: Mapping[str, Any] = {"rule": PUBLISHERS, "version": 1, "rouge_l": LEAST}
    title = f"{PUBLISHERS}, the same text or ROUGE-L F1 of {LEAST} or more, best first"

    async def match(
        self, first: Sequence[AnnotatedMemory], second: Sequence[AnnotatedMemory], *, about: str
    ) -> Matched:
        """Match two lists."""
        one, other = [item.value for item in first], [item.value for item in second]
        return Matched(publishers_pairs(one, other))


class SameTextRule:
    """Texts are the same but for case and white space; asked of lists of one."""

    row: Mapping[str, Any] = {"rule": "same text"}
    title = "the same text"

    async def match(
        self, first: Sequence[AnnotatedMemory], second: Sequence[AnnotatedMemory], *, about: str
    ) -> Matched:
        """Match two lists."""
        return Matched(identical([item.value for item in first], [item.value for item in second]))


def publishers_pairs(first: Sequence[str], second: Sequence[str]) -> Pairs:
    """Match two lists of texts by the publishers' rule."""
    pairs = identical(first, second)
    rows, columns = {row for row, _ in pairs}, {column for _, column in pairs}
    words = [[_WORD.findall(value.lower()) for value in side] for side in (first, second)]
    scored = []
    for row, one in enumerate(words[0]):
        for column, other in enumerate(words[1]):
            if row not in rows and column not in columns:
                scored.append((-rouge_l(one, other), row, column))
    for score, row, column in sorted(scored):
        if -score >= LEAST and row not in rows and column not in columns:
            pairs.append((row, column))
            rows.add(row)
            columns.add(column)
    return sorted(pairs)


def identical(first: Sequence[str], second: Sequence[str]) -> Pairs:
    """Match texts that are the same but for case and white space, in their order."""
    waiting: dict[str, list[int]] = {}
    for column, value in enumerate(map(folded, second)):
        waiting.setdefault(value, []).append(column)
    pairs = []
    for row, value in enumerate(map(folded, first)):
        if same := waiting.get(value):
            pairs.append((row, same.pop(0)))
    return pairs


def rouge_l(first: Sequence[str], second: Sequence[str]) -> float:
    """Return the F1 of the longest common subsequence of two lists of words, in [0, 1]."""
    if not first or not second:
        return 0.0
    return 2 * LCSseq.similarity(first, second) / (len(first) + len(second))


class JudgeRule:
    """A judge, which is shown the memories of the first person as gold.

    Args:
        judge: Who is asked.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        fingerprint = judge.fingerprint_for(RUBRICS)
        self.row: Mapping[str, Any] = {"rule": judge.name, "judge": fingerprint_id(fingerprint)}
        self.title = f"{judge.name} with the matching of a run"

    async def match(
        self, first: Sequence[AnnotatedMemory], second: Sequence[AnnotatedMemory], *, about: str
    ) -> Matched:
        """Match two lists."""
        gold, predicted = _memories(first), _memories(second)
        judged = await match_memories(gold, predicted, judge=self._judge, about=about)
        if judged.outcome != "ok":
            return Matched([], judged.outcome)
        matches = assign(judged.pairs, "lenient")
        return Matched([(match.gold, match.predicted) for match in matches])


def _memories(items: Sequence[AnnotatedMemory]) -> list[Memory]:
    return [item.as_memory() for item in items]
