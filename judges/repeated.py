"""One judge asked several times about the same thing.

Of several draws the majority decides, and the agreement of the judge with itself is kept.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from statistics import median_low
from typing import Any, TypeVar

from alps.judges.base import (
    POLICIES,
    RELATIONS,
    UNRELATED,
    Judge,
    Judgement,
    MatchQuestion,
    Pair,
    Question,
    Relation,
    Support,
    SupportJudgement,
    SupportQuestion,
)
from alps.judges.rubric import OptionQuestion, OptionVerdict, Rating, Rubric
from alps.llm.types import Completes

T = TypeVar("T")
_BY_FAVOUR = (*RELATIONS, UNRELATED)
_DISAGREE = "the judge's repeated calls disagree"


class RepeatedJudge:
    """Asks independent draws of one judge, and takes the majority pair by pair.

    Args:
        draws: The same judge, once per repeat, each with its own place in the reply cache.
    """

    def __init__(self, draws: Sequence[Judge]) -> None:
        self._draws = draws
        first = draws[0]
        self.name = first.name
        self.answers = first.answers
        self.relations: frozenset[Relation] = first.relations
        self.comparable = first.comparable
        self.fingerprint: Mapping[str, Any] = {**first.fingerprint, "repeats": len(draws)}

    def on(self, client: Completes) -> "RepeatedJudge":
        """Return the same draws, each of which asks `client`."""
        return RepeatedJudge([draw.on(client) for draw in self._draws])

    def under(self, purpose: str) -> "RepeatedJudge":
        """Return the same draws, whose calls go by another purpose in the ledger."""
        return RepeatedJudge([draw.under(purpose) for draw in self._draws])

    def fingerprint_for(self, rubrics: Sequence[Rubric]) -> Mapping[str, Any]:
        """Return everything that verdicts under `rubrics` depend on."""
        return {**self._draws[0].fingerprint_for(rubrics), "repeats": len(self._draws)}

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Return what most draws say; one draw that fails fails the verdict."""
        verdicts = await asyncio.gather(
            *(draw.answer(question, about=about) for draw in self._draws)
        )
        for verdict in verdicts:
            if verdict.outcome != "ok":
                return verdict
        agreed: Any
        match question:
            case MatchQuestion():
                agreed = _relations_of(verdicts)
            case SupportQuestion():
                agreed = _support_of(question, verdicts)
            case OptionQuestion():
                agreed = majority(verdicts)
            case _:
                agreed = _marks_of(verdicts)
        return replace(agreed, raw=tuple(chain.from_iterable(verdict.raw for verdict in verdicts)))


def _relations_of(judgements: Sequence[Judgement]) -> Judgement:
    """Name the relation that most draws name."""
    votes: list[dict[tuple[int, int], Pair]] = []
    draws: list[dict[tuple[int, int], Relation]] = []
    notes: list[str] = []
    for judgement in judgements:
        vote: dict[tuple[int, int], Pair] = {}
        draw: dict[tuple[int, int], Relation] = {}
        for pair in judgement.pairs:
            place = pair.gold, pair.predicted
            vote[place], draw[place] = pair, pair.relation
        votes.append(vote)
        draws.append(draw)
        notes += judgement.notes
    pairs = []
    for place in sorted(set().union(*votes)):
        winner = _most_named([vote.get(place) for vote in votes])
        if winner is not None:
            pairs.append(winner)
    return Judgement(
        "ok", tuple(pairs), tuple(notes), agreement=self_agreement(draws), draws=tuple(draws)
    )


def _support_of(
    question: SupportQuestion, judgements: Sequence[SupportJudgement]
) -> SupportJudgement:
    """Say of each item what most draws say, and of a tie `unsupported`."""
    agreed = {}
    for item in question.items:
        agreed[item.id] = _most_said([judgement.support[item.id] for judgement in judgements])
    return SupportJudgement("ok", agreed)


def majority(verdicts: Sequence[OptionVerdict]) -> OptionVerdict:
    """Return what most draws say; of a tie, that the answer agrees with no option."""
    named = [verdict.option for verdict in verdicts]
    chosen = _most_common(named, tied=None)
    # The reason that is kept is of a draw that says the same, if there is one.
    said = [verdict for verdict in verdicts if verdict.option == chosen]
    nearest = said[0] if said else OptionVerdict("ok", reason=_DISAGREE)
    return replace(nearest, agreement=agreement_of(named))


def _marks_of(ratings: Sequence[Rating]) -> Rating:
    """Take the lower median of the marks that the draws give."""
    draws = tuple(rating.marks for rating in ratings)
    marks = {}
    for name in draws[0]:
        marks[name] = median_low(draw[name] for draw in draws)
    # The reason that is kept is of a draw that says the same as the majority, if there is one.
    nearest = ratings[draws.index(marks)] if marks in draws else ratings[0]
    return replace(nearest, marks=marks, agreement=agreement_of(draws), draws=draws)


def agreement_of(draws: Sequence[object]) -> float:
    """Return the share of pairs of draws that are equal, in [0, 1]; 1 of a single one."""
    pairs = [one == other for one, other in combinations(draws, 2)]
    return sum(pairs) / len(pairs) if pairs else 1.0


def _most_named(named: Sequence[Pair | None]) -> Pair | None:
    """Return the first pair with the relation that most draws give it."""
    relations = [UNRELATED if pair is None else pair.relation for pair in named]
    counts = Counter(relations)
    # Of a tie, the relation that is least favourable to the system: a doubt earns nothing.
    chosen = max(counts, key=lambda relation: (counts[relation], _BY_FAVOUR.index(relation)))
    return named[relations.index(chosen)]


def _most_said(opinions: Sequence[tuple[Support, str]]) -> tuple[Support, str]:
    """Return what most draws say of an item, with a reason of one of them."""
    # Of a tie, the opinion that earns nothing.
    chosen = _most_common([support for support, _ in opinions], tied="unsupported")
    return chosen, dict(reversed(opinions)).get(chosen, _DISAGREE)


def _most_common(answers: Sequence[T], *, tied: T) -> T:
    (chosen, most), *others = Counter(answers).most_common()
    return tied if others and others[0][1] == most else chosen


def self_agreement(votes: Sequence[Mapping[tuple[int, int], Relation]]) -> float:
    """Return how often two draws agree on whether a pair that any draw names is a lenient match."""
    counted = POLICIES["lenient"]
    agreed = []
    for place in set().union(*votes):
        matched = [vote.get(place) in counted for vote in votes]
        for one, other in combinations(matched, 2):
            agreed.append(one == other)
    # Where no draw names any pair all of them said the same: nothing.
    return sum(agreed) / len(agreed) if agreed else 1.0
