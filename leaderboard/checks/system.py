"""Which system a submission is: its task has a board, and its name is nobody else's."""

from alps.leaderboard.findings import Findings
from alps.leaderboard.submission import Submission
from alps.leaderboard.wording import shown
from alps.tasks.registry import ALL, TASKS


def check_tasks(card: Submission, findings: Findings) -> None:
    """Refuse a run of a task that has no board, such as one of the submitter's own: its code is not run here."""
    for place, run in enumerate(card.runs):
        told = run.settings.get("task", ALL)
        names = told.split(",") if isinstance(told, str) else [str(told)]
        if unknown := [name for name in names if name not in (*TASKS, ALL)]:
            what = f"{shown(unknown[0])} has no board; its code is not imported"
            findings.serious("task", f"runs.{place}.settings.task", what, f"submit runs of {', '.join(TASKS)}")
