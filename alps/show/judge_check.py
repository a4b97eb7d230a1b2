"""Share of known items that a judge got right, as tables and pages show it next to its scores."""

from collections.abc import Iterator, Mapping

from alps.judges.admission import DRAWN, Share, is_admitted
from alps.judges.resolve import is_embedded_judge
from alps.rows import Summary
from alps.run.opened import Run

NOT_CHECKED = "not checked"
"""What scores are marked with whose judge answered no known items."""


def share_of_known(judge: str, checks: Mapping[str, Share] | None) -> str:
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


def judge_of(run: Run) -> str:
    """Return the name of a run's judge, with the same mark once the run is finished."""
    return run.judge if run.summary is None else f"{run.judge}{judge_mark(run.summary)}"


def judge_check_lines(summary: Summary) -> Iterator[str]:
    """Say how many items a run's judge got right by rubric, or that its scores rest on no check."""
    checks = summary.judge_check or summary.judge_check_before
    yield from known_item_lines(summary.judge, checks)


def known_item_lines(judge: str, checks: Mapping[str, Share] | None) -> Iterator[str]:
    """Say how many items a judge got right by rubric, or that nobody asked it any."""
    if is_embedded_judge(judge):
        return
    if not checks:
        yield (
            f"Judge {judge} was {NOT_CHECKED} on known items: it may be unable to tell "
            "good answers from bad ones."
        )
        return
    parts = []
    for name, share in checks.items():
        failed = "" if is_admitted(share) else " (not admitted)"
        parts.append(f"{name} {share.right}/{DRAWN}{failed}")
    yield f"Known items that judge {judge} got right: {', '.join(parts)}."
