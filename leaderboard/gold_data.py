"""Records and gold of tracks: the package's own samples, and the data a submission is held against.

Data are known by their hash. Of data that are not the package's, the site shows figures alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from alps.data.pools import PoolSource
from alps.data.release import Split, open_split
from alps.errors import AlpsError, UsageError
from alps.leaderboard.submission import SAMPLES, PublishedTrack, RunCard
from alps.run.source import Pools, RunData, TrackData, open_data, options_of
from alps.settings import RunSettings, parse_settings
from alps.tasks import Task, board_tracks, load_tracks
from alps.tasks.base import DEFAULTS, TaskOptions
from alps.tasks.registry import keys_by_task


@dataclass(frozen=True)
class SampleTrack:
    """A track with all its samples in memory, by id, in their order."""

    task: Task
    sha256: str
    samples: Mapping[str, Any]

    @cached_property
    def sessions(self) -> dict[str, str]:
        """The session of every sample."""
        return {name: sample.session_id for name, sample in self.samples.items()}


@dataclass(frozen=True)
class GoldTrack(SampleTrack):
    """A track of any data that a submission is held against, under the conditions of its run."""

    data: RunData


# Pages and checks ask for a track again with every submission on it.
@lru_cache(maxsize=64)
def own_track(name: str, seed: int = 0, options: TaskOptions = DEFAULTS) -> SampleTrack | None:
    """Return a track of the package's own data; None where there is none by this name.

    Pools are drawn by `seed`; `options` choose among the samples of a task with files of its own.
    """
    task, split = board_tracks().get(name), open_split(SAMPLES, None)
    assert isinstance(split, Split)
    if task is not None and task.data.open_records is not None:
        try:
            return SampleTrack(*_read(TrackData(task, task.data.open_records(SAMPLES, options))))
        # Samples that are generated once need a folder to be kept in.
        except UsageError:
            return None
    if task is None or not (task.data.pool_size or split.has(task.place)):
        return None
    place = _pools(split, seed) if task.data.pool_size else split.track(task.place)
    return SampleTrack(*_read(TrackData(task, place)))


def _read(track: TrackData) -> tuple[Task, str, dict[str, Any]]:
    samples = {sample.benchmark_id: sample for sample in track.samples()}
    return track.task, str(track.description["sha256"]), samples


def known_track(
    name: str, sha256: str, seed: int = 0, conditions: Mapping[str, Any] = MappingProxyType({})
) -> SampleTrack | None:
    """Return the package's own track if its data have this hash.

    Pools are drawn by `seed`; `conditions` are those of a card, which may choose among samples.
    """
    # Samples that another seed makes of the same data are not kept.
    if name not in board_tracks() or conditions.get("seed"):
        return None
    task = board_tracks()[name]
    if task.data.open_records is not None and conditions:
        try:
            options = options_of(_settings_of(name, conditions))
        except AlpsError:
            return None
        track = own_track(name, 0, options)
    else:
        track = own_track(name, seed) if seed and task.data.pool_size else own_track(name)
    return track if track is not None and track.sha256 == sha256 else None


@lru_cache(maxsize=4)
def _pools(split: Split, seed: int) -> PoolSource:
    return PoolSource(split, seed=seed)


def task_of(name: str, conditions: Mapping[str, Any]) -> Task:
    """Return the task of a track, under the conditions that its card gives.

    Raises:
        AlpsError: If there is no such track under them.
    """
    settings = _settings_of(name, conditions)
    return load_tracks(settings.task, options_of(settings))[0]


def task_under(name: str, conditions: Mapping[str, Any]) -> Task:
    """Return the task of a track under the conditions of a board; as usual where they are none."""
    try:
        return task_of(name, conditions)
    except AlpsError:
        return board_tracks()[name]


def needs_reader(task: Task) -> bool:
    """Tell whether what a memory finds is read by a reader, and is not itself the answer."""
    return task.by_memory.recall is not None and task.by_memory.answers is None


def open_gold(
    name: str,
    track: PublishedTrack,
    run: RunCard,
    *,
    data: str,
    split: str | None,
    pools: Pools,
) -> GoldTrack:
    """Read the records of a track, under its conditions and with the pools of its run.

    `data` is what `data=` takes, and never a word of the submission itself; `pools` are those that
    were drawn for its other tracks.

    Raises:
        AlpsError: If they are not there, or can't be read.
    """
    seed = run.settings.get("seed", 0)
    settings = _settings_of(name, track.conditions, data=data, split=split, seed=seed)
    opened = open_data(settings, pools)
    return GoldTrack(*_read(opened.tracks[0]), opened)


def data_for(run: RunCard, data: str | None) -> str | None:
    """Return `data`, else the samples where the run names them, else None."""
    return data if data is not None else SAMPLES if run.data.name == SAMPLES else None


def _settings_of(
    name: str,
    conditions: Mapping[str, Any],
    *,
    data: str = SAMPLES,
    split: str | None = None,
    seed: int = 0,
) -> RunSettings:
    task = board_tracks()[name]
    # Any other word would be a setting of this run, as `data`, chosen by a stranger.
    known = {field.name for field in fields(TaskOptions)} - set(task.selects)
    known |= {key for key in keys_by_task()[task.name] if key not in task.selects}
    if unknown := set(conditions) - known:
        raise AlpsError(f"unknown conditions: {', '.join(sorted(unknown))}")
    # Settings need a model; none is asked here.
    values: dict[str, Any] = {"task": task.name, "model": "rules", "data": data}
    values |= {"split": split, "seed": seed, **task.selects}
    return parse_settings({**values, **conditions}, RunSettings)
