"""BEAM's own score: nuggets that are judged one by one, and the order of events.

Source: `src/evaluation` of mohammadtavakoli78/BEAM. Its code cuts every half mark to nothing in
nine of ten abilities, and takes for the tenth no nuggets but the agreement of two orders. Others
keep half marks throughout: both are scored, and kept apart.
"""

import math
from collections.abc import Sequence

from alps.ext.histories.model import Authors, Marks, SetQuestion
from alps.tasks.metrics import MacroRatio, Metric, Needs

ORDERING = "event_ordering"
ABILITIES = (
    *("abstention", "contradiction_resolution", ORDERING, "information_extraction"),
    *("instruction_following", "knowledge_update", "multi_session_reasoning"),
    *("preference_following", "summarization", "temporal_reasoning"),
)
ALIGNED = "aligned"


def order_agreement(nuggets: Sequence[str], lines: Sequence[str], found: Sequence[int]) -> float:
    """Return (τ_b + 1) / 2 between the order of nuggets and of the lines of an answer.

    What is in one of them alone is ranked last in the other, all of it tied.

    Args:
        nuggets: In their order.
        lines: Those of the answer.
        found: For each line the nugget that it tells, by position, or -1.
    """
    from scipy.stats import kendalltau

    named = list(lines)
    for number, place in enumerate(found):
        if place >= 0:
            named[number] = nuggets[place]
    union = list(dict.fromkeys((*nuggets, *named)))
    last = len(union) + 1
    ranks = []
    for listed in (nuggets, named):
        places = {item: place for place, item in enumerate(listed, start=1)}
        ranks.append([places.get(item, last) for item in union])
    tau = float(kendalltau(ranks[0], ranks[1], variant="b").statistic)
    # Where all ranks of one side are equal there is no τ.
    return 0.0 if math.isnan(tau) else (tau + 1) / 2


def lines_of(answer: str) -> list[str]:
    """Return the lines of an answer, the empty ones too."""
    return answer.split("\n")


def _paired(question: SetQuestion, answer: str) -> tuple[Sequence[str], Sequence[str]]:
    return (question.points, lines_of(answer)) if question.kind == ORDERING else ((), ())


def _score(
    question: SetQuestion, answer: str | None, marks: Marks
) -> tuple[dict[str, float], dict[str, float]]:
    points = [marks[name] for name in marks if name.startswith("point ")]
    if answer is not None and not points:
        return {}, {}
    n = len(points) or 1
    half = sum(points) / 2 / n
    counts = {f"half_{question.kind}": half, f"asked_{question.kind}": 1.0}
    whole = sum(mark == 2 for mark in points) / n
    if question.kind == ORDERING:
        whole = _ordered(question, answer, marks)
    return {"half_marks": half}, {**counts, f"int_{question.kind}": whole}


def _ordered(question: SetQuestion, answer: str | None, marks: Marks) -> float:
    if answer is None:
        return 0.0
    lines = lines_of(answer)
    found = [int(marks.get(f"{ALIGNED} {place}", -1)) for place in range(len(lines))]
    return order_agreement(question.points, lines, found)


def _mean(name: str, title: str, counted: str) -> Metric:
    groups = tuple(((f"{counted}_{kind}", f"asked_{kind}"),) for kind in ABILITIES)
    return Metric(name, title, MacroRatio(groups), optional=True, needs=Needs(rating=True))


PUBLISHED = Authors(
    metrics=(
        Metric("half_marks", "nuggets, half marks", optional=True),
        _mean("half_marks_mean", "  mean of the abilities", "half"),
        _mean("authors", "authors' score: no half marks, and τ", "int"),
    ),
    rubrics=lambda question: (),
    score=_score,
    judged="half_marks",
    paired=_paired,
)
