"""The tasks by name, each imported when it is asked for.

`python:MODULE` is a task of the user's own. Its code is imported only where the user typed that name: what a manifest
or a card names is a stranger's word, and looking at a file must not run what it names.
"""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from alps.errors import CodeNotImportedError, UsageError, closest
from alps.tasks.base import DEFAULTS, Task, TaskOptions

TASKS = ("extraction", "update", "retrieval", "utilization")
ALL = "all"
PYTHON = "python:"
_typed: set[str] = set()
"""The `python:MODULE` names that the user typed in this process: the only modules that may be imported."""


def allow_modules(names: str) -> None:
    """Allow the modules among the tasks that `names` lists to be imported; call it with what the user typed alone."""
    _typed.update(name for name in names.split(",") if name.startswith(PYTHON))


def not_importable(names: str) -> tuple[str, ...]:
    """Return the `python:MODULE` names among the tasks that `names` lists whose code must not be imported."""
    return tuple(name for name in names.split(",") if name.startswith(PYTHON) and name not in _typed)


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
    if name not in _typed:
        raise CodeNotImportedError(name)
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
