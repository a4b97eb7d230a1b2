"""What a system is to the engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from alps.schema import Prediction
from alps.tasks import Task


class System(Protocol):
    """Something that answers samples.

    Attributes:
        name: What the user called it.
        settings: Everything that can change its answers; written into the manifest.
    """

    name: str
    settings: Mapping[str, Any]

    async def predict(self, sample: Any) -> Prediction:
        """Answer one sample.

        A failure to answer is a `Prediction` with its outcome, not an exception.
        """
        ...


class Shared(Protocol):
    """One program or object that answers for every track."""

    name: str
    settings: Mapping[str, Any]

    async def ask(self, task: Task, sample: Any) -> Prediction:
        """Answer what `task` asks about `sample`."""
        ...

    async def aclose(self) -> None:
        """Let go of what it holds; it can be asked again."""
        ...


@dataclass(frozen=True)
class OnTask:
    """A program or class as the system of one of several tracks."""

    system: Shared
    task: Task

    @property
    def name(self) -> str:
        """What the user called it."""
        return self.system.name

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything that can change its answers."""
        return self.system.settings

    async def predict(self, sample: Any) -> Prediction:
        """Ask it about `sample`."""
        return await self.system.ask(self.task, sample)

    async def aclose(self) -> None:
        """Close it; it can be asked again."""
        await self.system.aclose()
