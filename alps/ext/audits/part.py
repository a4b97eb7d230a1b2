"""The part of audits in a run: they are drawn and judged once it is finished."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from alps.ext.audits import FOLDER
from alps.ext.audits.audit import (
    audit_run,
    audit_settings,
    check_audit,
    drawn_data,
    is_audited,
    refuse_half_an_audit,
)
from alps.ext.audits.findings import audit_fault, audit_summary
from alps.ext.audits.settings import AuditKeys
from alps.parsing import parse_settings
from alps.rows import Summary
from alps.run.estimate import Stage
from alps.run.finished import Finished
from alps.run.folder import claimed_folder, write_summary
from alps.run.opened import open_run
from alps.run.parts import Estimated, RunPart
from alps.run.session import RunSession
from alps.run.source import RunData, open_data, refuse_changed
from alps.settings import RunSettings


class Part(RunPart):
    """The audit of one run."""

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
        audit = audit_summary(session.folder, session.data)
        return summary if audit is None else summary.model_copy(update={"audit": audit})

    def fault(self, summary: Summary) -> str | None:
        """Return why the audit corrects nothing."""
        return audit_fault(summary.audit)

    def stages(self, session: RunSession, estimated: Estimated) -> Sequence[Stage]:
        """Count what the audit judge is asked."""
        if AuditKeys.of(self.settings).audit_judge is None:
            return ()
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
    opened = open_run(source)
    summary, then = opened.finished, opened.manifest
    settings = parse_settings({**then.settings, **auditing}, RunSettings)
    refuse_half_an_audit(AuditKeys.of(settings))
    data = open_data(settings)
    refuse_changed(source, then, settings, data)
    check_audit(settings, data)
    with claimed_folder(source) as ledger:
        stopped = audit_run(settings, data, source, spent=ledger.totals.counted)
        summary = summary.model_copy(update={"audit": audit_summary(source, data)})
        write_summary(source, summary)
    return Finished(source, summary, data.tasks, False, stopped, audit_fault(summary.audit))
