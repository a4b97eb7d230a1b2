"""A run folder opened for reading: its manifest, its summary, its journals and its samples.

Of the rows of a finished journal, only the offsets are in memory.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pydantic import ValidationError

from alps.data.hub import as_read, label
from alps.data.release import Split, open_split
from alps.errors import AlpsError, CodeNotImportedError, RunFolderError, UsageError, closest, shown
from alps.extension import has_command
from alps.folders import same_file
from alps.jsonl import Row, parse_json, scan
from alps.rows import Manifest, Summary, TrackRow, TrackSummary
from alps.run.source import TrackData, options_of, refuse_lacking
from alps.tasks import Metric, Task, load_tracks
from alps.tasks.registry import not_importable, stand_in

MANIFEST, SUMMARY = "manifest.json", "summary.json"
PREDICTIONS = "predictions.jsonl"
RUNS = Path("runs")

_IN_SUMMARY = ("model", "judge", "judge_fingerprint", "comparable", "tracks", "calls")


class CalibrationFolder(UsageError):
    """A calibration folder was given instead of a run."""


class AnswerKey(NamedTuple):
    """One answer of a run: its track, its record, and the number of the repeat from 0."""

    track: str
    id: str
    repeat: int = 0

    def __str__(self) -> str:
        return f"{self.id}#{self.repeat + 1}" if self.repeat else self.id


@dataclass(frozen=True)
class RunFolder:
    """One run folder; `summary_row` is None while the run is not finished."""

    folder: Path
    manifest: Manifest
    summary_row: Row | None

    @cached_property
    def summary(self) -> Summary | None:
        """What the run found; None while it is not finished.

        Raises:
            RunFolderError: If `summary.json` is not of a run of this alps.
        """
        # Read where it is needed: one record can be shown without it.
        if self.summary_row is None:
            return None
        try:
            return Summary.model_validate(self.summary_row)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            *path, name = map(str, first["loc"])
            inside = f" ({'.'.join(path)})" if path else ""
            fault = f"'{name}'{inside}: {first['msg']}"
            if first["type"] == "missing":
                fault = f"{SUMMARY} lacks '{name}'; to write it, repeat the same alps run"
            what = f"{self.folder}: not a run of this alps version"
            raise RunFolderError(f"{what}: {fault}") from error

    @property
    def finished(self) -> Summary:
        """What the run found.

        Raises:
            UsageError: If it is not finished.
            RunFolderError: If `summary.json` is not of a run of this alps.
        """
        if self.summary is None:
            raise UsageError(f"{self.folder}: not finished; to finish it, repeat the same alps run")
        return self.summary

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name

    @property
    def model(self) -> str:
        """What was evaluated."""
        return str(self.manifest.settings.get("model", "?"))

    @property
    def judge(self) -> str:
        """Who judged."""
        return str(self.manifest.settings.get("judge", "?"))

    @property
    def data(self) -> str:
        """The data set and its split, in words."""
        given = str(self.manifest.settings.get("data", "?"))
        return f"{label(given)} {self.manifest.data.split}".strip()

    @property
    def tracks(self) -> dict[str, TrackRow]:
        """The tracks of the run, with the sizes and hashes of their data."""
        return self.manifest.data.tracks

    @property
    def scored_tracks(self) -> list[str]:
        """The tracks that the run has scores on."""
        return list(self.summary.tracks) if self.summary is not None else []

    def summary_of(self, track: str) -> TrackSummary:
        """Return the summary of a track of a finished run."""
        return self.finished.tracks[track]

    def judge_fingerprint(self, track: str) -> str:
        """Return the fingerprint of the judge on a track of a finished run."""
        return self.summary_of(track).judge_fingerprint or self.finished.judge_fingerprint

    @property
    def repeats(self) -> int:
        """How often each record is answered."""
        value = self.manifest.settings.get("repeats") or 1
        if not isinstance(value, int):
            what = f"expected a whole number, got {shown(value)}"
            raise RunFolderError(f"{self.folder / MANIFEST}: settings.repeats: {what}")
        return value

    @property
    def total(self) -> int:
        """How many answers were asked for."""
        return self.repeats * sum(track.n for track in self.tracks.values())

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The task of each track of the run, in the order of the run.

        A task of the user's own that the command line does not name is not imported: a stand-in
        shows what its summary records.

        Raises:
            RunFolderError: If a task is not installed, or its settings choose no such track.
        """
        names = str(self.manifest.settings.get("task"))
        closed = not_importable(names)
        ours = ",".join(name for name in names.split(",") if name not in closed)
        known: dict[str, Task] = {}
        if ours:
            refuse_lacking(self.folder, self.manifest.settings)
            options = options_of(self.manifest.settings)
            known = {task.track: task for task in load_tracks(ours, options)}
        recorded = (self.summary_row or {}).get("tracks", {})
        tasks = {}
        for track, about in self.tracks.items():
            if track in known:
                tasks[track] = known[track].under(about.conditions)
            elif closed:
                tasks[track] = stand_in(",".join(closed), track, recorded.get(track))
            else:
                where = self.folder / MANIFEST
                raise RunFolderError(f"{where}: its settings do not include the task '{track}'")
        return tasks

    @property
    def task_names(self) -> list[str]:
        """The tasks of the run, each once."""
        return list(dict.fromkeys(task.name for task in self.tasks.values()))

    def lead(self, track: str) -> Metric:
        """Return the headline metric of a track, or what could be scored instead."""
        if self.summary is None:
            return self.tasks[track].headline
        return lead_of(self.summary.tracks[track], self.tasks[track].metrics)

    def rows(self, stage: str, *, ids: Collection[str] | None = None) -> dict[AnswerKey, Row]:
        """Return the last readable row of each answer in the journal `stage`, or of some `ids`.

        Raises:
            RunFolderError: If all are read, and a finished run has lost some.
        """
        rows = read_rows(self.journal(stage), track=self.unnamed, ids=ids)
        if ids is None:
            self._refuse_lost(stage, len(rows))
        return rows

    @contextmanager
    def stored(self, stage: str) -> Iterator["StoredRows"]:
        """Open the journal `stage` for as long as its rows are read.

        Raises:
            RunFolderError: If a finished run has lost rows of it.
        """
        with stored_rows(self.journal(stage), track=self.unnamed) as rows:
            self._refuse_lost(stage, len(rows))
            yield rows

    def _refuse_lost(self, stage: str, rows: int) -> None:
        # What is not there would be left out of every figure, and nobody would see it.
        tracks = () if self.summary is None else self.summary.tracks.values()
        failed = sum(sum(one.failed_predictions.values()) for one in tracks)
        scored = sum(one.scored for one in tracks) - failed
        asked = scored if stage == "verdicts" else sum(one.n for one in tracks)
        if rows < asked:
            lost = f"{asked - rows:,} of {asked:,} rows are lost"
            again = "to write them again, repeat the same alps run"
            raise RunFolderError(f"{self.journal(stage)}: {lost}; {again}")

    def journal(self, stage: str) -> Path:
        """Return the file of the rows of a stage."""
        return self.folder / f"{stage}.jsonl"

    @property
    def unnamed(self) -> str:
        """The track of rows that name none: early runs had one, and did not write it."""
        return next(iter(self.tracks), "")


def read_rows(
    path: Path, *, track: str = "", ids: Collection[str] | None = None
) -> dict[AnswerKey, Row]:
    """Return the last readable row of each answer in a journal.

    Args:
        path: The journal.
        track: That of rows without one.
        ids: The records to keep, all if None.
    """
    rows: dict[AnswerKey, Row] = {}
    for _, _, row in scan(path):
        key = None if row is None else key_of(row, track)
        if row is not None and key is not None and (ids is None or key.id in ids):
            rows[key] = row
    return rows


def key_of(row: Row, track: str) -> AnswerKey | None:
    """Return which answer a row is of, on `track` where it names none; None where on no record."""
    name, repeat = row.get("benchmark_id"), row.get("repeat", 0)
    if not isinstance(name, str) or not isinstance(repeat, int):
        return None
    return AnswerKey(sys.intern(str(row.get("track", track))), name, repeat)


def lead_of(track: TrackSummary, metrics: Sequence[Metric]) -> Metric:
    """Return the headline metric of a track, or what could be scored instead."""
    shown = [metric for metric in metrics if metric.name in track.scores]
    headline = next((metric for metric in shown if metric.headline), shown[0])
    scored = [metric for metric in shown if track.scores[metric.name].unscored is None]
    return headline if headline in scored or not scored else scored[0]


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a run; data of the hub are named by the commit that they were read at.

    Raises:
        UsageError: If there is none.
        RunFolderError: If it can't be read.
    """
    try:
        return Manifest.model_validate(manifest_row(folder))
    except ValidationError as error:
        raise _no_manifest(folder) from error


def manifest_row(folder: Path) -> Row:
    """Read the manifest of a run as JSON, with all that a later version may have put there.

    Raises:
        UsageError: If there is none.
        RunFolderError: If it can't be read.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(f"{folder}: no run here ({MANIFEST} is missing)")
    row = _read_json(path)
    if not isinstance(row, dict):
        raise _no_manifest(folder)
    if not isinstance(row.get("settings"), dict) or not isinstance(row.get("data"), dict):
        raise _no_manifest(folder)
    if isinstance(data := row["settings"].get("data"), str):
        row["settings"]["data"] = as_read(data, row["data"].get("commit"))
    return row


def _no_manifest(folder: Path) -> RunFolderError:
    mend = "choose another out=, or remove the folder"
    return RunFolderError(f"{folder / MANIFEST}: not the manifest of a run; {mend}")


def _read_json(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        other = "repeating the run does not repair it; choose another out=, or remove the folder"
        again = other if path.name == MANIFEST else "to write it again, repeat the same alps run"
        raise RunFolderError(f"{path}: not JSON; {again}") from error
    except OSError as error:
        raise RunFolderError(f"{path}: {error.strerror or error}") from error


def refuse_same_names(folders: Sequence[Path]) -> None:
    """Refuse runs whose folders have the same name.

    Raises:
        UsageError: If two folders have one name, or a folder is there twice.
    """
    names: dict[str, Path] = {}
    for folder in folders:
        name = same_file(folder.resolve().name)
        if name in names:
            why = f"has the same name as {names[name]}; rename one of the folders"
            if folder.resolve() == names[name].resolve():
                why = "named twice"
            raise UsageError(f"{folder}: {why}")
        names[name] = folder


def open_run(folder: Path) -> RunFolder:
    """Read the manifest of a run, and its summary where it is finished.

    Raises:
        UsageError: If there is no run in `folder`.
        RunFolderError: If its files can't be read.
    """
    manifest, path = read_manifest(folder), folder / SUMMARY
    if _is_of_calibration(manifest.settings):
        raise _no_run(folder)
    if not path.is_file():
        return RunFolder(folder, manifest, None)
    row = _read_json(path)
    if missing := [name for name in _IN_SUMMARY if not isinstance(row, dict) or name not in row]:
        again = "to write it again, repeat the same alps run"
        raise RunFolderError(f"{path}: '{missing[0]}' is missing; {again}")
    return RunFolder(folder, manifest, row)


def find_run(word: str) -> Path:
    """Return the run folder that `word` names: a path, or the name of a folder in `runs/`.

    Raises:
        UsageError: If there is none; names the closest one in `runs/`.
    """
    listed = f" (alps ls lists the runs in {RUNS}/)" if has_command("ls") else ""
    if not word.strip():
        raise UsageError(f"name a run, not ''{listed}")
    path = Path(word).expanduser()
    for folder in (path, RUNS / word):
        if (folder / MANIFEST).is_file():
            if _is_calibration(folder):
                raise _no_run(folder)
            return folder
    if path.is_dir():
        inside = sorted(manifest.parent for manifest in path.glob(f"*/{MANIFEST}"))
        first = next((folder for folder in inside if not _is_calibration(folder)), None)
        hint = f"; name a run in it, such as {first}" if first is not None else ""
        raise UsageError(f"{word}: no run here ({MANIFEST} is missing){hint}")
    there = [manifest.parent.name for manifest in RUNS.glob(f"*/{MANIFEST}")]
    raise UsageError(f"{word}: no such run folder{closest(path.name, there)}{listed}")


def _is_of_calibration(settings: Row) -> bool:
    return "labels" in settings and "task" not in settings


def _no_run(folder: Path) -> CalibrationFolder:
    return CalibrationFolder(
        f"{folder}: a calibration, not a run; see {folder / 'calibration.html'}"
    )


def _is_calibration(folder: Path) -> bool:
    try:
        return _is_of_calibration(manifest_row(folder)["settings"])
    except RunFolderError:
        return False


@dataclass(frozen=True)
class Samples:
    """Samples of one track by their ids; `problem` says in one line why there are none."""

    by_id: dict[str, Any]
    problem: str | None = None


def read_wanted(
    run: RunFolder,
    track: str,
    wanted: Collection[str],
    *,
    of: Callable[[Any], Any] = lambda x: x,
    task: Task | None = None,
) -> Samples:
    """Read what `of` makes of samples, as `task` reads them if given; none if the data changed."""
    if not wanted:
        return Samples({})
    try:
        data = track_data(run, track)
        data = data if task is None else replace(data, task=task)
        samples = data.find(wanted, run.tracks[track].sha256, of=of)
    except CodeNotImportedError as error:
        return Samples({}, f"dialogues and gold are not shown: {error}")
    # Data may have become anything since the run: its records are still shown, without dialogues.
    except (AlpsError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return Samples({}, f"data not readable, so dialogues and gold are not shown: {error}")
    if samples is not None:
        return Samples(samples)
    if run.tracks[track].pools is not None:
        return Samples({}, "alps now builds pools differently, so this run's pools are not shown")
    changed = "has changed since this run, so dialogues and gold are not shown"
    return Samples({}, f"{data.place} {changed}")


def track_data(run: RunFolder, track: str) -> TrackData:
    """Find the records of a track again, where the settings of the run say that they lie."""
    settings, task = run.manifest.settings, run.tasks[track]
    if task.data.open_records is not None:
        records = task.data.open_records(settings["data"], options_of(settings))
        return TrackData(task, records, settings.get("limit"))
    split, limit = open_split(settings["data"], settings.get("split")), settings.get("limit")
    pools = run.tracks[track].pools
    if pools is None:
        return TrackData(task, split.track(task.place), limit)
    if not isinstance(split, Split):
        why = "alps builds pools only from a data folder, but this run used data=hub"
        raise UsageError(f"{run.folder}: {why}")
    from alps.data.pools import PoolSource

    return TrackData(task, PoolSource(split, seed=pools.seed), limit)


Stored = Mapping[str, Any]


class StoredRows(Mapping[AnswerKey, Row]):
    """The last readable row of each answer in a journal, in the order of their first rows.

    Each is read anew whenever it is asked for: a row of 100,000 takes a few hundred bytes here, and
    ten times as many as a dictionary of dictionaries.

    Args:
        file: The journal; None where there is none.
        offsets: Where each row begins.
    """

    def __init__(self, file: BinaryIO | None, offsets: Mapping[AnswerKey, int]) -> None:
        self._file, self._offsets = file, offsets

    def __getitem__(self, key: AnswerKey) -> Row:
        offset = self._offsets[key]
        assert self._file is not None
        self._file.seek(offset)
        row: Row = parse_json(self._file.readline())
        return row

    def __iter__(self) -> Iterator[AnswerKey]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def on(self, track: str) -> "StoredRows":
        """Return the rows of one track."""
        own = {key: offset for key, offset in self._offsets.items() if key.track == track}
        return StoredRows(self._file, own)


@contextmanager
def stored_rows(path: Path, *, track: str = "") -> Iterator[StoredRows]:
    """Open a journal for as long as its rows are read; `track` is that of rows without one."""
    if not path.exists():
        yield StoredRows(None, {})
        return
    offsets: dict[AnswerKey, int] = {}
    for offset, _, row in scan(path):
        key = None if row is None else key_of(row, track)
        if key is not None:
            offsets[key] = offset
    with path.open("rb") as file:
        yield StoredRows(file, offsets)


def state_of(score: Stored | None, prediction: Stored | None) -> str:
    """Return what became of a record in one word.

    `ok`, `repaired`, a kind of failed prediction, `judge:KIND` for a failed judgement, `unrated`
    for an answer that its judge could not rate by its rubric, or `unfinished`.
    """
    if score is None:
        return "unfinished"
    if score.get("stage") == "judge":
        return f"judge:{score['outcome']}"
    if score.get("stage") == "generate":
        return str(score["outcome"])
    # A judge that rates nothing leaves the name of the rubric and no score.
    if score.get("rubric") and not score.get("scores"):
        return "unrated"
    return "repaired" if prediction is not None and prediction.get("repaired") else "ok"
