"""The option that an answer in free words agrees with: the question, and its verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from alps.judges.base import Question
from alps.judges.rubric import NO_OPTION, OPTIONS, OptionReply
from alps.llm.replies import read_tolerantly
from alps.llm.types import AnswerType, Read
from alps.schema import Outcome
from alps.similarity import features

# Another share raises `similarity.VERSION`, by which the fingerprint of the lexical judge tells.
AGREES = 0.5
"""The share of an option's own words from which an answer that holds them agrees with it."""


@dataclass(frozen=True)
class OptionVerdict:
    """Which option an answer agrees with, by its position; unless `ok`, nothing may be concluded.

    Attributes:
        option: None where it agrees with none, or with several.
        agreement: How often two draws of a judge that was asked several times name the same, in
            [0, 1].
    """

    outcome: Outcome
    option: int | None = None
    reason: str = ""
    error: str | None = None
    raw: tuple[str, ...] = ()
    agreement: float | None = None

    def row(self) -> dict[str, Any]:
        """Return the verdict as it is written to a file."""
        row: dict[str, Any] = {"outcome": self.outcome, "option": self.option}
        row["reason"] = self.reason
        if self.agreement is not None:
            row["agreement"] = self.agreement
        return {**row, "error": self.error, "raw": list(self.raw)}


@dataclass(frozen=True)
class OptionQuestion(Question[OptionVerdict]):
    """Which of at most four options does an answer agree with? Nothing tells the right one."""

    message: str
    answer: str
    options: Sequence[str]
    unanswered: ClassVar[str] = "this judge cannot match answers to options"
    verdict: ClassVar[type] = OptionVerdict

    def payload(self) -> dict[str, Any]:
        """Return the question as an LLM is shown it."""
        options = dict(zip(OPTIONS, self.options, strict=False))
        asked = {"kind": "options", "message": self.message, "answer": self.answer}
        return {**asked, "options": options}


def option_answer(count: int) -> AnswerType[tuple[int | None, str]]:
    """Return the answer type of a judge that is shown `count` options: a position, and why."""

    def read(node: object) -> Read[tuple[int | None, str]]:
        reply = read_tolerantly(OptionReply, node)
        if reply.option == NO_OPTION:
            return Read((None, reply.reason))
        position = OPTIONS.index(reply.option)
        if position >= count:
            raise ValueError(f"option {reply.option!r} is not one of the {count} shown")
        return Read((position, reply.reason))

    return AnswerType(
        schema=OptionReply, read=read, partial=False, decision=lambda verdict: verdict[0]
    )


def lexical_verdict(question: OptionQuestion) -> OptionVerdict:
    """Name the option of whose own words the answer has the largest share, from `AGREES` on.

    Words of all options tell nothing. A tie is no agreement. An answer that is an option, word for
    word, agrees with it.
    """
    answer, options = features(question.answer), list(map(features, question.options))
    common = set(options[0].content).intersection(*(option.content for option in options[1:]))
    same = [place for place, option in enumerate(options) if option.folded == answer.folded]
    if len(same) == 1:
        return OptionVerdict("ok", same[0], "word for word")
    shares = []
    for option in options:
        own = {word: n for word, n in option.content.items() if word not in common}
        shares.append(_share(own, answer.content))
    best = max(shares)
    if best < AGREES or shares.count(best) > 1:
        return OptionVerdict("ok", reason=f"no option is closest (largest share {best:.2f})")
    return OptionVerdict(
        "ok", shares.index(best), f"{best:.2f} of the option's own words are in the answer"
    )


def _share(own: Mapping[str, float], known: Mapping[str, float]) -> float:
    whole = sum(own.values())
    shared = sum(min(weight, known[piece]) for piece, weight in own.items() if piece in known)
    return round(shared / whole, 9) if whole else 0.0
