"""Judging of answers: questions for an LLM judge, and for an embedded one.

Two scores come of it that are kept apart: our own, strict and the same for all sets, and that of a
set's authors, by their own rules.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from alps.ext.adapters.recorded_verdicts import RecordedJudge
from alps.ext.histories.model import CitedSet, SetQuestion
from alps.ext.histories.sample import UNKNOWN, HistorySample
from alps.judges.base import POLICIES, Item, Judge, MatchQuestion
from alps.judges.rubric import (
    NOTHING,
    OptionQuestion,
    Rating,
    RatingReply,
    Reason,
    Rubric,
    RubricQuestion,
    one_of,
    read_rubric,
)
from alps.llm.replies import forgiving, refuse
from alps.prompts import load_prompt
from alps.schema import Prediction
from alps.tasks.base import verdict_row
from alps.text import fold

_HERE = Path(__file__).parent
ANSWER, GUIDE, UNANSWERABLE, POINT = "answer", "guide", "unanswerable", "point"
OUTCOME, ALIGNED = "outcome", "aligned"
COVERED, STATED, CHANGED = "covered", "stated", "changed"
OUTCOMES = ("hallucination", "omission", "correct")
CHANGES = ("hallucination", "omission", "other", "correct")
_DECLINES = (
    *("no information available", "not mentioned", "not known", "unknown", "i don't know"),
    *("can't be answered", "cannot be answered", "no record", "not enough information"),
)
RATED_BY: Mapping[str, str] = {"judged": ANSWER, "guided": GUIDE, "points": POINT}
"""Our rubric for each way of scoring that needs one."""


def _mark(value: object) -> int:
    # To Python true is 1, which would be half a mark.
    if isinstance(value, bool) or value not in (0, 1, 2):
        refuse(f"{value!r} is not one of 0, 1, 2")
    return int(str(value)[0])


class PointReply(RatingReply):
    """The reply to a point: 0, 1 for a part of it, or 2."""

    reason: Reason
    mark: Annotated[Literal[0, 1, 2], forgiving(_mark)]


class StatedReply(RatingReply):
    """The reply to a memory: how far it is borne out, and whether the points have all of it."""

    reason: Reason
    mark: Annotated[Literal[0, 1, 2], forgiving(_mark)]
    included: Annotated[Literal["yes", "no"], forgiving(partial(one_of, ("yes", "no")))]

    def marks(self) -> dict[str, int]:
        """Return both on one scale."""
        return {"mark": self.mark, "included": 2 * (self.included == "yes")}


class ChangedReply(RatingReply):
    """The reply that sorts what is found after a change."""

    reason: Reason
    outcome: Annotated[
        Literal["correct", "hallucination", "omission", "other"],
        forgiving(partial(one_of, CHANGES)),
    ]

    def marks(self) -> dict[str, int]:
        """Return its place in `CHANGES`."""
        return {"outcome": CHANGES.index(self.outcome)}


class OutcomeReply(RatingReply):
    """The reply that sorts an answer."""

    reason: Reason
    outcome: Annotated[
        Literal["correct", "hallucination", "omission"], forgiving(partial(one_of, OUTCOMES))
    ]

    def marks(self) -> dict[str, int]:
        """Return its place in `OUTCOMES`."""
        return {"outcome": OUTCOMES.index(self.outcome)}


_POINTS: Mapping[str, Any] = {
    "marks": ("mark",),
    "kind": "ordinal",
    "scale": (0, 1, 2),
    "accepted": frozenset({2}),
    "reply": PointReply,
}


def _sorting(outcomes: Sequence[str], reply: type[RatingReply]) -> Mapping[str, Any]:
    # The last one is the right one.
    scale = tuple(range(len(outcomes)))
    accepted = frozenset(scale[-1:])
    return {"marks": ("outcome",), "scale": scale, "accepted": accepted, "reply": reply}


_OTHER: Mapping[str, Mapping[str, Any]] = {
    POINT: _POINTS,
    OUTCOME: _sorting(OUTCOMES, OutcomeReply),
    COVERED: _POINTS,
    STATED: {**_POINTS, "marks": ("mark", "included"), "reply": StatedReply},
    CHANGED: _sorting(CHANGES, ChangedReply),
}


_CHECKED_AS: Mapping[str, str] = {
    "type_answer": ANSWER,
    "type_guide": GUIDE,
    "type_time": "time",
    "type_update": "latest",
    "type_absent": "absent",
    UNANSWERABLE: "absent",
}
"""The known items of a rubric, where they are not called after it."""


@cache
def rubric_of(name: str) -> Rubric:
    """Return the rubric called `name`, of those of this folder."""
    checks = _HERE / "checks" / f"{_CHECKED_AS.get(name, name)}.jsonl"
    if name in _OTHER:
        prompt = load_prompt("alps.ext.histories", "rubrics", name)
        return Rubric(**vars(prompt), name=name, rules=(NOTHING,), checks=checks, **_OTHER[name])
    return replace(read_rubric(_HERE / "rubrics" / f"{name}.md"), checks=checks)


def is_mark(name: str, mark: int) -> bool:
    """Tell whether a verdict may give this mark: of a rubric, a number where it has several."""
    by, *_ = name.split()
    if by == ALIGNED:
        return True  # the place of a text
    return (_HERE / "rubrics" / f"{by}.md").is_file() and mark in rubric_of(by).scale


def rubrics_of(cited: CitedSet) -> tuple[Rubric, ...]:
    """Return the rubrics that scores of a set depend on."""
    names = [ANSWER, UNANSWERABLE, *cited.rubrics]
    return tuple(rubric_of(name) for name in dict.fromkeys(names))


def declines(answer: str) -> bool:
    """Tell whether an answer says in so many words that nothing is known."""
    folded = fold(answer)
    return any(said in folded for said in _DECLINES)


def is_exact(question: SetQuestion, answer: str) -> bool:
    """Tell whether an answer is the gold, but for case, accents and marks around it."""
    return fold(answer).strip(" .!") == fold(question.answer).strip(" .!")


def asked_of(cited: CitedSet, question: SetQuestion) -> Iterator[tuple[str, str, str]]:
    """Yield the questions for a judge: key of the mark, rubric, and gold."""
    if question.scoring != "exact":
        # Before abstention: BEAM has nuggets for its unanswerable questions, too.
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
    questions = {}
    for key, name, gold in wanted:
        questions[key] = RubricQuestion(rubric_of(name), question.text, answer, gold, ())
    rated = await rate(judge, questions, sample.benchmark_id)
    if "marks" not in rated:
        return {**verdict, **rated}
    lines = await _pair(cited, question, answer, judge, sample.benchmark_id)
    if isinstance(lines, Rating):
        return {**verdict, "outcome": lines.outcome, "error": lines.error}
    return {**verdict, **rated, "marks": {**rated["marks"], **lines}}


async def rate(judge: Judge, questions: Mapping[str, RubricQuestion], about: str) -> dict[str, Any]:
    """Return the marks and reasons of all questions; outcome and error of the first that failed.

    A mark has the key of its question; of a rubric with several, its name behind that.
    """
    ratings = await asyncio.gather(*(judge.answer(one, about=about) for one in questions.values()))
    marks: dict[str, int] = {}
    reasons: dict[str, str] = {}
    agreements = []
    for key, rating in zip(questions, ratings, strict=True):
        if rating.outcome != "ok":
            # Without a mark that failed, the mean would be of another rubric: the record is not
            # scored.
            return {"outcome": rating.outcome, "error": rating.error}
        for name, mark in rating.marks.items():
            marks[key if len(rating.marks) == 1 else f"{key} {name}"] = mark
        reasons[key] = rating.reason
        agreements += [rating.agreement] if rating.agreement is not None else []
    raw = [text for rating in ratings for text in rating.raw]
    agreement = {"agreement": sum(agreements) / len(agreements)} if agreements else {}
    return {"marks": marks, "reasons": reasons, **agreement, "raw": raw}


async def _pair(
    cited: CitedSet, question: SetQuestion, answer: str, judge: Judge, about: str
) -> dict[str, int] | Rating:
    """Return which text each line of an answer is paired with; a rating that failed where one did.

    A text that a line before had is no line's any more.
    """
    if cited.authors is None or cited.authors.paired is None:
        return {}
    texts, lines = cited.authors.paired(question, answer)
    # One question after the other: a match takes its text away from later lines, as in BEAM's code.
    free, found = dict(enumerate(texts)), dict[str, int]()
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        for place, text in list(free.items()):
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
    # A guide describes a good answer and need not share words with one.
    if question.scoring == "guided":
        return verdict
    return {**verdict, **await _agreed(question, answer, judge, sample.benchmark_id)}


async def _agreed(question: SetQuestion, answer: str, judge: Judge, about: str) -> dict[str, Any]:
    """Return the marks of an answer that is held against each gold; outcome and error if none."""
    golds = {f"{POINT} {place}": gold for place, gold in enumerate(question.points)}
    marks = dict.fromkeys(golds or (ANSWER,), 0)
    # Who says nothing agrees with nothing.
    if not answer.strip():
        return {"marks": marks}
    for name, gold in (golds or {ANSWER: question.answer}).items():
        asked = OptionQuestion(question.text, answer, (gold, UNKNOWN))
        found = await judge.answer(asked, about=about)
        if found.outcome != "ok":
            return {"outcome": found.outcome, "error": found.error}
        marks[name] = int(found.option == 0) * (2 if golds else 1)
    return {"marks": marks}


def right_of(question: SetQuestion, answer: str | None, marks: Mapping[str, float]) -> float | None:
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


async def by_words(
    points: Sequence[str], texts: Sequence[str], turns: Sequence[str], judge: Judge, about: str
) -> dict[str, Any]:
    """Return the marks of memories by a judge that relates them, and rates nothing.

    What matches a point covers it and is right; what matches none is right where it has a turn.
    """
    if MatchQuestion not in judge.answers:
        return {}
    related = set[tuple[int, int]]()
    if points and texts:
        asked = MatchQuestion(_items("g", points), _items("p", texts))
        found = await judge.answer(asked, about=about)
        if found.outcome != "ok":
            return {"outcome": found.outcome, "error": found.error}
        for pair in found.pairs:
            if pair.relation in POLICIES["lenient"]:
                related.add((pair.gold, pair.predicted))
    covered = {gold for gold, _ in related}
    matched = {predicted for _, predicted in related}
    said = list(map(fold, turns))
    marks = {f"{COVERED} {n}": 2 * (n in covered) for n in range(len(points))}
    for n, text in enumerate(texts):
        # The authors' precision accepts what the dialogue says, in the gold or not.
        repeated = any(turn in fold(text) for turn in said)
        marks[f"{STATED} {n} mark"] = 2 * (n in matched or repeated)
        marks[f"{STATED} {n} included"] = 2 * (n in matched)
    return {"marks": marks}


def _items(prefix: str, values: Sequence[str]) -> list[Item]:
    return [Item(f"{prefix}{n}", text, None, "", None) for n, text in enumerate(values, start=1)]
