"""The tasks by name, each imported when it is asked for."""

from importlib import import_module

from alps.errors import UsageError, closest
from alps.tasks.base import Task

TASKS = ("extraction",)


def load_task(name: str) -> Task:
    """Return the task called `name`.

    Raises:
        UsageError: If there is none.
    """
    if name not in TASKS:
        raise UsageError(f"task={name}: unknown task{closest(name, TASKS)} (known: {', '.join(TASKS)})")
    task: Task = import_module(f"alps.tasks.{name}").TASK
    return task
