"""Records and gold of tracks: the package's own samples, and the data a submission is held against.

Data are known by their hash. Of data that are not the package's, the site shows figures alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from alps.data.pools import PoolSource
from alps.data.release import Split, open_split
from alps.errors import AlpsError
from alps.leaderboard.submission import SAMPLES, RunCard, Track
from alps.parsing import parse_settings
from alps.run.source import Data, TrackData, open_data, options_of
from alps.settings import RunSettings
from alps.tasks import Task, all_tracks, load_tracks


@dataclass(frozen=True)
class SampleTrack:
    """A track with all its samples in memory, by id, in their order."""

    task: Task
    sha256: str
    samples: Mapping[str, Any]

    @property
    def sessions(self) -> dict[str, str]:
        """The session of every sample."""
        return {name: sample.session_id for name, sample in self.samples.items()}


@dataclass(frozen=True)
class GoldTrack(SampleTrack):
    """A track of any data that a submission is held against, under the conditions of its run."""

    data: Data


# Pages and checks ask for a track again with every submission on it.
@lru_cache(maxsize=64)
def own_track(name: str, seed: int = 0) -> SampleTrack | None:
    """Return a track of the package's own data; None where there is none by this name.

    Args:
        name: The track.
        seed: What pools are drawn by.
    """
    task, split = all_tracks().get(name), open_split(SAMPLES, None)
    assert isinstance(split, Split)
    if task is None or not (task.pool_size or split.has(task.place)):
        return None
    place = _pools(split, seed) if task.pool_size else split.track(task.place)
    return SampleTrack(*_read(TrackData(task, place)))


def _read(track: TrackData) -> tuple[Task, str, dict[str, Any]]:
    samples = {sample.benchmark_id: sample for sample in track.samples()}
    return track.task, str(track.description["sha256"]), samples


def known_track(name: str, sha256: str, seed: int = 0) -> SampleTrack | None:
    """Return the package's own track if its data have this hash, with pools drawn by `seed`."""
    pools = name in all_tracks() and all_tracks()[name].pool_size
    track = own_track(name, seed) if seed and pools else own_track(name)
    return track if track is not None and track.sha256 == sha256 else None


@lru_cache(maxsize=4)
def _pools(split: Split, seed: int) -> PoolSource:
    return PoolSource(split, seed=seed)


def task_of(name: str, track: Track) -> Task:
    """Return the task of a track, under the conditions that its card gives.

    Raises:
        AlpsError: If there is no such track under them.
    """
    settings = _settings_of(name, track, data=SAMPLES, split=None, seed=0)
    return load_tracks(settings.task, options_of(settings))[0]


def open_gold(name: str, track: Track, run: RunCard, *, data: str, split: str | None) -> GoldTrack:
    """Read the records of a track, under its conditions and with the pools of its run.

    `data` is what `data=` takes, and never a word of the submission itself.

    Raises:
        AlpsError: If they are not there, or can't be read.
    """
    seed = run.settings.get("seed", 0)
    opened = open_data(_settings_of(name, track, data=data, split=split, seed=seed))
    return GoldTrack(*_read(opened.tracks[0]), opened)


def data_for(run: RunCard, data: str | None) -> str | None:
    """Return `data`, else the samples where the run names them, else None."""
    return data if data is not None else SAMPLES if run.data.name == SAMPLES else None


def _settings_of(
    name: str, track: Track, *, data: str, split: str | None, seed: int
) -> RunSettings:
    # Any other word would be a setting of this run, as `data`, chosen by a stranger.
    if unknown := set(track.conditions) - {"condition", "window", "prompt", "scoring"}:
        raise AlpsError(f"conditions: unknown ones: {', '.join(sorted(unknown))}")
    # Settings need a model; none is asked here.
    values: dict[str, Any] = {"task": track.task, "model": "rules", "data": data}
    values |= {"split": split, "seed": seed, **all_tracks()[name].selects}
    return parse_settings({**values, **track.conditions}, RunSettings)
