"""Runs that may be compared, and the records that they share.

Runs are comparable that are finished, on the same data, under the same judge, with a track in
common.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from alps.errors import RunFolderError, UsageError
from alps.jsonl import Row
from alps.rows import Score
from alps.run.opened import RunFolder, StoredRows, open_run, read_wanted, stored_rows
from alps.stats.bootstrap import Estimate, Floats, clustered_mean
from alps.stats.paired import Difference, paired_difference
from alps.tasks import Metric, MicroRatio
from alps.tasks.registry import reading_ids, track_title

_DATA_PLACES = ("settings.data", "settings.split", "settings.limit", "settings.seed", "data.split")
Values = Mapping[str, float]
"""The value of one metric by the ids of the records that have it."""


@dataclass(frozen=True)
class SharedRecords:
    """Records that several runs have a value for, with their sessions; the rest is the metric's."""

    ids: Sequence[str]
    sessions: Sequence[str]
    bounds: tuple[float, float]
    resampled: bool = False

    @classmethod
    def of(
        cls,
        metric: Metric,
        ids: Iterable[str],
        columns: Collection[Values],
        sessions: Mapping[str, str],
    ) -> "SharedRecords":
        """Return those of `ids` that every column has a value for."""
        shared = list(ids)
        for column in columns:
            shared = [name for name in shared if name in column]
        own = [sessions[name] for name in shared]
        return cls(shared, own, metric.bounds, metric.inference.resampled)

    def column(self, values: Values) -> Floats:
        """Return the values of the records, in their order."""
        return np.array([values[name] for name in self.ids], dtype=np.float64)

    def mean(self, values: Values) -> Estimate:
        """Estimate the mean of the records."""
        return clustered_mean(
            self.column(values), self.sessions, bounds=self.bounds, resampled=self.resampled
        )

    def difference(self, first: Values, second: Values) -> Difference:
        """Estimate the mean of the first less the second."""
        columns = self.column(first), self.column(second)
        return paired_difference(
            *columns, self.sessions, bounds=self.bounds, resampled=self.resampled
        )


def record_values(run: RunFolder) -> dict[str, dict[str, dict[str, float]]]:
    """Return by track and id the value of every metric, the mean of the repeats that have one."""
    with run.stored("scores") as rows:
        return _values_of(rows)


def values_in(scores: Path, *, track: str) -> dict[str, dict[str, dict[str, float]]]:
    """Return the same of a file of scores; `track` is that of rows without one."""
    with stored_rows(scores, track=track) as rows:
        return _values_of(rows)


def _values_of(rows: StoredRows) -> dict[str, dict[str, dict[str, float]]]:
    means: dict[str, dict[str, dict[str, float]]] = {}
    # Of most records there is one answer: lists of values are made of the others alone.
    repeats: dict[tuple[str, str, str], list[float]] = {}
    for key, row in rows.items():
        if not row.get("scores"):
            continue
        record = means.setdefault(key.track, {}).setdefault(key.id, {})
        for metric, value in _finite(row["scores"]):
            if metric in record:
                at = key.track, key.id, metric
                repeats.setdefault(at, [record[metric]]).append(value)
            else:
                record[metric] = value
    for (of_track, name, metric), values in repeats.items():
        means[of_track][name][metric] = fmean(values)
    return means


def _finite(scores: Row) -> Iterator[tuple[str, float]]:
    for metric, value in scores.items():
        # One NaN of a metric of the user's own would be the mean of all records.
        if isinstance(value, int | float) and isfinite(value):
            yield sys.intern(metric), float(value)


def metric_values(records: Mapping[str, Mapping[str, float]], metric: Metric) -> dict[str, float]:
    """Return the value of one metric for each record that has it."""
    return {name: row[metric.name] for name, row in records.items() if metric.name in row}


def sessions_of(
    runs: Sequence[RunFolder], track: str, ids: Collection[str]
) -> dict[str, str] | None:
    """Return the session of each record; None where no run's data are there any more."""
    tried: list[Any] = []
    # Runs under comparison have the same data, so the first whose data are still there tells all.
    for run in runs:
        if (data := run.manifest.settings.get("data")) in tried:
            continue
        tried.append(data)
        task = reading_ids(run.tasks[track])
        found = read_wanted(run, track, set(ids), of=lambda one: str(one.session_id), task=task)
        if found.by_id.keys() >= set(ids):
            return {name: found.by_id[name] for name in ids}
    return None


def open_finished(folders: Sequence[Path]) -> list[RunFolder]:
    """Open at least two runs.

    Raises:
        UsageError: If there are fewer, one is named twice, or one is not finished.
        RunFolderError: If a file of a run can't be read.
    """
    if len(folders) < 2:
        raise UsageError(f"compare needs at least two runs, got {len(folders)}")
    runs: list[RunFolder] = []
    seen: set[Path] = set()
    for folder in folders:
        run = open_run(folder)
        # Under two names it would be found equal to itself.
        if run.folder.resolve() in seen:
            raise UsageError(f"{folder}: named twice; name different runs")
        # A folder whose data has no hash can't be shown to be on the data of the others.
        for track in run.finished.tracks:
            if track not in run.tasks or run.tracks[track].sha256 is None:
                lacking = f"no data of {track_title(track)}"
                what = f"{folder}: not a run of this alps version ({lacking}); repeat the run"
                raise RunFolderError(what)
        runs.append(run)
        seen.add(run.folder.resolve())
    return runs


def _shared_tracks(runs: Mapping[str, RunFolder]) -> list[str]:
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
            titles = ", ".join(map(track_title, run.scored_tracks))
            tracks.append(f"{run.folder} has {titles or 'none'}")
        raise UsageError(f"these runs share no task: {'; '.join(tracks)}")
    return shared


def told_tracks(runs: Mapping[str, RunFolder]) -> tuple[list[str], dict[str, str]]:
    """Return the tracks on which every run has a score, and why the others are left out.

    Raises:
        UsageError: If there is none of which every run has one.
    """
    shared = _shared_tracks(runs)
    reasons: dict[str, str] = {}
    for track in shared:
        for run in runs.values():
            scores = list(run.summary_of(track).scores.values())
            if scores and all(score.unscored is not None for score in scores):
                reasons.setdefault(track, str(scores[0].unscored))
    if len(reasons) == len(shared):
        each = "; ".join(dict.fromkeys(reasons.values()))
        what = f"nothing to compare: {each}; to use another judge, run alps score RUN judge=…"
        raise UsageError(what)
    return [track for track in shared if track not in reasons], reasons


def choose_metrics(runs: Mapping[str, RunFolder], track: str) -> tuple[list[Metric], list[str]]:
    """Return the metrics that can be compared, and why others can't."""
    scores = {letter: run.summary_of(track).scores for letter, run in runs.items()}
    alike = len({run.judge_fingerprint(track) for run in runs.values()}) == 1
    measured: set[str] = set().union(*scores.values())
    chosen: list[Metric] = []
    left_out: dict[str, list[str]] = {}
    for metric in next(iter(runs.values())).tasks[track].metrics:
        if metric.name not in measured:
            continue
        reason = _why_not(metric, scores, alike=alike)
        if reason is None:
            chosen.append(metric)
        else:
            left_out.setdefault(reason, []).append(metric.title.strip())
    notes = []
    for reason, titles in left_out.items():
        notes.append(f"Left out ({reason}): {', '.join(titles)}")
    return chosen, notes


def different_conditions(runs: Mapping[str, RunFolder], track: str) -> list[str]:
    """Return a note on the conditions of the runs; none where they are the same."""
    conditions = [run.tasks[track].conditions for run in runs.values()]
    if conditions.count(conditions[0]) == len(conditions):
        return []
    return [f"Different conditions: {_each_conditions(runs, track)}"]


def _each_conditions(runs: Mapping[str, RunFolder], track: str) -> str:
    parts = []
    for letter, run in runs.items():
        words = [f"{name}={value}" for name, value in run.tasks[track].conditions.items()]
        parts.append(f"{letter} {' '.join(words) or 'default settings'}")
    return ", ".join(parts)


def _why_not(
    metric: Metric, scores: Mapping[str, Mapping[str, Score]], *, alike: bool
) -> str | None:
    """Return why runs with these scores can't be compared on a metric; None if they can."""
    # The mean over records of a share that counts sums is another number than the run's own.
    if isinstance(metric.value, MicroRatio):
        return "ratio of sums, which has no value per record"
    missing = [letter for letter, own in scores.items() if metric.name not in own]
    if missing:
        return f"not measured in {', '.join(missing)}"
    for own in scores.values():
        if own[metric.name].unscored is not None:
            return own[metric.name].unscored
    return "rated by different judges" if metric.needs.rating and not alike else None


def refuse_other_data(runs: Mapping[str, RunFolder], track: str) -> None:
    """Refuse runs whose data on `track` are not the same.

    Raises:
        UsageError: If they differ; names both hashes, and the settings behind them.
    """
    first, *others = runs.values()
    for other in others:
        if first.tracks[track].sha256 == other.tracks[track].sha256:
            continue
        hashes = []
        for run in (first, other):
            hashes.append(f"{str(run.tracks[track].sha256)[:12]} ({run.folder})")
        # The hash alone tells nobody what to do: the settings behind it do.
        parts = [" and ".join(hashes), *_parts(first, other, _DATA_PLACES)]
        raise UsageError(f"different data: {track_title(track)} has sha256 {'; '.join(parts)}")


def refuse_other_scoring(runs: Mapping[str, RunFolder], track: str) -> None:
    """Refuse runs whose scores on `track` are not the same measurement.

    Recall of a memory needs no judge.

    Raises:
        UsageError: If their scoring or their judge differs; names what is different.
    """
    first, *others = runs.values()
    for other in others:
        # Published first-version scores are made by other rules: authors-v1 is no score of ours.
        here = first.tasks[track].conditions.get("scoring", "alps")
        there = other.tasks[track].conditions.get("scoring", "alps")
        if here != there:
            ways = f"scoring={here} in {first.folder}, {there} in {other.folder}"
            what = f"scored differently: {track_title(track)} has {ways}"
            raise UsageError(f"{what}; compare runs with the same scoring=")
    # A run whose scores no judge has a part in stands beside those of any judge.
    judged = [run for run in runs.values() if run.tasks[track].judged]
    for other in judged[1:]:
        _refuse_other_judge(judged[0], other, track)


def _refuse_other_judge(first: RunFolder, other: RunFolder, track: str) -> None:
    own, others_own = first.judge_fingerprint(track), other.judge_fingerprint(track)
    if own == others_own:
        return
    names = {*first.manifest.judge, *other.manifest.judge} - {"id"}
    # The judge's own name first: where it differs, nothing else has to be read.
    order = sorted(names, key=lambda name: (name != "judge", name))
    parts = _parts(first, other, [f"judge.{name}" for name in order])
    judges = f"{own} ({first.folder}) and {others_own} ({other.folder})"
    raise UsageError(
        f"different judges: {track_title(track)} has fingerprint {judges}; "
        f"{'; '.join(parts[:3]) or 'the rubrics differ'}; to judge one of the runs again, "
        "use alps score"
    )


def _parts(first: RunFolder, other: RunFolder, places: Iterable[str]) -> list[str]:
    """Say how two manifests differ at dotted places; values are cut where they are long."""
    parts = []
    rows = first.manifest.row(), other.manifest.row()
    for place in places:
        section, _, name = place.partition(".")
        here, there = rows[0][section].get(name), rows[1][section].get(name)
        if here != there:
            words = _words(here), _words(there)
            shown = f"is {_short(words[0])} and {_short(words[1])}"
            parts.append(f"{place} {shown if words[0] != words[1] else 'differs'}")
    return parts


def _words(value: object) -> str:
    return "{…}" if isinstance(value, dict) else str(value)


def _short(text: str) -> str:
    # A hash is told apart by its beginning, and a prompt of a page would bury the message.
    return text if len(text) <= 40 else f"{text[:12]}…"
