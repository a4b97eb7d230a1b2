"""Engines that carry out a run in many processes: it is divided into shards, and merged."""

from pathlib import Path
from typing import Any

from alps.extension import Extension


def _has_part(settings: Any, folder: Path) -> bool:
    return bool(settings.engine != "asyncio")


EXTENSION = Extension(
    "fleet",
    needs=("sizes",),
    commands={"merge": "alps.ext.fleet.commands:merge"},
    has_part=_has_part,
    engine="alps.ext.fleet.engines:run",
)
