"""HaluMem, level 1: memories that a system stores of each session.

A system lists what it holds before and after a session; what is new is what it stored of it. The
session ends with the points that it should have stored; sessions that only distract have none.

Source of the metrics of this level and of the next: `eval/evaluation.py` of IAAR-Shanghai/HaluMem.
Recall is the share of points that are covered whole; accuracy is the mean half mark of stored
memories, target accuracy that of those which points are about. F1 is of target accuracy and recall,
over all sessions. A judgement that failed leaves its session unscored, as in the authors' figures
called valid. Of changes, those for which a search found nothing count as omissions here; the
authors move them to recall, so that the denominator differs by system: their rate is next to ours.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from alps.ext.histories.data.halumem import SET, TIME
from alps.ext.histories.judging import CHANGED, CHANGES, COVERED, STATED, by_words, rate, rubric_of
from alps.ext.histories.model import when
from alps.ext.histories.points import Level, Point, Points, PointsSample, tracks_of_level
from alps.ext.histories.sample import history_in
from alps.judges.base import Judge
from alps.judges.rubric import RubricQuestion
from alps.tasks.by_memory import Probe, Remembered
from alps.tasks.metrics import HarmonicMean, Inference, Metric, MicroRatio
from alps.text import fold

ASKED = "What a memory system stored of one session"


def points_of(node: Mapping[str, Any]) -> Points:
    """Return the points of each session of a user; none of those that only distract."""
    found: list[tuple[str, tuple[Point, ...]] | None] = []
    for session in node["sessions"]:
        if session.get("is_generated_qa_session"):
            found.append(None)
            continue
        points = tuple(_point(one) for one in session.get("memory_points") or ())
        found.append((when(str(session["end_time"]), TIME), points))
    return found


def _point(one: Mapping[str, Any]) -> Point:
    # The files write truth as a text.
    changes = str(one.get("is_update")) == "True"
    before = tuple(map(str, one.get("original_memories") or ())) if changes else ()
    importance = float(one.get("importance") or 0.0)
    wrong = one.get("memory_source") == "interference"
    return Point(str(one["memory_content"]), importance, wrong, before)


def _probes(sample: PointsSample) -> tuple[Probe, ...]:
    after = Probe(sample.turns, at=sample.at)
    # Before the first session a system knows no such user.
    return (Probe(sample.before, at=sample.at), after) if sample.before else (after,)


def _stored(sample: PointsSample, found: Sequence[Sequence[Remembered]]) -> list[str]:
    """Return the texts that were not there before the session."""
    before = {fold(one.text) for hits in found[:-1] for one in hits}
    return list(dict.fromkeys(one.text for one in found[-1] if fold(one.text) not in before))


async def _judge(sample: PointsSample, texts: Sequence[str], judge: Judge) -> dict[str, Any]:
    turns = history_in(sample.sessions).turns[sample.before :]
    points = [point.text for point in sample.points]
    if RubricQuestion not in judge.answers:
        return await by_words(
            points, texts, [turn.text for turn in turns], judge, sample.benchmark_id
        )
    listed, known = "\n".join(texts), "\n".join(points)
    questions = {}
    for n, point in enumerate(points if texts else ()):
        asked = RubricQuestion(rubric_of(COVERED), ASKED, listed, point, ())
        questions[f"{COVERED} {n}"] = asked
    for n, text in enumerate(texts):
        questions[f"{STATED} {n}"] = RubricQuestion(rubric_of(STATED), ASKED, text, known, turns)
    return await rate(judge, questions, sample.benchmark_id)


Scores = tuple[dict[str, float], dict[str, float]]
COUNTS = (
    *("points", "covered", "weights", "weighted", "wrong", "left_out"),
    *("stored", "stored_right", "included", "included_right"),
)


def extraction_score(
    sample: PointsSample, texts: Sequence[str] | None, marks: Mapping[str, float]
) -> Scores:
    """Return scores and counts of a session; a failed answer stored nothing."""
    counts = dict.fromkeys(COUNTS, 0.0)
    for n, point in enumerate(sample.points):
        mark = marks.get(f"{COVERED} {n}", 0)
        if point.wrong:
            counts["wrong"] += 1
            counts["left_out"] += mark == 0 and texts is not None
            continue
        counts["points"] += 1
        counts["covered"] += mark == 2
        counts["weights"] += point.importance
        counts["weighted"] += point.importance * mark / 2
    for n in range(len(texts or ())):
        mark = marks[f"{STATED} {n} mark"] / 2
        counts["stored"] += 1
        counts["stored_right"] += mark
        if marks[f"{STATED} {n} included"]:
            counts["included"] += 1
            counts["included_right"] += mark
    if not counts["points"]:
        return {}, counts
    recall = counts["covered"] / counts["points"]
    precision = counts["included_right"] / (counts["included"] or 1)
    return {"f1": 2 * recall * precision / ((recall + precision) or 1)}, counts


def update_score(
    sample: PointsSample, texts: Sequence[str] | None, marks: Mapping[str, float]
) -> Scores:
    """Return the outcome of a change; what was not found is omitted, and what failed is wrong."""
    if texts is None:
        return dict.fromkeys(CHANGES, 0.0), {}
    scores = {name: float(marks[CHANGED] == n) for n, name in enumerate(CHANGES)}
    return scores | ({"correct_found": scores["correct"]} if texts else {}), {}


def _ratio(name: str, title: str, above: str, below: str) -> Metric:
    return Metric(name, title, MicroRatio({above: 1}, {below: 1}))


_HEADLINE = Inference(resampled=True, baseline_differences=True)
_RESAMPLED = Inference(resampled=True)
EXTRACTION = (
    Metric("f1", "F1, mean of sessions", headline=True, inference=_HEADLINE),
    Metric(
        "authors_f1",
        "authors' F1",
        HarmonicMean((("included_right", "included"), ("covered", "points"))),
    ),
    _ratio("recall", "  recall", "covered", "points"),
    _ratio("weighted_recall", "  recall by importance", "weighted", "weights"),
    _ratio("target_accuracy", "  accuracy, annotated memories only", "included_right", "included"),
    _ratio("accuracy", "  accuracy, all stored memories", "stored_right", "stored"),
    _ratio("resistance", "  false memories left out (FMR)", "left_out", "wrong"),
)
UPDATE = (
    Metric("correct", "changes stored correctly", headline=True, inference=_HEADLINE),
    Metric("hallucination", "  hallucinated", lower_is_better=True, inference=_RESAMPLED),
    Metric("omission", "  omitted", lower_is_better=True, inference=_RESAMPLED),
    Metric("other", "  other", lower_is_better=True, inference=_RESAMPLED),
    Metric(
        "correct_found",
        "authors' rate, where anything was found",
        optional=True,
        inference=_RESAMPLED,
    ),
)


tracks = tracks_of_level(
    Level(
        name="halumem_extraction",
        title="HaluMem extraction",
        cited=SET,
        points=points_of,
        asked=lambda sample: (sample,),
        probes=_probes,
        texts=_stored,
        judge=_judge,
        score=extraction_score,
        rubrics=(COVERED, STATED),
        metrics=EXTRACTION,
        systems={
            "rules": lambda sample: [],
            "floor/nothing": lambda sample: [],
            "floor/verbatim": lambda sample: [
                turn.text for turn in history_in(sample.sessions).turns[sample.before :]
            ],
        },
    )
)
