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
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from alps.calibration.labels import UNRELATED, Item, LabelSet
from alps.calibration.rows import Value, on_scale
from alps.errors import UsageError
from alps.judges import matching
from alps.judges.base import Judge
from alps.judges.calibration_file import DIMENSION_OF, MATCHING, rubric_of
from alps.judges.matching import POLICIES, RELATIONS, Relation, identical_pairs
from alps.judges.rubric import EMOTIONAL, RubricQuestion, enforce
from alps.schema import Outcome, Turn
from alps.stats.agreement import Scale

_ACCEPTED = frozenset(POLICIES["lenient"])
_WORDS = {"met": True, "not_met": False, "yes": True, "no": False, "true": True, "false": False}


@dataclass(frozen=True)
class Opinion:
    """What a judge says of one item.

    Attributes:
        outcome: `ok`, or what kept it from a verdict.
        value: The verdict on the item's scale; None unless `ok`.
        draws: The single opinions of a judge that was asked several times.
    """

    outcome: Outcome
    value: Value | None = None
    draws: tuple[Value | None, ...] = ()
    raw: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class _Answer:
    """An answer before it is put on a scale: a mark by name, or a relation under `MATCHING`."""

    outcome: Outcome
    marks: Mapping[str, int | str]
    draws: tuple[Mapping[str, int | str], ...] = ()
    raw: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class _PairQuestion:
    """Two memories whose relation a judge is to name."""

    gold: matching.Item
    predicted: matching.Item

    def payload(self) -> list[Any]:
        """Return what the judge is shown."""
        return [self.gold.payload(), self.predicted.payload()]


_Question = RubricQuestion | _PairQuestion


class LabelledJudge:
    """Asks a judge about labelled items; items that put the same question to it share one call.

    Args:
        judge: Who is asked.
        labels: The items and their scales.
        companions: How many pairs of other items of `matching` are shown with each.

    Attributes:
        rubrics: Those that the judge can be asked about.
        left_out: The others.

    Raises:
        UsageError: If an item can't be asked about: names the item and what is wrong. Nothing has
            been asked then.
    """

    def __init__(self, judge: Judge, labels: LabelSet, *, companions: int = 0) -> None:
        self._judge = judge
        self._companions = companions
        self._labels = labels
        self._calls: dict[str, asyncio.Task[_Answer]] = {}
        self.rubrics = tuple(name for name in labels.rubrics if judge.rates or name == MATCHING)
        self.left_out = tuple(name for name in labels.rubrics if name not in self.rubrics)
        if not self.rubrics:
            raise UsageError(
                f"judge={judge.name}: rates no answers by a rubric, "
                f"and {MATCHING} is not among the labels"
            )
        for name in self.rubrics:
            _check_scale(name, labels.scales[name])
            # Every item is read before the first call: a broken one must not cost money.
            for item in labels.items_of(name):
                _question(item)

    async def verdict(self, item: Item) -> Opinion:
        """Return the judge's verdict on `item`, on the scale of its rubric."""
        question = _question(item)
        key = json.dumps(question.payload(), sort_keys=True)
        # The task is shared while it runs, too: copies of a question wait for the same call.
        if key not in self._calls:
            self._calls[key] = asyncio.create_task(self._ask(question, item.item_id))
        answer = await self._calls[key]
        if answer.outcome != "ok":
            return Opinion(answer.outcome, raw=answer.raw, error=answer.error)
        value_of = partial(_on_scale, item.rubric, self._labels.scales[item.rubric])
        draws = tuple(map(value_of, answer.draws))
        return Opinion("ok", value_of(answer.marks), draws, answer.raw, answer.error)

    async def _ask(self, question: _Question, about: str) -> _Answer:
        if isinstance(question, RubricQuestion):
            rating = enforce(await self._judge.rate(question, about=about), question)
            raw = _joined(rating.raw)
            return _Answer(rating.outcome, rating.marks, rating.draws, raw, rating.error)
        if identical_pairs([question.gold.value], [question.predicted.value]):
            return _Answer("ok", {MATCHING: "same"})  # a run does not ask about these either
        gold, predicted = self._among_others(question, about)
        judgement = await self._judge.match(gold, predicted, about=about)
        relations = {(pair.gold, pair.predicted): pair.relation for pair in judgement.pairs}
        relation: Relation | str = relations.get((0, 0), UNRELATED)
        draws = tuple({MATCHING: draw.get((0, 0), UNRELATED)} for draw in judgement.draws)
        raw = _joined(judgement.raw)
        return _Answer(judgement.outcome, {MATCHING: relation}, draws, raw, judgement.error)

    def _among_others(
        self, question: _PairQuestion, about: str
    ) -> tuple[list[matching.Item], list[matching.Item]]:
        """Return the lists in which a pair is shown: first in both, before those of other items."""
        gold, predicted = [question.gold], [question.predicted]
        if not self._companions:
            return gold, predicted
        items = self._labels.items_of(MATCHING)
        start = [item.item_id for item in items].index(about)
        for step in range(1, self._companions + 1):
            other = items[(start + step) % len(items)]
            gold.append(_memory(other, "gold", f"g{step + 1}"))
            predicted.append(_memory(other, "predicted", f"p{step + 1}"))
        return gold, predicted


def _check_scale(name: str, scale: Scale) -> None:
    """Refuse a rubric without instructions, or whose scale lacks a value that a judge can give."""
    if name == EMOTIONAL:
        dimensions = ", ".join(DIMENSION_OF)
        raise UsageError(
            f"rubric {name}: has three marks; label each as a rubric of its own: {dimensions}"
        )
    rubric_of(name)
    values = ", ".join(map(str, scale.values))
    if len(scale.values) == 2 and name not in DIMENSION_OF and _is_backwards(name, scale):
        raise UsageError(
            f"rubric {name}: the first value of its scale ({values}) is the accepted one; "
            "write it last"
        )
    for answer in _possible(name):
        if _on_scale(name, scale, {_mark(name): answer}) is None:
            raise UsageError(
                f"rubric {name}: a judge can say {answer}, which its scale ({values}) does not have"
            )


def _is_backwards(name: str, scale: Scale) -> bool:
    """Tell whether two values seem to have the accepted one first.

    Every answer of a judge would be taken for its opposite then.
    """
    first, last = scale.values
    if isinstance(first, int | float) and isinstance(last, int | float):
        return first > last
    if (first, last) == ("1", "0"):
        return True
    meanings = dict(_WORDS)
    if name == MATCHING:
        meanings |= {str(relation): relation in _ACCEPTED for relation in _possible(name)}
    words = [re.sub(r"[\s_-]+", "_", str(value).strip().casefold()) for value in (first, last)]
    return meanings.get(words[0]) is True or meanings.get(words[1]) is False


def _possible(name: str) -> tuple[int | str, ...]:
    """Return every answer that a judge can give under a rubric."""
    if name == MATCHING:
        return (*RELATIONS, UNRELATED)
    return tuple(range(1, 6)) if name in DIMENSION_OF else (0, 1)


def _mark(name: str) -> str:
    """Return the name of the mark that an answer has under a rubric."""
    return MATCHING if name == MATCHING else DIMENSION_OF.get(name, "met")


def _on_scale(name: str, scale: Scale, marks: Mapping[str, int | str]) -> Value | None:
    """Return the value of an answer on the scale.

    A scale of two other values says whether it is accepted.
    """
    answer = marks[_mark(name)]
    declared = on_scale(answer, scale)
    if len(scale.values) != 2 or name in DIMENSION_OF:
        return declared
    if declared is not None and set(scale.values) <= set(_possible(name)):
        return declared
    accepted = answer in _ACCEPTED if name == MATCHING else bool(answer)
    return on_scale(scale.values[int(accepted)], scale)


def _question(item: Item) -> _Question:
    if item.rubric == MATCHING:
        return _PairQuestion(_memory(item, "gold", "g1"), _memory(item, "predicted", "p1"))
    text = {name: _text(item, item.payload, name) for name in ("query", "response", "memory")}
    name = EMOTIONAL if item.rubric in DIMENSION_OF else item.rubric
    return RubricQuestion(name, dialogue=_dialogue(item), **text)


def _dialogue(item: Item) -> tuple[Turn, ...]:
    turns = item.payload.get("dialogue", [])
    if not isinstance(turns, list):
        raise UsageError(f"item {item.item_id}: payload.dialogue must be a list of turns")
    try:
        return tuple(Turn.model_validate(turn) for turn in turns)
    except ValidationError as error:
        first = error.errors()[0]
        where = ": ".join(["payload.dialogue", *map(str, first["loc"])])
        raise UsageError(f"item {item.item_id}: {where}: {first['msg'].lower()}") from error


def _memory(item: Item, side: str, name: str) -> matching.Item:
    memory = item.payload.get(side)
    if not isinstance(memory, Mapping) or not isinstance(memory.get("value"), str):
        raise UsageError(
            f"item {item.item_id}: payload.{side} must be a memory with a text `value`"
        )
    kind, label, evidence = (
        _text(item, memory, field, f"{side}.") for field in ("type", "label", "evidence")
    )
    return matching.Item(name, memory["value"], kind or None, label, evidence or None)


def _text(item: Item, fields: Mapping[str, Any], name: str, under: str = "") -> str:
    value = fields.get(name)
    if value is None and name != "response":
        return ""
    if not isinstance(value, str):
        raise UsageError(f"item {item.item_id}: payload.{under}{name} must be text")
    return value


def _joined(raw: Sequence[str]) -> str | None:
    return "\n".join(raw) or None
