"""Judgement of an answer: what is asked of a judge, and what an embedded one is asked instead.

Two scores come of it that are told apart: our own, strict and the same for all sets, and that of a
set's authors, by their own rules.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from alps.ext.histories.model import CitedSet, Question
from alps.ext.histories.sample import HistorySample
from alps.judges.base import Judge
from alps.judges.matching import Item, MatchQuestion
from alps.judges.rubric import NOTHING, RatingReply, Reason, Rubric, RubricQuestion, read_rubric
from alps.llm.schemas import forgiving, refuse
from alps.prompts import load_prompt
from alps.schema import UNMAPPED, Prediction
from alps.tasks.base import verdict_row
from alps.text import fold

ANSWER, GUIDE, UNANSWERABLE, POINT = "answer", "guide", "unanswerable", "point"
OUTCOME = "outcome"
OUTCOMES = ("hallucination", "omission", "correct")
_DECLINES = (
    *("no information available", "not mentioned", "not known", "unknown", "i don't know"),
    *("can't be answered", "cannot be answered", "no record", "not enough information"),
)
RATED_BY: Mapping[str, str] = {"judged": ANSWER, "guided": GUIDE, "points": POINT}
"""Our rubric for each way of scoring that needs one."""


def _mark(value: object) -> int:
    if isinstance(value, bool) or value not in (0, 1, 2):
        refuse(f"{value!r} is none of 0, 1 and 2")
    return int(str(value)[0])


def _outcome(value: object) -> str:
    folded = str(value).strip().casefold()
    if folded not in OUTCOMES:
        refuse(f"{value!r} is none of {', '.join(OUTCOMES)}")
    return folded


class PointReply(RatingReply):
    """The reply to a point: 0, 1 for a part of it, or 2."""

    reason: Reason
    mark: Annotated[Literal[0, 1, 2], forgiving(_mark)]


class OutcomeReply(RatingReply):
    """The reply that sorts an answer."""

    reason: Reason
    outcome: Annotated[Literal["correct", "hallucination", "omission"], forgiving(_outcome)]

    def marks(self) -> dict[str, int]:
        """Return its place in `OUTCOMES`."""
        return {"outcome": OUTCOMES.index(self.outcome)}


_OTHER: Mapping[str, Mapping[str, Any]] = {
    POINT: {
        "marks": ("mark",),
        "kind": "ordinal",
        "scale": (0, 1, 2),
        "accepted": frozenset({2}),
        "reply": PointReply,
    },
    OUTCOME: {
        "marks": ("outcome",),
        "scale": (0, 1, 2),
        "accepted": frozenset({2}),
        "reply": OutcomeReply,
    },
}


@cache
def rubric_of(name: str) -> Rubric:
    """Return the rubric called `name`, of those of this folder."""
    if name in _OTHER:
        prompt = load_prompt("alps.ext.histories", "rubrics", name)
        return Rubric(**vars(prompt), name=name, rules=(NOTHING,), **_OTHER[name])
    return read_rubric(Path(str(files("alps.ext.histories") / "rubrics" / f"{name}.md")))


def rubrics_of(cited: CitedSet) -> tuple[Rubric, ...]:
    """Return the rubrics that scores of a set depend on."""
    names = [ANSWER, UNANSWERABLE, *cited.rubrics]
    return tuple(rubric_of(name) for name in dict.fromkeys(names))


def declines(answer: str) -> bool:
    """Tell whether an answer says in so many words that nothing is known."""
    folded = fold(answer)
    return any(said in folded for said in _DECLINES)


def is_exact(question: Question, answer: str) -> bool:
    """Tell whether an answer is the gold, but for case, accents and marks around it."""
    return fold(answer).strip(" .!") == fold(question.answer).strip(" .!")


def asked_of(cited: CitedSet, question: Question) -> Iterator[tuple[str, str, str]]:
    """Yield what a judge is asked: the key of the mark, the rubric, and what stands for the gold."""
    if question.scoring != "exact":
        if question.scoring == "points":
            for number, point in enumerate(question.points):
                yield f"{POINT} {number}", POINT, point
        elif question.abstains:
            yield UNANSWERABLE, UNANSWERABLE, question.answer
        else:
            by = RATED_BY[question.scoring]
            yield by, by, question.answer
    if cited.authors is not None:
        for name, gold in cited.authors.rubrics(question):
            yield name, name, gold


async def judge_prediction(
    cited: CitedSet, sample: HistorySample, prediction: Prediction, judge: Judge
) -> dict[str, Any]:
    """Return the verdict on an answer: a mark for each thing that was asked."""
    question, answer = sample.question, str((prediction.prediction or {}).get("answer", ""))
    wanted = list(asked_of(cited, question))
    if RubricQuestion not in judge.answers:
        return await _related(sample, answer, judge)
    rubrics = list(dict.fromkeys(rubric_of(name) for _, name, _ in wanted))
    verdict = verdict_row(judge, rubrics)
    ratings = await asyncio.gather(
        *(
            judge.answer(
                RubricQuestion(rubric_of(name), question.text, answer, gold, ()),
                about=sample.benchmark_id,
            )
            for _, name, gold in wanted
        )
    )
    marks: dict[str, int] = {}
    reasons: dict[str, str] = {}
    agreements = []
    for (key, _, _), rating in zip(wanted, ratings, strict=True):
        if rating.outcome != "ok":
            return {**verdict, "outcome": rating.outcome, "error": rating.error}
        marks[key] = next(iter(rating.marks.values()))
        reasons[key] = rating.reason
        agreements += [rating.agreement] if rating.agreement is not None else []
    raw = [text for rating in ratings for text in rating.raw]
    agreement = {"agreement": sum(agreements) / len(agreements)} if agreements else {}
    return {**verdict, "marks": marks, "reasons": reasons, **agreement, "raw": raw}


async def _related(sample: HistorySample, answer: str, judge: Judge) -> dict[str, Any]:
    """Ask a judge that reads no rubrics whether gold and answer say the same."""
    question, verdict = sample.question, verdict_row(judge, ())
    if question.scoring == "exact" or MatchQuestion not in judge.answers:
        return verdict
    if question.abstains:
        # Nothing is compared: an answer that declines says so.
        return {**verdict, "marks": {UNANSWERABLE: int(declines(answer))}}
    if question.scoring == "guided" or not answer.strip():
        return verdict
    golds = question.points or (question.answer,)
    asked = MatchQuestion(_items("g", golds), _items("p", (answer,)))
    judgement = await judge.answer(asked, about=sample.benchmark_id)
    if judgement.outcome != "ok":
        return {**verdict, "outcome": judgement.outcome, "error": judgement.error}
    same = {pair.gold for pair in judgement.pairs if pair.relation in ("same", "narrower")}
    if not question.points:
        return {**verdict, "marks": {ANSWER: int(0 in same)}}
    marks = {f"{POINT} {place}": 2 * int(place in same) for place in range(len(golds))}
    return {**verdict, "marks": marks}


def _items(kind: str, values: Sequence[str]) -> list[Item]:
    numbered = enumerate(values, start=1)
    return [Item(f"{kind}{n}", value, None, UNMAPPED, None) for n, value in numbered]


def right_of(question: Question, answer: str | None, marks: Mapping[str, float]) -> float | None:
    """Return our score of an answer, in [0, 1]; None where nobody judged it, 0 for a failed one."""
    if answer is None:
        return 0.0
    if question.scoring == "exact":
        declined = question.abstains and declines(answer)
        return float(declined or is_exact(question, answer))
    if question.scoring == "points":
        found = [marks[key] for key in marks if key.startswith(f"{POINT} ")]
        return sum(found) / (2 * len(found)) if found else None
    by = UNANSWERABLE if question.abstains else RATED_BY[question.scoring]
    return marks.get(by)


