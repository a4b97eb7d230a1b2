"""Predictions of a finished run that are judged again, and brought into another folder."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from alps.errors import UsageError
from alps.llm.ledger import Ledger
from alps.run.folder import write_whole
from alps.run.opened import PREDICTIONS
from alps.run.parts import Parts
from alps.run.services import AS_EVER, AskedAs, Services, open_services
from alps.settings import RunSettings
from alps.systems import NO_SYSTEM, Unheard
from alps.tasks.base import Task


@dataclass(frozen=True)
class Predictions:
    """Predictions of the finished run in `source`, which are judged again."""

    source: Path
    lines: bytes
    sha256: str

    def place(self, folder: Path) -> None:
        """Write them into `folder` in one atomic step."""
        # Part of them without a manifest would be taken for somebody's file.
        write_whole(folder / PREDICTIONS, self.lines)


def predictions_of(source: Path) -> Predictions:
    """Read the predictions of a run.

    Raises:
        UsageError: If it has none.
    """
    path = source / PREDICTIONS
    if not path.is_file():
        raise UsageError(f"{source}: no {PREDICTIONS} to judge")
    lines = path.read_bytes()
    return Predictions(source, lines, hashlib.sha256(lines).hexdigest())


def judging_services(
    settings: RunSettings,
    tasks: Sequence[Task],
    ledger: Ledger,
    folder: Path | None,
    asked_as: AskedAs = AS_EVER,
    *,
    parts: Parts = (),
) -> Services:
    """Open a judge but no system: missing predictions stay missing."""
    judging = open_services(
        settings.model_copy(update={"model": NO_SYSTEM}),
        tasks,
        ledger,
        folder,
        asked_as,
        parts=parts,
    )
    systems = tuple((Unheard(settings.model),) * settings.repeats for task in tasks)
    return replace(judging, systems=systems)
