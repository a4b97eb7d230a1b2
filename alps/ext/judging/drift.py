"""A change of a score between two runs, split by anchors into that of the judge and of the system.

The anchors are the answers of the first run, byte for byte, judged once more when the second was.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from alps.errors import UsageError
from alps.ext.judging.anchors import check_anchors
from alps.ext.judging.drift_test import Change, Drift, attribute_drift
from alps.ext.judging.sensitivity import judged_metric
from alps.run.opened import Run, open_run
from alps.show.formatting import p_value
from alps.show.shared_records import (
    SharedRecords,
    metric_values,
    record_values,
    refuse_other_data,
    sessions_of,
)
from alps.show.table import Line, Part, Table, change, figures, named, printed, row_of


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
            refuse_other_data({"old": old, "new": new}, track)
            drift, counts[track] = _on_track(track, (old, new, now), level)
            if drift is not None:
                tracks[track] = drift
    if not tracks:
        raise UsageError("no record of any track is scored by a judge in all three runs")
    first = next(iter(tracks))
    if new.judge_fingerprint(first) != now.judge_fingerprint(first):
        raise UsageError(f"{anchors}: not under the judge of {folders[1]}: judge both alike")
    same = old.judge_fingerprint(first) == now.judge_fingerprint(first)
    cached = new.finished.calls.cached
    return DriftOfRuns((old.judge, now.judge), same, tracks, counts, cached)


def _on_track(track: str, runs: tuple[Run, Run, Run], level: float) -> tuple[Drift | None, int]:
    metric = judged_metric(runs[0], track)
    if metric is None:
        return None, 0
    values = []
    for run in runs:
        values.append(metric_values(record_values(run).get(track, {}), metric))
    ids = list(values[0])
    sessions = sessions_of(runs, track, ids) or dict(zip(ids, ids, strict=True))
    records = SharedRecords.of(metric, ids, values, sessions)
    if not records.ids:
        return None, 0
    old, new, now = map(records.column, values)
    system, anchors = (Change(old, later, records.sessions) for later in (new, now))
    return attribute_drift(system, anchors, level=level), len(records.ids)


def print_drift(found: DriftOfRuns, console: Console) -> None:
    """Print for every track the change, and how much of it is the judge's and the system's."""
    for part in printed(_parts(found), console.width):
        console.print(part)


def _parts(found: DriftOfRuns) -> Iterator[Part]:
    for track, drift in found.tracks.items():
        changes = {"the score": drift.change, "the judge": drift.judge, "the system": drift.system}
        rows = [row_of(name, *change(part)) for name, part in changes.items()]
        title = f"Change from the first run to the second on {track}, n = {found.n[track]:,}"
        p = f"p {p_value(drift.p)}, level {drift.level:g}"
        alarm = "Alarm: the judge has changed" if drift.alarm else "No alarm of the judge"
        columns = [named("of"), *figures("change", "95 % interval")]
        yield Table(title, columns, rows, [Line(f"{alarm} ({p}).")])
    same = "the same" if found.fingerprints_equal else "another"
    yield Line(f"Judge: {found.judges[0]} then, {found.judges[1]} now; {same} fingerprint.")
    if found.cached:
        yield Line(
            f"Of the second run {found.cached:,} replies came from the cache: where its judge's "
            "are among them, they say what it said before."
        )
