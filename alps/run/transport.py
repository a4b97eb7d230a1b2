"""Transport of a correction: whether audits of some runs speak for the run of another system."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from alps.errors import UsageError
from alps.run.audit_draws import LEAST
from alps.run.audited_records import AuditedRecords, Pairs, audited_records, correctable
from alps.run.auditing import FOLDER, read_audit
from alps.run.opened import Run, open_run
from alps.run.source import TrackData, open_again
from alps.stats.transport import Residuals, Transport, transport
from alps.tasks import Metric

OUTSIDE = 0.05
"""The largest share of answers whose cheap score lies where no other system has an audit."""


@dataclass(frozen=True)
class Transported:
    """What was found of one metric of one track; `refused` says why nothing can be."""

    track: str
    metric: Metric
    found: Transport | None
    refused: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the judge errs otherwise."""
        return self.found is not None and self.found.verdict == "fail"


@dataclass(frozen=True)
class Transports:
    """Whether the audits of some runs hold for another one, by track and metric."""

    run: Run
    others: Sequence[Run]
    margin: float
    rows: Sequence[Transported]

    def as_json(self) -> dict[str, Any]:
        """Return what `format=json` prints."""
        rows = []
        for row in self.rows:
            found = None if row.found is None else asdict(row.found)
            about = {"track": row.track, "metric": row.metric.name}
            rows.append({**about, "found": found, "refused": row.refused})
        others = [str(run.folder) for run in self.others]
        return {"run": str(self.run.folder), "from": others, "margin": self.margin, "rows": rows}


def check_transport(folder: Path, others: Sequence[Path], margin: float) -> Transports:
    """Test whether the cheap judge of a run errs on it as on the audited runs of other systems.

    Args:
        folder: The run, of whose answers a few are audited.
        others: Runs on the same data, audited by the same judge.
        margin: The largest difference between mean errors that does not matter.

    Raises:
        UsageError: If a run has no audit, or was audited by another judge.
        RunFolderError: If a file can't be read, or the data changed.
    """
    run, calibrating = open_run(folder), [open_run(other) for other in others]
    auditors = {_auditor(one) for one in (run, *calibrating)}
    if len(auditors) > 1:
        raise UsageError("different judges audited these runs; audit them by the same one")
    for other in calibrating:
        _refuse_other(run, other)
    _, data = open_again(run.folder, run.manifest)
    rows: list[Transported] = []
    for track in data.tracks:
        name = track.task.track
        if all(name in one.scored_tracks for one in calibrating):
            rows += _of_track(track, run, calibrating, margin)
    if not rows:
        raise UsageError(f"{folder}: no score that audits can correct is in all of these runs")
    return Transports(run, calibrating, margin, rows)


def _auditor(run: Run) -> str:
    audit = run.finished.audit
    if audit is None:
        raise UsageError(f"{run.folder}: no audits; alps score RUN audit_judge=… audit=20% adds")
    return audit.auditor


def _refuse_other(run: Run, other: Run) -> None:
    """Refuse a run under another judge, or on other data: told by hashes, as names say little."""
    for track in set(run.scored_tracks) & set(other.scored_tracks):
        if run.judge_fingerprint(track) != other.judge_fingerprint(track):
            why = "its judge has another fingerprint"
        elif run.tracks[track].sha256 != other.tracks[track].sha256:
            why = "its data have another hash"
        else:
            continue
        raise UsageError(f"{other.folder}: not comparable with {run.folder} on {track}: {why}")


def _of_track(
    track: TrackData, run: Run, others: Sequence[Run], margin: float
) -> list[Transported]:
    own = _records(track, run)
    theirs = {str(other.folder): _records(track, other) for other in others}
    rows = []
    for metric in track.task.metrics:
        if all(correctable(metric, one) for one in (own, *theirs.values())):
            pairs = {name: one.of(metric) for name, one in theirs.items()}
            rows.append(of_metric(track.task.track, metric, own.of(metric), pairs, margin))
    return rows


def _records(track: TrackData, run: Run) -> AuditedRecords:
    about = read_audit(run.folder / FOLDER)
    drawn = about.tracks.get(track.task.track) if about is not None else None
    sessions = frozenset(drawn.sessions if drawn is not None else ())
    return audited_records(run.folder, track, sessions)


def of_metric(
    track: str, metric: Metric, own: Pairs, others: Mapping[str, Pairs], margin: float
) -> Transported:
    """Test whether the audits of other systems hold for the answers of one, or say why not."""
    for name, pairs in others.items():
        if reason := pairs.why_not():
            return Transported(track, metric, None, f"{name}: {reason}")
    audited = own.audited_records
    if audited < LEAST:
        few = f"{audited} audited records: at least {LEAST} are needed"
        return Transported(track, metric, None, few)
    levels = np.concatenate([pairs.cheap[pairs.audited] for pairs in others.values()])
    outside = float(((own.cheap < levels.min()) | (own.cheap > levels.max())).mean())
    if outside > OUTSIDE:
        where = f"audits of the others are from {levels.min():.3g} to {levels.max():.3g}"
        why = f"{100 * outside:.0f} % of the scores are outside: {where}"
        return Transported(track, metric, None, why)
    residuals = {name: _residuals(pairs) for name, pairs in others.items()}
    return Transported(track, metric, transport(_residuals(own), residuals, margin))


def _residuals(pairs: Pairs) -> Residuals:
    known = pairs.where(pairs.audited)
    return Residuals(known.audit - known.cheap, known.sessions)
