"""LoCoMo's own score: the F1 of stemmed words, by a rule for each category.

Source: `task_eval/evaluation.py` of snap-research/locomo.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from alps.ext.histories.authors.porter import stem
from alps.ext.histories.model import Authors, Marks, SetQuestion
from alps.tasks.metrics import Inference, Metric

MULTI_HOP, OPEN_DOMAIN, ADVERSARIAL = "1", "3", "5"
REFUSALS = ("no information available", "not mentioned")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_LEFT_OUT = re.compile(r"\b(a|an|the|and)\b")


def words_of(text: str) -> Counter[str]:
    """Return the stems of the words that are compared."""
    bare = text.replace(",", "").lower().translate(_PUNCTUATION)
    return Counter(stem(word) for word in _LEFT_OUT.sub(" ", bare).split())


def f1(answer: str, gold: str) -> float:
    """Return the F1 of two texts; 0 where they share no word."""
    said, meant = words_of(answer), words_of(gold)
    shared = (said & meant).total()
    if not shared:
        return 0.0
    precision, recall = shared / said.total(), shared / meant.total()
    return 2 * precision * recall / (precision + recall)


def f1_of_parts(answer: str, gold: str) -> float:
    """Return the mean over the parts of the gold of the best F1 of a part of the answer."""
    said = [part.strip() for part in answer.split(",")]
    return fmean(max(f1(one, part.strip()) for one in said) for part in gold.split(","))


def score_of(category: str, answer: str, gold: str) -> float:
    """Return the score of one answer, in [0, 1]."""
    if category == ADVERSARIAL:
        return float(any(said in answer.lower() for said in REFUSALS))
    if category == MULTI_HOP:
        return f1_of_parts(answer, gold)
    return f1(answer, gold.split(";", maxsplit=1)[0].strip() if category == OPEN_DOMAIN else gold)


def _score(
    question: SetQuestion, answer: str | None, marks: Marks
) -> tuple[dict[str, float], dict[str, float]]:
    value = score_of(question.kind, answer or "", question.answer) if answer else 0.0
    scores = {"f1": value}
    if question.kind != ADVERSARIAL:
        scores["f1_1_to_4"] = value
        if "generous" in marks:
            scores["generous"] = marks["generous"]
        elif answer is None:
            scores["generous"] = 0.0
    return scores, {}


def _rubrics(question: SetQuestion) -> Sequence[tuple[str, str]]:
    return () if question.kind == ADVERSARIAL else (("generous", question.answer),)


_RESAMPLED = Inference(resampled=True)
PUBLISHED = Authors(
    metrics=(
        Metric("f1", "authors' F1, 1 to 5", judged=False, inference=_RESAMPLED),
        Metric("f1_1_to_4", "  1 to 4", judged=False, inference=_RESAMPLED),
        Metric(
            "generous",
            "Mem0's generous judge, 1 to 4",
            optional=True,
            inference=_RESAMPLED,
        ),
    ),
    rubrics=_rubrics,
    score=_score,
    judged="generous",
)
