"""Predictions of a finished run that are judged again, and brought into another folder."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from alps.errors import UsageError
from alps.ext.sizes.run import PREDICTIONS, folder_of
from alps.run.folder import write_whole


@dataclass(frozen=True)
class Predictions:
    """Predictions of a finished run that are judged again; `less` are those at smaller sizes."""

    lines: bytes
    sha256: str
    less: Mapping[int, bytes]

    def place(self, folder: Path) -> None:
        """Write them into `folder`, each file in one atomic step."""
        for size, lines in self.less.items():
            folder_of(folder, size).mkdir(parents=True, exist_ok=True)
            write_whole(folder_of(folder, size) / PREDICTIONS, lines)
        # Part of them without a manifest would be taken for somebody's file.
        write_whole(folder / PREDICTIONS, self.lines)


def predictions_of(source: Path, sizes: Sequence[int]) -> Predictions:
    """Read the predictions of a run, at smaller sizes of the context, too.

    Raises:
        UsageError: If it has none.
    """
    path = source / PREDICTIONS
    if not path.is_file():
        raise UsageError(f"{source}: no {PREDICTIONS} to judge")
    lines, less = path.read_bytes(), {}
    for size in sizes:
        # What was submitted has none but the largest size.
        if (at_size := folder_of(source, size) / PREDICTIONS).is_file():
            less[size] = at_size.read_bytes()
    return Predictions(lines, hashlib.sha256(lines).hexdigest(), less)
