"""Which system a submission is: its task has a board, and its name is nobody else's."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from alps.leaderboard.findings import Findings
from alps.leaderboard.history import histories
from alps.leaderboard.reading import LARGEST_CARD, read_bytes
from alps.leaderboard.strict_json import parse
from alps.leaderboard.submission import CARD, REVIEW, Review, Submission
from alps.leaderboard.wording import shown
from alps.tasks.registry import ALL, TASKS


def check_tasks(card: Submission, findings: Findings) -> None:
    """Refuse a run of a task that has no board, such as one of the submitter's own: its code is not
    run here.
    """
    for place, run in enumerate(card.runs):
        told = run.settings.get("task", ALL)
        names = told.split(",") if isinstance(told, str) else [str(told)]
        if unknown := [name for name in names if name not in (*TASKS, ALL)]:
            what = f"{shown(unknown[0])} has no board; its code is not imported"
            findings.serious(
                "task", f"runs.{place}.settings.task", what, f"submit runs of {', '.join(TASKS)}"
            )


def check_name(
    folder: Path, card: Submission, findings: Findings, *, continues: str | None, own_review: bool
) -> None:
    """Refuse a name that reads as that of another system beside it, unless a maintainer joined the
    two.

    Args:
        folder: The submission, in the folder with all others.
        card: Its card.
        findings: Takes what is found.
        continues: The submission of the same submitter, as the maintainer who asks knows.
        own_review: Whether the review of this one is a maintainer's: that of a change is the
            submitter's word.
    """
    from alps.leaderboard.confusables import alike  # its table takes a tenth of a second to read

    slug = folder.resolve().name
    others = dict(_named(folder.resolve().parent))
    others.pop(slug, None)
    links = {other: _continued(folder.resolve().parent / other) for other in others}
    links[slug] = continues or (_continued(folder) if own_review else None)
    joined = histories(links)[slug]
    for other, name in others.items():
        if other in joined or not alike(card.name, name):
            continue
        what = f"{shown(card.name)} reads as {shown(name)}, which is {shown(other)}"
        mend = f"choose another name; a later version of it: a maintainer says continues={shown(other)}"
        findings.serious("name", "name", what, mend)


def _named(submissions: Path) -> Iterator[tuple[str, str]]:
    """Yield the folder and the name of every submission whose card can be read."""
    try:
        folders = sorted(submissions.iterdir())
    except OSError:
        return
    for folder in folders:
        try:
            row = parse(read_bytes(folder / CARD, LARGEST_CARD))
        except (OSError, ValueError):
            continue
        if isinstance(row, dict) and isinstance(name := row.get("name"), str):
            yield folder.name, name


def _continued(folder: Path) -> str | None:
    """Return the submission that the review of another one says it continues.

    None where none says so.
    """
    try:
        return Review.model_validate(parse(read_bytes(folder / REVIEW, LARGEST_CARD))).continues
    except (OSError, ValueError, ValidationError):
        return None
