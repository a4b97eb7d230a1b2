"""Systems around another system, which ask it in several variants.

Which variants of a question there are, and what the answers come to together, a task says:
`Task.variants` and `Task.joined`. A task without them is asked as ever.
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

from alps.llm.types import Completes
from alps.schema import UNHEARD, Prediction, UsedToAnswer
from alps.systems.base import System, on_client
from alps.systems.embedded import Embedded
from alps.tasks import Task


class Variants:
    """Asks one system every variant of a sample, one after the other.

    They share most of what is asked: a provider that caches it has it by the second.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.name = system.name
        self.settings: Mapping[str, Any] = system.settings

    def on(self, client: Completes) -> "Variants | None":
        """Return the same, whose requests go to `client`; see `on_client`."""
        moved = on_client(self.system, client)
        return None if moved is None else Variants(moved)

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Answer `sample`; a variant without a response leaves the sample without one."""
        answers: list[Prediction] = []
        for variant in _variants(task, sample):
            answers.append(await self.system.answer(task, variant))
            if answers[-1].outcome in UNHEARD:
                return answers[-1]
        return _joined(task, sample, answers)


class EmbeddedVariants(Embedded):
    """The same for a system that answers at once."""

    def __init__(self, system: Embedded) -> None:
        super().__init__(system.name, dict, tracebacks=None)
        self.settings, self._system = system.settings, system

    def answer_at_once(self, task: Task, sample: Any) -> Prediction:
        """Answer `sample` outside an event loop."""
        answers = [self._system.answer_at_once(task, one) for one in _variants(task, sample)]
        return _joined(task, sample, answers)


def _variants(task: Task, sample: Any) -> Iterator[Any]:
    assert task.asking.variants is not None
    yield from task.asking.variants(sample)


def _joined(task: Task, sample: Any, answers: list[Prediction]) -> Prediction:
    assert task.asking.joined is not None
    joined = task.asking.joined(sample, answers)
    used = [answer.used for answer in answers if answer.used is not None]
    whole = reduce(UsedToAnswer.and_also, used) if used else None
    return joined.model_copy(update={"used": whole})
