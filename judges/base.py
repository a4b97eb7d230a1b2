"""The judge, which says what questions it can answer, and the questions about memories.

Each kind of question stands next to the verdict that answers it: `MatchQuestion` and
`SupportQuestion` here, `RubricQuestion` and `OptionQuestion` with the rubrics. How far people agree
with a judge is known to the extensions that keep calibrations.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    get_args,
)

from alps.extension import extensions, made
from alps.schema import Outcome, Turn

if TYPE_CHECKING:
    from alps.judges.rubric import Rubric
    from alps.llm.types import Completes

V = TypeVar("V")
Relation = Literal["same", "narrower", "bundle", "broader", "conflicting", "related"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)
UNRELATED = "unrelated"
"""What pairs are that a judge does not name."""
Support = Literal["supported", "unsupported", "not_about_user"]
SUPPORTS: tuple[Support, ...] = get_args(Support)
Dialogue = Sequence[Turn]

# Which relations count as a match, and which of them is preferred where a memory could match two
# others.
POLICIES: dict[str, dict[Relation, float]] = {
    "lenient": {"same": 1.0, "narrower": 0.9},
    "strict": {"same": 1.0},
}


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


class Item(NamedTuple):
    """A memory as a judge sees it, under an id local to the call; `memory_id` is never shown."""

    id: str
    value: str
    type: str | None
    label: str
    evidence: str | None
    memory_id: str = ""

    def payload(self) -> dict[str, str]:
        """Return the item as the payload of a judge has it."""
        shown = {"id": self.id, "value": self.value, "type": self.type or "", "label": self.label}
        return {**shown, "evidence": self.evidence} if self.evidence else shown


@dataclass(frozen=True)
class Pair:
    """What a judge says of one gold and one predicted memory, by their positions."""

    gold: int
    predicted: int
    relation: Relation
    reason: str
    strength: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """The relations a judge named, others being unrelated; unless `ok`, nothing may be concluded.

    `agreement` is how far a judge that was asked several times agrees with itself, in [0, 1];
    `draws` are the relations that it named each time, by positions.
    """

    outcome: Outcome
    pairs: tuple[Pair, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None
    raw: tuple[str, ...] = ()
    agreement: float | None = None
    draws: tuple[Mapping[tuple[int, int], Relation], ...] = ()


@dataclass(frozen=True)
class MatchQuestion(Question[Judgement]):
    """How do the memories of two lists relate? Neither list is empty."""

    gold: Sequence[Item]
    predicted: Sequence[Item]
    unanswered: ClassVar[str] = "this judge cannot compare memories"
    verdict: ClassVar[type] = Judgement

    def payload(self) -> dict[str, Any]:
        """Return the question as an LLM is shown it."""
        gold, predicted = map(Item.payload, self.gold), map(Item.payload, self.predicted)
        return {"kind": "match", "gold": list(gold), "predicted": list(predicted)}


@dataclass(frozen=True)
class SupportJudgement:
    """What a judge says of each item by its id; unless `ok`, nothing may be concluded."""

    outcome: Outcome
    support: Mapping[str, tuple[Support, str]] = field(default_factory=dict)
    error: str | None = None
    raw: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """Return the judgement as it is written to a file."""
        items = [
            {"id": name, "support": support, "reason": reason}
            for name, (support, reason) in self.support.items()
        ]
        raw = "\n".join(self.raw) if self.raw else None
        return {"outcome": self.outcome, "items": items, "error": self.error, "raw": raw}


@dataclass(frozen=True)
class SupportQuestion(Question[SupportJudgement]):
    """Of each of `items`: does `dialogue` support it?"""

    dialogue: Dialogue
    items: Sequence[Item]
    unanswered: ClassVar[str] = "this judge does not read dialogues"
    verdict: ClassVar[type] = SupportJudgement

    def payload(self) -> dict[str, Any]:
        """Return the question as an LLM is shown it."""
        return {
            "kind": "support",
            "dialogue": [turn.model_dump() for turn in self.dialogue],
            "items": [{"id": item.id, "value": item.value} for item in self.items],
        }


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
            yield made(extension.agreement, KnownAgreement)
