"""Audits of published runs: what of one is published."""

from collections.abc import Mapping
from typing import Any

from alps.ext.audits import FOLDER
from alps.ext.audits.audit import SCORES, VERDICTS, read_audit
from alps.leaderboard.checks.rows import ScoreRow
from alps.leaderboard.submission import only
from alps.run.opened import Key, Run, read_rows


def audit_card(run: Run, name: str) -> dict[str, Any]:
    """Return the card of the audit of a track."""
    about, found = read_audit(run.folder / FOLDER), run.finished.audit
    assert about is not None
    assert found is not None
    scores = {metric: score.row() for metric, score in found.tracks[name].scores.items()}
    checks = about.judge_check
    known = {} if checks is None else {"judge_check": {one: checks[one].row() for one in checks}}
    return {
        **known,
        "judge": about.judge,
        "fingerprint": about.fingerprint,
        "sessions": len(about.tracks[name].sessions),
        "seed": about.seed_of(name),
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


def scores_of(track: str, rows: Mapping[tuple[str, int], Mapping[str, Any]]) -> dict[Key, Any]:
    """Return the scores of rows by the keys of a run."""
    scores = {}
    for (name, repeat), row in rows.items():
        if row.get("scores"):
            scores[Key(track, name, repeat)] = row["scores"]
    return scores
