"""Scores of answers: our own on all questions and on the sound ones, then those of the authors."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from alps.ext.histories.judging import right_of
from alps.ext.histories.model import CitedSet
from alps.ext.histories.sample import HistorySample
from alps.judges.base import Judge
from alps.judges.recorded import RecordedJudge
from alps.judges.rubric import RubricQuestion
from alps.schema import Prediction
from alps.tasks.base import AGREEMENT, Row, Scored, agreement_score
from alps.tasks.metrics import Breakdown, Inference, Metric, OnBoards

_RESAMPLED = Inference(resampled=True)
_BESIDE = ("answerable", "abstention", "sound", "wrong_gold")
OURS = (
    Metric(
        "right",
        "right answers",
        headline=True,
        inference=Inference(resampled=True, baseline_differences=True),
        on_boards=OnBoards(companions=_BESIDE),
    ),
    Metric("answerable", "  answerable", optional=True, inference=_RESAMPLED),
    Metric("abstention", "  unanswerable, declined", optional=True, inference=_RESAMPLED),
    Metric("sound", "  without known errors", optional=True, inference=_RESAMPLED),
    Metric(
        "wrong_gold",
        "credit on wrong gold",
        optional=True,
        lower_is_better=True,
        inference=_RESAMPLED,
    ),
)


THEIRS = (
    Metric("authors_sound", "  without known errors", optional=True),
    Metric(
        "authors_wrong_gold",
        "  credit on wrong gold",
        optional=True,
        lower_is_better=True,
        inference=_RESAMPLED,
    ),
)
"""The authors' judged figure on these questions."""


def metrics_of(cited: CitedSet) -> tuple[Metric, ...]:
    """Return the metrics of a set: ours first."""
    if cited.authors is None:
        return (*OURS, AGREEMENT)
    headline, *others = OURS
    # What others publish is in the authors' figures: boards print those next to ours.
    shown = (*_BESIDE, *(metric.name for metric in cited.authors.metrics))
    headline = replace(headline, on_boards=OnBoards(companions=shown))
    return (headline, *others, *cited.authors.metrics, *THEIRS, AGREEMENT)


def breakdowns_of(cited: CitedSet) -> tuple[Breakdown, ...]:
    """Return what is reported by kind of question: our score, then figures of the authors."""
    kinds = dict(cited.kinds)
    found = [Breakdown("kind", "accuracy by type of question", "right", kinds)]
    for metric in _by_kind(cited):
        found.append(
            Breakdown(f"kind_{metric.name}", f"{metric.title}, by kind", metric.name, kinds)
        )
    return tuple(found)


def _by_kind(cited: CitedSet) -> list[Metric]:
    """Return the authors' first metric, and the one that a judge decides."""
    if cited.authors is None:
        return []
    metrics = cited.authors.metrics
    return [one for one in metrics if one in metrics[:1] or one.name == cited.authors.judged]


def groups_of(sample: HistorySample) -> Mapping[str, str]:
    """Return the kind of a question, which all breakdowns go by."""
    breakdowns = breakdowns_of(sample.book.cited)
    return dict.fromkeys((one.name for one in breakdowns), sample.question.kind)


def score(
    cited: CitedSet,
    sample: HistorySample,
    prediction: Prediction,
    verdict: Row | None,
    judge: Judge,
) -> Scored:
    """Score one answer; a failed one is wrong."""
    question = sample.question
    answer = None if prediction.prediction is None else str(prediction.prediction["answer"])
    marks: Mapping[str, float] = (verdict or {}).get("marks") or {}
    scores: dict[str, float] = {}
    counts: dict[str, float] = {}
    right = right_of(question, answer, marks)
    # What was recorded is no judgement of ours, and a missing answer no failure under it.
    if right is not None and not isinstance(judge, RecordedJudge):
        scores |= _ours(sample, right)
    if cited.authors is not None:
        theirs, counts = cited.authors.score(question, answer, marks)
        scores |= theirs
        if (credit := theirs.get(cited.authors.judged)) is not None:
            scores |= {"authors_sound": credit} if sample.sound else {}
            scores |= {"authors_wrong_gold": credit} if sample.wrong_gold else {}
        # Optional metrics are shown where a record has a value or a count of their name.
        own = [metric.name for metric in cited.authors.metrics if not metric.is_mean and counts]
        counts = {**counts, **dict.fromkeys(own, 1.0)}
    if marks and RubricQuestion in judge.answers:
        counts["asked"] = 1.0
    details: dict[str, Any] = {"defects": list(sample.entry.defects)} if not sample.sound else {}
    return Scored(scores | agreement_score(verdict), counts, details, _key(sample))


def _ours(sample: HistorySample, right: float) -> dict[str, float]:
    scores = {"right": right, "abstention" if sample.question.abstains else "answerable": right}
    if sample.sound:
        scores["sound"] = right
    if sample.wrong_gold:
        scores["wrong_gold"] = right
    return scores


def _key(sample: HistorySample) -> tuple[str, str]:
    return sample.question.history, sample.question.text
