"""Systems by the name that `model=` gives, and around each what a task asks in variants.

Which variants of a question there are, and what the answers come to together, a task says:
`Task.variants` and `Task.joined`. A task without them is asked as ever.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from alps.errors import UsageError, closest
from alps.extension import brought, made
from alps.llm.types import Completes
from alps.schema import UNHEARD, Prediction, UsedToAnswer
from alps.systems.base import Place, System, on_client
from alps.systems.embedded import Embedded, Unheard, embedded
from alps.tasks import Task
from alps.tasks.registry import systems_by_task

FLOOR = "floor/"
"""How trivial baselines are called: they stand next to every score."""

RECORDED, PROGRAM, PYTHON = "predictions:", "program:", "python:"
NOWHERE = Place()
NO_SYSTEM = ""
"""The `model` of a run that only judges."""


def floor_systems(task: Task, folder: Path | None = None) -> dict[str, Embedded]:
    """Return the trivial baselines of `task`; what they raise is in `folder`."""
    log = Place(folder=folder).tracebacks
    floors = {}
    for name in task.systems:
        if name.startswith(FLOOR):
            floors[name] = embedded_in_variants(embedded(name, task, tracebacks=log), task)
    return floors


def embedded_in_variants(system: Embedded, task: Task) -> Embedded:
    """Return a system that answers at once as `task` asks it."""
    if task.asking.variants is None:
        return system
    return EmbeddedVariants(system)


def in_variants(system: System, task: Task) -> System:
    """Return the system as `task` asks it: itself, unless the task asks variants."""
    if isinstance(system, Embedded):
        return embedded_in_variants(system, task)
    if task.asking.variants is None or isinstance(system, Unheard):
        return system
    return Variants(system)


def is_embedded(model: str) -> bool:
    """Tell whether a task of the package is answered by an embedded system of that name."""
    # Not looked for among tasks that a run need not import: providers come before a slash.
    if "/" in model and not model.startswith(FLOOR):
        return False
    return any(model in names for names in systems_by_task().values())


def is_local(model: str, tasks: Sequence[Task] = ()) -> bool:
    """Tell whether `model` needs no LLM client."""
    if model == NO_SYSTEM or model.startswith(beginnings_of_systems()):
        return True
    return any(model in task.systems for task in tasks) or is_embedded(model)


def beginnings_of_systems() -> tuple[str, ...]:
    """Return how the names of systems begin that say where these are."""
    return tuple(dict.fromkeys((RECORDED, PROGRAM, PYTHON, *brought("systems"))))


def resolve_system(model: str, task: Task, place: Place = NOWHERE) -> System:
    """Return the system that `model` names, unless it is an LLM, working at `place`.

    Raises:
        UsageError: If there is none by that name.
    """
    for start, where in brought("systems").items():
        if model.startswith(start):
            known = replace(place, tasks=place.tasks or (task,))
            system: System = made(where, System, model.removeprefix(start), known)
            return system
    if model == NO_SYSTEM:
        return Unheard(model)
    if model not in task.systems:
        raise _unknown(model, task)
    return embedded(model, task, tracebacks=place.tracebacks)


def _unknown(model: str, task: Task) -> UsageError:
    """Return the error for a name that no system of `task` has."""
    names = ", ".join(task.systems)
    others = [name for name, systems in systems_by_task().items() if model in systems]
    if others:
        what = f"not a system for {task.name}, only for {', '.join(others)}"
        return UsageError(f"model={model}: {what} (built-in systems: {names})")
    hint = closest(model, task.systems)
    return UsageError(f"model={model}: unknown system{hint} (built-in for {task.name}: {names})")


def resolve_systems(
    model: str,
    tasks: Sequence[Task],
    *,
    timeout: float = 120.0,
    folder: Path | None = None,
    env: Sequence[str] = (),
    id_key: str | None = None,
) -> tuple[System, ...]:
    """Return the system that `model` names for every track; a program or object is one for all.

    Raises:
        UsageError: If there is none by that name for one of them.
    """
    place = Place(timeout, folder, env, id_key, tuple(tasks))
    if not model.startswith(tuple(brought("systems"))):
        return tuple(resolve_system(model, task, place) for task in tasks)
    system = resolve_system(model, tasks[0], place)
    return (system,) * len(tasks)


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
