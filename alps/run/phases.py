"""Times and costs of a memory system by phase, read from what was noted of its calls."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path

from alps.jsonl import Row, scan
from alps.rows import Phase, Used
from alps.systems.memory.diary import CALLS, FILE, STORED

PHASES = ("open", "ingest", "settle", "search", "memories")
"""In the order of tables; admission has seconds of its own."""


def phases_of(folder: Path) -> dict[str, Phase]:
    """Return what the calls of each phase took; nothing for a run without a memory system."""
    seconds: dict[str, list[float]] = {}
    for _, _, row in scan(folder / FILE):
        if row is not None and row.get("phase") in PHASES:
            seconds.setdefault(row["phase"], []).append(row["seconds"])
    phases = {name: _times(seconds[name]) for name in PHASES if name in seconds}
    for name, requests in _requests(folder).items():
        if name in phases:
            phases[name] = phases[name].model_copy(update={"used": _used(requests)})
    return phases


def used_otherwise(folder: Path, phases: Collection[str]) -> Used | None:
    """Return what was used of models outside `phases`, as by admission; None where nothing was."""
    others: list[Row] = []
    for name, requests in _requests(folder).items():
        others += requests if name not in phases else []
    return _used(others) if others else None


def _requests(folder: Path) -> dict[str, list[Row]]:
    """Return what was asked of models, by phase."""
    asked: dict[str, list[Row]] = {}
    for _, _, row in scan(folder / CALLS) if (folder / CALLS).exists() else ():
        if row is not None:
            asked.setdefault(str(row.get("phase")), []).append(row)
    return asked


def _used(requests: Sequence[Row]) -> Used:
    costs = [row["cost"] for row in requests]
    return Used(
        requests=len(requests),
        cached=sum(row["cached"] for row in requests),
        prompt_tokens=sum(row["prompt_tokens"] for row in requests),
        completion_tokens=sum(row["completion_tokens"] for row in requests),
        cost=None if None in costs else math.fsum(costs),
    )


def stored_by(folder: Path) -> float | None:
    """Return the bytes that a system keeps for each 1,000 turns; None where it keeps no file."""
    files = (folder / STORED).rglob("*")
    size = sum(path.stat().st_size for path in files if path.is_file())
    told: dict[str, int] = {}
    for _, _, row in scan(folder / FILE):
        if row is not None and row.get("phase") == "settle":
            told[row["user"]] = max(told.get(row["user"], 0), row["turns"])
    turns = sum(told.values())
    return 1000 * size / turns if size and turns else None


def _times(seconds: Sequence[float]) -> Phase:
    ordered = sorted(seconds)

    def at(share: float) -> float:
        """Return the nearest rank: a time that a call did take."""
        return ordered[math.ceil(share * len(ordered)) - 1]

    total = round(math.fsum(ordered), 6)
    return Phase(calls=len(ordered), seconds=total, p50=at(0.5), p95=at(0.95), p99=at(0.99))
