"""Times of a memory system by phase, read from what was noted of its calls."""

import math
from collections.abc import Sequence
from pathlib import Path

from alps.jsonl import scan
from alps.rows import Phase
from alps.systems.memory.diary import FILE

PHASES = ("open", "ingest", "settle", "search", "memories")
"""In the order of tables; admission has seconds of its own."""


def phases_of(folder: Path) -> dict[str, Phase]:
    """Return how long the calls of each phase took; nothing for a run without a memory system."""
    seconds: dict[str, list[float]] = {}
    for _, _, row in scan(folder / FILE):
        if row is not None and row.get("phase") in PHASES:
            seconds.setdefault(row["phase"], []).append(row["seconds"])
    return {name: _times(seconds[name]) for name in PHASES if name in seconds}


def _times(seconds: Sequence[float]) -> Phase:
    ordered = sorted(seconds)

    def at(share: float) -> float:
        """Return the nearest rank: a time that a call did take."""
        return ordered[math.ceil(share * len(ordered)) - 1]

    total = round(math.fsum(ordered), 6)
    return Phase(calls=len(ordered), seconds=total, p50=at(0.5), p95=at(0.95), p99=at(0.99))
