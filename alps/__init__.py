"""Evaluate how LLM assistants extract, update, retrieve and use memories of their users.

`alps.tasks`, `alps.judges`, `alps.data` and `alps.leaderboard` are folders at the top of the
repository, reached through committed links. A checkout without links (git's default on Windows)
finds them through the repository root.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alps.api import Record, Run, aevaluate, compare, evaluate, open_run
    from alps.errors import AlpsError
    from alps.judges.base import Judge
    from alps.rows import Score
    from alps.systems import System
    from alps.tasks import Metric, Task

__version__ = "0.1.0"

__all__ = [
    "AlpsError",
    "Judge",
    "Metric",
    "Record",
    "Run",
    "Score",
    "System",
    "Task",
    "__version__",
    "aevaluate",
    "compare",
    "evaluate",
    "open_run",
]

_DEFINED_IN = {
    "AlpsError": "alps.errors",
    "Judge": "alps.judges.base",
    "Metric": "alps.tasks",
    "Score": "alps.rows",
    "System": "alps.systems",
    "Task": "alps.tasks",
}

_package = Path(__file__).resolve().parent
if not (_package / "tasks").is_dir() and (_package.parent / "pyproject.toml").is_file():
    __path__.append(str(_package.parent))


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: a command imports this package, and no more."""
    if name in __all__:
        return getattr(import_module(_DEFINED_IN.get(name, "alps.api")), name)
    from alps.extension import brought, load

    # A part of the package that is not imported yet is asked for here, too.
    where = None if name.startswith("_") else brought("exports").get(name)
    if where is None:
        raise AttributeError(f"module 'alps' has no attribute '{name}'")
    return load(where)


def __dir__() -> list[str]:
    from alps.extension import brought

    return sorted({*__all__, *brought("exports")})
