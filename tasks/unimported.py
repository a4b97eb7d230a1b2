"""A task whose code is not imported: what a finished run recorded of it, and a stand-in that shows
the run by that.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NoReturn

from pydantic import BaseModel, TypeAdapter, ValidationError

from alps.errors import CodeNotImportedError
from alps.llm.types import AnswerType
from alps.prompts import Prompt
from alps.tasks.base import Metric, Task
from alps.tasks.registry import TASKS

RECORDED = "shown_by"
"""The key of a track's summary that holds what its task is shown by."""

_NAME = re.compile(r"[\w.@/-]{1,80}\Z")
_LONGEST_TITLE = 80
_METRICS = TypeAdapter(tuple[Metric, ...])
_CONDITIONS = TypeAdapter(dict[str, str | int | float | bool | None])


def recorded(task: Task) -> dict[str, Any]:
    """Return what a summary records of a task of the user's own: its metrics and conditions, as
    plain JSON.
    """
    metrics = [_plain(metric) for metric in task.metrics]
    return {"metrics": metrics, "conditions": dict(task.conditions)}


def stand_in(names: str, track: str, summary: Mapping[str, Any] | None) -> Task:
    """Return a task that shows a run and can do nothing else.

    Everything in `summary` is a file's word, so it is validated. Where it records nothing of the
    task, as older runs and those that are not finished, the metrics are named after the scores.

    Args:
        names: The `python:MODULE` names of the run's manifest that must not be imported.
        track: The track.
        summary: What `summary.json` says of the track; None where the run is not finished.
    """

    def refuse(*_: object, **__: object) -> NoReturn:
        raise CodeNotImportedError(names)

    found = summary or {}
    name = found.get("task")
    nothing = Prompt("none/0", "", "")
    return Task(
        name=name if isinstance(name, str) and _NAME.match(name) and name not in TASKS else names,
        track=track,
        prompt=nothing,
        answer=AnswerType(schema=BaseModel, read=refuse, partial=False),
        read_sample=refuse,
        messages=refuse,
        input_row=refuse,
        to_prediction=refuse,
        has_gold=refuse,
        judge=refuse,
        judge_requests=refuse,
        score=refuse,
        metrics=_metrics(found),
        conditions=_conditions(found),
    )


def _plain(metric: Metric) -> dict[str, Any]:
    row = asdict(metric)
    return {**row, "relations": sorted(metric.relations), "rubrics": list(metric.rubrics)}


def _metrics(summary: Mapping[str, Any]) -> tuple[Metric, ...]:
    scores = summary.get("scores")
    names = [name for name in scores if _NAME.match(name)] if isinstance(scores, dict) else []
    try:
        metrics = _METRICS.validate_python(summary[RECORDED]["metrics"])
    except (LookupError, TypeError, ValidationError):
        metrics = ()
    ours = tuple(
        replace(metric, title=_titled(metric)) for metric in metrics if metric.name in names
    )
    known = {metric.name for metric in ours}
    others = tuple(Metric(name, name) for name in names if name not in known)
    return (*ours, *others) or (Metric("score", "score", headline=True),)


def _titled(metric: Metric) -> str:
    """Return the title of a metric without what would steer a terminal.

    Its name where nothing is left.
    """
    printable = "".join(character for character in metric.title if character.isprintable())
    return printable[:_LONGEST_TITLE] or metric.name


def _conditions(summary: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return _CONDITIONS.validate_python(summary[RECORDED]["conditions"])
    except (LookupError, TypeError, ValidationError):
        return {}
