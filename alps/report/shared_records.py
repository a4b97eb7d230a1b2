"""Runs that may be compared, and the records that they share.

Runs are comparable that are finished, on the same data, under the same judge, with a track in
common.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from alps.errors import RunFolderError, UsageError
from alps.run.opened import Run, open_run, read_wanted
from alps.stats.bootstrap import Estimate, Floats, clustered_mean
from alps.stats.paired import (
    Difference,
    paired_difference,
)
from alps.tasks import Metric

Values = Mapping[str, float]
"""The value of one metric by the ids of the records that have it."""


@dataclass(frozen=True)
class SharedRecords:
    """Records that several runs have a value for, with their sessions and the metric's bounds."""

    ids: Sequence[str]
    sessions: Sequence[str]
    bounds: tuple[float, float]

    @classmethod
    def of(
        cls,
        metric: Metric,
        ids: Iterable[str],
        columns: Collection[Values],
        sessions: Mapping[str, str],
    ) -> "SharedRecords":
        """Return those of `ids` that every column has a value for."""
        shared = [name for name in ids if all(name in column for column in columns)]
        own = [sessions[name] for name in shared]
        return cls(shared, own, (metric.lowest, metric.highest))

    def column(self, values: Values) -> Floats:
        """Return the values of the records, in their order."""
        return np.array([values[name] for name in self.ids], dtype=np.float64)

    def mean(self, values: Values) -> Estimate:
        """Estimate the mean of the records."""
        return clustered_mean(self.column(values), self.sessions, bounds=self.bounds)

    def difference(self, first: Values, second: Values) -> Difference:
        """Estimate the mean of the first less the second."""
        columns = self.column(first), self.column(second)
        return paired_difference(*columns, self.sessions, bounds=self.bounds)


def record_values(run: Run) -> dict[str, dict[str, dict[str, float]]]:
    """Return by track and id the value of every metric, the mean of the repeats that have one."""
    repeats: dict[str, dict[str, dict[str, list[float]]]] = {}
    for key, row in run.rows("scores").items():
        if not (scores := row.get("scores")):
            continue
        record = repeats.setdefault(key.track, {}).setdefault(key.id, {})
        for name, value in scores.items():
            if isinstance(value, int | float) and isfinite(value):
                record.setdefault(name, []).append(float(value))
    means: dict[str, dict[str, dict[str, float]]] = {}
    for track, records in repeats.items():
        for name, record in records.items():
            mean = {metric: fmean(values) for metric, values in record.items()}
            means.setdefault(track, {})[name] = mean
    return means


def metric_values(records: Mapping[str, Mapping[str, float]], metric: Metric) -> dict[str, float]:
    """Return the value of one metric for each record that has it."""
    having = (name for name, scores in records.items() if metric.name in scores)
    return {name: records[name][metric.name] for name in having}


def sessions_of(runs: Sequence[Run], track: str, ids: Collection[str]) -> dict[str, str] | None:
    """Return the session of each record; None where no run's data are there any more."""
    tried: list[Any] = []
    for run in runs:
        if (data := run.manifest.settings.get("data")) in tried:
            continue
        tried.append(data)
        samples = read_wanted(run, track, set(ids)).by_id
        if all(name in samples for name in ids):
            return {name: str(samples[name].session_id) for name in ids}
    return None


def open_finished(folders: Sequence[Path]) -> list[Run]:
    """Open at least two runs.

    Raises:
        UsageError: If there are fewer, one is named twice, or one is not finished.
        RunFolderError: If a file of a run can't be read.
    """
    if len(folders) < 2:
        raise UsageError(f"compare takes at least two runs, got {len(folders)}")
    runs: list[Run] = []
    for folder in folders:
        run = open_run(folder)
        if any(run.folder.resolve() == other.folder.resolve() for other in runs):
            raise UsageError(f"{folder}: named twice; a run is compared with others")
        for track in run.finished.tracks:
            if track not in run.tasks or run.tracks[track].sha256 is None:
                raise RunFolderError(f"{folder}: not a run of this alps (no data of '{track}')")
        runs.append(run)
    return runs


def shared_tracks(runs: Mapping[str, Run]) -> list[str]:
    """Return the tracks that all `runs`, by their letters, have, in the order of the first.

    Raises:
        UsageError: If there is none.
    """
    first, *others = runs.values()
    shared = list(first.scored_tracks)
    for run in others:
        shared = [track for track in shared if track in run.scored_tracks]
    if not shared:
        tracks = []
        for run in runs.values():
            tracks.append(f"{run.folder} has {', '.join(run.scored_tracks) or 'none'}")
        raise UsageError(f"no track is in all of these runs: {'; '.join(tracks)}")
    return shared


def judged_alike(runs: Mapping[str, Run], track: str) -> bool:
    """Tell whether all runs had the same judge on `track`."""
    return len({run.judge_fingerprint(track) for run in runs.values()}) == 1


def refuse_other_data(runs: Mapping[str, Run], track: str) -> None:
    """Refuse runs whose data on `track` are not the same.

    Raises:
        UsageError: If they differ; names both hashes, and the settings behind them.
    """
    first, *others = runs.values()
    for other in others:
        if first.tracks[track].sha256 == other.tracks[track].sha256:
            continue
        hashes = " and ".join(
            f"{str(run.tracks[track].sha256)[:12]} ({run.folder})" for run in (first, other)
        )
        places = [f"settings.{name}" for name in ("data", "split", "limit", "seed")]
        differing = [_part(first, other, place) for place in (*places, "data.split")]
        parts = "; ".join(filter(None, differing))
        raise UsageError(
            f"not on the same data: {track} has sha256 {hashes}{f'; {parts}' if parts else ''}"
        )


def refuse_other_scoring(runs: Mapping[str, Run], track: str) -> None:
    """Refuse runs whose scores on `track` are not the same measurement.

    Recall of a memory needs no judge.

    Raises:
        UsageError: If their scoring or their judge differs; names what is different.
    """
    first, *others = runs.values()
    for other in others:
        here, there = (run.tasks[track].conditions.get("scoring", "alps") for run in (first, other))
        if here != there:
            ways = f"scoring={here} in {first.folder}, {there} in {other.folder}"
            raise UsageError(f"not scored alike: {track} has {ways}")
        ids = [run.judge_fingerprint(track) for run in (first, other)]
        if ids[0] == ids[1] or not first.tasks[track].judged:
            continue
        names = {*first.manifest.judge, *other.manifest.judge} - {"id"}
        parts = []
        for name in sorted(names, key=lambda name: (name != "judge", name)):
            parts += [part] if (part := _part(first, other, f"judge.{name}")) else []
        judges = f"{ids[0]} ({first.folder}) and {ids[1]} ({other.folder})"
        raise UsageError(
            f"not under the same judge: {track} has fingerprint {judges}; "
            f"{'; '.join(parts[:3]) or 'its rubrics differ'}; alps score judges a run again"
        )


def _part(first: Run, other: Run, place: str) -> str:
    """Say how two manifests differ at a dotted place.

    Nothing where they don't, and no values that are long.
    """
    section, _, name = place.partition(".")
    here, there = (run.manifest.row()[section].get(name) for run in (first, other))
    if here == there:
        return ""
    said = [str(value) if not isinstance(value, dict) else "{…}" for value in (here, there)]
    return (
        f"{place} is {_short(said[0])} and {_short(said[1])}"
        if said[0] != said[1]
        else f"{place} differs"
    )


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:12]}…"
