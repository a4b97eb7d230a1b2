"""The question whether a dialogue supports memories.

Its answer tells a hallucination from a memory that the annotators missed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from alps.judges.matching import Item
from alps.judges.question import Question
from alps.schema import Outcome, Turn

Support = Literal["supported", "unsupported", "not_about_user"]
SUPPORTS: tuple[Support, ...] = get_args(Support)
Dialogue = Sequence[Turn]


@dataclass(frozen=True)
class SupportJudgement:
    """What a judge says of each item by its id; unless `ok`, nothing may be concluded."""

    outcome: Outcome
    support: Mapping[str, tuple[Support, str]]
    error: str | None = None
    raw: str | None = None

    def row(self) -> dict[str, Any]:
        """Return the judgement as it is written to a file."""
        items = [
            {"id": name, "support": support, "reason": reason}
            for name, (support, reason) in self.support.items()
        ]
        return {"outcome": self.outcome, "items": items, "error": self.error, "raw": self.raw}


@dataclass(frozen=True)
class SupportQuestion(Question[SupportJudgement]):
    """Of each of `items`: does `dialogue` support it?"""

    dialogue: Dialogue
    items: Sequence[Item]
    unanswered: ClassVar[str] = "this judge does not read dialogues"

    def payload(self) -> dict[str, Any]:
        """Return the question as an LLM is shown it."""
        return {
            "kind": "support",
            "dialogue": [turn.model_dump() for turn in self.dialogue],
            "items": [{"id": item.id, "value": item.value} for item in self.items],
        }

    def failed(
        self, outcome: Outcome, error: str | None, raw: tuple[str, ...] = ()
    ) -> SupportJudgement:
        """Return the verdict where there is none."""
        return SupportJudgement(outcome, {}, error, "\n".join(raw) if raw else None)
