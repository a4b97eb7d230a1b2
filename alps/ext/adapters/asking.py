"""Questions to the user's own code, with the ids of the data hidden, and answers read as a task's.

The ids name tasks, abilities and sessions.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from alps.llm.secrets import masked
from alps.llm.types import EmptyAnswer
from alps.schema import Memory, Outcome, Prediction
from alps.systems.base import Place, System, one_line
from alps.tasks import Task

# So many that an alias stands in no text by chance
_DIGITS = 24
# Fields of a prediction in which a system may repeat an id
_TEXTS = ("prediction", "raw", "thought", "notes", "error")


def anonymous(system: System, place: Place) -> System:
    """Return a system as it is asked at a place."""
    return system if place.id_key is None else Anonymous(system, key=place.id_key)


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


def understood(
    task: Task, name: str, node: Any, *, raw: str | None, asked: Callable[[], str]
) -> Prediction:
    """Read plain JSON as the answer to the record `name`: `empty` or `invalid` where it is none.

    Secrets in it are masked, but for what stands in what was `asked`.
    """
    row: dict[str, Any] = {"benchmark_id": name, "track": task.track, "raw": raw}
    try:
        read = task.answer.read(masked(node, asked))
    except (ValueError, TypeError, RecursionError) as error:
        outcome: Outcome = "empty" if isinstance(error, EmptyAnswer) else "invalid"
        return Prediction(**row, outcome=outcome, error=one_line(str(error)))
    value = task.to_prediction(read.value)
    return Prediction(**row, outcome="ok", prediction=value, notes=read.notes)
