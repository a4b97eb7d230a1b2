"""Engines that carry out a run in many processes: it is divided into shards, and merged."""

from typing import Final

from alps.extension import Extension

HERE: Final = "asyncio"
"""The engine that is this process alone."""

EXTENSION = Extension(
    "fleet",
    needs=("sizes",),
    commands={"merge": "alps.ext.fleet.commands:merge"},
    heading="Scale",
    part_if=("shard", "engine", "workers", "scheduler"),
    part="alps.ext.fleet.part:Part",
    settings="alps.ext.fleet.settings:FleetKeys",
    operational=("engine", "workers", "scheduler"),
    engine="alps.ext.fleet.engines:run",
)
