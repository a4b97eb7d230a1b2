"""A memory system as the system of a task whose answer is the memory itself."""

from collections.abc import Mapping
from typing import Any, Protocol

from alps.ext.memory.connection import MemoryFailed
from alps.ext.memory.protocol import Hit
from alps.ext.memory.store import NotEstimable
from alps.schema import Prediction
from alps.systems.base import System
from alps.tasks import Task
from alps.tasks.by_memory import Remembered


class Probed(Protocol):
    """A memory that reports the hits of each probe of a record."""

    name: str
    settings: Mapping[str, Any]

    async def probed(self, task: Task, sample: Any) -> list[list[Hit]]:
        """Return it.

        Raises:
            MemoryFailed: If the memory failed.
            NotEstimable: If it can't be asked for that.
        """
        ...


class Direct:
    """Answers with the contents or hits of a memory, without the reader `system`."""

    def __init__(self, system: System, memory: Probed) -> None:
        self.system, self.memory = system, memory
        self.name = system.name
        self.settings: Mapping[str, Any] = {**system.settings, "memory": dict(memory.settings)}

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Tell the memory what the sample says, and ask it."""
        assert task.by_memory.answers is not None
        row: dict[str, Any] = {"benchmark_id": sample.benchmark_id, "track": task.track}
        try:
            found = await self.memory.probed(task, sample)
        except MemoryFailed as failed:
            return Prediction(**row, outcome=failed.outcome, error=str(failed))
        except NotEstimable:
            why = f"not estimable: {self.memory.name} can't list its memories"
            return Prediction(**row, outcome="transport", error=why)
        remembered = [[Remembered(hit.id, hit.text) for hit in hits] for hits in found]
        answer = task.by_memory.answers.prediction(sample, remembered)
        if answer is None:
            return Prediction(**row, outcome="empty", error="memory, search: no hits")
        return Prediction(**row, outcome="ok", prediction=answer)
