"""Times and costs of a memory system by phase, from its recorded calls."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from alps.ext.memory import ANSWERS, CALLS, FILE, STORED
from alps.ext.memory.journal import ADMISSION
from alps.jsonl import Row, scan
from alps.rows import MemoryUsage, Phase
from alps.run.stored import stored_rows

PHASES = ("open", "ingest", "settle", "search", "memories")
"""In the order of tables; admission has seconds of its own."""


def phases_of(folder: Path) -> dict[str, Phase]:
    """Return time and cost of each phase; empty without a memory system."""
    seconds: dict[str, list[float]] = {}
    for row in _rows(folder / FILE):
        if row.get("phase") in PHASES:
            seconds.setdefault(row["phase"], []).append(row["seconds"])
    phases = {name: _times(seconds[name]) for name in PHASES if name in seconds}
    for name, requests in _requests(folder).items():
        if name in phases:
            phases[name] = phases[name].model_copy(update={"used": _used(requests)})
    return phases


def used_otherwise(folder: Path, phases: Collection[str]) -> MemoryUsage | None:
    """Return model usage outside `phases`, such as by admission; None if there was none."""
    others: list[Row] = []
    for name, requests in _requests(folder).items():
        others += requests if name not in phases else []
    return _used(others) if others else None


def _requests(folder: Path) -> dict[str, list[Row]]:
    """Return what was asked of models, by phase."""
    asked: dict[str, list[Row]] = {}
    for row in _rows(folder / CALLS):
        asked.setdefault(str(row.get("phase")), []).append(row)
    return asked


def answers_of(folder: Path) -> Phase | None:
    """Return time and cost of a reader's answers; None if no model was asked.

    Kept replies take no part in the times. They count in what was used as if they had been asked.
    """
    rows = list(_rows(folder / ANSWERS))
    seconds = [row["seconds"] for row in rows if not row.get("cached")]
    if not seconds:
        return None
    # Embedded readers ask no model.
    requests = [row for row in rows if row.get("prompt_tokens")]
    taken = _times(seconds)
    return taken.model_copy(update={"used": _used(requests)}) if requests else taken


def _used(requests: Sequence[Row]) -> MemoryUsage:
    costs = [row["cost"] for row in requests]
    return MemoryUsage(
        requests=len(requests),
        cached=sum(row["cached"] for row in requests),
        prompt_tokens=sum(row["prompt_tokens"] for row in requests),
        completion_tokens=sum(row["completion_tokens"] for row in requests),
        cost=None if None in costs else math.fsum(costs),
    )


@dataclass(frozen=True)
class QuestionTimes:
    """Time and cost of a question, if recorded.

    Attributes:
        seconds: The median of search and answer together; kept replies take no part in it.
        cost: US dollars: those of an answer, and its share of what the memory used of models. A
            kept reply counts what it once cost.
    """

    seconds: float | None
    cost: float | None


def question_of(folder: Path, inside: Path, track: str) -> QuestionTimes:
    """Return time and cost of a question; `inside` is the folder of its context size."""
    searched: dict[str, float] = {}
    for row in _rows(folder / FILE):
        if row.get("phase") == "search" and _is_of(row, track):
            searched[row["sample"]] = row["seconds"]
    took: list[float] = []
    costs: list[float | None] = []
    for row in _rows(inside / ANSWERS):
        if _is_of(row, track):
            costs.append(row.get("cost"))
            if not row.get("cached"):
                took.append(row["seconds"] + searched.get(row["sample"], 0.0))
    used = [row["cost"] for row in _rows(folder / CALLS) if row.get("phase") != ADMISSION]
    spent = [cost for cost in costs if cost is not None]
    known = bool(costs) and len(spent) == len(costs) and None not in used
    # What was told is shared by all tracks of a run, and so is what that cost.
    share = math.fsum(used) / len(searched) if known and searched else 0.0
    return QuestionTimes(
        seconds=median(took) if took else None,
        cost=math.fsum(spent) / len(spent) + share if known else None,
    )


def tokens_shown(inside: Path, track: str) -> float | None:
    """Return how many tokens of a history the reader saw; None if they were not counted."""
    counts = []
    with stored_rows(inside / "predictions.jsonl", track=track) as rows:
        for key, row in rows.items():
            if key.track == track and row.get("shown"):
                counts.append(float(row["shown"]["tokens"]))
    return fmean(counts) if counts else None


def _is_of(row: Row, track: str) -> bool:
    return str(row["sample"]).partition(" ")[0] == track


def stored_by(folder: Path) -> float | None:
    """Return the bytes that a system stores per 1,000 turns; None if unknown.

    They are those that it declares of its users, else those of the files in its folder.
    """
    told: dict[str, tuple[int, float | None]] = {}
    for row in _rows(folder / FILE):
        if row.get("phase") == "settle":
            told[row["user"]] = row["turns"], row.get("bytes")
    turns = sum(count for count, _ in told.values())
    declared = [size for _, size in told.values() if size is not None]
    size = math.fsum(declared)
    if not declared:
        files = (folder / STORED).rglob("*")
        size = sum(path.stat().st_size for path in files if path.is_file())
    return 1000 * size / turns if size and turns else None


def _rows(path: Path) -> Iterator[Row]:
    for _, _, row in scan(path):
        if row is not None:
            yield row


def _times(seconds: Sequence[float]) -> Phase:
    ordered = sorted(seconds)

    def at(share: float) -> float:
        """Return the nearest rank: a time that a call did take."""
        return ordered[math.ceil(share * len(ordered)) - 1]

    total = round(math.fsum(ordered), 6)
    return Phase(calls=len(ordered), seconds=total, p50=at(0.5), p95=at(0.95), p99=at(0.99))
