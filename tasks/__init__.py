"""The questions, and the counting of verdicts: one module a task."""

from alps.tasks.base import (
    Asking,
    ByMemory,
    JudgingOptions,
    PublicAnswers,
    SampleLike,
    Scored,
    Shown,
    Task,
    TaskData,
    TaskOptions,
)
from alps.tasks.metrics import (
    Breakdown,
    Inference,
    LargestExcess,
    MacroRatio,
    Mean,
    Metric,
    MicroRatio,
    Needs,
    OnBoards,
)
from alps.tasks.registry import TASKS, all_tracks, known_track, load_task, load_tracks

__all__ = [
    "TASKS",
    "Asking",
    "Breakdown",
    "ByMemory",
    "Inference",
    "JudgingOptions",
    "LargestExcess",
    "MacroRatio",
    "Mean",
    "Metric",
    "MicroRatio",
    "Needs",
    "OnBoards",
    "PublicAnswers",
    "SampleLike",
    "Scored",
    "Shown",
    "Task",
    "TaskData",
    "TaskOptions",
    "all_tracks",
    "known_track",
    "load_task",
    "load_tracks",
]
