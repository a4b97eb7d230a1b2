"""Audits on boards: what of one is published, and how it is checked or made by a maintainer.

Whatever a seed is made of that a submission holds, its submitter can vary: a word more in one of
the answers is another draw, and the best of 2,000 makes a score. So boards have what an audit
corrects where a maintainer's review drew its seed, for these very answers, verdicts and scores.

The draw, the scores under the audit judge, and what they correct are recomputed. Where a sample of
a submission is judged again, its own verdicts stand for a cheap judge, and the maintainer's for its
audit: its scores are corrected by prediction-powered inference.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.errors import BudgetError, UsageError
from alps.ext.audits import FOLDER
from alps.ext.audits.audit import SCORES, VERDICTS, audit_run, read_audit
from alps.ext.audits.draws import answer_seed, draw_tracks, place_of
from alps.ext.audits.records import corrected_scores, records_of
from alps.judges.admission import is_admitted
from alps.judges.base import fingerprint_id
from alps.judges.embedded import is_embedded_judge
from alps.leaderboard.checks import PACK_AGAIN, Findings, some_of
from alps.leaderboard.checks.card import JUDGE_CHECK, check_shares
from alps.leaderboard.checks.copies import others_beside
from alps.leaderboard.checks.rows import (
    SubmittedScore,
    TrackRows,
    check_answers,
    check_verdicts,
    named,
)
from alps.leaderboard.checks.scores import differences, figure, report_differences
from alps.leaderboard.gold_data import GoldTrack, task_of
from alps.leaderboard.parts import AUDIT, BoardPart
from alps.leaderboard.recompute import Key, recompute
from alps.leaderboard.settings import RescoreSettings
from alps.leaderboard.site_data import content_of, drawn_by_a_maintainer
from alps.leaderboard.submission import (
    AuditDraw,
    PublishedAudit,
    PublishedTrack,
    RunCard,
    Sampled,
    SubmissionEntry,
    only,
    without,
)
from alps.leaderboard.untrusted import shown
from alps.leaderboard.verify import TrackCheck
from alps.rows import PEOPLE, AuditedScore
from alps.run.folder import claimed_folder
from alps.run.opened import AnswerKey as RunKey
from alps.run.opened import RunFolder, read_manifest, read_rows
from alps.run.source import RunData, open_data
from alps.settings import RunSettings, parse_settings
from alps.show.formatting import counted
from alps.tasks import Task, board_tracks

_SEEDS = 2**31


class AuditBoardPart(BoardPart):
    """The audits of a submission."""

    def track_rows(self, run: RunFolder, name: str) -> Mapping[str, list[dict[str, Any]]]:
        """Return the scores under the audit judge, where any score of the track is corrected.

        Each comes with its verdict, if any.

        Raises:
            RunFolderError: If a file of the audit can't be read.
        """
        summary = run.summary
        found = summary.audit if summary is not None else None
        if found is None or name not in found.tracks or not found.tracks[name].scores:
            return {}
        verdicts = read_rows(run.folder / FOLDER / VERDICTS)
        rows = []
        for key, row in read_rows(run.folder / FOLDER / SCORES).items():
            if key.track == name:
                own = only(row, SubmittedScore.model_fields)
                rows.append({**own, "verdict": verdicts.get(key)})
        return {AUDIT: rows} if rows else {}

    def track_card(self, run: RunFolder, name: str, files: Mapping[str, Any]) -> dict[str, Any]:
        """Return the card of the audit of a track."""
        if AUDIT not in files:
            return {}
        about, found = read_audit(run.folder / FOLDER), run.finished.audit
        assert about is not None
        assert found is not None
        scores = {metric: score.row() for metric, score in found.tracks[name].scores.items()}
        checks = about.judge_check
        known = {}
        if checks is not None:
            known["judge_check"] = {one: checks[one].row() for one in checks}
        card = {
            **known,
            "judge": about.judge,
            "fingerprint": about.fingerprint,
            "sessions": len(about.tracks[name].sessions),
            "seed": about.seed_of(name),
            "scores": scores,
        }
        return {AUDIT: card}

    def check_rows(self, check: TrackCheck, rows: TrackRows, findings: Findings) -> None:
        """Say of an audit that no maintainer drew that its submitter could choose the records."""
        check_audit_draw(check, rows, findings)

    def check_answers(self, check: TrackCheck, gold: GoldTrack, rows: TrackRows) -> None:
        """Recompute the audit of a track."""
        check_audit(check, gold, rows)

    def review(self, entry: SubmissionEntry) -> dict[str, Any]:
        """Return the draw that a review gives the audits of a submission.

        The same answers, verdicts and scores get one draw, whoever sends them under whatever name,
        and others get another. None is given where no judge has a part in the scores.
        """
        content = content_of(entry.card)
        # Sent again under another name, the same answers must not get a second draw to choose from.
        for one in (entry, *others_beside(entry.folder)):
            there = None if one.review is None else one.review.audit_draw
            if there is not None and there.answers == content:
                return {"audit_draw": there}
        if not any(board_tracks()[name].judged for name in entry.card.tracks):
            return {}
        # From the system's randomness: what follows from the card could be tried out beforehand.
        return {"audit_draw": AuditDraw(answers=content, seed=secrets.randbelow(_SEEDS))}

    def judge_sample(
        self,
        entry: SubmissionEntry,
        source: Path,
        settings: RescoreSettings,
        judging: Mapping[str, Any],
    ) -> dict[str, dict[str, Any]]:
        """Judge a sample of the answers in `source`, as an audit of the submitted verdicts."""
        return judge_sample(entry, source, settings, judging)


@dataclass(frozen=True)
class Audited:
    """An audit that is checked: its card, and the track as its judge's."""

    name: str
    audit: PublishedAudit
    track: PublishedTrack
    run: RunCard
    gold: GoldTrack
    rows: TrackRows


def check_audit(check: TrackCheck, gold: GoldTrack, rows: TrackRows) -> None:
    """Check the audit of a track whose own rows are in order, if it has one."""
    name, track, run, findings = check.name, check.track, check.run, check.findings
    audit = track.audit
    if (audit is None) != (track.files.audit is None):
        what = "the card lacks either the audit or its file audit.jsonl"
        findings.serious("audit", f"tracks.{name}.audit", what, PACK_AGAIN)
    if audit is None:
        return
    if audit.fingerprint.get("id") != fingerprint_id(without(audit.fingerprint, "id")):
        what = "the id is not the hash of the other parts of the fingerprint"
        findings.serious("audit", f"tracks.{name}.audit.fingerprint", what, PACK_AGAIN)
        return
    settings = {**run.settings, "judge": audit.judge, "extras": "none"}
    under = {"judge": audit.judge, "judge_fingerprint": audit.fingerprint["id"]}
    audited = Audited(
        name=name,
        audit=audit,
        track=track.model_copy(update=under),
        run=run.model_copy(update={"judge": audit.fingerprint, "settings": settings}),
        gold=gold,
        rows=rows,
    )
    _check_judge(name, audit, gold.task, findings)
    own = Findings()
    sessions = _check_draw(audited, own)
    if not own.refused:
        _check_scores(audited, own)
    if not own.refused:
        _check_corrected(audited, sessions, own)
    findings.take(own, f"{name}/audit.jsonl")


def check_audit_draw(check: TrackCheck, rows: TrackRows, findings: Findings) -> None:
    """Say of an audit that no maintainer drew that its submitter could choose the records."""
    name, track, review = check.name, check.track, check.review
    if track.audit is None or drawn_by_a_maintainer(check.card, review, name):
        return
    where, own = f"tracks.{name}.audit.seed", f"the records were drawn with seed {track.audit.seed}"
    given = None if review is None else review.audit_draw
    # A submitter who keeps the seed and changes an answer has chosen among draws after all.
    if given is not None and given.seed == track.audit.seed:
        what = f"{own}, which a maintainer drew for other answers, verdicts or scores"
        findings.warn(
            "audit", where, f"{what}; boards omit the audit", "ask a maintainer for a new draw"
        )
        return
    seed = answer_seed(
        task_of(name, track.conditions), track.data_sha256, rows.predictions, rows.scores
    )
    if track.audit.seed == seed:
        what = "the seed follows from the answers, which the submitter could vary; boards omit "
        what += "the audit until a maintainer draws the records"
        findings.note("audit", where, what)
        return
    fix = "audit the run with the seed of a maintainer's review (audit_seed=), then pack it again"
    what = f"{own}, which the submitter may have chosen; boards omit the audit"
    findings.warn("audit", where, what, fix)


def _check_judge(name: str, audit: PublishedAudit, task: Task, findings: Findings) -> None:
    """Hold the check of an audit's judge against the rubrics of the track; warn without one."""
    where = f"tracks.{name}.audit.judge_check"
    if audit.judge == PEOPLE or is_embedded_judge(audit.judge):
        if audit.judge_check:
            what = (
                f"the card has a check on known items, but auditor {shown(audit.judge)} needs none"
            )
            findings.serious(JUDGE_CHECK, where, what, PACK_AGAIN)
        return
    if not audit.judge_check:
        what = f"audit judge {shown(audit.judge)} was not checked on known items; boards show this"
        findings.warn(
            JUDGE_CHECK, where, what, "audit the run without judge_check=no, then pack it again"
        )
        return
    check_shares(audit.judge_check, where, findings)
    shares = [audit.judge_check.get(one.name) for one in task.rubrics]
    if task.rubrics and not any(share is not None and is_admitted(share) for share in shares):
        names = ", ".join(one.name for one in task.rubrics)
        what = f"to audit {name}, the audit judge got too few known items right ({names})"
        findings.serious(JUDGE_CHECK, where, what, PACK_AGAIN)


def _check_draw(audited: Audited, findings: Findings) -> frozenset[str]:
    """Hold the audited records against the sessions that the seed draws; return these."""
    audit, samples = audited.audit, audited.gold.samples
    known = {sample.session_id for sample in samples.values() if audited.gold.task.has_gold(sample)}
    order = sorted(known, key=lambda session: place_of(session, audit.seed))
    sessions = frozenset(order[: audit.sessions])
    missing, extra = [], [named(key) for key in audited.rows.audit if key[0] not in samples]
    for key, row in audited.rows.scores.items():
        drawn = key[0] in samples and samples[key[0]].session_id in sessions
        # Else a file could lack the answers that the cheap judge flatters most.
        if drawn and row["scores"] and key not in audited.rows.audit:
            missing.append(named(key))
        elif key in audited.rows.audit and not drawn:
            extra.append(named(key))
    for what, names in (("drawn but not audited", missing), ("audited but not drawn", extra)):
        if names:
            records = counted(len(names), "record")
            found = f"with seed {audit.seed}, {records} {what}: {some_of(names)}"
            findings.serious("audit", "the draw", found, PACK_AGAIN)
    return sessions


def _check_scores(audited: Audited, findings: Findings) -> None:
    """Score the audited answers again from the verdicts of the audit judge."""
    rows, verdicts = audited.rows, dict[Key, Mapping[str, Any]]()
    predictions = {key: rows.predictions[key] for key in rows.audit if key in rows.predictions}
    for key, row in rows.audit.items():
        if row.get("verdict") is not None:
            verdicts[key] = row["verdict"]
    own = TrackRows(predictions, verdicts, {})
    task, name = audited.gold.task, audited.name
    check_verdicts(task, audited.track, audited.run, own, findings)
    if findings.refused:
        return
    own = check_answers(name, audited.gold, own, findings)
    again = recompute(
        audited.gold, audited.track, audited.run, own.predictions, own.verdicts, floors=False
    )
    wrong = []
    for key, row in rows.audit.items():
        # Which relations an embedded judge tells apart, and so which metrics it has, is not known.
        printed = row["scores"]
        now = only(again.scores.get(key, {}).get("scores", {}), printed)
        wrong += [(key, one) for one in differences(printed, now, "scores")]
    if wrong:
        key, (where, before, now) = min(wrong, key=lambda one: one[0])
        what = f"{where}: the file has {figure(before)}, but alps recomputed {figure(now)}"
        findings.serious("audit", named(key), what, PACK_AGAIN)


def _check_corrected(audited: Audited, sessions: frozenset[str], findings: Findings) -> None:
    """Correct the scores again."""
    task, rows = audited.gold.task, audited.rows
    session_of = {name: sample.session_id for name, sample in audited.gold.samples.items()}
    cheap, audit = (_scores_of(audited.name, side) for side in (rows.scores, rows.audit))
    records = records_of(task, cheap, audit, session_of, sessions)
    again = {metric: score.row() for metric, score in corrected_scores(task, records).items()}
    printed = {}
    for metric, score in audited.audit.scores.items():
        printed[metric] = score.model_dump(exclude_unset=True)
    report_differences("corrected", printed, again, findings, code="audit", fix=PACK_AGAIN)


def _scores_of(track: str, rows: Mapping[tuple[str, int], Mapping[str, Any]]) -> dict[RunKey, Any]:
    """Return the scores of rows by the keys of a run."""
    scores = {}
    for (name, repeat), row in rows.items():
        if row.get("scores"):
            scores[RunKey(track, name, repeat)] = row["scores"]
    return scores


def judge_sample(
    entry: SubmissionEntry, source: Path, settings: RescoreSettings, judging: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Judge a sample of the answers in `source`; return its tracks as a review has them.

    It resumes if some are judged.

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
    # A second seed would allow to stop at the sample that suits.
    if there is not None:
        seed = there.seed_of(next(iter(there.tracks)))
    # The submitted verdicts take the place of this judge, which is never asked.
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
                "the budget is spent; to resume, repeat the command with a larger budget"
            )
    about = read_audit(source / FOLDER)
    assert about is not None
    tracks: dict[str, dict[str, Any]] = {}
    for name, draw in draws.tracks.items():
        scores = _corrected(entry, source, data, name, frozenset(draw.sessions))
        if not scores:
            why = f"a sample cannot correct the scores of {name}"
            raise UsageError(f"sample=: {why}; leave out sample=")
        sample = Sampled(seed=seed, records=draw.records, n=draw.n).model_dump()
        judge = about.fingerprint["id"]
        tracks[name] = {"scores": scores, "judge_fingerprint": judge, "sample": sample}
    return tracks


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
    sides = (_scores_of(name, printed), _scores_of(name, again))
    records = records_of(track.task, *sides, session_of, sessions)
    corrected = corrected_scores(track.task, records)
    return {metric: _row(score) for metric, score in corrected.items() if score.value is not None}


def _row(score: AuditedScore) -> dict[str, Any]:
    return {"value": score.value, "low": score.low, "high": score.high, "n": score.n}


BOARD = AuditBoardPart()
