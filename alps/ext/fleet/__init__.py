"""Engines that carry out a run in many processes: it is divided into shards, and merged."""

from pathlib import Path
from typing import Final

from alps.commands import allow_typed, command, show_finished
from alps.extension import Extension

HERE: Final = "asyncio"
"""The engine that is this process alone."""


@command("OUT SHARD…", name="merge", runs=True, raw=True)
def merge_shards(words: tuple[str, ...]) -> None:
    """Merge the shards of a run.

    Merging sends no requests.

    \b
      alps run task=extraction model=rules shard=1/2 out=first
      alps run task=extraction model=rules shard=2/2 out=second
      alps merge whole first second
    """
    from alps.ext.fleet.merge import merge
    from alps.run.opened import find_run

    out, *shards = allow_typed(words)
    found = [find_run(shard) for shard in shards]
    show_finished(lambda: merge(Path(out).expanduser(), found))


EXTENSION = Extension(
    "fleet",
    needs=("sizes",),
    commands={"merge": "alps.ext.fleet:merge_shards"},
    heading="Scale",
    part_if=("shard", "engine", "workers", "scheduler"),
    part="alps.ext.fleet.settings:FleetRunPart",
    settings="alps.ext.fleet.settings:FleetKeys",
    operational=("engine", "workers", "scheduler"),
    engine="alps.ext.fleet.shards:run",
)
