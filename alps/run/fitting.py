"""Checks of a run against its data, before anything is asked or paid for."""

from dataclasses import replace
from pathlib import Path

from alps.run.services import say_once
from alps.run.source import Data
from alps.settings import RunSettings
from alps.systems import PROGRAM, is_local
from alps.systems.resolve import PYTHON, RECORDED


def check_recorded(settings: RunSettings, data: Data) -> None:
    """Refuse a table of published answers that does not belong to the data.

    Raises:
        DataError: If it has other records, or says of one something else than the data.
    """
    path = Path(settings.model.removeprefix(RECORDED)).expanduser()
    is_table = settings.model.startswith(RECORDED) and path.suffix == ".csv" and path.is_file()
    for track in data.tracks if is_table else ():
        check = track.task.check_results
        if check is not None:
            # With `limit=` the table still belongs to all of the data.
            for line in check(path, replace(track, limit=None).samples()):
                say_once(f"{path}: {line}")


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
