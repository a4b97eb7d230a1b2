"""Checks of a run against its data, before anything is asked or paid for."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from alps.errors import DataError
from alps.run.services import say_once
from alps.run.source import RunData, TrackData
from alps.settings import RunSettings
from alps.systems import PROGRAM, is_local
from alps.systems.resolve import PYTHON, RECORDED


def check_recorded(settings: RunSettings, data: RunData) -> None:
    """Refuse recorded answers that do not belong to the data.

    Raises:
        UsageError: If their file is not there.
        DataError: If a table has other records, or says of one something else than the data, or if
            no row of a JSON Lines file is about any of them.
    """
    name = settings.model.removeprefix(RECORDED)
    if not settings.model.startswith(RECORDED) or not name:
        return
    path = Path(name).expanduser()
    # With `limit=` the answers still belong to all of the data.
    tracks = [replace(track, limit=None) for track in data.tracks]
    if path.suffix != ".csv" or path.is_dir():
        _check_ids(path, tracks)
        return
    for track in tracks if path.is_file() else ():
        if track.task.data.check_results is not None:
            for line in track.task.data.check_results(path, track.samples()):
                say_once(f"{path}: {line}")


def _check_ids(path: Path, tracks: Sequence[TrackData]) -> None:
    """Refuse a file of answers to other records: each would count as not predicted."""
    from alps.systems.recorded import recorded_ids

    known: dict[str, list[str]] = {}
    for track in tracks:
        known[track.task.track] = [sample.benchmark_id for sample in track.samples()]
    of_data = {track: set(names) for track, names in known.items()}
    others: list[str] = []
    for of, name in recorded_ids(path):
        tracks_named = of_data.values() if of is None else [of_data.get(of, set())]
        if any(name in names for names in tracks_named):
            return
        others.append(name)
    if others:
        theirs = dict.fromkeys(name for names in known.values() for name in names)
        what = f"none of its {len(others):,} ids is in the data; in the file: {_some(others)}; "
        file = path / "predictions.jsonl" if path.is_dir() else path
        what += f"in the data: {_some(list(theirs))}"
        raise DataError(what, path=file, field="benchmark_id")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name[:40]}'" for name in names[:2])
    return f"{shown}, …" if len(names) > 2 else shown


def check_shown(settings: RunSettings, data: RunData) -> None:
    """Refuse records that lack a part of their input.

    Embedded systems and recorded answers are shown nothing.

    Raises:
        DataError: If there is such a record.
    """
    if is_local(settings.model, data.tasks) and not settings.model.startswith((PROGRAM, PYTHON)):
        return
    for track in data.tracks:
        check = track.task.data.check_shown
        for sample in track.samples() if check is not None else ():
            assert check is not None
            check(sample)
