"""Scores of answers: our own on all questions and on the sound ones, then those of the authors."""

from collections.abc import Mapping
from typing import Any

from alps.ext.histories.judging import right_of
from alps.ext.histories.model import CitedSet
from alps.ext.histories.sample import HistorySample
from alps.judges.base import Judge
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
    Metric("answerable", "  that have an answer", optional=True, inference=_RESAMPLED),
    Metric("abstention", "  that have none, declined", optional=True, inference=_RESAMPLED),
    Metric("sound", "  of which nothing wrong is known", optional=True, inference=_RESAMPLED),
    Metric(
        "wrong_gold",
        "credit where the gold is wrong",
        optional=True,
        lower_is_better=True,
        inference=_RESAMPLED,
    ),
)


def metrics_of(cited: CitedSet) -> tuple[Metric, ...]:
    """Return the metrics of a set: ours first."""
    theirs = () if cited.authors is None else cited.authors.metrics
    return (*OURS, *theirs, AGREEMENT)


def breakdowns_of(cited: CitedSet) -> tuple[Breakdown, ...]:
    """Return what is reported by kind of question: our score, then the authors' first metric."""
    kinds = dict(cited.kinds)
    found = [Breakdown("kind", "right answers by kind of question", "right", kinds)]
    if cited.authors is not None and cited.authors.metrics:
        lead = cited.authors.metrics[0]
        found.append(Breakdown("kind_authors", f"{lead.title} by kind", lead.name, kinds))
    return tuple(found)


def groups_of(sample: HistorySample) -> Mapping[str, str]:
    """Return the kind of a question, which both breakdowns go by."""
    kind = sample.question.kind
    return {"kind": kind, "kind_authors": kind}


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
    if right is not None:
        scores |= _ours(sample, right)
    if cited.authors is not None:
        theirs, counts = cited.authors.score(question, answer, marks)
        scores |= theirs
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
