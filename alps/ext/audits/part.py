"""The part of audits in a run: they are drawn and judged once it is finished.

What an audit finds: corrected scores, slices, causes of the cheap judge's bias, cost.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.ext.audits import DIFFER, FOLDER
from alps.ext.audits.audit import (
    VERDICTS,
    audit_run,
    audit_settings,
    check_audit,
    drawn_data,
    is_audited,
    read_audit,
    refuse_half_an_audit,
)
from alps.ext.audits.records import AuditedRecords, audited_records, correctable, corrected_scores
from alps.ext.audits.settings import AuditKeys
from alps.ext.audits.slices import bent_by, corrected_slices, errors_of, traits_of
from alps.jsonl import scan
from alps.llm.ledger import Ledger
from alps.rows import AuditedTrack, AuditSummary, Summary
from alps.run.estimate import Stage
from alps.run.folder import claimed_folder, write_summary
from alps.run.opened import open_run
from alps.run.parts import Estimated, RunPart
from alps.run.session import RunSession
from alps.run.source import RunData, TrackData, open_data, refuse_changed, settings_of_run
from alps.run.summary import Finished, summarise_calls
from alps.show.formatting import counted
from alps.tasks.registry import track_title


class AuditRunPart(RunPart):
    """The audit of one run."""

    _folder: Path | None = None

    def refuse(self) -> None:
        """Refuse an audit without a judge or a share."""
        refuse_half_an_audit(AuditKeys.of(self.settings))

    def uses(self, key: str) -> bool:
        """Tell whether an LLM that audits is checked first."""
        return key == "judge_check" and AuditKeys.of(self.settings).audit_judge is not None

    def check(self, data: RunData, *, generate: bool, keys: bool) -> None:
        """Refuse an audit that can't be carried out."""
        check_audit(self.settings, data, keys=keys)

    def conclude(self, session: RunSession, spent: tuple[int, float]) -> bool:
        """Have the drawn answers judged once more."""
        if not is_audited(self.settings):
            return False
        return audit_run(self.settings, session.data, session.folder, spent=spent)

    def conclusions(self, summary: Summary, session: RunSession) -> Summary:
        """Add what the audit corrects."""
        self._folder = session.folder
        audit = _audit_summary(session.folder, session.data)
        return summary if audit is None else summary.model_copy(update={"audit": audit})

    def fault(self, summary: Summary) -> str | None:
        """Return why the audit corrects nothing."""
        return _audit_fault(summary.audit, self._folder)

    def stages(self, session: RunSession, estimated: Estimated) -> Sequence[Stage]:
        """Count what the audit judge is asked."""
        if AuditKeys.of(self.settings).audit_judge is None:
            return ()
        # The audit judges answers of the run alone; its baselines are the cheap judge's.
        asking = audit_settings(self.settings).model_copy(update={"baseline_records": 0})
        drawn, folder = drawn_data(session.data, self.settings), session.folder
        names = {"judge": "audit", "known items": "known items of audit_judge"}
        stages = []
        for stage in estimated(asking, drawn, folder, folder / FOLDER):
            if stage.name in names:
                stages.append(replace(stage, name=names[stage.name]))
        return stages


def audit_again(source: Path, auditing: dict[str, Any]) -> Finished:
    """Audit a finished run in its own folder; the rest of it stays as it is.

    Args:
        source: The folder of the run.
        auditing: The audit settings and caps that were given.

    Raises:
        AlpsError: If the folder is no finished run, or the audit can't be carried out.
    """
    if "out" in auditing:
        kept = "an audit is stored in the audited run; leave it out"
        raise UsageError(f"out={auditing['out']} would change nothing: {kept}")
    opened = open_run(source)
    summary, then = opened.finished, opened.manifest
    settings = settings_of_run(source, then.settings, **auditing)
    refuse_half_an_audit(AuditKeys.of(settings))
    data = open_data(settings)
    # Other data under the same ids would be judged with the answers to the old ones.
    refuse_changed(source, then, settings, data)
    check_audit(settings, data)
    with claimed_folder(source) as ledger:
        stopped = audit_run(settings, data, source, spent=ledger.totals.counted)
        summary = summary.model_copy(update={"audit": _audit_summary(source, data)})
        write_summary(source, summary)
    fault = _audit_fault(summary.audit, source)
    return Finished(source, summary, data.tasks, False, stopped, fault)


def _audit_summary(run: Path, data: RunData) -> AuditSummary | None:
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
    told = ("judge_check", "judge_check_before")
    own = {name: getattr(about, name) for name in told if getattr(about, name) is not None}
    return AuditSummary(
        judge=about.judge,
        fingerprint=str(about.fingerprint["id"]),
        share=about.share,
        calls=summarise_calls(ledger.totals),
        tracks=tracks,
        **own,
    )


def _audit_fault(audit: AuditSummary | None, run: Path | None) -> str | None:
    """Return why an audit corrects no score of a track; None where it does, or there is none."""
    if audit is None:
        return None
    for name, track in audit.tracks.items():
        reasons = [score.reason for score in track.scores.values() if score.value is None]
        # A user asked for corrected scores: a run with none of them must not end with exit code 0.
        if not track.scores or len(reasons) == len(track.scores):
            why = reasons[0] if reasons else "no record has an audit score"
            mend = "to retry, repeat the same command"
            if audit.by_people:
                mend = _mend_by_people(run)
            return f"{track_title(name)} is not corrected: {why}; {mend}"
    return None


def _mend_by_people(run: Path | None) -> str:
    """Say what people are to do so that each drawn record has an audit score."""
    rows = [] if run is None else [row or {} for _, _, row in scan(run / FOLDER / VERDICTS)]
    open_records = sum(DIFFER in str(row.get("error")) for row in rows)
    if not open_records:
        return "have annotators label these records"
    decide = "alps annotate FOLDER as=NAME adjudicate=yes"
    told = f"{DIFFER} on {counted(open_records, 'record')}"
    return f"{told}: let a third person decide ({decide}), export and score again"


def _looked_into(run: Path, track: TrackData, records: AuditedRecords) -> dict[str, Any]:
    """Return the slices of the headline, and what its cheap judge is bent by."""
    metric = track.task.headline
    if not correctable(metric, records):
        return {}
    traits = traits_of(run, track, records.keys)
    slices = corrected_slices(records, traits, metric)
    bent = bent_by([errors_of(records, traits, metric)])
    return {"slices": slices, "bent": bent}
