"""The questions, and the counting of verdicts: one module a task."""

from alps.tasks.base import JudgingOptions, Metric, SampleLike, Scored, Task, TaskOptions
from alps.tasks.registry import TASKS, all_tracks, load_task, load_tracks

__all__ = [
    "TASKS",
    "JudgingOptions",
    "Metric",
    "SampleLike",
    "Scored",
    "Task",
    "TaskOptions",
    "all_tracks",
    "load_task",
    "load_tracks",
]
