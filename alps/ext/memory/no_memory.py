"""Differences from no memory: there is none where too many answers of either run failed.

A failed answer scores the minimum, so failures of the run without memory would be gains of the
memory system.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from alps.run.engine import NO_GOLD
from alps.run.opened import RunFolder
from alps.tasks.by_memory import FULL, NOTHING

MOST_FAILED = 0.05
"""The largest share of failed answers with which a run has a difference from no memory."""


def failed_share(rows: Iterable[Mapping[str, Any]]) -> float:
    """Return the share of answers, by the rows of their scores, that failed or were not judged."""
    failed = total = 0
    for row in rows:
        if row.get("outcome") != NO_GOLD:
            total += 1
            failed += row.get("outcome") != "ok"
    return failed / total if total else 0.0


def too_many_failed(own: float, without: float) -> str | None:
    """Say why a run has no difference from the one without memory; None where it has one.

    Args:
        own: The share of its answers that failed.
        without: That of the run without memory.
    """
    if max(own, without) <= MOST_FAILED:
        return None
    shares = f"{own:.1%} of answers with memory and {without:.1%} without memory failed"
    return f"{shares} (at most {MOST_FAILED:.0%} may)".replace("%", " %")


def without_difference(runs: Mapping[str, RunFolder], track: str) -> dict[tuple[str, str], str]:
    """Return the pairs of runs that have no difference from no memory on a track, and why.

    Pairs are in the order of `runs`, which are by their letters.
    """
    memories = {name: str(run.manifest.settings.get("memory", FULL)) for name, run in runs.items()}
    if NOTHING not in memories.values():
        return {}
    shares = {name: _share(run, track) for name, run in runs.items()}
    reasons = {}
    for pair in combinations(runs, 2):
        without = [name for name in pair if memories[name] == NOTHING]
        if len(without) == 1:
            own = pair[1] if without[0] == pair[0] else pair[0]
            reason = too_many_failed(shares[own], shares[without[0]])
            if reason is not None:
                reasons[pair] = reason
    return reasons


def _share(run: RunFolder, track: str) -> float:
    rows = run.rows("scores").items()
    return failed_share(row for key, row in rows if key.track == track)
