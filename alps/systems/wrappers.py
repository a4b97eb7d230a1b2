"""Systems around another system: one that asks it in several variants, one that hides ids.

Which variants of a question there are, and what the answers come to together, a task says:
`Task.variants` and `Task.joined`. A task without them is asked as ever. Ids are hidden as those of
a data set name tasks, abilities and sessions.
"""

import hmac
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass, replace
from functools import reduce
from typing import Any

from alps.llm.types import Completes
from alps.schema import UNHEARD, Memory, Prediction, UsedToAnswer
from alps.systems.base import System, on_client
from alps.systems.embedded import Embedded, Unheard
from alps.tasks import Task

# So many that an alias stands in no text by chance
_DIGITS = 24
# Fields of a prediction in which a system may repeat an id
_TEXTS = ("prediction", "raw", "thought", "notes", "error")


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


def in_variants(system: System, task: Task) -> System:
    """Return the system as `task` asks it: itself, unless the task asks variants."""
    if task.asking.variants is None or isinstance(system, Unheard):
        return system
    return embedded_in_variants(system, task) if isinstance(system, Embedded) else Variants(system)


def embedded_in_variants(system: Embedded, task: Task) -> Embedded:
    """Return a system that answers at once as `task` asks it."""
    return system if task.asking.variants is None else EmbeddedVariants(system)


def _variants(task: Task, sample: Any) -> Iterator[Any]:
    assert task.asking.variants is not None
    yield from task.asking.variants(sample)


def _joined(task: Task, sample: Any, answers: list[Prediction]) -> Prediction:
    assert task.asking.joined is not None
    joined = task.asking.joined(sample, answers)
    used = [answer.used for answer in answers if answer.used is not None]
    whole = reduce(UsedToAnswer.and_also, used) if used else None
    return joined.model_copy(update={"used": whole})


def alias(key: str, kind: str, name: str) -> str:
    """Return the pseudonym of an id, equal in every run on the same data and seed.

    The key is a hash of the data: who can compute it has the data, and knows a record by its
    dialogue anyway.
    """
    return hmac.digest(key.encode(), f"{kind}\x00{name}".encode(), "sha256").hex()[:_DIGITS]


class Anonymous:
    """A system that is shown samples under aliases; answers have the ids of the data.

    The track stands in the alias, too: the same record in two tracks is two records to a system.
    """

    def __init__(self, system: System, *, key: str) -> None:
        self.system, self._key = system, key
        self.name, self.settings = system.name, system.settings

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Ask the system what `task` asks about `sample`."""
        shown, names = self._disguised(sample, task.track)
        answer = await self.system.answer(task, shown)
        texts = _named({name: getattr(answer, name) for name in _TEXTS}, names)
        return answer.model_copy(update={**texts, "benchmark_id": sample.benchmark_id})

    def _disguised(self, sample: Any, track: str) -> tuple[Any, dict[str, str]]:
        """Return the sample as the system is shown it, and the ids of the data by their aliases."""
        record = alias(self._key, track, sample.benchmark_id)
        evidence = [item.evidence for item in _memory_of(sample) if item.evidence is not None]
        sessions = {sample.session_id, *(part.session_id for part in evidence if part.session_id)}
        aliases = {name: alias(self._key, "session", name) for name in sessions}
        changes: dict[str, Any] = {"benchmark_id": record, "session_id": aliases[sample.session_id]}
        if memory := _memory_of(sample):
            changes["memory"] = tuple(_elsewhere(item, aliases) for item in memory)
        is_own = is_dataclass(sample) and not isinstance(sample, type)
        shown = replace(sample, **changes) if is_own else sample.model_copy(update=changes)
        names = {substitute: name for name, substitute in aliases.items()}
        return shown, {record: sample.benchmark_id, **names}


def _memory_of(sample: Any) -> tuple[Memory, ...]:
    """Return the memories that a sample of update gives; tasks of the user's may call others so."""
    memory = getattr(sample, "memory", ())
    is_memory = isinstance(memory, tuple) and all(isinstance(item, Memory) for item in memory)
    return memory if is_memory else ()


def _elsewhere(memory: Memory, aliases: Mapping[str, str]) -> Memory:
    if memory.evidence is None or not memory.evidence.session_id:
        return memory
    session = aliases[memory.evidence.session_id]
    evidence = memory.evidence.model_copy(update={"session_id": session})
    return memory.model_copy(update={"evidence": evidence})


def _named(node: Any, names: Mapping[str, str]) -> Any:
    """Put the ids of the data back in every text; an alias is long enough to be nothing else."""
    if isinstance(node, str):
        for substitute, name in names.items():
            node = node.replace(substitute, name)
        return node
    if isinstance(node, dict):
        return {key: _named(value, names) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return type(node)(_named(value, names) for value in node)
    return node
