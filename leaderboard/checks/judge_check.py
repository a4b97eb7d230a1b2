"""Known items that the judge of a submission got right, against the rest of its card."""

from alps.judges.admission import DRAWN
from alps.judges.resolve import is_embedded_judge
from alps.leaderboard.findings import PACK_AGAIN, Findings
from alps.leaderboard.recompute import judge_of
from alps.leaderboard.submission import RunCard, Track
from alps.leaderboard.untrusted import shown
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
    for rubric, share in run.judge_check.items():
        if not share.right <= share.n <= DRAWN:
            what = f"{share.right} right of {share.n}, where a judge is asked {DRAWN}"
            findings.serious(_CODE, f"{where}.{shown(rubric, 40)}", what, PACK_AGAIN)
    for metric in refused_metrics(task, judge_of(track, run)):
        if metric in track.scores and track.scores[metric].value is not None:
            what = "its judge got too few known items right to give it a score"
            findings.serious(_CODE, f"tracks.{name}.scores.{metric}", what, PACK_AGAIN)
