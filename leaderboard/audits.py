"""Audits of published runs: what of one is published, and what audits of others say of a row."""

from collections.abc import Mapping, Sequence
from typing import Any

from alps.leaderboard.checks.rows import ScoreRow
from alps.leaderboard.site_data import System
from alps.leaderboard.submission import only
from alps.rows import auditor_of
from alps.run.audited_records import AuditedRecords, correctable, records_of
from alps.run.auditing import FOLDER, SCORES, VERDICTS, read_audit
from alps.run.opened import Key, Run, read_rows
from alps.run.transport import Transported, of_metric
from alps.tasks import Metric, Task

MARGIN = 0.05
"""The largest difference of mean errors that does not matter on a board: a share of the scale."""


def audit_card(run: Run, name: str) -> dict[str, Any]:
    """Return the card of the audit of a track."""
    about, found = read_audit(run.folder / FOLDER), run.finished.audit
    assert about is not None
    assert found is not None
    scores = {metric: score.row() for metric, score in found.tracks[name].scores.items()}
    return {
        "judge": about.judge,
        "fingerprint": about.fingerprint,
        "sessions": len(about.tracks[name].sessions),
        "seed": about.seed,
        "scores": scores,
    }


def audit_rows(run: Run, name: str) -> list[dict[str, Any]]:
    """Return the scores of a track under the audit judge, each with its verdict, if any.

    Nothing where no score of the track is corrected.

    Raises:
        RunFolderError: If a file of the audit can't be read.
    """
    summary = run.summary
    found = summary.audit if summary is not None else None
    if found is None or name not in found.tracks or not found.tracks[name].scores:
        return []
    verdicts = read_rows(run.folder / FOLDER / VERDICTS)
    rows = []
    for key, row in read_rows(run.folder / FOLDER / SCORES).items():
        if key.track == name:
            rows.append({**only(row, ScoreRow.model_fields), "verdict": verdicts.get(key)})
    return rows


def transports(
    systems: Sequence[System], track: str, task: Task, metric: Metric
) -> dict[str, Transported]:
    """Return by slug whether the audits of the others hold for a system.

    Nothing for one that has no audits of the metric, or whose auditor audited no other.
    """
    records: dict[str, AuditedRecords] = {}
    for system in systems:
        audit = system.card.tracks[track].audit
        if audit is not None and metric.name in audit.scores:
            own = _records(system, track, task)
            if correctable(metric, own):
                records[system.slug] = own
    by_slug = {system.slug: system for system in systems}
    margin, found = MARGIN * (metric.highest - metric.lowest), {}
    for slug, own in records.items():
        auditor = _auditor(by_slug[slug], track)
        others = {}
        for name, theirs in records.items():
            if name != slug and _auditor(by_slug[name], track) == auditor:
                others[name] = theirs.of(metric)
        if others:
            found[slug] = of_metric(track, metric, own.of(metric), others, margin)
    return found


def _auditor(system: System, track: str) -> str:
    audit = system.card.tracks[track].audit
    return "" if audit is None else auditor_of(audit.judge, str(audit.fingerprint.get("id")))


def _records(system: System, track: str, task: Task) -> AuditedRecords:
    sides = []
    for stage in ("scores", "audit"):
        rows = {}
        for row in system.rows(track, stage):
            rows[row["benchmark_id"], row.get("repeat", 0)] = row
        sides.append(scores_of(track, rows))
    # Of data that are not here nobody knows the sessions: each record is one of its own.
    session_of = system.sessions(track) or {key.id: key.id for key in sides[0]}
    drawn = frozenset(session_of[key.id] for key in sides[1] if key.id in session_of)
    return records_of(task, sides[0], sides[1], session_of, drawn)


def scores_of(track: str, rows: Mapping[tuple[str, int], Mapping[str, Any]]) -> dict[Key, Any]:
    """Return the scores of rows by the keys of a run."""
    scores = {}
    for (name, repeat), row in rows.items():
        if row.get("scores"):
            scores[Key(track, name, repeat)] = row["scores"]
    return scores
