"""Comparison runs: the same reader without memory, with a part, and with all of the history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.errors import BudgetError, RunFolderError, UsageError
from alps.ext.memory.named_code import refuse_untyped
from alps.ext.memory.settings import MemoryModels
from alps.folders import own_folder, slug
from alps.llm.secrets import redact
from alps.parsing import parse_settings
from alps.run.fresh import refuse_other_code
from alps.run.opened import MANIFEST, open_run, read_manifest
from alps.run.start import run
from alps.settings import RunSettings
from alps.tasks.by_memory import FULL, ORACLE, PLACEBO

FOLDER = "beside"
_OF_MEMORY = ("memory", "memory_options", "reader", "out", *MemoryModels.model_fields)


@dataclass(frozen=True)
class ComparedFolders:
    """The folders of a run and of its rows, and why rows are left out."""

    folders: list[Path]
    left_out: tuple[str, ...]


def run_beside(
    folder: Path,
    rows: Sequence[str],
    given: dict[str, Any],
    *,
    typed: Mapping[str, str | None] | None = None,
) -> ComparedFolders:
    """Run what a finished run did with other memories; what was run already is not asked again.

    Args:
        folder: The run.
        rows: Names as `memory=` takes them.
        given: Settings of how it is carried out, such as `max_cost`.
        typed: What `refuse_untyped` is told; None trusts the run.

    Raises:
        BudgetError: If the budget stopped a row.
        AlpsError: If the run is not finished, or a row can't be run.
    """
    known = open_run(folder)
    if not any(task.by_memory.recall is not None for task in known.tasks.values()):
        raise UsageError(f"{folder}: none of its tasks has a history")
    if typed is not None:
        refuse_untyped(known, typed)
    assert known.finished
    settings = _settings_of(known.manifest.settings)
    again = parse_settings(settings, RunSettings)
    refuse_other_code(folder, dict(again), "task", "model")
    folders, left_out = [folder], []
    for memory in rows:
        if memory == known.manifest.settings.get("memory", FULL):
            continue
        out = own_folder(folder / FOLDER, redact(memory), slug(memory), _memory_of)
        row = parse_settings({**settings, **given, "memory": memory, "out": str(out)}, RunSettings)
        try:
            done = run(row)
        except UsageError as error:
            # The data need not tell where the evidence is, or have a second user.
            if memory not in (ORACLE, PLACEBO) or not str(error).startswith(f"memory={memory}:"):
                raise
            left_out.append(f"Left out, {error}")
            continue
        if done.budget_spent:
            raise BudgetError(
                f"memory={memory}: stopped by the budget; the same command with a larger one "
                "continues"
            )
        folders.append(out)
    return ComparedFolders(folders, tuple(left_out))


def _memory_of(folder: Path) -> str | None:
    """Return the memory of the run in a folder; None where there is no run."""
    if not (folder / MANIFEST).exists():
        return None
    try:
        return redact(str(read_manifest(folder).settings.get("memory", FULL)))
    except RunFolderError:  # the run says what is wrong with it
        return None


def _settings_of(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run that are not its defaults, and not of its memory."""
    kept: dict[str, Any] = {}
    for name, value in settings.items():
        field = RunSettings.model_fields.get(name)
        if field is not None and name not in _OF_MEMORY and value != field.default:
            kept[name] = value
    return kept
