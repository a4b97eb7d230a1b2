"""The package's own data as the site shows it: what is public here, record by record, and which
sessions there are.

Data are known by their hash. Of data that are not the package's, nothing but figures is shown.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from alps.data.pools import SIZES, PoolSource
from alps.data.release import Split, open_split, read_track, track_hash
from alps.jsonl import dump
from alps.tasks import Task, TaskOptions, load_tracks


@dataclass(frozen=True)
class Track:
    """A track of the package's own data: its samples by id, in their order."""

    task: Task
    sha256: str
    samples: Mapping[str, Any]

    @property
    def sessions(self) -> dict[str, str]:
        """The session of every sample."""
        return {name: sample.session_id for name, sample in self.samples.items()}


@cache
def tasks() -> dict[str, Task]:
    """Return every track that there is, by its name."""
    return {task.track: task for task in load_tracks("all", TaskOptions(distractors="all"))}


@lru_cache(maxsize=64)
def own_track(name: str, seed: int = 0) -> Track | None:
    """Return a track of the package's own data; None where there is none by this name.

    Args:
        name: The track.
        seed: What pools are drawn by.
    """
    task, split = tasks().get(name), open_split("samples", None)
    assert isinstance(split, Split)
    if task is None:
        return None
    if task.pool_size:
        return _from_pools(task, split, seed)
    if not split.has(task.place):
        return None
    folder = split.track(task.place)
    rows = ((pair.input, pair.gold) for pair in read_track(folder))
    return Track(task, track_hash(folder), _samples(task, rows))


def known_track(name: str, sha256: str, seed: int = 0) -> Track | None:
    """Return the package's own track if its data are those of `sha256`, with pools drawn by `seed`."""
    track = own_track(name, seed) if seed and name.startswith("task3") else own_track(name)
    return track if track is not None and track.sha256 == sha256 else None


def _from_pools(task: Task, split: Split, seed: int) -> Track:
    digest, rows = hashlib.sha256(), []
    for row, gold in _pools(split, seed).rows(task.pool_size or SIZES[0]):
        digest.update(dump(row) + dump(gold or {}))
        rows.append((row, gold))
    return Track(task, digest.hexdigest(), _samples(task, rows))


@lru_cache(maxsize=4)
def _pools(split: Split, seed: int) -> PoolSource:
    return PoolSource(split, seed=seed)


def _samples(task: Task, rows: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row, gold in rows:
        made = task.read_sample(row, gold)
        for sample in made if isinstance(made, list) else [made]:
            found[sample.benchmark_id] = sample
    return found
