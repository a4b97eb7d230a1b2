"""Engines that carry out a run in many processes: it is divided into shards, and merged."""

from pathlib import Path
from typing import Any, Final

from alps.extension import Extension

HERE: Final = "asyncio"
"""The engine that is this process alone."""
_KEYS = ("shard", "workers", "scheduler")


def _has_part(settings: Any, folder: Path) -> bool:
    return settings.engine != HERE or any(getattr(settings, key) is not None for key in _KEYS)


EXTENSION = Extension(
    "fleet",
    needs=("sizes",),
    commands={"merge": "alps.ext.fleet.commands:merge"},
    heading="Scale",
    has_part=_has_part,
    part="alps.ext.fleet.part:Part",
    settings="alps.ext.fleet.settings:FleetKeys",
    operational=("engine", "workers", "scheduler"),
    engine="alps.ext.fleet.engines:run",
)
