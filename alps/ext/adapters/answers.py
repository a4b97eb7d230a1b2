"""Answers of a program or a class, read as answers to a task."""

from collections.abc import Callable
from typing import Any

from alps.llm.secrets import masked
from alps.llm.types import EmptyAnswer
from alps.schema import Outcome, Prediction
from alps.systems.base import one_line
from alps.tasks import Task


def understood(
    task: Task, name: str, node: Any, *, raw: str | None, asked: Callable[[], str]
) -> Prediction:
    """Read plain JSON as the answer to the record `name`: `empty` or `invalid` where it is none.

    Secrets in it are masked, but for what stands in what was `asked`.
    """
    row: dict[str, Any] = {"benchmark_id": name, "track": task.track, "raw": raw}
    try:
        read = task.answer.read(masked(node, asked))
    except (ValueError, TypeError, RecursionError) as error:
        outcome: Outcome = "empty" if isinstance(error, EmptyAnswer) else "invalid"
        return Prediction(**row, outcome=outcome, error=one_line(str(error)))
    value = task.to_prediction(read.value)
    return Prediction(**row, outcome="ok", prediction=value, notes=read.notes)
