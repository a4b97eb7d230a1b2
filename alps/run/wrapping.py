"""Wrappers before the systems of a run: the variants of a task, then what extensions put there."""

from dataclasses import replace
from pathlib import Path

from alps.run.services import Services
from alps.run.source import RunData
from alps.systems.variants import in_variants


def wrapped(services: Services, data: RunData, folder: Path | None) -> Services:
    """Return the services with their systems as the samples of `data` are asked.

    `folder` is that of the run; None in a dry run.

    Raises:
        AlpsError: If the part of an extension can't be opened.
    """
    rows = []
    for track, systems in zip(data.tracks, services.systems, strict=True):
        rows.append(tuple(in_variants(system, track.task) for system in systems))
    services = replace(services, systems=tuple(rows))
    for part in services.parts:
        services = part.open(services, data, folder)
    return services
