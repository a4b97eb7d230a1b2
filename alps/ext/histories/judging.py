"""Judgement of an answer: what is asked of a judge, and what an embedded one is asked instead.

Two scores come of it that are kept apart: our own, strict and the same for all sets, and that of a
set's authors, by their own rules.
"""

import asyncio
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from alps.ext.histories.model import CitedSet, Question
from alps.ext.histories.sample import UNKNOWN, HistorySample
from alps.judges.base import Judge
from alps.judges.options import OptionQuestion
from alps.judges.recorded import RecordedJudge
from alps.judges.rubric import (
    NOTHING,
    Rating,
    RatingReply,
    Reason,
    Rubric,
    RubricQuestion,
    read_rubric,
)
from alps.llm.schemas import forgiving, refuse
from alps.prompts import load_prompt
from alps.schema import Prediction
from alps.tasks.base import verdict_row
from alps.text import fold

ANSWER, GUIDE, UNANSWERABLE, POINT = "answer", "guide", "unanswerable", "point"
OUTCOME, ALIGNED = "outcome", "aligned"
OUTCOMES = ("hallucination", "omission", "correct")
_DECLINES = (
    *("no information available", "not mentioned", "not known", "unknown", "i don't know"),
    *("can't be answered", "cannot be answered", "no record", "not enough information"),
)
RATED_BY: Mapping[str, str] = {"judged": ANSWER, "guided": GUIDE, "points": POINT}
"""Our rubric for each way of scoring that needs one."""


def _mark(value: object) -> int:
    if isinstance(value, bool) or value not in (0, 1, 2):
        refuse(f"{value!r} is not one of 0, 1, 2")
    return int(str(value)[0])


def _outcome(value: object) -> str:
    folded = str(value).strip().casefold()
    if folded not in OUTCOMES:
        refuse(f"{value!r} is not one of {', '.join(OUTCOMES)}")
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
    """Yield what a judge is asked: the key of a mark, the rubric, and what it takes for gold."""
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
    if isinstance(judge, RecordedJudge):
        # What was recorded is the judgement of the authors, or of who follows them: none of ours.
        theirs = () if cited.authors is None else cited.authors.rubrics(question)
        wanted = [(name, name, gold) for name, gold in theirs]
    if RubricQuestion not in judge.answers:
        return await _related(sample, answer, judge)
    verdict = verdict_row(judge, rubrics_of(cited))
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
    lines = await _pair(cited, question, answer, judge, sample.benchmark_id)
    if isinstance(lines, Rating):
        return {**verdict, "outcome": lines.outcome, "error": lines.error}
    marks |= lines
    raw = [text for rating in ratings for text in rating.raw]
    agreement = {"agreement": sum(agreements) / len(agreements)} if agreements else {}
    return {**verdict, "marks": marks, "reasons": reasons, **agreement, "raw": raw}


async def _pair(
    cited: CitedSet, question: Question, answer: str, judge: Judge, about: str
) -> dict[str, int] | Rating:
    """Return which text each line of an answer is paired with; a rating that failed where one did.

    A text that a line before had is no line's any more.
    """
    if cited.authors is None or cited.authors.paired is None:
        return {}
    texts, lines = cited.authors.paired(question, answer)
    free, found = dict(enumerate(texts)), dict[str, int]()
    for number, line in enumerate(lines):
        for place, text in list(free.items()) if line.strip() else ():
            asked = RubricQuestion(rubric_of(ALIGNED), question.text, line, text, ())
            rating = await judge.answer(asked, about=about)
            if rating.outcome != "ok":
                return rating
            if rating.marks["met"]:
                found[f"{ALIGNED} {number}"] = place
                del free[place]
                break
    return found


async def _related(sample: HistorySample, answer: str, judge: Judge) -> dict[str, Any]:
    """Ask a judge that reads no rubrics whether an answer agrees with the gold, or with none."""
    question, verdict = sample.question, verdict_row(judge, ())
    if question.scoring == "exact" or OptionQuestion not in judge.answers:
        return verdict
    if question.abstains:
        # Nothing is compared: an answer that declines says so.
        declined = int(declines(answer))
        points = {f"{POINT} {place}": 2 * declined for place in range(len(question.points))}
        return {**verdict, "marks": points or {UNANSWERABLE: declined}}
    if question.scoring == "guided" or not answer.strip():
        return verdict
    marks: dict[str, int] = {}
    for place, gold in enumerate(question.points or (question.answer,)):
        asked = OptionQuestion(question.text, answer, (gold, UNKNOWN))
        found = await judge.answer(asked, about=sample.benchmark_id)
        if found.outcome != "ok":
            return {**verdict, "outcome": found.outcome, "error": found.error}
        agrees = int(found.option == 0)
        marks |= {f"{POINT} {place}": 2 * agrees} if question.points else {ANSWER: agrees}
    return {**verdict, "marks": marks}


def right_of(question: Question, answer: str | None, marks: Mapping[str, float]) -> float | None:
    """Return the score of an answer in [0, 1]; None if it was not judged, 0 if it failed."""
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
