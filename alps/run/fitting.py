"""Checks of a run against its data, before anything is asked or paid for."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from alps.errors import DataError
from alps.run.services import say_once
from alps.run.source import Data
from alps.settings import RunSettings
from alps.systems import PROGRAM, is_local
from alps.systems.recorded import recorded_lines
from alps.systems.resolve import PYTHON, RECORDED
from alps.tasks import Task


def check_recorded(settings: RunSettings, data: Data) -> None:
    """Refuse recorded answers that do not belong to the data, of tasks that can tell.

    Raises:
        UsageError: If their file is not there.
        DataError: If a table has other records, or says of one something else than the data, or if
            no row of a JSON Lines file is about any of them.
    """
    name = settings.model.removeprefix(RECORDED)
    for track in data.tracks if settings.model.startswith(RECORDED) and name else ():
        check = track.task.check_results
        if check is None:
            continue
        # With `limit=` the answers still belong to all of the data.
        path, samples = Path(name).expanduser(), replace(track, limit=None).samples
        if path.suffix != ".csv" or path.is_dir():
            _check_ids(path, track.task, {sample.benchmark_id for sample in samples()})
        elif path.is_file():
            for line in check(path, samples()):
                say_once(f"{path}: {line}")


def _check_ids(path: Path, task: Task, known: Collection[str]) -> None:
    """Refuse a file of answers to other records: each would count as not predicted."""
    lines = recorded_lines(path, task)
    if lines and not any(name in known for name in lines):
        name, line = next(iter(lines.items()))
        what = f"'{name[:80]}' is no record of the data, nor is any other of {len(lines)} rows"
        file = path / "predictions.jsonl" if path.is_dir() else path
        raise DataError(what, path=file, line=line, field="benchmark_id")


def check_shown(settings: RunSettings, data: Data) -> None:
    """Refuse records of which a part that the system is shown is not there.

    Embedded systems and recorded answers are shown nothing.

    Raises:
        DataError: If there is such a record.
    """
    if is_local(settings.model, data.tasks) and not settings.model.startswith((PROGRAM, PYTHON)):
        return
    for track in data.tracks:
        check = track.task.check_shown
        for sample in track.samples() if check is not None else ():
            assert check is not None
            check(sample)
