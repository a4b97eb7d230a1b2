"""Differences from no memory: there is none where too many answers of either run failed.

A failed answer scores the minimum, so failures of the run without memory would be gains of the
memory system.
"""

from collections.abc import Mapping
from itertools import combinations

from alps.run.opened import Run
from alps.show.shared_records import failed_share, too_many_failed
from alps.tasks.by_memory import FULL, NOTHING


def without_difference(runs: Mapping[str, Run], track: str) -> dict[tuple[str, str], str]:
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


def _share(run: Run, track: str) -> float:
    rows = run.rows("scores").items()
    return failed_share(row for key, row in rows if key.track == track)
