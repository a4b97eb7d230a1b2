"""Journal of the calls of a memory system, so that a killed run resumes."""

import secrets
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from alps.ext.memory import FILE
from alps.ext.memory.protocol import Hit
from alps.jsonl import Appender, Row, parse_json, scan
from alps.rows import Check
from alps.schema import UsedToAnswer

ADMISSION = "admission"
"""The phase of what a system asked of models while it was checked."""
_HEAD = 100


class Diary:
    """The rows of `memory.jsonl`, one a call, each with its phase and its seconds.

    Users are called after a secret that is drawn once a run: their ids tell a system nothing, and
    those of two runs are never the same.

    Args:
        path: The file; None for nowhere, as in a dry run.

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
        return None if rows is None else _hits_of(rows)

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

    Args:
        path: The file, begun with its first row.
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
    for _, _, row in scan(path):
        if row is not None and row.get("phase") == "search":
            found[row["sample"]] = _hits_of(row["hits"])
    return found


def _hits_of(rows: Sequence[Row]) -> list[Hit]:
    return [Hit(**{**row, "sources": tuple(row["sources"])}) for row in rows]


def is_begun(folder: Path) -> bool | None:
    """Tell whether a run is to go on from its memory's journal; None where that has no say.

    A run whose memory system failed a check of admission left nothing, whatever it answered.
    """
    admission: dict[str, bool] = {}
    with suppress(OSError), (folder / FILE).open("rb") as lines:
        for line in lines:
            # Other rows hold whole memories, and are many.
            if ADMISSION.encode() in line[:_HEAD]:
                _note_admission(admission, line)
    if not all(admission.values()):
        return False
    return True if "before" in admission else None


def checks_in(folder: Path) -> list[Check]:
    """Return the checks of admission in a run folder; merged shards have the same ones, passed."""
    checks: dict[str, list[Check]] = {}
    for _, _, row in scan(folder / FILE):
        if (row or {}).get("phase") == ADMISSION:
            found = [Check.model_validate(check) for check in (row or {})["checks"]]
            checks.setdefault((row or {})["when"], found)
    return [*checks.get("before", ()), *checks.get("after", ())]


def _note_admission(admission: dict[str, bool], line: bytes) -> None:
    with suppress(ValueError, LookupError, TypeError, AttributeError):
        row = parse_json(line)
        if row["phase"] == ADMISSION:
            admission[row["when"]] = not any(check.get("fault") for check in row["checks"])
