"""Caveats of scores: below a trivial baseline, or by an unchecked judge."""

from collections.abc import Iterator, Mapping

from alps.judges.admission import DRAWN, is_admitted
from alps.judges.embedded import is_embedded_judge
from alps.rows import RubricCheck, Summary
from alps.run.opened import RunFolder

BELOW_MARK = "↓"
"""What marks a row of a table that is below a trivial baseline."""
_DIGITS = 3


def strongest_above(differences: Mapping[str, float], *, lower_is_better: bool) -> str | None:
    """Return the trivial baseline that a system is furthest below; None where it is below none.

    Args:
        differences: The score of the system less that of each baseline, by its name.
        lower_is_better: Whether a lower score is the better one.
    """
    sign = -1.0 if lower_is_better else 1.0
    # What is written as a difference of .000 is none.
    losses = {name: sign * round(value, _DIGITS) for name, value in differences.items()}
    worst = min(losses, key=lambda name: losses[name], default=None)
    return worst if worst is not None and losses[worst] < 0 else None


NOT_CHECKED = "not checked"
"""What scores are marked with whose judge answered no known items."""


def share_of_known(judge: str, checks: Mapping[str, RubricCheck] | None) -> str:
    """Return how many known items a judge got right: `known items 23/24`, or that nobody asked.

    Nothing for an embedded judge, whose errors calibrations tell.
    """
    if is_embedded_judge(judge):
        return ""
    if not checks:
        return NOT_CHECKED
    right = sum(share.right for share in checks.values())
    return f"known items {right}/{DRAWN * len(checks)}"


def judge_mark(summary: Summary) -> str:
    """Return the same in brackets, to follow the name of a run's judge in a title."""
    share = share_of_known(summary.judge, summary.judge_check)
    if summary.judge_check_before:
        known = share_of_known(summary.judge, summary.judge_check_before)
        refused = not all(map(is_admitted, summary.judge_check_before.values()))
        share = f"{known}, not admitted" if refused else known
    return f" ({share})" if share else ""


def judge_of(run: RunFolder) -> str:
    """Return the name of a run's judge, with the same mark once the run is finished."""
    return run.judge if run.summary is None else f"{run.judge}{judge_mark(run.summary)}"


def known_item_lines(judge: str, checks: Mapping[str, RubricCheck] | None) -> Iterator[str]:
    """Say how many items a judge got right by rubric, or that nobody asked it any."""
    if is_embedded_judge(judge):
        return
    if not checks:
        yield (
            f"Judge {judge} was {NOT_CHECKED} on items with known answers, so it may be unable to "
            "tell good answers from bad ones."
        )
        return
    parts = []
    for name, share in checks.items():
        failed = "" if is_admitted(share) else " (not admitted)"
        parts.append(f"{name} {share.right}/{DRAWN}{failed}")
    yield f"Items with known answers that judge {judge} got right: {', '.join(parts)}."
