"""Predictions of a finished run that are judged again, and brought into another folder."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from alps.errors import UsageError
from alps.run.folder import write_whole

PREDICTIONS = "predictions.jsonl"


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
