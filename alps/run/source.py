"""Records that a run is about: of the release layout, or of pools built from them.

A finished run finds its records again here, and whoever asks for them learns where they changed.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alps.data.hub import HubError, HubSplit, hub_name
from alps.data.release import Split, open_split, read_samples, read_track, track_hash
from alps.errors import RunFolderError, UsageError
from alps.extension import brought_tasks
from alps.jsonl import Row, dump
from alps.keys import largest_context
from alps.llm.secrets import redact
from alps.rows import Manifest
from alps.settings import RunSettings, in_current_words, parse_settings
from alps.tasks import Task, load_tracks
from alps.tasks.base import DEFAULTS, Records, TaskOptions, keeps_memories
from alps.tasks.registry import ALL, PYTHON, board_tasks

if TYPE_CHECKING:
    from alps.data.pools import PoolSource

Pools = dict[tuple[Split, int], "PoolSource"]
"""What builds the pools of data, by the split and the seed."""


@dataclass(frozen=True)
class TrackData:
    """The records of one track.

    Attributes:
        place: The folder that they lie in, what builds their pools, or the task's own records.
        limit: How many are read at most.
        known: Their description, where another process has read all of them for it.
    """

    task: Task
    place: "Path | PoolSource | Records"
    limit: int | None = None
    known: Row | None = None

    def samples(self, sessions: Collection[str] | None = None) -> Iterator[Any]:
        """Stream the samples; in the place of a pool of other `sessions`, which is not built, None.

        Raises:
            DataError: If a row can't be read.
        """
        if isinstance(self.place, Path):
            return islice(read_samples(self.place, self.task.read_sample), self.limit)
        if isinstance(self.place, Records):
            return islice(self.place.samples(), self.limit)
        return self._pooled(self.place, sessions)

    def named(self) -> Iterator[Any]:
        """Yield what has the id and the session of each record; no pool is built for it."""
        if isinstance(self.place, Path | Records):
            return self.samples()
        return iter(self.place.queries[: self.limit])

    def _pooled(self, source: "PoolSource", sessions: Collection[str] | None) -> Iterator[Any]:
        for query in source.queries[: self.limit]:
            own = sessions is None or query.session_id in sessions
            pool = source.pool(query, self.task.data.pool_size or 0) if own else None
            yield None if pool is None else self.task.read_sample(*pool)

    @property
    def n(self) -> int:
        """How many samples there are."""
        return int(self.description["n"])

    @cached_property
    def description(self) -> Row:
        """What the manifest says of them: all of them are read for it.

        Raises:
            DataError: If a row can't be read.
        """
        if self.known is not None:
            return self.known
        if isinstance(self.place, Path):
            n = sum(1 for _ in self.samples())
            return {"n": n, "sha256": track_hash(self.place), **self.task.data.described}
        if isinstance(self.place, Records):
            n = sum(1 for _ in self.samples())
            own = {"conditions": dict(self.place.conditions)} if self.place.conditions else {}
            return {"n": n, "sha256": self.place.sha256, **self.place.described, **own}
        digest, n = hashlib.sha256(), 0
        for row, gold in self._pools(self.place):
            digest.update(dump(row) + dump(gold))
            n += 1
        share = self.place.generated_share(self.task.data.pool_size or 0)
        built = {"seed": self.place.seed, "generated": round(share, 4)}
        return {"n": n, "sha256": digest.hexdigest(), "pools": built}

    def find(
        self, ids: Collection[str], sha256: str | None, *, of: Callable[[Any], Any] = lambda x: x
    ) -> dict[str, Any] | None:
        """Return the samples with these ids, or what `of` makes of each, which alone is kept.

        None where the data have another hash. No other sample is read: `alps show` would take
        seconds to show one of a large track.
        """
        if isinstance(self.place, Path):
            return self._find_in(self.place, ids, of) if track_hash(self.place) == sha256 else None
        if isinstance(self.place, Records):
            if self.place.sha256 != sha256:
                return None
            own = (sample for sample in self.samples() if sample.benchmark_id in ids)
            return {sample.benchmark_id: of(sample) for sample in own}
        # Only all pools together show that they are the same.
        digest, kept = hashlib.sha256(), []
        for row, gold in self._pools(self.place):
            digest.update(dump(row) + dump(gold))
            if row["benchmark_id"] in ids:
                kept.append((row, gold))
        if digest.hexdigest() != sha256:
            return None
        samples: dict[str, Any] = {}
        for row, gold in kept:
            samples |= self._read(row, gold, ids, of)
        return samples

    def _find_in(
        self, folder: Path, ids: Collection[str], of: Callable[[Any], Any]
    ) -> dict[str, Any]:
        samples: dict[str, Any] = {}
        rows = {name.rpartition(":")[0] for name in ids}
        for pair in read_track(folder):
            # A row of several queries is named after none of them; several samples of one row are
            # named after it.
            name = pair.input["benchmark_id"]
            if name in ids or name in rows or "queries" in pair.input["input"]:
                samples |= self._read(pair.input, pair.gold, ids, of)
            if len(samples) == len(ids):
                break
        return samples

    def _read(
        self, row: Row, gold: Row | None, ids: Collection[str], of: Callable[[Any], Any]
    ) -> dict[str, Any]:
        made = self.task.read_sample(row, gold)
        samples = made if isinstance(made, list) else [made]
        return {one.benchmark_id: of(one) for one in samples if one.benchmark_id in ids}

    def _pools(self, source: "PoolSource") -> Iterator[tuple[Row, Row]]:
        """Build the pools as they are needed; kept, the larger ones would fill the memory."""
        return islice(source.rows(self.task.data.pool_size or 0), self.limit)


@dataclass(frozen=True)
class RunData:
    """Everything that a run is about, checked from the first record to the last.

    Attributes:
        asked: What `data=` said before a branch of the hub became the commit it was at; None where
            nobody asked.
        sessions: Those that this run is of; None for all.
        part: How many records they have.
    """

    tracks: tuple[TrackData, ...]
    description: dict[str, Any]
    asked: str | None = None
    sessions: frozenset[str] | None = None
    part: int = 0

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tracks' tasks, in their order."""
        return tuple(track.task for track in self.tracks)

    @property
    def id_key(self) -> str:
        """What aliases of ids are made with: hashes, which tell nothing without the data."""
        return " ".join(str(track.description["sha256"]) for track in self.tracks)

    @property
    def n(self) -> int:
        """How many records the run is of."""
        return sum(track.n for track in self.tracks) if self.sessions is None else self.part

    def located(self) -> "RunData":
        """Return them so that they are found from any working folder, all read before."""
        tracks = [
            replace(one, place=_located(one.place), known=one.description) for one in self.tracks
        ]
        return replace(self, tracks=tuple(tracks))


def _located(place: "Path | PoolSource | Records") -> "Path | PoolSource | Records":
    if isinstance(place, Path):
        return place.absolute()
    return place if isinstance(place, Records) else place.located()


def refuse_lacking(folder: Path, settings: Mapping[str, Any], keys: Iterable[str] = ()) -> None:
    """Refuse a run that has a task, or one of the `keys`, of an extension that is not installed."""
    known = (*board_tasks(), ALL)
    names = [name for name in str(settings.get("task", ALL)).split(",") if name not in known]
    lacking = [f"task={name}, a task" for name in names if not name.startswith(PYTHON)]
    lacking += [f"{key}=, a key" for key in keys if key not in RunSettings.model_fields]
    if lacking:
        why = f"was made with {lacking[0]} of an extension that is not installed"
        raise RunFolderError(f"{folder} {why}; install it again")


def settings_of_run(folder: Path, settings: Mapping[str, Any], /, **given: Any) -> RunSettings:
    """Return the settings that the manifest of a run has, with those that are `given` now."""
    refuse_lacking(folder, settings, in_current_words(settings))
    return parse_settings({**settings, **given}, RunSettings)


def options_of(settings: RunSettings | Mapping[str, Any]) -> TaskOptions:
    """Return what the settings choose among the tracks of their tasks.

    What those in the manifest of an older run do not say is the default.
    """
    values = in_current_words(settings) if isinstance(settings, Mapping) else vars(settings)
    chosen = {field.name: values.get(field.name) for field in fields(TaskOptions)}
    # It stands in the conditions of a track; a command may hold a secret.
    chosen["memory"] = redact(str(chosen["memory"] or DEFAULTS.memory))
    chosen["max_context_tokens"] = largest_context(chosen["max_context_tokens"])
    added = {key for one in brought_tasks().values() for key in one.task_keys} - chosen.keys()
    chosen["added"] = tuple((key, values[key]) for key in sorted(added & values.keys()))
    return TaskOptions(**{name: value for name, value in chosen.items() if value is not None})


def open_data(settings: RunSettings, pools: Pools | None = None) -> RunData:
    """Find the data and read them once, so that a bad row is named before anything is paid for.

    With `task=all`, and with pools of every size, what the data can't give is left out and named in
    the description; so are the tracks that `scoring` is not defined for.

    Args:
        settings: What names them.
        pools: What built pools of the same data before, and is added to: they are drawn once.

    Raises:
        UsageError: If the data, the split or a track is not there, or a setting means nothing to
            any of the tasks.
        DataError: If a row can't be read.
    """
    options = options_of(settings)
    tasks = load_tracks(settings.task, options)
    split, source = opened_layout(settings, tasks, pools)
    left_out = _not_scored(settings, options, tasks)
    tracks: list[TrackData] = []
    for task in tasks:
        try:
            track = find_track(settings, task, split, source)
            # Reads every record: a bad row must be named before anything is paid for.
            _ = track.description
            tracks.append(track)
        except UsageError as error:
            # What was not fetched may well be in the data.
            if not _may_lack(settings, task) or isinstance(error, HubError):
                raise
            left_out[task.track] = str(error)
    if not tracks:
        raise UsageError(next(iter(left_out.values())))
    described = {track.task.track: track.description for track in tracks}
    description: dict[str, Any] = {"split": split.name if split else "", "tracks": described}
    if left_out:
        description["left_out"] = left_out
    name = hub_name(settings.data)
    commit = split.commit if isinstance(split, HubSplit) else name and name.commit
    if commit is not None:
        description["commit"] = commit
    return RunData(tuple(tracks), description)


def opened_layout(
    settings: RunSettings, tasks: Sequence[Task], pools: Pools | None = None
) -> "tuple[Split | HubSplit | None, PoolSource | None]":
    """Open the split that tasks without files of their own read, and what builds their pools."""
    if all(task.data.open_records is not None for task in tasks):
        return None, None
    split = open_split(settings.data, settings.split)
    pooled = any(task.data.pool_size is not None for task in tasks)
    if not isinstance(split, Split) or not pooled:
        return split, None
    from alps.data.pools import PoolSource

    source = PoolSource(split, seed=settings.seed)
    kept = {} if pools is None else pools
    return split, kept.setdefault((split, settings.seed), source)


def _may_lack(settings: RunSettings, task: Task) -> bool:
    """Tell whether a track that the data can't give is left out, for nobody named it."""
    every_size = settings.distractors == ALL and task.data.pool_size is not None
    return settings.task == ALL or every_size


def _not_scored(
    settings: RunSettings, options: TaskOptions, tasks: tuple[Task, ...]
) -> dict[str, str]:
    """Return the tracks that `scoring` is not defined for, and why they are left out."""
    if options.scoring == "alps":
        return {}
    scored = {task.track for task in tasks}
    left_out = {}
    for task in load_tracks(settings.task, replace(options, scoring="alps")):
        if task.track not in scored:
            left_out[task.track] = f"scoring={options.scoring} is not defined for {task.name}"
    return left_out


def find_track(
    settings: RunSettings, task: Task, split: Split | HubSplit | None, source: "PoolSource | None"
) -> TrackData:
    """Find the records of a track; pools are built where the data hold none of this size."""
    limit = settings.limit
    if task.by_memory.required and not keeps_memories(options_of(settings).memory):
        raise UsageError(f"task={task.name}: needs a memory system, such as model=memory:bm25")
    if task.data.open_records is not None:
        records = task.data.open_records(settings.data, options_of(settings))
        return TrackData(task.under(records.conditions), records, limit)
    assert split is not None
    pooled = task.data.pool_size is not None
    if pooled and source is not None and isinstance(split, Split) and not split.has(task.place):
        return TrackData(task, source, limit)
    return TrackData(task, split.track(task.place), limit)


def open_again(folder: Path, manifest: Manifest) -> tuple[RunSettings, RunData]:
    """Open the data of the run in `folder` with the settings that it had.

    Raises:
        UsageError: If they are not there.
        DataError: If they can't be read.
        RunFolderError: If they are not those that the run was made on.
    """
    settings = settings_of_run(folder, manifest.settings)
    data = open_data(settings)
    refuse_changed(folder, manifest, settings, data)
    if len(data.tracks) < len(manifest.data.tracks):
        raise _changed(folder, manifest, settings)
    return settings, data


def refuse_changed(folder: Path, manifest: Manifest, settings: RunSettings, data: RunData) -> None:
    """Refuse tracks that a run was not asked for, and data that changed since.

    Args:
        folder: The run.
        manifest: What it says of itself.
        settings: Those that `data` was opened with; `scoring=` may leave some tracks out.
        data: What is there now.

    Raises:
        RunFolderError: If a hash differs, or a track was not in the run.
    """
    tracks = [task.track for task in data.tasks]
    if lacking := [track for track in tracks if track not in manifest.data.tracks]:
        why = f"no predictions for {', '.join(lacking)}, which this run did not include"
        raise RunFolderError(f"{folder}: {why}")
    then = manifest.data.row()
    kept = {track: then["tracks"][track] for track in tracks}
    # The reasons for left-out tracks are texts, which may be reworded.
    if {**then, "left_out": None, "tracks": kept} != {**data.description, "left_out": None}:
        raise _changed(folder, manifest, settings)


def _changed(folder: Path, manifest: Manifest, settings: RunSettings) -> RunFolderError:
    seed = manifest.settings.get("seed")
    drawn = " (the run drew its pools with another seed=)" if settings.seed != seed else ""
    why = f"not the data of {folder}; the hashes differ{drawn}"
    return RunFolderError(f"data={settings.data}: {why}")
