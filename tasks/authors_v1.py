"""Extraction and update under the authors' first scores.

For comparison with published v1 numbers only, never ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from alps.errors import UsageError
from alps.judges.authors_v1 import algorithm_score, final_score, judge_score
from alps.judges.base import Judge, fingerprint_id
from alps.judges.recorded import RecordedJudge
from alps.schema import Memory, Prediction
from alps.tasks.base import JudgingOptions, Row, Scored, Task
from alps.tasks.extraction import predicted_memories
from alps.tasks.metrics import Metric
from alps.tasks.update_scores import predicted_lists

METRICS = (
    Metric("authors_f1", "F1 (authors' matcher)", headline=True),
    Metric("authors_algo", "algorithm score (0–100)", highest=100.0),
    Metric("judge_score", "recorded judge's score (0–100)", optional=True, highest=100.0),
    Metric("final_score", "final score (0–100)", highest=100.0),
)

_PREDICTED: dict[str, Callable[[Prediction], Sequence[Memory]]] = {
    "extraction": predicted_memories,
    "update": lambda prediction: predicted_lists(prediction)[0],
}


def rescored(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return those of `tasks` that the authors' scores are defined for, scored by them.

    Raises:
        UsageError: If there is none among them.
    """
    found = tuple(
        _rescored(task, _PREDICTED[task.name]) for task in tasks if task.name in _PREDICTED
    )
    if not found:
        raise UsageError(
            f"scoring=authors-v1: only for {' and '.join(_PREDICTED)}; leave it out for other tasks"
        )
    return found


def _rescored(task: Task, predicted: Callable[[Prediction], Sequence[Memory]]) -> Task:
    def recorded(sample: Any, prediction: Prediction, judge: Judge) -> Row | None:
        if isinstance(judge, RecordedJudge) and judge.is_about(
            sample.benchmark_id, predicted(prediction)
        ):
            return judge.reviews(sample.benchmark_id)
        return None

    async def judge_prediction(
        sample: Any, prediction: Prediction, judge: Judge, options: JudgingOptions
    ) -> dict[str, Any]:
        """Take the recorded reviews of this very prediction.

        Any other judge has none, and is not asked.
        """
        row = {"outcome": "ok", "judge": fingerprint_id(judge.fingerprint), "error": None}
        reviews = recorded(sample, prediction, judge)
        try:
            judge_score(reviews)
        except ValueError as error:  # a failed judgement: the record is unscored
            return {**row, "outcome": "invalid", "error": str(error), "reviews": None}
        return {**row, "reviews": reviews}

    def score(sample: Any, prediction: Prediction, verdict: Row | None, judge: Judge) -> Scored:
        algorithm = algorithm_score(sample.gold, predicted(prediction))
        # They judged an answer that failed as a list without memories.
        reviews = (
            verdict.get("reviews") if verdict is not None else recorded(sample, prediction, judge)
        )
        scores = {"authors_f1": algorithm.f1, "authors_algo": algorithm.algo}
        try:
            judged = judge_score(reviews)
        except ValueError as error:  # what hangs on a judge that can't be understood has no value
            return Scored(scores, details={"judge_error": str(error)})
        scores |= {"judge_score": judged} if judged is not None else {}
        return Scored({**scores, "final_score": final_score(algorithm.algo, judged)})

    return replace(
        task,
        judge=judge_prediction,
        score=score,
        metrics=METRICS,
        rubrics=(),
        public=replace(task.public, paired=None),
        conditions={**task.conditions, "scoring": "authors-v1"},
    )
