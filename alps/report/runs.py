"""Finished and unfinished run folders, and the samples behind them, read for reports."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from alps.data.hub import HubSplit, as_read, label
from alps.data.pools import PoolSource
from alps.data.release import Split, open_split, read_samples, read_track, track_hash
from alps.errors import AlpsError, CodeNotImportedError, RunFolderError, UsageError, closest
from alps.jsonl import Row, dump, parse_json, scan
from alps.report.tables import lead_of
from alps.tasks import Metric, Task, TaskOptions, load_tracks
from alps.tasks.registry import not_importable, stand_in

MANIFEST, SUMMARY = "manifest.json", "summary.json"
RUNS = Path("runs")

MEANINGS = {
    "transport": "no response (API error): network, server or rate limit",
    "budget": "not asked: what the run may spend was spent",
    "refused": "the model, or its provider, declined to answer",
    "too_long": "longer than the model, or its server, takes",
    "truncated": "cut off before anything complete could be read",
    "unparsable": "no JSON that can be read, even after repairs",
    "invalid": "JSON, but not in the form that was asked for",
    "empty": "no text at all, which is not the same as an empty list",
    "no_gold": "the reference is withheld",
    "unrated": "answered, and the judge rates no answers by a rubric",
}
"""What each kind of failure means, in words."""

_IN_MANIFEST = ("settings", "data", "judge")
_IN_SUMMARY = ("model", "judge", "judge_fingerprint", "comparable", "tracks", "calls")


class Calibration(UsageError):
    """A folder that `alps calibrate` wrote stands where a run was meant."""


class Key(NamedTuple):
    """One answer of a run: its track, its record, and the number of the repeat from 0."""

    track: str
    id: str
    repeat: int = 0

    def __str__(self) -> str:
        return f"{self.id}#{self.repeat + 1}" if self.repeat else self.id


@dataclass(frozen=True)
class Run:
    """One run folder; `summary` is None while the run is not finished."""

    folder: Path
    manifest: Row
    summary: Row | None

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name

    @property
    def model(self) -> str:
        """What was evaluated."""
        return str(self.manifest["settings"].get("model", "?"))

    @property
    def judge(self) -> str:
        """Who judged."""
        return str(self.manifest["settings"].get("judge", "?"))

    @property
    def data(self) -> str:
        """The data set and its split, in words."""
        given = str(self.manifest["settings"].get("data", "?"))
        return f"{label(given)} {self.manifest['data'].get('split', '')}".strip()

    @property
    def tracks(self) -> dict[str, Row]:
        """The tracks of the run, with `n` and `sha256` of their data."""
        tracks: dict[str, Row] = self.manifest["data"].get("tracks", {})
        return tracks

    @property
    def scored_tracks(self) -> list[str]:
        """The tracks that the run has scores on."""
        return list(self.summary["tracks"]) if self.summary is not None else []

    def summary_of(self, track: str) -> Row:
        """Return the summary of a track of a finished run."""
        assert self.summary is not None
        summary: Row = self.summary["tracks"][track]
        return summary

    def judge_fingerprint(self, track: str) -> str:
        """Return the fingerprint of the judge on a track of a finished run."""
        assert self.summary is not None
        own = self.summary_of(track).get("judge_fingerprint")
        return str(own or self.summary["judge_fingerprint"])

    @property
    def repeats(self) -> int:
        """How often each record is answered."""
        return int(self.manifest["settings"].get("repeats") or 1)

    @property
    def total(self) -> int:
        """How many answers were asked for."""
        return self.repeats * sum(int(track["n"]) for track in self.tracks.values())

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The task of each track of the run, in the order of the run.

        A task of the user's own that the command line does not name is not imported: a stand-in
        shows what its summary records.

        Raises:
            UsageError: If the manifest names a task that is not known.
            RunFolderError: If it names a track that its settings do not choose.
        """
        settings = self.manifest["settings"]
        names = str(settings.get("task"))
        closed = not_importable(names)
        ours = ",".join(name for name in names.split(",") if name not in closed)
        known = (
            {task.track: task for task in load_tracks(ours, options_of(settings))} if ours else {}
        )
        if closed:
            known |= {
                track: self._stand_in(closed, track) for track in self.tracks if track not in known
            }
        if lost := next((track for track in self.tracks if track not in known), None):
            raise RunFolderError(f"{self.folder / MANIFEST}: its settings give no track '{lost}'")
        return {track: known[track] for track in self.tracks}

    def _stand_in(self, names: Sequence[str], track: str) -> Task:
        tracks = self.summary["tracks"] if self.summary is not None else {}
        return stand_in(",".join(names), track, tracks.get(track))

    @property
    def task_names(self) -> list[str]:
        """The tasks of the run, each once."""
        return list(dict.fromkeys(task.name for task in self.tasks.values()))

    def lead(self, track: str) -> Metric:
        """Return the headline metric of a track, or what could be scored instead."""
        metrics = self.tasks[track].metrics
        if self.summary is None:
            return self.tasks[track].headline
        found = self.summary["tracks"][track]
        return lead_of(found, [metric for metric in metrics if metric.name in found["scores"]])

    def rows(self, stage: str) -> dict[Key, Row]:
        """Return the last readable row of each answer in the journal `stage`."""
        rows = (row for _, _, row in scan(self.folder / f"{stage}.jsonl") if row is not None)
        only = next(iter(self.tracks), "")
        return {
            Key(row.get("track", only), row["benchmark_id"], row.get("repeat", 0)): row
            for row in rows
            if "benchmark_id" in row
        }


def options_of(settings: Mapping[str, Any]) -> TaskOptions:
    """Return what the settings in a manifest choose among tracks.

    What an older one does not say is the default.
    """
    given = {field.name: settings.get(field.name) for field in fields(TaskOptions)}
    return TaskOptions(**{name: value for name, value in given.items() if value is not None})


def open_run(folder: Path) -> Run:
    """Read the manifest of a run, and its summary where it is finished.

    Raises:
        UsageError: If there is no run in `folder`.
        RunFolderError: If its files can't be read.
    """
    if not (folder / MANIFEST).is_file():
        raise UsageError(f"{folder}: no run here ({MANIFEST} is missing)")
    summary = folder / SUMMARY
    manifest = _read_object(folder / MANIFEST, _IN_MANIFEST)
    if _is_of_calibration(manifest):
        raise _no_run(folder)
    return Run(
        folder=folder,
        manifest=manifest,
        summary=_read_object(summary, _IN_SUMMARY) if summary.is_file() else None,
    )


def find_run(word: str) -> Path:
    """Return the run folder that `word` names: a path, or the name of a folder in `runs/`.

    Raises:
        UsageError: If there is none; names the closest one in `runs/`.
    """
    if not word.strip():
        raise UsageError("a run is to be named, and '' names none (alps ls shows those in runs/)")
    for folder in (Path(word).expanduser(), RUNS / word):
        if (folder / MANIFEST).is_file():
            if _is_calibration(folder):
                raise _no_run(folder)
            return folder
    if Path(word).expanduser().is_dir():
        inside = sorted(path.parent for path in Path(word).expanduser().glob(f"*/{MANIFEST}"))
        first = next((folder for folder in inside if not _is_calibration(folder)), None)
        hint = f"; name one of those in it, such as {first}" if first is not None else ""
        raise UsageError(f"{word}: no run here ({MANIFEST} is missing){hint}")
    there = (
        [path.name for path in RUNS.iterdir() if (path / MANIFEST).is_file()]
        if RUNS.is_dir()
        else []
    )
    hint = f"{closest(Path(word).name, there)} (alps ls shows those in {RUNS}/)"
    raise UsageError(f"{word}: no such run folder{hint}")


def letter_of(place: int) -> str:
    """Return the letter by which one of several runs is named: A … Z, then AA, AB, ….

    Places count from 0.
    """
    return (letter_of(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)


def _is_of_calibration(manifest: Row) -> bool:
    """Tell whether a manifest is of a folder that `alps calibrate` wrote."""
    settings = manifest["settings"]
    return isinstance(settings, dict) and "labels" in settings and "task" not in settings


def _no_run(folder: Path) -> Calibration:
    return Calibration(
        f"{folder}: a calibration, no run; its page is {folder / 'calibration.html'}"
    )


def _is_calibration(folder: Path) -> bool:
    try:
        return _is_of_calibration(_read_object(folder / MANIFEST, _IN_MANIFEST))
    except RunFolderError:
        return False


def _read_object(path: Path, needed: Sequence[str]) -> Row:
    try:
        value = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunFolderError(
            f"{path}: not JSON; the same alps run again can't repair this, remove the folder"
        ) from error
    except OSError as error:
        raise RunFolderError(f"{path}: {error.strerror or error}") from error
    if missing := [name for name in needed if not isinstance(value, dict) or name not in value]:
        raise RunFolderError(f"{path}: not written by alps ('{missing[0]}' is missing)")
    row: Row = value
    return row


@dataclass(frozen=True)
class Samples:
    """Samples of one track by their ids; `problem` says in one line why there are none."""

    by_id: dict[str, Any]
    problem: str | None = None


def read_keys(run: Run) -> list[Key]:
    """Return the first answer to every known record of a run, in the order of the data."""
    if run.summary is None:
        try:
            return [Key(track, name) for track in run.tracks for name in _ids(run, track)]
        except (AlpsError, OSError, LookupError):
            pass
    answered = (*run.rows("scores"), *run.rows("predictions"))
    names = dict.fromkeys(Key(key.track, key.id) for key in answered)
    return sorted(
        names, key=lambda key: list(run.tracks).index(key.track) if key.track in run.tracks else 0
    )


def read_wanted(run: Run, track: str, wanted: Collection[str]) -> Samples:
    """Read the samples of `track` that are in `wanted`.

    None of them where the data are not those of the run.
    """
    if not wanted:
        return Samples({})
    try:
        if "pools" in run.tracks[track]:
            return _from_pools(run, track, wanted)
        return _from_files(run, track, wanted)
    except CodeNotImportedError as error:
        return Samples({}, f"dialogues and gold are not shown: {error}")
    except (AlpsError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return Samples(
            {}, f"dialogues and gold are not shown, the data was not found again: {error}"
        )


def _from_files(run: Run, track: str, wanted: Collection[str]) -> Samples:
    task = run.tasks[track]
    folder = _split(run).track(task.place)
    if track_hash(folder) != run.tracks[track].get("sha256"):
        return Samples(
            {}, f"{folder} has changed since this run: its dialogues and gold are not shown"
        )
    found: dict[str, Any] = {}
    for pair in read_track(folder):
        if pair.input["benchmark_id"] in wanted or "queries" in pair.input["input"]:
            found |= _wanted_of(task.read_sample(pair.input, pair.gold), wanted)
        if len(found) == len(wanted):
            break
    return Samples(found)


def _from_pools(run: Run, track: str, wanted: Collection[str]) -> Samples:
    """Build the pools of a run again; only all of them together show that they are the same."""
    task, then = run.tasks[track], run.tracks[track]
    source = _pool_source(run, track)
    digest = hashlib.sha256()
    rows: list[tuple[Row, Row | None]] = []
    for row, gold in islice(source.rows(task.pool_size or 0), _limit(run)):
        digest.update(dump(row) + dump(gold or {}))
        if row["benchmark_id"] in wanted:
            rows.append((row, gold))
    if digest.hexdigest() != then.get("sha256"):
        return Samples({}, "the pools are built differently than for this run: they are not shown")
    found: dict[str, Any] = {}
    for row, gold in rows:
        found |= _wanted_of(task.read_sample(row, gold), wanted)
    return Samples(found)


def _wanted_of(made: Any, wanted: Collection[str]) -> dict[str, Any]:
    """Keep what is wanted of what one row gave: a sample, or a list of samples."""
    samples = made if isinstance(made, list) else [made]
    return {sample.benchmark_id: sample for sample in samples if sample.benchmark_id in wanted}


def _ids(run: Run, track: str) -> Iterator[str]:
    if "pools" in run.tracks[track]:
        names = (query.benchmark_id for query in _pool_source(run, track).queries)
    else:
        task = run.tasks[track]
        names = (
            sample.benchmark_id
            for sample in read_samples(_split(run).track(task.place), task.read_sample)
        )
    return islice(names, _limit(run))


def _pool_source(run: Run, track: str) -> PoolSource:
    split = _split(run)
    if not isinstance(split, Split):
        raise UsageError(
            f"{run.folder}: pools are built from a folder of data, and this run names the hub"
        )
    return PoolSource(split, seed=int(run.tracks[track]["pools"]["seed"]))


def _split(run: Run) -> Split | HubSplit:
    settings = run.manifest["settings"]
    data = as_read(settings["data"], run.manifest["data"].get("commit"))
    return open_split(data, settings.get("split"))


def _limit(run: Run) -> int | None:
    limit: int | None = run.manifest["settings"].get("limit")
    return limit
