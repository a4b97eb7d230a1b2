"""What a track says it is about: the data, the conditions, and the judge, whose fingerprint must
fit its parts.
"""

from alps.judges.base import fingerprint_id
from alps.judges.lexical import LexicalJudge
from alps.leaderboard.findings import Findings
from alps.leaderboard.recompute import judge_of
from alps.leaderboard.submission import RunCard, Submission, Track
from alps.leaderboard.wording import shown
from alps.tasks import Task

_TASKS = {"task1": "extraction", "task2": "update", "task3": "retrieval", "task4": "utilization"}
_AGAIN = "pack the runs again with alps submit"


def check_judges(card: Submission, findings: Findings) -> None:
    """Hold the id of each judge against the parts that it is the hash of."""
    for place, run in enumerate(card.runs):
        parts = {name: value for name, value in run.judge.items() if name != "id"}
        if run.judge.get("id") != fingerprint_id(parts):
            what = f"printed {shown(str(run.judge.get('id')), 20)}, but its parts give {fingerprint_id(parts)}"
            findings.serious("fingerprint", f"runs.{place}.judge.id", what, _AGAIN)
        if not isinstance(parts.get("rubrics", {}), dict):
            findings.serious(
                "fingerprint", f"runs.{place}.judge.rubrics", "not the hashes of rubrics", _AGAIN
            )


def check_identity(name: str, track: Track, run: RunCard, task: Task, findings: Findings) -> None:
    """Hold what a track's card says of its task and its judge against what follows from the rest of
    the card.
    """
    judge = judge_of(track, run)
    kind = str(run.judge.get("judge"))
    parts = {part: value for part, value in run.judge.items() if part != "id"}
    if isinstance(judge, LexicalJudge) and parts != judge.fingerprint:
        what = f"goes by the name of {judge.name}, and its fingerprint is not that of this version"
        mend = "run it again with this version, or with a judge of another name"
        findings.serious("identity", f"runs.{track.run}.judge", what, mend)
    expected = {
        "conditions": dict(task.conditions),
        "comparable": judge.comparable,
        "judge_fingerprint": fingerprint_id(judge.fingerprint_for(task.rubrics)),
    }
    for part, value in expected.items():
        printed = getattr(track, part)
        if printed != value:
            what = f"printed {shown(str(printed))}, but the card gives {shown(str(value))}"
            findings.serious("identity", f"tracks.{name}.{part}", what, _AGAIN)
    if track.judge != kind and not (kind == "recorded" and track.judge.startswith("recorded:")):
        what = f"{shown(track.judge)}, but its fingerprint is of {shown(kind)}"
        findings.serious("identity", f"tracks.{name}.judge", what, _AGAIN)
    told = run.settings.get("judge")
    if (
        isinstance(told, str)
        and told != kind
        and not (kind == "recorded" and told.startswith("recorded:"))
    ):
        what = f"{shown(told)}, but its fingerprint is of {shown(kind)}"
        findings.serious("identity", f"runs.{track.run}.settings.judge", what, _AGAIN)


def check_prompt(name: str, run: RunCard, task: Task, findings: Findings) -> None:
    """Tell where a model was asked in other words than ours."""
    said = run.prompts.get(task.prompt.id)
    if said != task.prompt_sha256:
        how = "is not named" if said is None else "has another wording than ours"
        findings.warn(
            "prompt",
            f"{name}: prompts",
            f"{task.prompt.id} {how}",
            "run it with the prompts of this version",
        )


def task_name(track: str) -> str:
    """Return the task that a track belongs to."""
    return _TASKS[track.partition("_")[0]]
