"""Wrappers before the system of a run: the variants of a task, and a memory before those."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from alps.ext.memory.embedded import Memory
from alps.ext.memory.journal import ANSWERS, AnswerLog
from alps.ext.memory.models import Given
from alps.ext.memory.reader import through
from alps.ext.memory.resolve import open_memory
from alps.run.services import Services, memory_options
from alps.run.source import Data
from alps.settings import RunSettings
from alps.systems import System
from alps.systems.resolve import RECORDED
from alps.systems.variants import in_variants
from alps.tasks import Task
from alps.tasks.recall import FULL


def as_asked(
    settings: RunSettings, data: Data, services: Services, folder: Path | None
) -> Services:
    """Return the services with their systems as the samples of `data` are asked.

    `folder` is that of the run; None in a dry run.

    Raises:
        UsageError: If the memory needs an extra that is not installed.
    """
    memory = _memory(settings, data, services.given, folder)
    log = None if folder is None or memory is None else AnswerLog(folder / ANSWERS)
    asked = []
    for track, systems in zip(data.tracks, services.systems, strict=True):
        task = track.task
        most = settings.most_context
        asked.append(tuple(_before(system, task, memory, most, log) for system in systems))
    return replace(services, systems=tuple(asked), memory=memory, log=log)


def _memory(settings: RunSettings, data: Data, given: Given, folder: Path | None) -> Memory | None:
    """Return the memory of a run; None where every history is shown as it is."""
    if settings.memory == FULL and settings.max_context_tokens is None:
        return None
    # Recorded answers were given long ago: no memory has a part in them any more.
    if settings.model.startswith(RECORDED):
        return None

    def samples() -> Iterator[tuple[Task, Any]]:
        for track in data.tracks:
            for sample in track.samples():
                if data.sessions is None or sample.session_id in data.sessions:
                    yield track.task, sample

    options = memory_options(settings, folder)
    options = replace(options, llm=given.llm, embedder=given.embedder)
    return open_memory(settings.memory, options, samples)


def _before(
    system: System, task: Task, memory: Memory | None, most: int | None, log: AnswerLog | None
) -> System:
    system = in_variants(system, task)
    return system if memory is None else through(memory, system, task, most, log)
