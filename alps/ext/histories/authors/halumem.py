"""HaluMem's own rates: answers are correct, or hallucinated, or leave something out.

Source: `eval/evaluation.py` of IAAR-Shanghai/HaluMem.
"""

from collections.abc import Sequence

from alps.ext.histories.model import Authors, Marks, SetQuestion
from alps.tasks.metrics import Inference, Metric, Needs

OUTCOME = "outcome"
RATES = ("hallucination", "omission", "correct")


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
