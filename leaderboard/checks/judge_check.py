"""Known items that the judge of a submission got right, against the rest of its card."""

from collections.abc import Mapping

from alps.judges.admission import DRAWN, is_admitted
from alps.judges.resolve import is_embedded_judge
from alps.leaderboard.findings import PACK_AGAIN, Findings
from alps.leaderboard.recompute import judge_of
from alps.leaderboard.submission import Audit, RubricCheck, RunCard, Track
from alps.leaderboard.untrusted import shown
from alps.rows import PEOPLE
from alps.run.summary import refused_metrics
from alps.tasks import Task

_CODE = "judge_check"


def check_judge_check(
    name: str, track: Track, run: RunCard, task: Task, findings: Findings
) -> None:
    """Hold the check of a track's judge against its rubrics and scores; warn without one."""
    where = f"runs.{track.run}.judge_check"
    if is_embedded_judge(track.judge):
        if run.judge_check is not None:
            what = f"judge {shown(track.judge)} is embedded, and is asked no known items"
            findings.serious(_CODE, where, what, PACK_AGAIN)
        return
    values = [score.value for score in track.scores.values()]
    if not task.rubrics or values.count(None) == len(values):
        return
    if not run.judge_check:
        what = f"judge {shown(track.judge)} was not checked on known items: boards say so"
        findings.warn(_CODE, where, what, "run it without judge_check=no, in this version")
        return
    lacking = [one.name for one in task.rubrics if one.name not in run.judge_check]
    if lacking:
        what = f"{name} is judged by {', '.join(lacking)}, of which no items were asked"
        findings.serious(_CODE, where, what, PACK_AGAIN)
    _check_shares(run.judge_check, where, findings)
    for metric in refused_metrics(task, judge_of(track, run)):
        if metric in track.scores and track.scores[metric].value is not None:
            what = "its judge got too few known items right to give it a score"
            findings.serious(_CODE, f"tracks.{name}.scores.{metric}", what, PACK_AGAIN)


def check_audit_judge(name: str, audit: Audit, task: Task, findings: Findings) -> None:
    """Hold the check of an audit's judge against the rubrics of the track; warn without one."""
    where = f"tracks.{name}.audit.judge_check"
    if audit.judge == PEOPLE or is_embedded_judge(audit.judge):
        if audit.judge_check:
            what = f"auditor {shown(audit.judge)} is asked no known items"
            findings.serious(_CODE, where, what, PACK_AGAIN)
        return
    if not audit.judge_check:
        what = f"audit judge {shown(audit.judge)} was not checked on known items: boards say so"
        findings.warn(_CODE, where, what, "audit without judge_check=no, and pack the run again")
        return
    _check_shares(audit.judge_check, where, findings)
    shares = [audit.judge_check.get(one.name) for one in task.rubrics]
    if task.rubrics and not any(share is not None and is_admitted(share) for share in shares):
        names = ", ".join(one.name for one in task.rubrics)
        what = f"its judge got too few known items of {names} right to audit {name}"
        findings.serious(_CODE, where, what, PACK_AGAIN)


def _check_shares(checks: Mapping[str, RubricCheck], where: str, findings: Findings) -> None:
    for rubric, share in checks.items():
        if not share.right <= share.n <= DRAWN:
            what = f"{share.right} right of {share.n}, where a judge is asked {DRAWN}"
            findings.serious(_CODE, f"{where}.{shown(rubric, 40)}", what, PACK_AGAIN)
