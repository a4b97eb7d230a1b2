"""From `model=` to a system."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from alps.errors import UsageError, closest
from alps.systems import floors, rules
from alps.systems.base import System
from alps.systems.embedded import Embedded, Unheard
from alps.systems.recorded import RecordedPredictions
from alps.tasks import Task

FLOORS: Mapping[str, Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "extraction": {
        "floor/empty": floors.empty,
        "floor/content-free": floors.content_free,
        "floor/content-free-fluent": floors.content_free_fluent,
    }
}
"""By task: answers that deserve nothing. They stand beside every score."""

EMBEDDED: Mapping[str, Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "extraction": {**FLOORS["extraction"], "rules": rules.extract, "oracle": floors.oracle}
}
"""By task: every system that is a plain function."""

RECORDED, PROGRAM, PYTHON = "predictions:", "program:", "python:"
NO_SYSTEM = ""
"""The `model` of a run that only judges."""


def is_local(model: str, task: Task) -> bool:
    """Tell whether `model` needs no LLM client."""
    return model in EMBEDDED[task.name] or model.startswith((RECORDED, PROGRAM, PYTHON)) or model == NO_SYSTEM


def resolve_system(model: str, task: Task, *, timeout: float = 120.0, folder: Path | None = None) -> System:
    """Return the system that `model` names, unless it is an LLM.

    Args:
        model: The name.
        task: What it is asked.
        timeout: Seconds that a program or a class may take for one sample.
        folder: Where a program's stderr is kept; None for nowhere.

    Raises:
        UsageError: If there is none by that name.
    """
    if model.startswith(RECORDED):
        return RecordedPredictions(Path(model.removeprefix(RECORDED)).expanduser(), task=task)
    if model.startswith(PROGRAM):
        from alps.systems.program import ProgramSystem

        stderr = folder / "program.stderr.log" if folder is not None else None
        command = model.removeprefix(PROGRAM)
        return ProgramSystem(command, task=task, to_row=task.input_row, timeout=timeout, stderr_path=stderr)
    if model.startswith(PYTHON):
        from alps.systems.python_class import PythonSystem

        return PythonSystem(model.removeprefix(PYTHON), task=task, timeout=timeout)
    if model == NO_SYSTEM:
        return Unheard(model, task.track)
    known = EMBEDDED[task.name]
    if model not in known:
        names = ", ".join(known)
        raise UsageError(f"model={model}: unknown system{closest(model, known)} (embedded: {names})")
    return Embedded(model, task.track, known[model])
