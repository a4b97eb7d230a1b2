"""What is asked, and how verdicts become scores: one module a task."""

from alps.tasks.base import Metric, SampleLike, Scored, Task
from alps.tasks.registry import TASKS, load_task

__all__ = ["TASKS", "Metric", "SampleLike", "Scored", "Task", "load_task"]
