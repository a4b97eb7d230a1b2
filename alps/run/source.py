"""The records that a run is about: of the release layout, or of pools built from them."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from alps.data.hub import HubError, HubSplit
from alps.data.pools import PoolSource
from alps.data.release import Split, open_split, read_samples, track_hash
from alps.errors import UsageError
from alps.jsonl import dump
from alps.settings import RunSettings
from alps.tasks import Task, load_tracks
from alps.tasks.base import TaskOptions
from alps.tasks.registry import ALL


@dataclass(frozen=True)
class TrackData:
    """The records of one track.

    Attributes:
        samples: Streams them.
        n: How many they are.
        description: What the manifest says of them.
    """

    task: Task
    samples: Callable[[], Iterator[Any]]
    n: int
    description: dict[str, Any]


@dataclass(frozen=True)
class Data:
    """Everything that a run is about, checked from the first record to the last.

    `asked` is what `data=` said before a branch of the hub became the commit it was at; None where
    nobody asked.
    """

    tracks: tuple[TrackData, ...]
    description: dict[str, Any]
    asked: str | None = None

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tracks' tasks, in their order."""
        return tuple(track.task for track in self.tracks)

    @property
    def id_key(self) -> str:
        """What the aliases of ids are made with.

        The hashes of the data, which say nothing to who has not got them.
        """
        return " ".join(str(track.description["sha256"]) for track in self.tracks)

    @property
    def n(self) -> int:
        """How many records there are."""
        return sum(track.n for track in self.tracks)


def options_of(settings: RunSettings) -> TaskOptions:
    """Return what the settings choose among the tracks of their tasks."""
    return TaskOptions(
        distractors=settings.distractors,
        ability=settings.ability,
        condition=settings.condition,
        scoring=settings.scoring,
        window=settings.window,
        prompt=settings.prompt,
    )


def open_data(settings: RunSettings) -> Data:
    """Find the data and read them once, so that a bad row is named before anything is paid for.

    With `task=all`, and with pools of every size, what the data can't give is left out and named in
    the description; so are the tracks that `scoring` is not defined for.

    Raises:
        UsageError: If the data, the split or a track is not there, or a setting means nothing to
            any of the tasks.
        DataError: If a row can't be read.
    """
    options = options_of(settings)
    tasks = load_tracks(settings.task, options)
    split = open_split(settings.data, settings.split)
    source = PoolSource(split, seed=settings.seed) if isinstance(split, Split) else None
    tracks, left_out = [], {}
    for task in (
        load_tracks(settings.task, replace(options, scoring="alps"))
        if options.scoring != "alps"
        else ()
    ):
        if task.track not in (scored.track for scored in tasks):
            left_out[task.track] = f"scoring={options.scoring} is not defined for {task.name}"
    for task in tasks:
        lenient = settings.task == ALL or (
            settings.distractors == ALL and task.pool_size is not None
        )
        try:
            tracks.append(_open_track(settings, task, split, source))
        except UsageError as error:
            if not lenient or isinstance(
                error, HubError
            ):  # what was not fetched may well be in the data
                raise
            left_out[task.track] = str(error)
    if not tracks:
        raise UsageError(next(iter(left_out.values())))
    described = {track.task.track: track.description for track in tracks}
    description: dict[str, Any] = {"split": split.name, "tracks": described}
    if left_out:
        description["left_out"] = left_out
    if isinstance(split, HubSplit):
        description["commit"] = split.commit
    return Data(tuple(tracks), description)


def _open_track(
    settings: RunSettings, task: Task, split: Split | HubSplit, source: PoolSource | None
) -> TrackData:
    if (
        task.pool_size is not None
        and source is not None
        and isinstance(split, Split)
        and not split.has(task.place)
    ):
        return _built_pools(task, source, task.pool_size, settings.limit)
    folder = split.track(task.place)

    def samples() -> Iterator[Any]:
        return islice(read_samples(folder, task.read_sample), settings.limit)

    n = sum(1 for _ in samples())
    return TrackData(task, samples, n, {"n": n, "sha256": track_hash(folder)})


def _built_pools(task: Task, source: PoolSource, size: int, limit: int | None) -> TrackData:
    """Build the pools as they are needed; only their hash is kept."""

    def samples() -> Iterator[Any]:
        return (task.read_sample(row, gold) for row, gold in islice(source.rows(size), limit))

    digest, n = hashlib.sha256(), 0
    for row, gold in islice(source.rows(size), limit):
        digest.update(dump(row) + dump(gold or {}))
        n += 1
    built = {"seed": source.seed, "generated": round(source.generated_share(size), 4)}
    return TrackData(task, samples, n, {"n": n, "sha256": digest.hexdigest(), "pools": built})
