"""An LLM as judge, by the payload contract.

What all requests share stands in the system message. At the end of the user message is the payload,
one JSON object: whatever the memories say stays inside its strings.
"""

import asyncio
import json
import random
import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

from alps.judges.base import (
    RELATIONS,
    Item,
    Judgement,
    MatchQuestion,
    Pair,
    Question,
    Relation,
    SupportJudgement,
    SupportQuestion,
)
from alps.judges.matching import blocks, items_at
from alps.judges.rubric import (
    BUDGETS,
    MATCH_ANSWER,
    MATCHING,
    OPTION,
    SUPPORT,
    JudgedPair,
    OptionQuestion,
    OptionVerdict,
    Rating,
    Rubric,
    RubricQuestion,
    enforce,
    option_answer,
    rating_answer,
    rubric,
    support_answer,
)
from alps.llm.replies import PARSER_VERSION, schema_of
from alps.llm.types import AnswerType, Completes, Completion, Request, Structured
from alps.prompts import Prompt, asked_sha256, load_prompt

T = TypeVar("T")

# What begins a marker of a chat template, as `<|im_end|>` or `[INST]`: it ends a message for the
# model that it is made for, wherever it stands. Outside a string JSON has neither.
_MARKER = re.compile(r"<|\[(?=/?[A-Z])")

INTRODUCTION = load_prompt("alps.judges", "rubrics", "payload")
# Stands in a fingerprint for an endpoint other than the provider's own, without its address: what
# answers there under the name of a model may be another one.
OWN_ENDPOINT = "api_base"
# The order in which a judge is shown the memories of a list: by seed, repeat and what they say.
ORDER = "shuffled"


class LlmJudge:
    """Any litellm model as a judge.

    Args:
        sampling: Its decoding; its temperature is 0 unless it is given, and is not sent where it is
            None.
        extra: What else the provider is sent.
        wording: By their names, the rubrics that are said in other words.
        most: The most tokens that an output budget may come to; None where it is sent none.
    """

    answers: frozenset[type[Question[Any]]] = frozenset(
        {MatchQuestion, SupportQuestion, RubricQuestion, OptionQuestion}
    )
    relations: frozenset[Relation] = frozenset(RELATIONS)
    comparable = True

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
        most: int | None = None,
    ) -> None:
        self.name = model
        self._most = most
        self._client = client
        self._wording = wording or {}
        self._repeat = repeat
        self._seed = seed
        self._purpose = "judge"
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
            **({"output_budget": BUDGETS} if most is not None else {}),
        }

    def on(self, client: Completes) -> Self:
        """Return the same judge, which asks `client`."""
        twin = copy(self)
        twin._client = client
        return twin

    def under(self, purpose: str) -> Self:
        """Return the same judge, whose calls go by another purpose in the ledger."""
        twin = copy(self)
        twin._purpose = purpose
        return twin

    def fingerprint_for(self, rubrics: Sequence[Rubric]) -> Mapping[str, Any]:
        """Return the fingerprint with the hashes of `rubrics`."""
        hashes, reworded = {}, {}
        for given in rubrics:
            prompt = self._wording.get(given.name)
            hashes[given.id] = asked_sha256(prompt or given, schema_of(given.reply))
            if prompt is not None:
                reworded[given.name] = prompt.id
        wording = {"wording": reworded} if reworded else {}
        return {**self.fingerprint, "rubrics": hashes, **wording}

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Ask the model; a verdict that breaks a hard rule of its rubric is overruled."""
        match question:
            case MatchQuestion():
                return await self._match(question, about)
            case SupportQuestion():
                return await self._support(question, about)
            case RubricQuestion():
                return await self._rate(question, about)
            case OptionQuestion():
                return await self._choose(question, about)
        return question.refused()

    async def _match(self, question: MatchQuestion, about: str) -> Judgement:
        """Ask in one call where the lists are short, else one a block; all of them must succeed."""
        gold, predicted = question.gold, question.predicted
        cut = blocks(
            self._order("gold", [item.value for item in gold]),
            self._order("predicted", [item.value for item in predicted]),
        )
        shown = []
        for rows, columns in cut:
            part = MatchQuestion(items_at(gold, rows), items_at(predicted, columns))
            # Every prediction adds detail to one gold memory: a dry run then counts the check of
            # that detail with all that it can be about, and nothing is a bundle.
            named = part.predicted if 0 in rows else ()
            items = len(rows) + len(columns)
            request = self._request(rubric(MATCHING), part, MATCH_ANSWER, about, items=items)
            shown.append(replace(request, likely=partial(_all_narrower, gold[0], named)))
        replies = await asyncio.gather(*map(self._client.complete, shown))
        raw = _raw(*replies)
        pairs: list[Pair] = []
        notes: list[str] = []
        left_out: list[str] = []
        for reply, (rows, columns) in zip(replies, cut, strict=True):
            if reply.outcome != "ok":
                return question.failed(reply.outcome, reply.error, raw)
            places = _places(gold, rows), _places(predicted, columns)
            pairs += _locate(reply.value or (), *places, left_out)
            notes += reply.notes
        return Judgement("ok", tuple(pairs), (*notes, *left_out), raw=raw)

    def _order(self, side: str, values: Sequence[str]) -> list[int]:
        """Shuffle the positions of `values`: a judge may favour what it reads first."""
        # The order hangs on what the items say, the seed and the repeat: a question that was asked
        # before is found in the reply cache, and each draw of a judge sees another order.
        positions = list(range(len(values)))
        drawn_by = [str(self._seed), str(self._repeat), side, *values]
        random.Random("\x00".join(drawn_by).encode("utf-8", "surrogatepass")).shuffle(positions)
        return positions

    async def _support(self, question: SupportQuestion, about: str) -> SupportJudgement:
        """Ask about all items, in one call."""
        items = question.items
        order = self._order("support", [item.value for item in items])
        shown = replace(question, items=items_at(items, order))
        names = [item.id for item in items]
        answer = support_answer(names)
        request = self._request(rubric(SUPPORT), shown, answer, about, items=len(names))
        request = replace(request, likely=lambda: dict.fromkeys(names, ("supported", "")))
        reply = await self._client.complete(request)
        return SupportJudgement(reply.outcome, reply.value or {}, reply.error, _raw(reply))

    async def _rate(self, question: RubricQuestion, about: str) -> Rating:
        """Ask for the marks, in one call."""
        given = question.rubric
        request = self._request(given, question, rating_answer(given.reply), about)
        reply = await self._client.complete(replace(request, likely=lambda: (given.lowest, "")))
        if reply.value is None:
            return question.failed(reply.outcome, reply.error, _raw(reply))
        marks, reason = reply.value
        return enforce(Rating("ok", marks, reason, raw=_raw(reply)), question)

    async def _choose(self, question: OptionQuestion, about: str) -> OptionVerdict:
        """Ask for the option, in one call, in another order than the file's."""
        options = question.options
        order = self._order("options", options)
        if order == sorted(order):
            order = [*order[1:], order[0]]
        shown = replace(question, options=[options[position] for position in order])
        request = self._request(rubric(OPTION), shown, option_answer(len(options)), about)
        reply = await self._client.complete(replace(request, likely=lambda: (None, "")))
        if reply.value is None:
            return question.failed(reply.outcome, reply.error, _raw(reply))
        position, reason = reply.value
        option = None if position is None else order[position]
        return OptionVerdict("ok", option, reason, raw=_raw(reply))

    def _request(
        self, by: Rubric, asked: Question[Any], answer: AnswerType[T], about: str, items: int = 0
    ) -> Request[T]:
        instructions, most = self._wording.get(by.name, by).text, self._most
        longest = None if most is None else by.within.tokens(items=items, most=most)
        return Request(
            model=self.name,
            messages=judge_messages(instructions, asked.payload()),
            answer=answer,
            sampling=self._sampling,
            api_base=self._api_base,
            extra=self._extra,
            longest=longest,
            repeat=self._repeat,
            purpose=self._purpose,
            about=about,
            structured=self._structured,
        )


def judge_messages(instructions: str, payload: Mapping[str, Any]) -> tuple[Mapping[str, str], ...]:
    """Return the static instructions, and the payload as the end of the user message."""
    # What all requests share is ahead of the rest, so that providers can cache it.
    user = f"{INTRODUCTION.text}\n\n{payload_text(payload)}"
    return {"role": "system", "content": instructions}, {"role": "user", "content": user}


def payload_text(payload: Mapping[str, Any]) -> str:
    """Return `payload` as JSON in which no text can be read as a marker of a chat template."""
    # Inside a string of JSON any character may be written as an escape: the value stays the same.
    return _MARKER.sub(_escaped, json.dumps(payload, ensure_ascii=False))


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _raw(*replies: Completion[Any]) -> tuple[str, ...]:
    return tuple(reply.raw for reply in replies if reply.raw is not None)


def _places(items: Sequence[Item], positions: Sequence[int]) -> dict[str, int]:
    return {items[position].id: position for position in positions}


def _all_narrower(gold: Item, predicted: Sequence[Item]) -> tuple[JudgedPair, ...]:
    return tuple(
        JudgedPair(reason="", gold=gold.id, predicted=item.id, relation="narrower")
        for item in predicted
    )


def _locate(
    named: Sequence[JudgedPair],
    rows: Mapping[str, int],
    columns: Mapping[str, int],
    notes: list[str],
) -> list[Pair]:
    """Turn ids into positions; note pairs that were not shown, and second opinions, as left out."""
    pairs: dict[tuple[int, int], Pair] = {}
    for pair in named:
        if pair.gold not in rows or pair.predicted not in columns:
            notes.append(f"invented pair {pair.gold}–{pair.predicted} left out")
            continue
        place = rows[pair.gold], columns[pair.predicted]
        if place in pairs:
            notes.append(f"second opinion on {pair.gold}–{pair.predicted} left out")
            continue
        pairs[place] = Pair(*place, pair.relation, pair.reason)
    return list(pairs.values())
