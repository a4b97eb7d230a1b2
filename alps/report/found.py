"""The samples of a run, found again in the data that its manifest names, if these still are the
data of the run.
"""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from alps.data.hub import HubSplit, as_read
from alps.data.pools import PoolSource
from alps.data.release import Row, Split, open_split, read_samples, read_track, track_hash
from alps.errors import AlpsError, CodeNotImportedError, UsageError
from alps.jsonl import dump
from alps.report.runs import Key, Run


@dataclass(frozen=True)
class Samples:
    """Samples of one track by their ids; `problem` says in one line why there are none."""

    by_id: dict[str, Any]
    problem: str | None = None


def read_keys(run: Run) -> list[Key]:
    """Return the first answer to every record of a run, in the order of the data, as far as they
    can be known.
    """
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
