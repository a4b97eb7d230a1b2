"""The tasks by name, each imported when it is asked for."""

from importlib import import_module

from alps.errors import UsageError, closest
from alps.tasks.base import DEFAULTS, Task, TaskOptions

TASKS = ("extraction", "update", "retrieval", "utilization")
ALL = "all"


def load_task(name: str, options: TaskOptions = DEFAULTS) -> Task:
    """Return the task called `name`; of several tracks, the first.

    Raises:
        UsageError: If there is none.
    """
    return load_tracks(name, options)[0]


def load_tracks(names: str, options: TaskOptions = DEFAULTS) -> tuple[Task, ...]:
    """Return the tracks of the tasks that `names` lists: one, several with commas between, or `all`.

    Raises:
        UsageError: If there is none by a name, or an option does not fit.
    """
    wanted = TASKS if names == ALL else tuple(dict.fromkeys(names.split(",")))
    for name in wanted:
        if name not in TASKS:
            known = ", ".join((*TASKS, ALL))
            raise UsageError(f"task={names}: unknown task{closest(name, (*TASKS, ALL))} (known: {known})")
    found = tuple(track for name in wanted for track in import_module(f"alps.tasks.{name}").tracks(options))
    if options.scoring == "alps":
        return found
    from alps.tasks.authors_v1 import rescored

    return rescored(found)
