"""From `model=` to a system."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from alps.errors import UsageError, closest
from alps.systems import baselines, rules
from alps.systems.base import STDERR, TRACEBACKS, System
from alps.systems.embedded import RETRIEVERS, Embedded, Unheard, retriever
from alps.systems.recorded import RecordedPredictions
from alps.tasks import Task

FLOORS: Mapping[str, Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "extraction": {
        "floor/empty": baselines.empty,
        "floor/content-free": baselines.content_free,
        "floor/content-free-fluent": baselines.content_free_fluent,
    },
    "update": {"floor/no-op": baselines.no_op, "floor/positional": baselines.positional},
    "retrieval": {
        "floor/random": baselines.random_candidate,
        "floor/lowest-unique-id": baselines.lowest_unique_id,
    },
    "utilization": {
        "floor/generic": baselines.generic,
        "floor/refusal": baselines.refusal,
        "floor/parrot": baselines.parrot,
    },
}
"""By task: trivial baselines, expected to score about 0. They stand next to every score."""

EMBEDDED: Mapping[str, Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "extraction": {**FLOORS["extraction"], "rules": rules.extract, "oracle": baselines.oracle},
    "update": {**FLOORS["update"], "rules": baselines.update, "oracle": baselines.oracle_update},
    "retrieval": {**FLOORS["retrieval"], "oracle": baselines.oracle_retrieval},
    "utilization": {**FLOORS["utilization"], "rules": baselines.quote},
}
"""By task: every system that is a plain function."""

RULES_OF_RETRIEVAL = "bm25"
"""What `model=rules` is in retrieval."""

RECORDED, PROGRAM, PYTHON = "predictions:", "program:", "python:"
NO_SYSTEM = ""
"""The `model` of a run that only judges."""


def embedded_systems(task: Task) -> dict[str, Callable[[Any], dict[str, Any]]]:
    """Return the systems that are plain functions of a sample of `task`, by name."""
    return {**EMBEDDED.get(task.name, {}), **task.systems}


def floor_systems(task: Task, folder: Path | None = None) -> dict[str, Embedded]:
    """Return the floors that stand beside every score of `task`.

    What they raise is kept in `folder`.
    """
    log = _tracebacks_in(folder)
    return {
        name: Embedded(name, function, tracebacks=log)
        for name, function in embedded_systems(task).items()
        if name.startswith("floor/")
    }


def _tracebacks_in(folder: Path | None) -> Path | None:
    return None if folder is None else folder / TRACEBACKS


def embedded_names(task: Task) -> tuple[str, ...]:
    """Return the names of the systems that answer `task` without a model."""
    own = tuple(embedded_systems(task))
    return (*own, "rules", *RETRIEVERS) if task.name == "retrieval" else own


def is_local(model: str, tasks: Sequence[Task] = ()) -> bool:
    """Tell whether `model` needs no LLM client."""
    own = [task.systems for task in tasks]
    known = any(model in names for names in (*EMBEDDED.values(), RETRIEVERS, *own))
    return known or model.startswith((RECORDED, PROGRAM, PYTHON)) or model == NO_SYSTEM


def resolve_system(
    model: str,
    task: Task,
    *,
    timeout: float = 120.0,
    folder: Path | None = None,
    env: Sequence[str] = (),
) -> System:
    """Return the system that `model` names, unless it is an LLM.

    Args:
        model: The name.
        task: What it is asked.
        timeout: Seconds that a program or a class may take for one sample.
        folder: Where a program's stderr is kept, and what a class raises; None for nowhere.
        env: Variables of the environment that a program gets, too.

    Raises:
        UsageError: If there is none by that name.
    """
    if model == RECORDED:
        raise UsageError(
            f"model={model} names no file; write {RECORDED}FILE, such as {RECORDED}runs/mine"
        )
    if model.startswith(RECORDED):
        return RecordedPredictions(Path(model.removeprefix(RECORDED)).expanduser(), task=task)
    if model.startswith(PROGRAM):
        from alps.systems.program import ProgramSystem

        stderr = folder / STDERR if folder is not None else None
        command = model.removeprefix(PROGRAM)
        return ProgramSystem(command, timeout=timeout, stderr_path=stderr, env=env)
    if model.startswith(PYTHON):
        from alps.systems.python_class import PythonSystem

        path = model.removeprefix(PYTHON)
        return PythonSystem(path, timeout=timeout, tracebacks=_tracebacks_in(folder))
    if model == NO_SYSTEM:
        return Unheard(model)
    if model not in embedded_names(task):
        raise _unknown(model, task)
    if model in (functions := embedded_systems(task)):
        return Embedded(model, functions[model], tracebacks=_tracebacks_in(folder))
    return retriever(RULES_OF_RETRIEVAL if model == "rules" else model)


def _unknown(model: str, task: Task) -> UsageError:
    """Return the error for a name that no system of `task` has."""
    known = embedded_names(task)
    names = ", ".join(known)
    others = [name for name, systems in EMBEDDED.items() if model in systems]
    others += ["retrieval"] if model in RETRIEVERS else []
    if others:
        only = f"it answers {', '.join(others)} alone"
        return UsageError(
            f"model={model}: no system of {task.name}, {only} (embedded there: {names})"
        )
    hint = closest(model, known)
    return UsageError(f"model={model}: unknown system{hint} (embedded in {task.name}: {names})")


def resolve_systems(
    model: str,
    tasks: Sequence[Task],
    *,
    timeout: float = 120.0,
    folder: Path | None = None,
    env: Sequence[str] = (),
) -> tuple[System, ...]:
    """Return the system that `model` names, once for every track.

    A program or an object is the same for all of them.

    Raises:
        UsageError: If there is none by that name for one of them.
    """
    if not model.startswith((PROGRAM, PYTHON)):
        return tuple(resolve_system(model, task, timeout=timeout, folder=folder) for task in tasks)
    system = resolve_system(model, tasks[0], timeout=timeout, folder=folder, env=env)
    return (system,) * len(tasks)
