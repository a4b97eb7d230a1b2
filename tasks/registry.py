"""The tasks by name, each imported when it is asked for; `python:MODULE` is one of yours."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from alps.errors import UsageError, closest
from alps.tasks.base import DEFAULTS, Task, TaskOptions

TASKS = ("extraction", "update", "retrieval", "utilization")
ALL = "all"
PYTHON = "python:"


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
    if ALL in wanted:
        raise UsageError(f"task={names}: '{ALL}' is every task and stands alone")
    found = tuple(track for name in wanted for track in _module(name).tracks(options))
    if options.scoring == "alps":
        return found
    from alps.tasks.authors_v1 import rescored

    return rescored(found)


def _module(name: str) -> ModuleType:
    if name in TASKS:
        return import_module(f"alps.tasks.{name}")
    if not name.startswith(PYTHON):
        known = ", ".join((*TASKS, ALL, f"{PYTHON}MODULE"))
        raise UsageError(f"task={name}: unknown task{closest(name, (*TASKS, ALL))} (known: {known})")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: a file of the user's must not stand in for a library
    try:
        module = import_module(name.removeprefix(PYTHON))
    except (Exception, SystemExit) as error:  # whatever the user's module raises, it is theirs to mend
        raise UsageError(f"task={name}: importing it raised {type(error).__name__}: {error}") from error
    if not callable(getattr(module, "tracks", None)):
        raise UsageError(f"task={name}: {name.removeprefix(PYTHON)} has no function tracks(options)")
    return module
