"""What a judge is to the tasks, and how a matching question reaches it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from alps.judges.matching import (
    Item,
    Judgement,
    Relation,
    gold_items,
    pairs_as_rows,
    predicted_items,
)
from alps.judges.rubric import Rating, RubricQuestion
from alps.judges.screening import Screening, screen
from alps.judges.support import Dialogue, SupportJudgement
from alps.llm.recording import Completes
from alps.prompts import Prompt
from alps.schema import Memory


class Judge(Protocol):
    """Says how memories relate, and how good an answer is.

    Attributes:
        name: What the user called it.
        fingerprint: Everything that all its verdicts depend on: model, decoding, parser version.
        relations: The relations it can tell apart; what needs another one is unscored.
        comparable: Whether its scores may stand beside those of LLM judges.
        supports: Whether it can say if a dialogue supports a memory.
        rates: Whether it can rate an answer by a rubric.
    """

    name: str
    fingerprint: Mapping[str, Any]
    relations: frozenset[Relation]
    comparable: bool
    supports: bool
    rates: bool

    def fingerprint_for(self, rubrics: Sequence[Prompt]) -> Mapping[str, Any]:
        """Return everything that verdicts under `rubrics` depend on."""
        ...

    async def match(
        self, gold: Sequence[Item], predicted: Sequence[Item], *, about: str
    ) -> Judgement:
        """Name the relations between `gold` and `predicted`; neither is empty.

        `about` is for the ledger.
        """
        ...

    async def support(
        self, dialogue: Dialogue, items: Sequence[Item], *, about: str
    ) -> SupportJudgement:
        """Say of each item whether `dialogue` supports it. Only asked where `supports` is true."""
        ...

    async def rate(self, question: RubricQuestion, *, about: str) -> Rating:
        """Rate an answer by its rubric. Only asked where `rates` is true."""
        ...

    def on(self, client: Completes) -> "Judge":
        """Return the same judge with another client; itself, where it makes no calls."""
        ...


class Embedded:
    """What embedded judges share.

    They make no calls, and what they can't tell they fail to, rather than guess.
    """

    fingerprint: Mapping[str, Any]
    supports = False
    rates = False

    def on(self, client: Completes) -> Self:
        """Return itself."""
        return self

    def fingerprint_for(self, rubrics: Sequence[Prompt]) -> Mapping[str, Any]:
        """Return the fingerprint: embedded judges read no rubrics."""
        return self.fingerprint

    async def support(
        self, dialogue: Dialogue, items: Sequence[Item], *, about: str
    ) -> SupportJudgement:
        """Fail: this judge does not read dialogues."""
        return SupportJudgement("invalid", {}, error="this judge does not read dialogues")

    async def rate(self, question: RubricQuestion, *, about: str) -> Rating:
        """Fail: this judge reads no rubrics."""
        return Rating("invalid", error="this judge reads no rubrics")


def fingerprint_id(fingerprint: Mapping[str, Any]) -> str:
    """Return a short name of a fingerprint.

    The first 12 hex digits of the sha256 of its canonical JSON.
    """
    text = json.dumps(fingerprint, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Question:
    """Two lists as a judge is asked about them: what it is shown of each, and what needs no judge.

    `gold` and `predicted` are all items; `screening` says which of them are asked about.
    """

    gold: list[Item]
    predicted: list[Item]
    screening: Screening

    @property
    def asked(self) -> tuple[list[Item], list[Item]]:
        """The gold and the predicted items that are left to ask about."""
        gold = [self.gold[row] for row in self.screening.gold]
        return gold, [self.predicted[column] for column in self.screening.asked]

    @property
    def empty(self) -> bool:
        """Whether nothing is left to ask."""
        return not self.screening.gold or not self.screening.asked


def question(gold: Sequence[Memory], predicted: Sequence[Memory]) -> Question:
    """Pair identical values, and return what a judge must be asked about the rest."""
    shown, answered = gold_items(gold), predicted_items(predicted)
    return Question(shown, answered, screen(shown, answered))


def match_row(judged: Judgement, judge: Judge, rubrics: Sequence[Prompt]) -> dict[str, Any]:
    """Return a matching verdict as it is written to a file."""
    row: dict[str, Any] = {
        "outcome": judged.outcome,
        "judge": fingerprint_id(judge.fingerprint_for(rubrics)),
        "pairs": pairs_as_rows(judged.pairs),
        "notes": list(judged.notes),
        "error": judged.error,
        "raw": list(judged.raw),
    }
    return row if judged.agreement is None else {**row, "agreement": judged.agreement}


async def match_memories(
    gold: Sequence[Memory], predicted: Sequence[Memory], *, judge: Judge, about: str
) -> Judgement:
    """Relate two lists of memories.

    Identical values pair without a call, the judge is asked about the rest.
    """
    asked = question(gold, predicted)
    identical = asked.screening.identical
    if asked.empty:
        return Judgement("ok", identical)
    judged = await judge.match(*asked.asked, about=about)
    if not judged.pairs and not identical:
        return judged
    rows, columns = asked.screening.gold, asked.screening.asked
    placed = (
        replace(pair, gold=rows[pair.gold], predicted=columns[pair.predicted])
        for pair in judged.pairs
    )
    return replace(judged, pairs=(*identical, *placed))
