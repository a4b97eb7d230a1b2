"""A change of a score between two runs, split by anchors into that of the judge and of the system.

The anchors are the answers of the first run, byte for byte, judged once more when the second was:
what their score changes by is the judge's, and the rest is the system's own.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from alps.errors import UsageError
from alps.ext.judging.sensitivity import judged_metric
from alps.run.folder import write_json
from alps.run.opened import PREDICTIONS, RunFolder, open_run
from alps.run.services import AskedAs
from alps.run.session import OF_THE_JUDGE
from alps.run.start import score_again
from alps.run.summary import Finished
from alps.show.formatting import counted, p_value
from alps.show.shared_records import (
    SharedRecords,
    metric_values,
    record_values,
    refuse_other_data,
    sessions_of,
)
from alps.show.table import Line, Part, Table, change, figures, named, printed, row_of
from alps.stats.bootstrap import Estimate, Floats, ratio, resampled_statistic
from alps.stats.paired import paired_difference
from alps.tasks.registry import track_title


@dataclass(frozen=True)
class DriftValues:
    """Values of the same records then and now, and their clusters; shape (records,)."""

    then: Floats
    now: Floats
    clusters: Sequence[Hashable]


@dataclass(frozen=True)
class Drift:
    """A change of a score, now less then: `change` = `judge` + `system`.

    Attributes:
        p: Of no change on the anchors, two-sided; None with fewer than two clusters.
        alarm: Whether p is below `level`.
    """

    change: Estimate
    judge: Estimate
    system: Estimate
    p: float | None
    level: float
    alarm: bool


def attribute_drift(system: DriftValues, anchors: DriftValues, *, level: float) -> Drift:
    """Split the change of a system's score by what anchors change.

    It is taken for granted that a judge changes on the system's answers as much as on the anchors.
    Clusters of one name are resampled together, so that both changes are paired by session.

    Raises:
        ValueError: If lengths differ, or there are no anchors.
    """
    if not len(anchors.then):
        raise ValueError("no anchors, so a change of the judge cannot be detected")
    changed, own = np.zeros((len(system.then), 4)), np.zeros((len(anchors.then), 4))
    changed[:, 0], changed[:, 1] = 1, system.now - system.then
    # Both changes are rows of one matrix, so that a resample has the same sessions in both.
    own[:, 2], own[:, 3] = 1, anchors.now - anchors.then
    features = np.concatenate([changed, own])
    clusters = [*system.clusters, *anchors.clusters]
    of_system = paired_difference(system.now, system.then, system.clusters, bounds=None)
    of_judge = paired_difference(anchors.now, anchors.then, anchors.clusters, bounds=None)
    alarm = of_judge.p is not None and of_judge.p < level

    def rest(sums: Floats) -> Floats:
        return ratio(sums[..., 1], sums[..., 0]) - ratio(sums[..., 3], sums[..., 2])

    left = resampled_statistic(features, clusters, rest)
    return Drift(of_system.estimate, of_judge.estimate, left, of_judge.p, level, alarm)


MARK = "anchors.json"
"""The file of a folder in which every question was asked anew."""


def judge_anchors(old: Path, new: Path, folder: Path, given: Mapping[str, Any]) -> Finished:
    """Judge the answers of a finished run again without the cache; resume what was started.

    Args:
        old: The run.
        new: A run whose judge is asked.
        folder: Where the verdicts land.
        given: The settings that were typed; how the judge is asked is else as in `new`.

    Raises:
        AlpsError: If the folder holds anything else, or the judge can't be used.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise UsageError(f"anchors={folder}: the folder holds something else; name a new folder")
    open_run(old).finished  # noqa: B018 - refused before a folder is made
    then, judging = open_run(new).manifest.settings, dict(given)
    for name in ("judge", *OF_THE_JUDGE):
        if then.get(name) is not None and name not in judging:
            judging[name] = then[name]
    told = f"the answers of {old} again, without the cache"
    click.echo(f"alps generates no answers; {judging['judge']} judges {told}.", err=True)
    folder.mkdir(parents=True, exist_ok=True)
    # Before the first question: a judging that was killed is known as ours and goes on.
    write_json(folder / MARK, {"cache": "off"})
    own = {**judging, "out": str(folder), "extras": "none"}
    # A reply from the cache is that of the judge as it was.
    return score_again(old, own, asked_as=AskedAs(cached=False))


def check_anchors(old: RunFolder, anchors: RunFolder) -> None:
    """Refuse anchors that can't tell what the judge does now.

    Raises:
        UsageError: If they are other answers, were not judged again, or were answered by the cache.
    """
    name = f"anchors={anchors.folder}"
    # Byte for byte: with any other answer the change is no longer the judge's alone.
    if (old.folder / PREDICTIONS).read_bytes() != (anchors.folder / PREDICTIONS).read_bytes():
        raise UsageError(
            f"{name}: the answers differ from those of {old.folder}; name another folder"
        )
    if anchors.folder.resolve() == old.folder.resolve() or anchors.manifest.predictions is None:
        raise UsageError(
            f"{name}: a run with its own answers; name a new folder to judge the answers "
            f"of {old.folder} again"
        )
    kept = anchors.finished.calls.cached
    if kept and not (anchors.folder / MARK).is_file():
        raise UsageError(
            f"{name}: {counted(kept, 'reply', 'replies')} came from the cache, which hides drift; "
            "name a new folder to judge the answers without the cache"
        )


@dataclass(frozen=True)
class DriftOfRuns:
    """What `find_drift` found, by track; `n` are the records that all three runs have scored.

    `cached` are the replies of the second run that came from the cache, the system's among them.
    """

    judges: tuple[str, str]
    fingerprints_equal: bool
    tracks: Mapping[str, Drift]
    n: Mapping[str, int]
    cached: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {"level_of_intervals": 0.95, **asdict(self)}


def find_drift(folders: Sequence[Path], anchors: Path, level: float) -> DriftOfRuns:
    """Split the change from the first run to the second; nothing is asked.

    Raises:
        UsageError: If there are not two finished runs on the same data, or the anchors are not the
            answers of the first, judged once more.
        RunFolderError: If a file of a run can't be read.
    """
    old, new, now = (open_run(folder) for folder in (*folders, anchors))
    check_anchors(old, now)
    tracks: dict[str, Drift] = {}
    counts: dict[str, int] = {}
    for track in old.scored_tracks:
        if track in new.scored_tracks and track in now.scored_tracks:
            # A change of records or gold would be told as one of the system.
            refuse_other_data({"old": old, "new": new}, track)
            drift, counts[track] = _on_track(track, (old, new, now), level)
            if drift is not None:
                tracks[track] = drift
    if not tracks:
        raise UsageError("the two runs and anchors= share no record with a judged score")
    first = next(iter(tracks))
    # Under two versions of GPT-4 the same outputs scored about 70 % and little over 50 % on
    # AlpacaEval: anchors tell only about the judge that scored the second run.
    if new.judge_fingerprint(first) != now.judge_fingerprint(first):
        raise UsageError(
            f"{anchors} and {folders[1]} have different judges; judge both with the same judge"
        )
    # Equal ones prove nothing: a provider may change the model behind an unchanged name.
    same = old.judge_fingerprint(first) == now.judge_fingerprint(first)
    cached = new.finished.calls.cached
    return DriftOfRuns((old.judge, now.judge), same, tracks, counts, cached)


def _on_track(
    track: str, runs: tuple[RunFolder, RunFolder, RunFolder], level: float
) -> tuple[Drift | None, int]:
    metric = judged_metric(runs[0], track)
    if metric is None:
        return None, 0
    values = []
    for run in runs:
        values.append(metric_values(record_values(run).get(track, {}), metric))
    ids = list(values[0])
    # Data that name no sessions: each record is a cluster of its own.
    sessions = sessions_of(runs, track, ids) or dict(zip(ids, ids, strict=True))
    records = SharedRecords.of(metric, ids, values, sessions)
    if not records.ids:
        return None, 0
    old, new, now = map(records.column, values)
    system, anchors = (DriftValues(old, later, records.sessions) for later in (new, now))
    return attribute_drift(system, anchors, level=level), len(records.ids)


def print_drift(found: DriftOfRuns, console: Console) -> None:
    """Print for every track the change, and how much of it is the judge's and the system's."""
    for part in printed(_parts(found), console.width):
        console.print(part)


def _parts(found: DriftOfRuns) -> Iterator[Part]:
    for track, drift in found.tracks.items():
        changes = {"the score": drift.change, "the judge": drift.judge, "the system": drift.system}
        rows = [row_of(name, *change(part)) for name, part in changes.items()]
        changed = "Change from the first run to the second"
        title = f"{changed} on {track_title(track)}, n = {found.n[track]:,}"
        p = f"p {p_value(drift.p)}, level {drift.level:g}"
        alarm = "Alarm: judge drift detected" if drift.alarm else "No judge drift detected"
        columns = [named("change in"), *figures("change", "95 % interval")]
        yield Table(title, columns, rows, [Line(f"{alarm} ({p}).")])
    first, second = found.judges
    same = "the fingerprints are equal" if found.fingerprints_equal else "the fingerprints differ"
    yield Line(f"Judge of the first run: {first}; judge of the second run: {second}; {same}.")
    if found.cached:
        yield Line(
            f"{counted(found.cached, 'reply', 'replies')} of the second run came from the cache; "
            "cached verdicts repeat earlier verdicts and cannot show drift."
        )
