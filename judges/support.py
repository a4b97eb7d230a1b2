"""Whether a dialogue supports a memory.

Tells a hallucination from a memory that the annotators missed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from alps.llm.schemas import ReplyModel, forgiving, read_tolerantly, refuse
from alps.llm.types import AnswerType, Read
from alps.prompts import load_prompt
from alps.schema import Outcome, Turn

Support = Literal["supported", "unsupported", "not_about_user"]
SUPPORTS: tuple[Support, ...] = get_args(Support)
Dialogue = Sequence[Turn]


RUBRIC = load_prompt("alps.judges", "rubrics", "support")


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
            {"id": name, "support": said, "reason": reason}
            for name, (said, reason) in self.support.items()
        ]
        return {"outcome": self.outcome, "items": items, "error": self.error, "raw": self.raw}


def _support(value: object) -> object:
    if value not in SUPPORTS:
        refuse(f"{value!r} is none of {', '.join(SUPPORTS)}")
    return value


class SupportedItem(ReplyModel):
    """One item of the reply; the reason comes first."""

    reason: Annotated[str, forgiving(lambda value: str(value or ""))]
    id: Annotated[str, forgiving(str)]
    support: Annotated[Support, forgiving(_support)]


class SupportReply(ReplyModel):
    """The reply to a support payload."""

    items: list[SupportedItem]


def _without_reasons(items: Mapping[str, tuple[Support, str]]) -> dict[str, Support]:
    return {name: support for name, (support, _) in items.items()}


def support_answer(ids: Sequence[str]) -> AnswerType[dict[str, tuple[Support, str]]]:
    """Return the answer type of a support call about `ids`: every one of them must be judged."""

    def read(node: object) -> Read[dict[str, tuple[Support, str]]]:
        reply = read_tolerantly(SupportReply, {"items": node} if isinstance(node, list) else node)
        found: dict[str, tuple[Support, str]] = {}
        for item in reply.items:
            found.setdefault(item.id, (item.support, item.reason))
        if missing := [name for name in ids if name not in found]:
            raise ValueError(f"nothing said of {', '.join(missing)}")
        return Read({name: found[name] for name in ids})

    return AnswerType(schema=SupportReply, read=read, partial=False, decision=_without_reasons)
