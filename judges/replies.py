"""The replies of an LLM judge: the schemas that are sent, and how what came is read."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from alps.judges.matching import RELATIONS, SUPPORTS, Relation, Support
from alps.llm.schemas import ReplyModel, forgiving, read_tolerantly, refuse
from alps.llm.types import AnswerType, Read


def _reason(value: object) -> str:
    return str(value or "")


def _relation(value: object) -> str:
    folded = str(value).strip().casefold()
    if folded not in RELATIONS:
        refuse(f"{value!r} is none of {', '.join(RELATIONS)}")
    return folded


def _related(pairs: object) -> object:
    """Leave out pairs that are called unrelated, as those are that are not named."""
    if not isinstance(pairs, list):
        refuse("expected a list")
    related = []
    for pair in pairs:
        relation = pair.get("relation") if isinstance(pair, dict) else None
        if str(relation).strip().casefold() != "unrelated":
            related.append(pair)
    return related


def _support(value: object) -> object:
    if value not in SUPPORTS:
        refuse(f"{value!r} is none of {', '.join(SUPPORTS)}")
    return value


def _verdict(value: object) -> str:
    folded = str(value).strip().casefold().replace(" ", "_")
    if folded not in ("met", "not_met"):
        refuse(f"{value!r} is neither met nor not_met")
    return folded


def _mark(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in range(1, 6):
        refuse(f"{value!r} is no integer from 1 to 5")
    return int(value)


Reason = Annotated[str, forgiving(_reason)]
"""Why a judge says what it says; missing ones are forgiven."""
Mark = Annotated[Literal[1, 2, 3, 4, 5], forgiving(_mark)]


class JudgedPair(ReplyModel):
    """One pair of the reply."""

    # The reason comes first, here and below, so that it is thought before the verdict is said.
    reason: Reason
    gold: str
    predicted: str
    relation: Annotated[Relation, forgiving(_relation)]


class MatchReply(ReplyModel):
    """The reply to a matching payload; pairs not named are unrelated."""

    pairs: Annotated[list[JudgedPair], forgiving(_related)]


class SupportedItem(ReplyModel):
    """One item of the reply."""

    reason: Reason
    id: Annotated[str, forgiving(str)]
    support: Annotated[Support, forgiving(_support)]


class SupportReply(ReplyModel):
    """The reply to a support payload."""

    items: list[SupportedItem]


class RatingReply(ReplyModel):
    """The reply to a rubric."""

    reason: Reason

    def marks(self) -> dict[str, int]:
        """Return the marks that it gives, by their names: every field but the reason."""
        return self.model_dump(exclude={"reason"})


class BinaryReply(RatingReply):
    """The reply to a rubric that is met or not met."""

    verdict: Annotated[Literal["met", "not_met"], forgiving(_verdict)]

    def marks(self) -> dict[str, int]:
        """Return 1 for met, 0 for not met."""
        return {"met": int(self.verdict == "met")}


class EmotionalReply(RatingReply):
    """The reply to the rubric of emotional intelligence."""

    resonation: Mark
    expression: Mark
    reception: Mark


def read_match_reply(node: object) -> Read[tuple[JudgedPair, ...]]:
    """Read a matching reply.

    Raises:
        ValueError: If there is no list of pairs, or a pair lacks its ids or has an unknown
            relation: a verdict is never guessed.
    """
    reply = read_tolerantly(MatchReply, {"pairs": node} if isinstance(node, list) else node)
    notes = []
    for number, pair in enumerate(reply.pairs, start=1):
        if not pair.reason:
            notes.append(f"pair {number} has no reason")
    return Read(tuple(reply.pairs), tuple(notes))


def _relations_of(pairs: Sequence[JudgedPair]) -> set[tuple[str, str, Relation]]:
    return {(pair.gold, pair.predicted, pair.relation) for pair in pairs}


MATCH_ANSWER = AnswerType(
    schema=MatchReply, read=read_match_reply, partial=False, decision=_relations_of
)


def _without_reasons(items: Mapping[str, tuple[Support, str]]) -> dict[str, Support]:
    return {name: support for name, (support, _) in items.items()}


def support_answer(ids: Sequence[str]) -> AnswerType[dict[str, tuple[Support, str]]]:
    """Return the answer type of a support call about `ids`: every one of them must be judged."""

    def read(node: object) -> Read[dict[str, tuple[Support, str]]]:
        reply = read_tolerantly(SupportReply, {"items": node} if isinstance(node, list) else node)
        judged: dict[str, tuple[Support, str]] = {}
        for item in reply.items:
            judged.setdefault(item.id, (item.support, item.reason))
        if missing := [name for name in ids if name not in judged]:
            raise ValueError(f"nothing said of {', '.join(missing)}")
        return Read({name: judged[name] for name in ids})

    return AnswerType(schema=SupportReply, read=read, partial=False, decision=_without_reasons)


def rating_answer(reply: type[ReplyModel]) -> AnswerType[tuple[dict[str, int], str]]:
    """Return the answer type of a rubric with this reply: marks, and the reason for them."""

    def read(node: object) -> Read[tuple[dict[str, int], str]]:
        rating = read_tolerantly(reply, node)
        assert isinstance(rating, RatingReply)
        return Read((rating.marks(), rating.reason))

    return AnswerType(schema=reply, read=read, partial=False, decision=lambda rating: rating[0])
