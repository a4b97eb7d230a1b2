"""Journal of the calls of a memory system, so that a killed run resumes.

Of the recorded calls come the times and costs of each phase.
"""

import math
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from statistics import fmean, median
from typing import Any

from alps.ext.memory import ANSWERS, CALLS, FILE, STORED
from alps.ext.memory.protocol import Hit
from alps.jsonl import Appender, Row, parse_json, scan
from alps.rows import Check, MemoryUsage, Phase
from alps.run.opened import AnswerKey, stored_rows
from alps.schema import UsedToAnswer

ADMISSION = "admission"
"""The phase of what a system asked of models while it was checked."""
# Bytes: `phase` is the first field of every row.
_HEAD = 100
PHASES = ("open", "ingest", "settle", "search", "memories")
"""In the order of tables; admission has seconds of its own."""


class Diary:
    """The rows of `memory.jsonl`, one a call, each with its phase and its seconds.

    Users are called after a secret that is drawn once a run: their ids tell a system nothing, and
    those of two runs are never the same. Without a path nothing is kept, as in a dry run.

    Attributes:
        goes_on: Whether the file was begun before.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else Appender(path)
        self._hits: dict[str, list[Row]] = {}
        self._settled: dict[str, tuple[int, int]] = {}
        self._settlings: Counter[str] = Counter()
        self._secret = secrets.token_hex(16)
        self._checks: dict[str, list[Check]] = {}
        self.goes_on = False
        for _, _, row in () if path is None else scan(path):
            # `_read` comes first: every row has to be read, not only those before the secret.
            self.goes_on = self._read(row or {}) or self.goes_on
        if not self.goes_on:
            self._append({"phase": "run", "secret": self._secret})

    def _read(self, row: Row) -> bool:
        phase = row.get("phase")
        if phase in ("search", "memories"):
            self._hits[row["sample"]] = row["hits"]
        elif phase == "settle":
            self._settled[row["user"]] = row["turns"], row["sessions"]
            self._settlings[row["user"]] += 1
        elif phase == "admission":
            self._checks[row["when"]] = [Check(**check) for check in row["checks"]]
        elif phase == "run":
            self._secret = row["secret"]
        return phase == "run"

    def user(self, key: str) -> str:
        """Return the id under which a system knows a user."""
        # Hashes alone would be the same in every run and to anybody who has the data.
        return "u" + sha256(f"{self._secret} {key}".encode()).hexdigest()[:20]

    def settled(self, user: str) -> tuple[int, int]:
        """Return how many turns of a user were settled, and of how many sessions they are."""
        return self._settled.get(user, (0, 0))

    def settlings(self, user: str) -> int:
        """Return how often a user was settled."""
        return self._settlings[user]

    def hits(self, sample: str) -> list[Hit] | None:
        """Return what was found for a sample; None where nothing was asked yet."""
        rows = self._hits.get(sample)
        return None if rows is None else read_hits(rows)

    def note(self, phase: str, user: str, seconds: float, **fields: Any) -> None:
        """Note a call of a phase."""
        self._append({"phase": phase, "user": user, "seconds": round(seconds, 6), **fields})

    def checks(self, when: str) -> list[Check] | None:
        """Return the admission `before` or `after` the run; None if there is none."""
        return self._checks.get(when)

    def note_checks(self, when: str, checks: list[Check]) -> None:
        """Record the result of an admission."""
        self._checks[when] = checks
        rows = [check.row() for check in checks]
        self._append({"phase": "admission", "when": when, "checks": rows})

    def note_settled(
        self, user: str, seconds: float, turns: int, sessions: int, size: float | None = None
    ) -> None:
        """Note that `turns` turns of a user, of so many sessions, can be found, in `size` bytes."""
        self._settled[user] = turns, sessions
        self._settlings[user] += 1
        declared = {} if size is None else {"bytes": size}
        self.note("settle", user, seconds, turns=turns, sessions=sessions, **declared)

    def note_hits(
        self, sample: str, user: str, seconds: float, hits: Sequence[Hit], phase: str = "search"
    ) -> None:
        """Note what was found for a sample, or all that was held then."""
        rows = [asdict(hit) for hit in hits]
        self._hits[sample] = rows
        self.note(phase, user, seconds, sample=sample, hits=rows)

    def _append(self, row: Row) -> None:
        if self._file is not None:
            self._file.append(row)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


class AnswerLog:
    """The rows of `answers.jsonl`: how long a reader took for each answer, and what it used.

    The file is begun with its first row.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Appender | None = None

    def note(self, sample: str, seconds: float, used: UsedToAnswer | None) -> None:
        """Note an answer; only the crash of the machine can lose the row."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = Appender(self._path)
        row = {} if used is None else used.model_dump()
        self._file.write({"phase": "answer", "sample": sample, "seconds": seconds, **row})

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def found_in(path: Path) -> dict[str, list[Hit]]:
    """Return the hits of each record from the diary of a run."""
    found: dict[str, list[Hit]] = {}
    for row in rows_in(path):
        if row.get("phase") == "search":
            found[row["sample"]] = read_hits(row["hits"])
    return found


def read_hits(rows: Iterable[Mapping[str, Any]]) -> list[Hit]:
    """Return hits from their rows."""
    return [Hit(**{**row, "sources": tuple(row["sources"])}) for row in rows]


def is_begun(folder: Path) -> bool | None:
    """Tell whether a run is to go on from its memory's journal; None where that has no say.

    A run whose memory system failed a check of admission left nothing, whatever it answered.
    """
    admission: dict[str, bool] = {}
    with suppress(OSError), (folder / FILE).open("rb") as lines:
        for line in lines:
            # Other rows hold whole memories, and are many.
            if ADMISSION.encode() not in line[:_HEAD]:
                continue
            with suppress(ValueError, LookupError, TypeError, AttributeError):
                row = parse_json(line)
                if row["phase"] == ADMISSION:
                    admission[row["when"]] = not any(check.get("fault") for check in row["checks"])
    if not all(admission.values()):
        return False
    return True if "before" in admission else None


def checks_in(folder: Path) -> list[Check]:
    """Return the checks of admission in a run folder; merged shards have the same ones, passed."""
    checks: dict[str, list[Check]] = {}
    for row in rows_in(folder / FILE):
        if row.get("phase") == ADMISSION:
            found = [Check.model_validate(check) for check in row["checks"]]
            checks.setdefault(row["when"], found)
    return [*checks.get("before", ()), *checks.get("after", ())]


def phases_of(folder: Path) -> dict[str, Phase]:
    """Return time and cost of each phase; empty without a memory system."""
    seconds: dict[str, list[float]] = {}
    for row in rows_in(folder / FILE):
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
    for row in rows_in(folder / CALLS):
        asked.setdefault(str(row.get("phase")), []).append(row)
    return asked


def answers_of(folder: Path) -> Phase | None:
    """Return time and cost of a reader's answers; None if no model was asked.

    Kept replies take no part in the times. They count in what was used as if they had been asked.
    """
    rows = list(rows_in(folder / ANSWERS))
    # A kept reply comes at once: with it a repeated run would look faster than its reader is.
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
        # One request without a known price makes the sum unknown, not smaller.
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
    for row in rows_in(folder / FILE):
        if row.get("phase") == "search" and _is_of(row, track):
            searched[row["sample"]] = row["seconds"]
    took: list[float] = []
    costs: list[float | None] = []
    for row in rows_in(inside / ANSWERS):
        if _is_of(row, track):
            costs.append(row.get("cost"))
            if not row.get("cached"):
                took.append(row["seconds"] + searched.get(row["sample"], 0.0))
    used = [row["cost"] for row in rows_in(folder / CALLS) if row.get("phase") != ADMISSION]
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
    counts = [tokens for _, tokens in shown_in(inside, track)]
    return fmean(counts) if counts else None


def shown_in(inside: Path, track: str) -> Iterator[tuple[AnswerKey, int]]:
    """Yield how many tokens of a history or memories the reader of each answer was shown."""
    with stored_rows(inside / "predictions.jsonl", track=track) as rows:
        for key, row in rows.items():
            if key.track == track and row.get("shown"):
                yield key, row["shown"]["tokens"]


def _is_of(row: Row, track: str) -> bool:
    return str(row["sample"]).partition(" ")[0] == track


def stored_by(folder: Path) -> float | None:
    """Return the bytes that a system stores per 1,000 turns; None if unknown.

    They are those that it declares of its users, else those of the files in its folder.
    """
    told: dict[str, tuple[int, float | None]] = {}
    for row in rows_in(folder / FILE):
        if row.get("phase") == "settle":
            # Turns and bytes are totals of a user, so earlier rows are replaced.
            told[row["user"]] = row["turns"], row.get("bytes")
    turns = sum(count for count, _ in told.values())
    declared = [size for _, size in told.values() if size is not None]
    size = math.fsum(declared)
    # A class writes into the folder. A server stores elsewhere, and the sum of 0 is unknown.
    if not declared:
        files = (folder / STORED).rglob("*")
        size = sum(path.stat().st_size for path in files if path.is_file())
    return 1000 * size / turns if size and turns else None


def rows_in(path: Path) -> Iterator[Row]:
    """Yield the rows of a file; lines that can't be read are left out."""
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
