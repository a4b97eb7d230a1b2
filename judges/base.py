"""The judge: it answers questions, and says which it can answer."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from alps.judges.matching import MatchQuestion, Relation
from alps.judges.question import Question
from alps.judges.rubric import Rubric

if TYPE_CHECKING:
    from alps.llm.types import Completes

V = TypeVar("V")


class Identified(Protocol):
    """A judge as far as its identity goes: it need not be one that can be asked.

    Attributes:
        name: What the user called it.
        fingerprint: Everything that all its verdicts depend on: model, decoding, parser version.
    """

    name: str
    fingerprint: Mapping[str, Any]

    def fingerprint_for(self, rubrics: Sequence[Rubric]) -> Mapping[str, Any]:
        """Return everything that verdicts under `rubrics` depend on."""
        ...


class Judge(Identified, Protocol):
    """Says how memories relate, and how good an answer is.

    Attributes:
        answers: The kinds of questions that it can answer; others it refuses.
        relations: The relations it can tell apart; what needs another one is unscored.
        comparable: Whether its scores can be compared with those of LLM judges.
    """

    answers: frozenset[type[Question[Any]]]
    relations: frozenset[Relation]
    comparable: bool

    async def answer(self, question: Question[V], *, about: str) -> V:
        """Return the verdict on `question`; `about` names the record, for the ledger."""
        ...

    def on(self, client: "Completes") -> "Judge":
        """Return the same judge with another client; itself, where it makes no calls."""
        ...

    def under(self, purpose: str) -> "Judge":
        """Return the same judge, whose calls go by another purpose in the ledger."""
        ...


class EmbeddedJudge:
    """What embedded judges share: they make no calls, and read no rubrics."""

    fingerprint: Mapping[str, Any]
    answers: frozenset[type[Question[Any]]] = frozenset({MatchQuestion})

    def on(self, client: "Completes") -> Self:
        """Return itself."""
        return self

    def under(self, purpose: str) -> Self:
        """Return itself."""
        return self

    def fingerprint_for(self, rubrics: Sequence[Rubric]) -> Mapping[str, Any]:
        """Return the fingerprint, whatever the rubrics."""
        return self.fingerprint


def fingerprint_id(fingerprint: Mapping[str, Any]) -> str:
    """Return a short name of a fingerprint.

    The first 12 hex digits of the sha256 of its canonical JSON.
    """
    # The same parts have the same name, in whatever order a file or a user gives them.
    text = json.dumps(fingerprint, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
