"""HaluMem's own figures: of answers, of memories stored from a session, and after a change.

Source: `eval/evaluation.py` of IAAR-Shanghai/HaluMem. Answers are correct, or hallucinated, or
leave something out. Recall is the share of points that are covered whole; accuracy is the mean half
mark of stored memories, target accuracy that of those which points are about. F1 is of target
accuracy and recall, over all sessions. A judgement that failed leaves its session unscored, as in
the authors' figures called valid. Of changes, those for which a search found nothing count as
omissions here; the authors move them to recall, so that the denominator differs by system: their
rate is next to ours.
"""

from collections.abc import Mapping, Sequence

from alps.ext.histories.judging import CHANGED, CHANGES, COVERED, STATED
from alps.ext.histories.model import Authors, Marks, SetQuestion
from alps.ext.histories.points import PointsSample
from alps.tasks.metrics import HarmonicMean, Inference, Metric, MicroRatio, Needs

OUTCOME = "outcome"
RATES = ("hallucination", "omission", "correct")
Scores = tuple[dict[str, float], dict[str, float]]
COUNTS = (
    *("points", "covered", "weights", "weighted", "wrong", "left_out"),
    *("stored", "stored_right", "included", "included_right"),
)


def _rubrics(question: SetQuestion) -> Sequence[tuple[str, str]]:
    facts = "".join(f"\n- {fact}" for fact in question.more.get("facts", ()))
    return ((OUTCOME, f"{question.answer}\nFacts:{facts or ' none'}"),)


def _score(
    question: SetQuestion, answer: str | None, marks: Marks
) -> tuple[dict[str, float], dict[str, float]]:
    if answer is None:
        # A failed answer is wrong, and says nothing that could be made up.
        return dict(zip(RATES, (0.0, 0.0, 0.0), strict=True)), {}
    if OUTCOME not in marks:
        return {}, {}
    return {name: float(marks[OUTCOME] == place) for place, name in enumerate(RATES)}, {}


_RATED = Needs(rating=True)
_RESAMPLED = Inference(resampled=True)


def _rate(name: str, title: str, *, lower: bool) -> Metric:
    return Metric(
        name,
        title,
        optional=True,
        lower_is_better=lower,
        needs=_RATED,
        inference=_RESAMPLED,
    )


PUBLISHED = Authors(
    metrics=(
        _rate("correct", "authors' rate of correct answers", lower=False),
        _rate("hallucination", "  of hallucinations", lower=True),
        _rate("omission", "  of omissions", lower=True),
    ),
    rubrics=_rubrics,
    score=_score,
    judged="correct",
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
