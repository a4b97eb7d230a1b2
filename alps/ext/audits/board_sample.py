"""Judge a sample of a submission again, and correct its scores by prediction-powered inference.

The submission's own verdicts stand for a cheap judge, and the maintainer's for its audit.
"""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alps.errors import BudgetError, UsageError
from alps.ext.audits import FOLDER
from alps.ext.audits.audit import SCORES, audit_run, read_audit
from alps.ext.audits.board_checks import scores_of
from alps.ext.audits.draws import draw_tracks
from alps.ext.audits.records import corrected_scores, records_of
from alps.leaderboard.rescore import SampledRun
from alps.leaderboard.settings import RescoreSettings
from alps.leaderboard.submission import Sampled, SubmissionEntry
from alps.parsing import parse_settings
from alps.rows import AuditedScore
from alps.run.folder import claimed_folder
from alps.run.opened import read_manifest, read_rows
from alps.run.source import RunData, open_data
from alps.settings import RunSettings

_SEEDS = 2**31


def judge_sample(
    entry: SubmissionEntry, source: Path, settings: RescoreSettings, judging: Mapping[str, Any]
) -> SampledRun:
    """Judge a sample of the answers in `source`; resume if some are judged.

    Args:
        entry: The submission.
        source: A folder with the manifest and the predictions of one of its runs.
        settings: Those of the command; `sample` is the share of the sessions.
        judging: The settings of the judge that were typed, and what is left of the caps.

    Raises:
        UsageError: If too few records would be judged, or a track is not judged at all.
        BudgetError: If the budget stopped it.
        AlpsError: If the judge can't be used.
    """
    there = read_audit(source / FOLDER)
    # Drawn by the maintainer, and not before: whoever knew which records are judged again could
    # give all others the verdicts of a dream.
    seed = secrets.randbelow(_SEEDS)
    if there is not None:
        seed = there.seed_of(next(iter(there.tracks)))
    values = {**read_manifest(source).settings, **judging, "judge": "lexical"}
    values |= {"audit_judge": settings.judge, "audit": settings.sample, "audit_seed": seed}
    api_base = values.pop("judge_api_base", None)
    values |= {} if api_base is None else {"audit_judge_api_base": api_base}
    experiment = parse_settings(values, RunSettings)
    data = open_data(experiment)
    draws = draw_tracks(data, experiment, setting="sample")
    with claimed_folder(source) as ledger:
        if audit_run(experiment, data, source, spent=ledger.totals.counted):
            raise BudgetError(
                "stopped by the budget; the same command with a larger budget resumes it"
            )
    about = read_audit(source / FOLDER)
    assert about is not None
    tracks: dict[str, Mapping[str, Any]] = {}
    sampled: dict[str, Sampled] = {}
    for name, draw in draws.tracks.items():
        scores = _corrected(entry, source, data, name, frozenset(draw.sessions))
        if not scores:
            raise UsageError(f"sample=: no score of {name} can be corrected by a sample")
        tracks[name] = {"scores": scores, "judge_fingerprint": about.fingerprint["id"]}
        sampled[name] = Sampled(seed=seed, records=draw.records, n=draw.n)
    return SampledRun(tracks, sampled)


def _corrected(
    entry: SubmissionEntry, source: Path, data: RunData, name: str, sessions: frozenset[str]
) -> dict[str, dict[str, Any]]:
    """Return the scores of a track that its sample corrects, as a review has them."""
    track = next(track for track in data.tracks if track.task.track == name)
    session_of = {sample.benchmark_id: sample.session_id for sample in track.samples()}
    printed = {}
    for row in entry.rows(name, "scores"):
        printed[row["benchmark_id"], row.get("repeat", 0)] = row
    again = {}
    for key, row in read_rows(source / FOLDER / SCORES).items():
        if key.track == name:
            again[key.id, key.repeat] = row
    sides = (scores_of(name, printed), scores_of(name, again))
    records = records_of(track.task, *sides, session_of, sessions)
    corrected = corrected_scores(track.task, records)
    return {metric: _row(score) for metric, score in corrected.items() if score.value is not None}


def _row(score: AuditedScore) -> dict[str, Any]:
    return {"value": score.value, "low": score.low, "high": score.high, "n": score.n}
