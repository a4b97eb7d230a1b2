"""The memory's part in a run: before the reader; with admission and accounting."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.ext.memory import ANSWERS, FILE
from alps.ext.memory.admit_run import admitted, check_estimable
from alps.ext.memory.embedded import EmbeddedMemory
from alps.ext.memory.journal import AnswerLog, answers_of, checks_in, phases_of, stored_by
from alps.ext.memory.models import (
    IN_THE_BOX,
    Given,
    asked_models,
    check_memory_models,
    embedder_versions,
    memory_models,
    require_memory_models,
)
from alps.ext.memory.reader import through
from alps.ext.memory.resolve import (
    SPOKEN,
    MemoryOptions,
    adapter_versions,
    check_memory,
    open_memory,
)
from alps.ext.memory.settings import MemoryKeys
from alps.ext.memory.store import Store
from alps.llm.secrets import redact
from alps.rows import Check, Summary
from alps.run.estimate import Stage
from alps.run.parts import Course, Estimated, RunPart
from alps.run.services import Services, UsedModel, check_models
from alps.run.session import RunSession
from alps.run.source import RunData
from alps.settings import RunSettings, as_typed
from alps.systems.resolve import RECORDED
from alps.tasks import Task
from alps.tasks.by_memory import FULL


class Part(RunPart):
    """The memory of one run."""

    def __init__(self, settings: RunSettings) -> None:
        super().__init__(settings)
        self.keys = MemoryKeys.of(settings)
        self.memory: EmbeddedMemory | None = None
        self._log: AnswerLog | None = None
        self._checks: list[Check] = []

    def refuse(self) -> None:
        """Refuse several sizes of answers that were given at one."""
        sizes = self.keys.max_context_tokens
        if isinstance(sizes, tuple) and self.settings.model.startswith(RECORDED):
            why = "the recorded answers come from one size; name only this size"
            raise UsageError(f"max_context_tokens={as_typed(sizes)}: {why}")

    def uses(self, key: str) -> bool:
        """Tell whether a memory that is a program gets the variables of `env=`."""
        return key == "env" and self.keys.memory.startswith(SPOKEN)

    def check(self, data: RunData, *, generate: bool, keys: bool) -> None:
        """Refuse an unknown memory, and models of it that cannot be called."""
        if generate:
            check_memory(self.keys.memory, memory_options(self.keys, None))
            require_memory_models(self.keys, self.keys.memory)
            check_memory_models(self.keys, self.keys.memory)
            check_models(self.asked(), IN_THE_BOX, keys=keys)

    def asked(self) -> Sequence[UsedModel]:
        """Return the models that the memory is given."""
        models = asked_models(self.keys)
        return [UsedModel(key, name, api_base, {}, None) for key, name, api_base in models]

    def open(self, services: Services, data: RunData, folder: Path | None) -> Services:
        """Put the memory before the systems; it is opened with the models that it is given."""
        clients = services.clients
        given = memory_models(self.keys, None if clients is None else clients.of)
        self.memory = memory = _memory(self.keys, data, given, folder)
        if memory is None:
            return services
        self._log = None if folder is None else AnswerLog(folder / ANSWERS)
        rows, most = [], self.keys.most_context
        for track, systems in zip(data.tracks, services.systems, strict=True):
            asked = (through(memory, one, track.task, most, self._log) for one in systems)
            rows.append(tuple(asked))
        return replace(services, systems=tuple(rows))

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the packages of the memory."""
        return adapter_versions(self.keys.memory) | embedder_versions(self.keys)

    async def before(self, course: Course) -> None:
        """Check the memory system before the run."""
        self._checks += await admitted(self.memory, "before")
        check_estimable(self.memory, course.session.data.tasks)

    async def after(self, course: Course) -> None:
        """Check the memory system after the run."""
        self._checks += await admitted(self.memory, "after")

    def summarise(self, summary: Summary, course: Course) -> Summary:
        """Add the checks, and how long the phases took."""
        folder = course.session.folder
        found: dict[str, Any] = {}
        if (folder / FILE).exists():
            found = {"admission": self._checks or checks_in(folder)}
            found |= {"phases": phases_of(folder), "answers": answers_of(folder)}
            found["bytes_per_1000_turns"] = stored_by(folder)
        return summary.model_copy(update=found)

    def stages(self, session: RunSession, estimated: Estimated) -> Sequence[Stage]:
        """Name the models that the memory calls; the number of calls is unknown."""
        asked = asked_models(self.keys)
        return [Stage(key.replace("_", " "), redact(name), unknown=True) for key, name, _ in asked]

    async def aclose(self) -> None:
        """Close the memory system and the log of what the reader was shown."""
        if isinstance(self.memory, Store):
            await self.memory.aclose()
        if self._log is not None:
            self._log.close()


def memory_options(settings: MemoryKeys, folder: Path | None) -> MemoryOptions:
    """Return the options of a run's memory; `folder` is the run folder."""
    return MemoryOptions(
        k=settings.k,
        timeout=settings.timeout,
        seed=settings.seed,
        folder=folder,
        options=settings.memory_options or {},
        env=settings.passed,
    )


def _memory(
    settings: MemoryKeys, data: RunData, given: Given, folder: Path | None
) -> EmbeddedMemory | None:
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
