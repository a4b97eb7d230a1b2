"""Findings of an audit: corrected scores, slices, causes of the cheap judge's bias, cost."""

from pathlib import Path
from typing import Any

from alps.ext.audits import FOLDER
from alps.ext.audits.audit import read_audit
from alps.ext.audits.records import AuditedRecords, audited_records, correctable, corrected_scores
from alps.ext.audits.slices import bent_by, corrected_slices, errors_of, traits_of
from alps.llm.ledger import Ledger
from alps.rows import AuditedTrack, AuditSummary
from alps.run.source import RunData, TrackData
from alps.run.summary import summarise_calls
from alps.tasks.registry import track_title


def audit_summary(run: Path, data: RunData) -> AuditSummary | None:
    """Return what the audit in a run folder found; None where there is none.

    Raises:
        RunFolderError: If a file of it can't be read.
        DataError: If the data can't be read.
    """
    folder = run / FOLDER
    about = read_audit(folder)
    if about is None:
        return None
    tracks: dict[str, AuditedTrack] = {}
    for track in data.tracks:
        drawn = about.tracks.get(track.task.track)
        if drawn is None:
            continue
        records = audited_records(run, track, frozenset(drawn.sessions))
        scores = corrected_scores(track.task, records)
        tracks[track.task.track] = AuditedTrack(scores=scores, **_looked_into(run, track, records))
    ledger = Ledger(folder / "calls.jsonl")
    ledger.close()
    own = {} if about.judge_check is None else {"judge_check": about.judge_check}
    return AuditSummary(
        judge=about.judge,
        fingerprint=str(about.fingerprint["id"]),
        share=about.share,
        calls=summarise_calls(ledger.totals),
        tracks=tracks,
        **own,
    )


def audit_fault(audit: AuditSummary | None) -> str | None:
    """Return why an audit corrects no score of a track; None where it does, or there is none."""
    if audit is None:
        return None
    for name, track in audit.tracks.items():
        reasons = [score.reason for score in track.scores.values() if score.value is None]
        if not track.scores or len(reasons) == len(track.scores):
            why = reasons[0] if reasons else "no audit score on any record"
            mend = "the same command retries"
            if audit.by_people:
                mend = "let annotators decide these items"
            return f"{track_title(name)} is not corrected: {why}; {mend}"
    return None


def _looked_into(run: Path, track: TrackData, records: AuditedRecords) -> dict[str, Any]:
    """Return the slices of the headline, and what its cheap judge is bent by."""
    metric = track.task.headline
    if not correctable(metric, records):
        return {}
    traits = traits_of(run, track, records.keys)
    slices = corrected_slices(records, traits, metric)
    bent = bent_by([errors_of(records, traits, metric)])
    return {"slices": slices, "bent": bent}
