"""The questions, and the counting of verdicts: one module a task."""

from alps.tasks.base import JudgingOptions, Metric, SampleLike, Scored, Task, TaskOptions
from alps.tasks.registry import TASKS, load_task, load_tracks

__all__ = [
    "TASKS",
    "JudgingOptions",
    "Metric",
    "SampleLike",
    "Scored",
    "Task",
    "TaskOptions",
    "load_task",
    "load_tracks",
]
