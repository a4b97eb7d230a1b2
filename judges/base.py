"""A judge, and what it is asked: `MatchQuestion`, `SupportQuestion`, `RubricQuestion`."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from alps.llm.recording import Completes
from alps.schema import Outcome

# The kinds of questions stand next to the verdicts that answer them, in modules that import this.
if TYPE_CHECKING:
    from alps.judges.matching import Relation
    from alps.judges.rubric import Rubric

V = TypeVar("V")


class Question(Generic[V]):
    """One thing that a judge is asked; `V` is the verdict that answers it.

    Attributes:
        unanswered: Why a judge that can't answer it does not.
    """

    unanswered: ClassVar[str]

    def payload(self) -> dict[str, Any]:
        """Return the question as an LLM is shown it."""
        raise NotImplementedError

    def failed(self, outcome: Outcome, error: str | None, raw: tuple[str, ...] = ()) -> V:
        """Return the verdict where there is none: nothing may be concluded from it."""
        raise NotImplementedError

    def refused(self) -> V:
        """Return the verdict of a judge that can't answer it."""
        return self.failed("invalid", self.unanswered)


class Judge(Protocol):
    """Says how memories relate, and how good an answer is.

    Attributes:
        name: What the user called it.
        fingerprint: Everything that all its verdicts depend on: model, decoding, parser version.
        answers: The kinds of questions that it can answer; others it refuses.
        relations: The relations it can tell apart; what needs another one is unscored.
        comparable: Whether its scores may stand beside those of LLM judges.
    """

    name: str
    fingerprint: Mapping[str, Any]
    answers: frozenset[type[Question[Any]]]
    relations: "frozenset[Relation]"
    comparable: bool

    def fingerprint_for(self, rubrics: "Sequence[Rubric]") -> Mapping[str, Any]:
        """Return everything that verdicts under `rubrics` depend on."""
        ...

    async def answer(self, question: Question[V], *, about: str) -> V:
        """Return the verdict on `question`; `about` names the record, for the ledger."""
        ...

    def on(self, client: Completes) -> "Judge":
        """Return the same judge with another client; itself, where it makes no calls."""
        ...


class EmbeddedJudge:
    """What embedded judges share: they make no calls, and read no rubrics."""

    fingerprint: Mapping[str, Any]

    def on(self, client: Completes) -> Self:
        """Return itself."""
        return self

    def fingerprint_for(self, rubrics: "Sequence[Rubric]") -> Mapping[str, Any]:
        """Return the fingerprint, whatever the rubrics."""
        return self.fingerprint


def fingerprint_id(fingerprint: Mapping[str, Any]) -> str:
    """Return a short name of a fingerprint.

    The first 12 hex digits of the sha256 of its canonical JSON.
    """
    # The same parts have the same name, in whatever order a file or a user gives them.
    text = json.dumps(fingerprint, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
