"""The judge, which says what questions it can answer, and the question, whatever it is about.

The kinds of questions are `MatchQuestion`, `SupportQuestion`, `RubricQuestion` and
`OptionQuestion`, each next to the verdict that answers it. How far people agree with a judge is
known to the extensions that keep calibrations.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from alps.extension import extensions, load
from alps.schema import Outcome

if TYPE_CHECKING:
    from alps.judges.matching import Relation
    from alps.judges.rubric import Rubric
    from alps.llm.types import Completes

V = TypeVar("V")


class Question(ABC, Generic[V]):
    """One thing that a judge is asked; `V` is the verdict that answers it.

    Attributes:
        unanswered: Why a judge that can't answer it does not.
    """

    unanswered: ClassVar[str]
    verdict: ClassVar[type]

    @abstractmethod
    def payload(self) -> dict[str, Any]:
        """Return the question as an LLM is shown it."""

    def failed(self, outcome: Outcome, error: str | None, raw: tuple[str, ...] = ()) -> V:
        """Return the verdict where there is none: nothing may be concluded from it."""
        verdict: V = self.verdict(outcome, error=error, raw=raw)
        return verdict

    def refused(self) -> V:
        """Return the verdict of a judge that can't answer it."""
        return self.failed("invalid", self.unanswered)


class Identified(Protocol):
    """A judge as far as its identity goes: it need not be one that can be asked.

    Attributes:
        name: What the user called it.
        fingerprint: Everything that all its verdicts depend on: model, decoding, parser version.
    """

    name: str
    fingerprint: Mapping[str, Any]

    def fingerprint_for(self, rubrics: "Sequence[Rubric]") -> Mapping[str, Any]:
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
    relations: "frozenset[Relation]"
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


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def fingerprint_id(fingerprint: Mapping[str, Any]) -> str:
    """Return the first 12 hex digits of the sha256 of a fingerprint's canonical JSON."""
    # The same parts have the same name, in whatever order a file or a user gives them.
    return hashlib.sha256(_CANONICAL(fingerprint).encode()).hexdigest()[:12]


class KnownAgreement:
    """What an extension knows of the agreement of people with a judge.

    A method that it does not define knows nothing.
    """

    def said(self, judge: str, fingerprint: str) -> Iterator[str]:
        """Yield a sentence on each calibration of a judge with this fingerprint."""
        return iter(())

    def passed(self, judge: Mapping[str, Any], rubrics: Iterable[str]) -> bool:
        """Tell whether people's labels show that a judge is fit for each of some rubrics.

        Args:
            judge: Its fingerprint, as a run records it.
            rubrics: Those that a score is a mean of; none: how memories match.
        """
        return False


def people_say(judge: str, fingerprint: str) -> Iterator[str]:
    """Yield a sentence on each calibration of a judge that is known; see `KnownAgreement.said`."""
    for known in _known():
        yield from known.said(judge, fingerprint)


def people_agree(judge: Mapping[str, Any], rubrics: Iterable[str] = ()) -> bool:
    """Tell whether any calibration shows a judge to be fit; see `KnownAgreement.passed`."""
    return any(known.passed(judge, rubrics) for known in _known())


def _known() -> Iterator[KnownAgreement]:
    for extension in extensions():
        if extension.agreement:
            yield load(extension.agreement)()
