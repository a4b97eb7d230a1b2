"""What is asked, and how verdicts become scores: one module a task."""

from alps.tasks.base import JudgingOptions, Metric, SampleLike, Scored, Task
from alps.tasks.registry import TASKS, load_task

__all__ = ["TASKS", "JudgingOptions", "Metric", "SampleLike", "Scored", "Task", "load_task"]
