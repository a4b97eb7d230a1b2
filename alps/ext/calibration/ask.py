"""Questions to a judge about labelled items, and its answers on the items' scales.

Under a rubric a judge is asked exactly what a run asks it: query, response, memory and dialogue,
those that are empty left out. The three dimensions of emotional intelligence are labelled as
rubrics of their own, and asked for once.

Items of `matching` are not asked as in a run. They hold one gold and one predicted memory, and the
judge sees this pair alone; a run shows it whole lists, in which the same two memories may be
related otherwise. With `companions` the pair is shown among those of other items, in an order that
differs from draw to draw: how far the draws of one judge agree is then a measure of how much order
matters.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from alps.errors import DataError, UsageError, first_fault
from alps.ext.calibration.agreement import LabelScale
from alps.ext.calibration.label_rows import Value, on_scale
from alps.ext.calibration.labels import JudgedItem, LabelSet, Verdict
from alps.judges.base import UNRELATED, Item, Judge, Judgement, MatchQuestion, Pair
from alps.judges.matching import identical_pairs
from alps.judges.rubric import GRADED, MATCHING, Rating, Rubric, RubricQuestion, enforce, rubric
from alps.schema import Turn
from alps.slips import Slips

# Words that say which of two values is the accepted one, where people made the scale of words.
_WORDS = {"met": True, "not_met": False, "yes": True, "no": False, "true": True, "false": False}


_Question = RubricQuestion | MatchQuestion
# Where the pair that is asked about stands, also among those of other items.
_FIRST = (0, 0)


class LabelledJudge:
    """Asks a judge about labelled items; items that put the same question to it share one call.

    The items are those that `askable` leaves. With each item of `matching`, so many `companions`
    are shown: pairs of other items.

    Attributes:
        rubrics: Those that the judge can be asked about.
        left_out: The others.

    Raises:
        UsageError: If the judge can be asked about none of the rubrics.
    """

    def __init__(self, judge: Judge, labels: LabelSet, *, companions: int) -> None:
        self._judge = judge
        self._companions = companions
        self._labels = labels
        self._calls: dict[str, asyncio.Task[Rating | Judgement]] = {}
        rates = RubricQuestion in judge.answers
        # A judge that only compares memories, as the lexical one, rates no answers.
        self.rubrics = tuple(name for name in labels.rubrics if rates or name == MATCHING)
        self.left_out = tuple(name for name in labels.rubrics if name not in self.rubrics)
        if not self.rubrics:
            raise UsageError(
                f"judge={judge.name}: cannot rate answers by a rubric, "
                f"and {MATCHING} is not among the labels"
            )

    async def verdict(self, item: JudgedItem) -> Verdict:
        """Return the judge's verdict on `item`, on the scale of its rubric."""
        question = _question(self._labels, item)
        key = json.dumps(question.payload(), sort_keys=True)
        # The task is shared while it runs, too: copies of a question wait for the same call.
        if key not in self._calls:
            self._calls[key] = asyncio.create_task(self._ask(question, item.item_id))
        answer = await self._calls[key]
        if answer.outcome != "ok":
            raw, error = _joined(answer.raw), answer.error
            return Verdict(None, raw, outcome=answer.outcome, error=error)
        by = self._labels.rubric_of(item.rubric)
        given: Sequence[int | str]
        if isinstance(answer, Judgement):
            relations = {(pair.gold, pair.predicted): pair.relation for pair in answer.pairs}
            given = [draw.get(_FIRST, UNRELATED) for draw in (relations, *answer.draws)]
        else:
            mark = by.labels[item.rubric]
            given = [marks[mark] for marks in (answer.marks, *answer.draws)]
        value, *draws = map(partial(_on_scale, by, self._labels.scales[item.rubric]), given)
        return Verdict(value, _joined(answer.raw), None, tuple(draws), "ok", answer.error)

    async def _ask(self, question: _Question, about: str) -> Rating | Judgement:
        if isinstance(question, RubricQuestion):
            return enforce(await self._judge.answer(question, about=about), question)
        # A run does not ask about identical values either: they are the same memory.
        if identical_pairs([question.gold[0].value], [question.predicted[0].value]):
            return Judgement("ok", (Pair(0, 0, "same", "identical"),))
        return await self._judge.answer(self._among_others(question, about), about=about)

    def _among_others(self, question: MatchQuestion, about: str) -> MatchQuestion:
        """Return the question in which a pair is shown: first, before those of other items."""
        if not self._companions:
            return question
        gold, predicted = list(question.gold), list(question.predicted)
        items = self._labels.items_of(MATCHING)
        # Neighbours, not a draw: the same command puts the same question again.
        start = [item.item_id for item in items].index(about)
        for step in range(1, self._companions + 1):
            other = items[(start + step) % len(items)]
            gold.append(_memory(other, "gold", f"g{step + 1}"))
            predicted.append(_memory(other, "predicted", f"p{step + 1}"))
        return MatchQuestion(gold, predicted)


def askable(judge: Judge, labels: LabelSet, path: Path) -> LabelSet:
    """Return the items that a judge can be asked about; the slips of the others are named.

    A judge that rates no answers is not asked about them. `path` is the file of the items, which
    people may have written by hand. Every item is read here, before the first call: a broken one
    must not cost money.

    Raises:
        UsageError: If a scale is not the judge's own.
        DataError: If more of the items are wrong than slips may be.
    """
    rates = RubricQuestion in judge.answers
    for name in labels.rubrics:
        if rates or name == MATCHING:
            _check_scale(name, labels)
    slips = Slips(path, rows=len(labels.items))
    broken = set()
    for item in labels.items.values():
        if not rates and item.rubric != MATCHING:
            continue
        try:
            _question(labels, item)
        except DataError as error:
            slips.errors.append(DataError(str(error), path=path, line=item.line))
            broken.add(item.item_id)
    slips.settle()
    return labels.without(broken) if broken else labels


def _question(labels: LabelSet, item: JudgedItem) -> _Question:
    if item.rubric == MATCHING:
        gold, predicted = _memory(item, "gold", "g1"), _memory(item, "predicted", "p1")
        return MatchQuestion((gold,), (predicted,))
    text = {name: _text(item, item.payload, name) for name in ("query", "response", "memory")}
    by = labels.rubric_of(item.rubric)
    return RubricQuestion(by, dialogue=_dialogue(item), **text)


def _check_scale(name: str, labels: LabelSet) -> None:
    """Refuse a rubric without instructions, or whose scale lacks a value that a judge can give."""
    if name in GRADED:
        # One label could not say which of the three marks it is.
        dimensions = ", ".join(rubric(name).labels)
        raise UsageError(
            f"rubric {name} has three marks; label each mark as its own rubric: {dimensions}"
        )
    by, scale = labels.rubric_of(name), labels.scales[name]
    values = ", ".join(map(str, scale.values))
    if len(scale.values) == 2 and by.kind == "nominal" and _is_backwards(by, scale):
        raise UsageError(
            f"rubric {name}: the scale ({values}) begins with the accepted value; put it last"
        )
    for answer in by.scale:
        if _on_scale(by, scale, answer) is None:
            raise UsageError(
                f"rubric {name}: a judge can return {answer}, which the scale ({values}) lacks; "
                "add it to the scale"
            )


def _is_backwards(by: Rubric, scale: LabelScale) -> bool:
    """Tell whether two values seem to have the accepted one first.

    Every answer of a judge would be taken for its opposite then.
    """
    first, last = scale.values
    if isinstance(first, int | float) and isinstance(last, int | float):
        return first > last
    if (first, last) == ("1", "0"):
        return True
    meanings = _WORDS | {word: word in by.accepted for word in by.scale if isinstance(word, str)}
    words = [re.sub(r"[\s_-]+", "_", str(value).strip().casefold()) for value in (first, last)]
    return meanings.get(words[0]) is True or meanings.get(words[1]) is False


def _on_scale(by: Rubric, scale: LabelScale, answer: int | str) -> Value | None:
    """Return the value of an answer on the scale.

    A scale of two other values says whether it is accepted.
    """
    declared = on_scale(answer, scale)
    # A mark or a relation is no yes or no: it is on the scale as it is, or not at all.
    if len(scale.values) != 2 or by.kind == "ordinal":
        return declared
    if declared is not None and set(scale.values) <= set(by.scale):
        return declared
    return on_scale(scale.values[int(answer in by.accepted)], scale)


def _dialogue(item: JudgedItem) -> tuple[Turn, ...]:
    turns = item.payload.get("dialogue", [])
    if not isinstance(turns, list):
        raise DataError(f"item {item.item_id}: payload.dialogue must be a list of turns")
    try:
        return tuple(Turn.model_validate(turn) for turn in turns)
    except ValidationError as error:
        said, field = first_fault(error)
        where = ": ".join(filter(None, ("payload.dialogue", field)))
        raise DataError(f"item {item.item_id}: {where}: {said}") from error


def _memory(item: JudgedItem, side: str, name: str) -> Item:
    memory = item.payload.get(side)
    if not isinstance(memory, Mapping) or not isinstance(memory.get("value"), str):
        message = f"item {item.item_id}: payload.{side} must be a memory with a string `value`"
        raise DataError(message)
    kind, label, evidence = (
        _text(item, memory, field, f"{side}.") for field in ("type", "label", "evidence")
    )
    return Item(name, memory["value"], kind or None, label, evidence or None)


def _text(item: JudgedItem, fields: Mapping[str, Any], name: str, under: str = "") -> str:
    value = fields.get(name)
    # A rubric may do without query or memory; without an answer there is nothing to judge.
    if value is None and name != "response":
        return ""
    if not isinstance(value, str):
        raise DataError(f"item {item.item_id}: payload.{under}{name} must be a string")
    return value


def _joined(raw: Sequence[str]) -> str | None:
    return "\n".join(raw) or None
