"""What answered the calls of a submission, as its providers said: a model that changed is another
system, or judge.
"""

from collections.abc import Iterator
from typing import Literal

from alps.leaderboard.findings import Findings
from alps.leaderboard.submission import RunCard, Submission
from alps.leaderboard.wording import shown

Purpose = Literal["generate", "judge"]
_ROLES: dict[Purpose, str] = {"generate": "the answers", "judge": "the verdicts"}
_MOST_NAMES = 4


def check_served(card: Submission, findings: Findings) -> None:
    """Warn where the answers, or the verdicts of one judge, are of more than one model or build of
    it.
    """
    for purpose, role in _ROLES.items():
        for asked in sorted({_asked(run, purpose) for run in card.runs}):
            runs = [
                (place, run) for place, run in enumerate(card.runs) if _asked(run, purpose) == asked
            ]
            where = (
                f"runs.{runs[0][0]}.served.{purpose}"
                if len(runs) == 1
                else f"runs.served.{purpose}"
            )
            for kind, names in _names([run for _, run in runs], purpose):
                if len(names) > 1:
                    what = f"{role} asked of {shown(asked, 60)} are of {len(names)} {kind}: {_listed(names)}"
                    findings.warn(
                        "served", where, what, "ask for a snapshot by its name, and run it again"
                    )


def _asked(run: RunCard, purpose: Purpose) -> str:
    """Return the name by which a model was asked for."""
    return str(run.settings.get("model" if purpose == "generate" else "judge"))


def _names(runs: list[RunCard], purpose: Purpose) -> Iterator[tuple[str, list[str]]]:
    """Yield the models, and their builds, that gave answers in some runs."""
    rows = [row for run in runs if run.served for row in run.served.get(purpose, [])]
    yield "models", sorted({row.model for row in rows if row.model})
    yield "builds", sorted({row.fingerprint for row in rows if row.fingerprint})


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    listed = ", ".join(shown(name, 60) for name in names[:_MOST_NAMES])
    return listed + (f" and {more} more" if more > 0 else "")
