"""Evaluate how LLM assistants extract, update, retrieve and use memories of their users.

`alps.tasks`, `alps.judges`, `alps.data` and `alps.leaderboard` are folders at the top of the
repository, reached through committed links. A checkout without links (git's default on Windows)
finds them through the repository root.
"""

from pathlib import Path

__version__ = "0.1.0"

_package = Path(__file__).resolve().parent
if not (_package / "tasks").is_dir() and (_package.parent / "pyproject.toml").is_file():
    __path__.append(str(_package.parent))
