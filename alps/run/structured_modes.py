"""Modes in which typed answers are asked for: what a run came to, kept for its next session."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alps.judges.resolve import is_embedded_judge
from alps.run.opened import read_manifest
from alps.settings import RunSettings
from alps.systems import is_local
from alps.tasks import Task

if TYPE_CHECKING:
    from alps.llm.structured import Ladder

STRUCTURED = "structured"


def structured_modes(
    settings: RunSettings, tasks: Sequence[Task], ladder: "Ladder | None"
) -> dict[str, str]:
    """Return the modes in which `model` and `judge` are asked.

    Of those that are LLMs, and give typed answers.
    """
    modes: dict[str, str] = {}
    if ladder is None:
        return modes
    if not is_local(settings.model, tasks) and not all(task.asking.plain for task in tasks):
        modes["model"] = settings.structured or ladder.mode(settings.model, settings.api_base)
    if not is_embedded_judge(settings.judge):
        modes["judge"] = settings.judge_structured or ladder.mode(
            settings.judge, settings.judge_api_base
        )
    return modes


def resume_modes(settings: RunSettings, folder: Path, ladder: "Ladder | None") -> None:
    """Begin with the modes that earlier sessions of a run came to.

    So no endpoint need refuse one again.
    """
    if ladder is None:
        return
    from alps.llm.structured import MODES

    kept = read_manifest(folder).structured
    asked = {
        "model": (settings.model, settings.api_base),
        "judge": (settings.judge, settings.judge_api_base),
    }
    for role, (model, api_base) in asked.items():
        mode = kept.get(role) if isinstance(kept, dict) else None
        if mode in MODES:
            ladder.resume(model, api_base, mode)
