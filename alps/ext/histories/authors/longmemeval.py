"""LongMemEval's own score: a judge with a rule for each type of question, abstention apart.

Source: `src/evaluation/evaluate_qa.py` and `print_qa_metrics.py` of xiaowu0162/LongMemEval. Three
figures are called accuracy there: over questions, over the six types, and of abstention alone.
"""

from collections.abc import Sequence

from alps.ext.histories.model import Authors, Marks, SetQuestion
from alps.tasks.metrics import Inference, MacroRatio, Metric, Needs

TYPES = (
    *("single-session-user", "single-session-assistant", "single-session-preference"),
    *("multi-session", "temporal-reasoning", "knowledge-update"),
)
_OF_TYPE = {
    "single-session-preference": "type_guide",
    "temporal-reasoning": "type_time",
    "knowledge-update": "type_update",
}
RUBRICS = ("guide", "type_answer", "type_time", "type_update", "type_guide", "type_absent")


def rubric_of_type(question: SetQuestion) -> str:
    """Return the name of the rubric by which the authors judge a question."""
    return "type_absent" if question.abstains else _OF_TYPE.get(question.kind, "type_answer")


def _rubrics(question: SetQuestion) -> Sequence[tuple[str, str]]:
    return ((rubric_of_type(question), question.answer),)


def _score(
    question: SetQuestion, answer: str | None, marks: Marks
) -> tuple[dict[str, float], dict[str, float]]:
    by = rubric_of_type(question)
    if answer is not None and by not in marks:
        return {}, {}
    value = 0.0 if answer is None else float(marks[by])
    scores = {"by_type": value}
    if question.abstains:
        scores["by_type_absent"] = value
    kind = _name(question.kind)
    return scores, {f"right_{kind}": value, f"asked_{kind}": 1.0}


def _name(kind: str) -> str:
    return kind.replace("-", "_")


_RATED = Needs(rating=True)
_RESAMPLED = Inference(resampled=True)
PUBLISHED = Authors(
    metrics=(
        Metric(
            "by_type",
            "authors' accuracy, by question",
            optional=True,
            needs=_RATED,
            inference=_RESAMPLED,
        ),
        Metric(
            "by_type_mean",
            "  mean of the six types",
            MacroRatio(
                tuple(((f"right_{_name(kind)}", f"asked_{_name(kind)}"),) for kind in TYPES)
            ),
            optional=True,
            needs=_RATED,
        ),
        Metric(
            "by_type_absent",
            "  abstention alone",
            optional=True,
            needs=_RATED,
            inference=_RESAMPLED,
        ),
    ),
    rubrics=_rubrics,
    score=_score,
    judged="by_type",
)
