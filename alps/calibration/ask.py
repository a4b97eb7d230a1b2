"""Asking a judge about labelled items: what of an item it is shown, and where its answer falls on
the item's scale.

Under a rubric a judge is asked exactly what a run asks it: query, response, memory and dialogue,
those that are empty left out. The three dimensions of emotional intelligence are labelled as
rubrics of their own, and asked for once.

Items of `matching` are not asked as in a run. They hold one gold and one predicted memory, and the
judge sees this pair alone; a run shows it whole lists, in which the same two memories may be
related otherwise. With `companions` the pair stands among those of other items, in an order that
differs from draw to draw: how far the draws of one judge agree then tells how much order moves it.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from alps.calibration.labels import UNRELATED, Item, LabelSet, Scale, Value, on_scale
from alps.errors import UsageError
from alps.judges import matching
from alps.judges.base import Judge
from alps.judges.calibration_file import DIMENSION_OF, MATCHING, rubric_of
from alps.judges.matching import POLICIES, RELATIONS, Relation, identical_pairs
from alps.judges.rubric import EMOTIONAL, RubricQuestion, enforce
from alps.schema import Outcome, Turn

_ACCEPTED = frozenset(POLICIES["lenient"])
_WORDS = {"met": True, "not_met": False, "yes": True, "no": False, "true": True, "false": False}


@dataclass(frozen=True)
class Heard:
    """What a judge said of one item.

    Attributes:
        outcome: `ok`, or what kept it from a verdict.
        value: Its place on the scale; None unless `ok`.
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


class LabelledJudge:
    """Puts labelled items before a judge; items that ask it the same thing share one call.

    Args:
        judge: Who is asked.
        labels: The items and their scales.
        companions: How many pairs of other items of `matching` are shown with each.

    Attributes:
        rubrics: Those that the judge can be asked about.
        left_out: The others.

    Raises:
        UsageError: If an item can't be asked: names the item and what is wrong. Nothing has been
            asked then.
    """

    def __init__(self, judge: Judge, labels: LabelSet, *, companions: int = 0) -> None:
        self._judge = judge
        self._companions = companions
        self._labels = labels
        self._under_way: dict[str, asyncio.Task[_Answer]] = {}
        self.rubrics = tuple(name for name in labels.rubrics if judge.rates or name == MATCHING)
        self.left_out = tuple(name for name in labels.rubrics if name not in self.rubrics)
        if not self.rubrics:
            raise UsageError(
                f"judge={judge.name}: rates no answers by a rubric, and {MATCHING} is not among the labels"
            )
        for name in self.rubrics:
            _check_scale(name, labels.scales[name])
            for item in labels.items_of(name):
                _question(item)

    async def verdict(self, item: Item) -> Heard:
        """Return the judge's verdict on `item`, on the scale of its rubric."""
        asked = _question(item)
        shown = (
            asked.payload()
            if isinstance(asked, RubricQuestion)
            else [asked.gold.payload(), asked.predicted.payload()]
        )
        key = json.dumps(shown, sort_keys=True)
        if key not in self._under_way:
            self._under_way[key] = asyncio.create_task(self._ask(asked, item.item_id))
        answer = await self._under_way[key]
        if answer.outcome != "ok":
            return Heard(answer.outcome, raw=answer.raw, error=answer.error)
        place = partial(_on_scale, item.rubric, self._labels.scales[item.rubric])
        return Heard(
            "ok", place(answer.marks), tuple(map(place, answer.draws)), answer.raw, answer.error
        )

    async def _ask(self, asked: RubricQuestion | _PairQuestion, about: str) -> _Answer:
        if isinstance(asked, RubricQuestion):
            rating = enforce(await self._judge.rate(asked, about=about), asked)
            return _Answer(
                rating.outcome, rating.marks, rating.draws, _joined(rating.raw), rating.error
            )
        if identical_pairs([asked.gold.value], [asked.predicted.value]):
            return _Answer("ok", {MATCHING: "same"})
        gold, predicted = self._among_others(asked, about)
        judged = await self._judge.match(gold, predicted, about=about)
        relations = {(pair.gold, pair.predicted): pair.relation for pair in judged.pairs}
        named: Relation | str = relations.get((0, 0), UNRELATED)
        draws = tuple({MATCHING: draw.get((0, 0), UNRELATED)} for draw in judged.draws)
        return _Answer(judged.outcome, {MATCHING: named}, draws, _joined(judged.raw), judged.error)

    def _among_others(
        self, asked: _PairQuestion, about: str
    ) -> tuple[list[matching.Item], list[matching.Item]]:
        """Return the lists in which a pair is shown: it stands first in both, before the pairs of
        the next items.
        """
        gold, predicted = [asked.gold], [asked.predicted]
        if not self._companions:
            return gold, predicted
        items = list(self._labels.items_of(MATCHING))
        start = next(place for place, item in enumerate(items) if item.item_id == about)
        for step in range(1, self._companions + 1):
            other = items[(start + step) % len(items)]
            gold.append(_memory(other, "gold", f"g{step + 1}"))
            predicted.append(_memory(other, "predicted", f"p{step + 1}"))
        return gold, predicted


def _check_scale(name: str, scale: Scale) -> None:
    """Refuse a rubric that there are no instructions for, or whose scale has no place for the
    answers of a judge.
    """
    if name == EMOTIONAL:
        raise UsageError(
            f"rubric {name}: has three marks; label each as a rubric of its own: {', '.join(DIMENSION_OF)}"
        )
    rubric_of(name)
    values = ", ".join(map(str, scale.values))
    if len(scale.values) == 2 and name not in DIMENSION_OF and _is_backwards(name, scale):
        raise UsageError(
            f"rubric {name}: the first value of its scale ({values}) is the accepted one; write it last"
        )
    for said in _sayable(name):
        if _on_scale(name, scale, {_mark(name): said}) is None:
            raise UsageError(
                f"rubric {name}: a judge can say {said}, which its scale ({values}) does not have"
            )


def _is_backwards(name: str, scale: Scale) -> bool:
    """Tell whether two values seem to have the accepted one first, which would turn every answer of
    a judge round.
    """
    first, last = scale.values
    if isinstance(first, int | float) and isinstance(last, int | float):
        return first > last
    if (first, last) == ("1", "0"):
        return True
    meant = _WORDS | (
        {str(said): said in _ACCEPTED for said in _sayable(name)} if name == MATCHING else {}
    )
    known = [
        meant.get(re.sub(r"[\s_-]+", "_", str(value).strip().casefold())) for value in (first, last)
    ]
    return known[0] is True or known[1] is False


def _sayable(name: str) -> tuple[int | str, ...]:
    """Return everything that a judge can say under a rubric."""
    if name == MATCHING:
        return (*RELATIONS, UNRELATED)
    return tuple(range(1, 6)) if name in DIMENSION_OF else (0, 1)


def _mark(name: str) -> str:
    """Return under which name an answer holds what was said under a rubric."""
    return MATCHING if name == MATCHING else DIMENSION_OF.get(name, "met")


def _on_scale(name: str, scale: Scale, marks: Mapping[str, int | str]) -> Value | None:
    """Return where an answer falls on the scale.

    One of two other values says whether it is accepted.
    """
    said = marks[_mark(name)]
    declared = on_scale(said, scale)
    if len(scale.values) != 2 or name in DIMENSION_OF:
        return declared
    if declared is not None and set(scale.values) <= set(_sayable(name)):
        return declared
    accepted = said in _ACCEPTED if name == MATCHING else bool(said)
    return on_scale(scale.values[int(accepted)], scale)


def _question(item: Item) -> RubricQuestion | _PairQuestion:
    if item.rubric == MATCHING:
        return _PairQuestion(_memory(item, "gold", "g1"), _memory(item, "predicted", "p1"))
    text = {name: _text(item, item.payload, name) for name in ("query", "response", "memory")}
    turns = item.payload.get("dialogue", [])
    if not isinstance(turns, list):
        raise UsageError(f"item {item.item_id}: payload.dialogue must be a list of turns")
    try:
        dialogue = tuple(Turn.model_validate(turn) for turn in turns)
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ": ".join(["payload.dialogue", *map(str, wrong["loc"])])
        raise UsageError(f"item {item.item_id}: {where}: {wrong['msg'].lower()}") from error
    name = EMOTIONAL if item.rubric in DIMENSION_OF else item.rubric
    return RubricQuestion(name, dialogue=dialogue, **text)


def _memory(item: Item, side: str, name: str) -> matching.Item:
    given = item.payload.get(side)
    if not isinstance(given, Mapping) or not isinstance(given.get("value"), str):
        raise UsageError(
            f"item {item.item_id}: payload.{side} must be a memory with a text `value`"
        )
    fields = {
        key: _text(item, given, key, f"{side}.") or None for key in ("type", "label", "evidence")
    }
    return matching.Item(
        name, given["value"], fields["type"], fields["label"] or "", fields["evidence"]
    )


def _text(item: Item, given: Mapping[str, Any], name: str, under: str = "") -> str:
    value = given.get(name)
    if value is None and name != "response":
        return ""
    if not isinstance(value, str):
        raise UsageError(f"item {item.item_id}: payload.{under}{name} must be text")
    return value


def _joined(raw: Sequence[str]) -> str | None:
    return "\n".join(raw) or None
