"""From `model=` to a system."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from alps.errors import UsageError, closest
from alps.systems import floors, rules
from alps.systems.base import System
from alps.systems.embedded import Embedded
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

RECORDED = "predictions:"


def is_embedded(model: str, task: Task) -> bool:
    """Tell whether `model` needs no LLM client."""
    return model in EMBEDDED[task.name] or model.startswith(RECORDED)


def resolve_system(model: str, task: Task) -> System:
    """Return the embedded system or the recorded predictions that `model` names.

    Raises:
        UsageError: If there is none by that name.
    """
    if model.startswith(RECORDED):
        return RecordedPredictions(Path(model.removeprefix(RECORDED)).expanduser(), task=task)
    known = EMBEDDED[task.name]
    if model not in known:
        names = ", ".join(known)
        raise UsageError(f"model={model}: unknown system{closest(model, known)} (embedded: {names})")
    return Embedded(model, task.track, known[model])
