"""An LLM as judge, by the payload contract.

What all requests share stands in the system message, ahead of the rest, so that providers can cache
it. At the end of the user message is the payload, one JSON object: whatever the memories say stays
inside its strings.
"""

import asyncio
import json
import random
import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel

from alps.judges.matching import RELATIONS, Item, Judgement, Pair, Relation, blocks
from alps.judges.rubric import (
    EMOTIONAL,
    Rating,
    Reason,
    RubricQuestion,
    enforce,
    rating_answer,
    reply_model,
    rubric,
)
from alps.judges.support import (
    RUBRIC,
    Dialogue,
    SupportJudgement,
    SupportReply,
    support_answer,
)
from alps.llm.recording import Completes
from alps.llm.repair import PARSER_VERSION
from alps.llm.schemas import ReplyModel, forgiving, read_tolerantly, refuse, schema_of
from alps.llm.types import AnswerType, Read, Request, Structured
from alps.prompts import Prompt, asked_sha256, load_prompt

T = TypeVar("T")

_MARKER = re.compile(r"<|\[(?=/?[A-Z])")
"""What begins a marker of a chat template; outside a string JSON has neither."""

INTRODUCTION = load_prompt("alps.judges", "rubrics", "payload")
OWN_ENDPOINT = "api_base"
"""Stands in a fingerprint for an endpoint other than the provider's own, without its address: what
answers there under the name of a model may be another one."""
ORDER = "shuffled"
"""The order in which a judge is shown the memories of a list: drawn by seed, repeat and what they
say.
"""


def _relation(value: object) -> str:
    folded = str(value).strip().casefold()
    if folded not in RELATIONS:
        refuse(f"{value!r} is none of {', '.join(RELATIONS)}")
    return folded


def _related(pairs: object) -> object:
    """Leave out pairs that are called unrelated, as those are that are not named."""
    if not isinstance(pairs, list):
        refuse("expected a list")
    named = (
        str(pair.get("relation")).strip().casefold() if isinstance(pair, dict) else ""
        for pair in pairs
    )
    return [pair for pair, relation in zip(pairs, named, strict=True) if relation != "unrelated"]


class JudgedPair(ReplyModel):
    """One pair of the reply; the reason comes first, so that it is thought before it is said."""

    reason: Reason
    gold: str
    predicted: str
    relation: Annotated[Relation, forgiving(_relation)]


class MatchReply(ReplyModel):
    """The reply to a matching payload; pairs not named are unrelated."""

    pairs: Annotated[list[JudgedPair], forgiving(_related)]


def read_match_reply(node: object) -> Read[tuple[JudgedPair, ...]]:
    """Read a matching reply.

    Raises:
        ValueError: If there is no list of pairs, or a pair lacks its ids or has an unknown
            relation: a verdict is never guessed.
    """
    reply = read_tolerantly(MatchReply, {"pairs": node} if isinstance(node, list) else node)
    notes = (
        f"pair {number} has no reason"
        for number, pair in enumerate(reply.pairs, start=1)
        if not pair.reason
    )
    return Read(tuple(reply.pairs), tuple(notes))


def _relations_of(pairs: Sequence[JudgedPair]) -> set[tuple[str, str, Relation]]:
    return {(pair.gold, pair.predicted, pair.relation) for pair in pairs}


MATCH_ANSWER = AnswerType(
    schema=MatchReply, read=read_match_reply, partial=False, decision=_relations_of
)


def _reply_to(rubric_id: str) -> type[BaseModel]:
    """Return the model of the reply to a rubric, by the rubric's id."""
    if rubric_id == rubric("matching").id:
        return MatchReply
    if rubric_id == RUBRIC.id:
        return SupportReply
    return reply_model(EMOTIONAL if rubric_id == rubric(EMOTIONAL).id else "")


class LlmJudge:
    """Any litellm model as a judge.

    Args:
        sampling: Its decoding; its temperature is 0 unless it is given, and is not sent where it is
            None.
        extra: What else the provider is sent.
        wording: By their names, the rubrics that are said in other words.
    """

    relations: frozenset[Relation] = frozenset(RELATIONS)
    comparable = True
    supports = True
    rates = True

    def __init__(
        self,
        model: str,
        *,
        client: Completes,
        api_base: str | None = None,
        sampling: Mapping[str, Any] | None = None,
        extra: Mapping[str, Any] | None = None,
        repeat: int = 0,
        seed: int = 0,
        wording: Mapping[str, Prompt] | None = None,
        structured: Structured | None = None,
    ) -> None:
        self.name = model
        self._client = client
        self._wording = wording or {}
        self._repeat = repeat
        self._seed = seed
        self._api_base = api_base
        self._structured = structured
        decoding = {"temperature": 0, **(sampling or {})}
        self._sampling = {name: value for name, value in decoding.items() if value is not None}
        self._extra = extra or {}
        self.fingerprint: Mapping[str, Any] = {
            "judge": model,
            "introduction": INTRODUCTION.sha256,
            "decoding": decoding,
            **({"request": dict(extra)} if extra else {}),
            **({"endpoint": OWN_ENDPOINT} if api_base is not None else {}),
            "order": ORDER,
            "parser": PARSER_VERSION,
            **({"structured": structured} if structured is not None else {}),
        }

    def on(self, client: Completes) -> Self:
        """Return the same judge, which asks `client`."""
        twin = copy(self)
        twin._client = client
        return twin

    def fingerprint_for(self, rubrics: Sequence[Prompt]) -> Mapping[str, Any]:
        """Return everything that verdicts under `rubrics` depend on.

        The fingerprint with their hashes.
        """
        said = {name: prompt for name, prompt in self._wording.items() if rubric(name) in rubrics}
        worded = {rubric(name).id: prompt for name, prompt in said.items()}
        told = {prompt.id: worded.get(prompt.id, prompt) for prompt in rubrics}
        hashes = {
            name: asked_sha256(prompt, schema_of(_reply_to(name))) for name, prompt in told.items()
        }
        wording = {"wording": {name: prompt.id for name, prompt in said.items()}} if said else {}
        return {**self.fingerprint, "rubrics": hashes, **wording}

    async def match(
        self, gold: Sequence[Item], predicted: Sequence[Item], *, about: str
    ) -> Judgement:
        """Ask for the relations, in one call where the lists are short.

        One failed call fails the judgement.
        """
        asked = self._match_requests(gold, predicted, about)
        replies = await asyncio.gather(*(self._client.complete(request) for request in asked))
        raw = tuple(reply.raw for reply in replies if reply.raw is not None)
        for reply in replies:
            if reply.outcome != "ok":
                return Judgement(reply.outcome, error=reply.error, raw=raw)
        pairs: list[Pair] = []
        notes = [note for reply in replies for note in reply.notes]
        for reply, (rows, columns) in zip(replies, self._blocks(gold, predicted), strict=True):
            shown = (
                {gold[row].id: row for row in rows},
                {predicted[column].id: column for column in columns},
            )
            located, said = _locate(reply.value or (), *shown)
            pairs, notes = pairs + located, notes + said
        return Judgement("ok", tuple(pairs), tuple(notes), raw=raw)

    def _match_requests(
        self, gold: Sequence[Item], predicted: Sequence[Item], about: str
    ) -> list[Request[tuple[JudgedPair, ...]]]:
        """Return the calls that it takes to relate `gold` and `predicted`.

        One, or one a block of long lists.
        """
        requests = []
        for rows, columns in self._blocks(gold, predicted):
            payload = {
                "kind": "match",
                "gold": [gold[row].payload() for row in rows],
                "predicted": [predicted[column].payload() for column in columns],
            }
            request = self._request(self._said("matching"), payload, MATCH_ANSWER, about)
            # Every prediction adds detail to one gold memory: so the check that follows is noted
            # with all that it can be about, and none of them is a bundle.
            named = [predicted[column].id for column in columns] if 0 in rows else []
            likely = partial(_all_narrower, gold[0].id, named)
            requests.append(replace(request, likely=likely))
        return requests

    def _blocks(
        self, gold: Sequence[Item], predicted: Sequence[Item]
    ) -> list[tuple[list[int], list[int]]]:
        """Return the positions that share a call, in the order in which they are shown."""
        return blocks(self._order("gold", gold), self._order("predicted", predicted))

    def _order(self, side: str, items: Sequence[Item]) -> list[int]:
        """Shuffle the positions of `items`: a judge may favour what it reads first.

        The order hangs on what the items say, the seed and the repeat. So a question that was asked
        before is found in the reply cache, and each draw of a judge that is asked several times
        sees another order.
        """
        positions = list(range(len(items)))
        drawn_by = [str(self._seed), str(self._repeat), side, *(item.value for item in items)]
        random.Random("\x00".join(drawn_by).encode("utf-8", "surrogatepass")).shuffle(positions)
        return positions

    async def support(
        self, dialogue: Dialogue, items: Sequence[Item], *, about: str
    ) -> SupportJudgement:
        """Ask whether `dialogue` supports each of `items`, in one call."""
        ordered = [items[position] for position in self._order("support", items)]
        payload = {
            "kind": "support",
            "dialogue": [turn.model_dump() for turn in dialogue],
            "items": [{"id": shown.id, "value": shown.value} for shown in ordered],
        }
        answer = support_answer([item.id for item in items])
        reply = await self._client.complete(self._request(RUBRIC.text, payload, answer, about))
        return SupportJudgement(reply.outcome, reply.value or {}, error=reply.error, raw=reply.raw)

    async def rate(self, question: RubricQuestion, *, about: str) -> Rating:
        """Ask for a verdict by the rubric, in one call.

        Its hard rules are enforced on what comes back.
        """
        text, answer = self._said(question.rubric), rating_answer(question.rubric)
        reply = await self._client.complete(self._request(text, question.payload(), answer, about))
        raw = (reply.raw,) if reply.raw is not None else ()
        if reply.value is None:
            return Rating(reply.outcome, error=reply.error, raw=raw)
        marks, reason = reply.value
        return enforce(Rating("ok", marks, reason, raw=raw), question)

    def _said(self, name: str) -> str:
        return (self._wording.get(name) or rubric(name)).text

    def _request(
        self, instructions: str, payload: Mapping[str, Any], answer: AnswerType[T], about: str
    ) -> Request[T]:
        return Request(
            model=self.name,
            messages=judge_messages(instructions, payload),
            answer=answer,
            sampling=self._sampling,
            api_base=self._api_base,
            extra=self._extra,
            repeat=self._repeat,
            purpose="judge",
            about=about,
            structured=self._structured,
        )


def judge_messages(instructions: str, payload: Mapping[str, Any]) -> tuple[Mapping[str, str], ...]:
    """Return the messages of a judge.

    The static instructions, then the payload as the end of the user message.
    """
    user = f"{INTRODUCTION.text}\n\n{payload_text(payload)}"
    return {"role": "system", "content": instructions}, {"role": "user", "content": user}


def payload_text(payload: Mapping[str, Any]) -> str:
    """Return `payload` as JSON in which no text can be read as a marker of a chat template.

    Markers such as `<|im_end|>` or `[INST]` end a message for the model that they are made for,
    wherever they stand. Inside a string of JSON `<` may be written as an escape, and so may a `[`
    before a capital letter or a `/`: the value is the same, and the marker is none.
    """
    return _MARKER.sub(_escaped, json.dumps(payload, ensure_ascii=False))


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _all_narrower(gold: str, predicted: Sequence[str]) -> tuple[JudgedPair, ...]:
    return tuple(
        JudgedPair(reason="", gold=gold, predicted=name, relation="narrower") for name in predicted
    )


def _locate(
    named: Sequence[JudgedPair], rows: Mapping[str, int], columns: Mapping[str, int]
) -> tuple[list[Pair], list[str]]:
    """Turn ids into positions.

    Pairs that were not shown and second opinions on a pair are left out, and said.
    """
    pairs: dict[tuple[int, int], Pair] = {}
    notes = []
    for pair in named:
        if pair.gold not in rows or pair.predicted not in columns:
            notes.append(f"invented pair {pair.gold}–{pair.predicted} left out")
            continue
        place = rows[pair.gold], columns[pair.predicted]
        if place in pairs:
            notes.append(f"second opinion on {pair.gold}–{pair.predicted} left out")
            continue
        pairs[place] = Pair(*place, pair.relation, pair.reason)
    return list(pairs.values()), notes
