"""Rows of a memory system in a submission: its diary and what it asked of models, read strictly."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from alps.ext.memory import CALLS, FILE
from alps.ext.memory.protocol import LONGEST_ID, Hit
from alps.leaderboard.checks.rows import LONGEST_ANSWER
from alps.leaderboard.fields import Count, Line, Seconds
from alps.leaderboard.findings import PACK_AGAIN, Findings, some_of
from alps.leaderboard.submission import Check, MemoryCard, Part, When, memory_folder
from alps.leaderboard.untrusted import faults_of, scan_rows
from alps.schema import Outcome

# More than ten times what the longest history of the samples has turns.
MOST_HITS = 20_000
_Id = Annotated[str, StringConstraints(max_length=LONGEST_ID)]
_Text = Annotated[str, StringConstraints(max_length=LONGEST_ANSWER)]


class HitRow(Part):
    """A memory that was found, as `alps.ext.memory.protocol.Hit` has it."""

    id: _Id
    text: _Text
    score: Annotated[float, Field(ge=-1e12, le=1e12)] | None
    created_at: _Id | None
    sources: Annotated[list[_Id], Field(max_length=1_000)]


class DiaryRow(Part):
    """A call of a memory system, or its admission."""

    phase: Literal["admission", "open", "ingest", "settle", "search", "memories", "forget"]
    user: _Id = ""
    seconds: Seconds = 0.0
    session: _Id | None = None
    turns: Count | None = None
    sessions: Count | None = None
    bytes: Annotated[float, Field(ge=0, le=1e15)] | None = None
    sample: _Id | None = None
    hits: Annotated[list[HitRow], Field(max_length=MOST_HITS)] | None = None
    when: When | None = None
    checks: Annotated[list[Check], Field(max_length=50)] | None = None


class AskedRow(Part):
    """A request of a memory system to a model, as `alps.llm.proxy.Metered` has it."""

    phase: Line
    asked: Line
    model: Line
    prompt_tokens: Count
    completion_tokens: Count
    cost: Seconds | None
    cached: bool
    outcome: Outcome
    seconds: Seconds


@dataclass
class PackedDiary:
    """What the diary of a submission says.

    Attributes:
        hits: What was found, by the key of the sample.
        admission: The checks before the run and after it.
    """

    hits: dict[str, list[Hit]] = field(default_factory=dict)
    admission: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def note(self, row: Mapping[str, Any]) -> None:
        """Add a row that was checked."""
        if row["phase"] == "admission":
            self.admission[row["when"]] = row["checks"]
        elif row.get("sample") is not None:
            hits = [Hit(**{**hit, "sources": tuple(hit["sources"])}) for hit in row["hits"]]
            self.hits[row["sample"]] = hits


def read_diary(folder: Path, memory: MemoryCard, findings: Findings) -> PackedDiary:
    """Read the diary of a memory system, and look at the form of its ledger."""
    diary, inside = PackedDiary(), memory_folder(memory)
    samples: Counter[str] = Counter()
    for row in _read(folder / inside / FILE, f"{inside}/{FILE}", DiaryRow, findings):
        samples[str(row.get("sample"))] += row.get("sample") is not None
        diary.note(row)
    if twice := [name for name, count in samples.items() if count > 1]:
        what = f"{len(twice):,} samples stand twice: {some_of(twice)}"
        findings.serious("duplicate_ids", f"{inside}/{FILE}", what, PACK_AGAIN)
    if memory.calls is not None:
        for _ in _read(folder / inside / CALLS, f"{inside}/{CALLS}", AskedRow, findings):
            pass
    return diary


def _read(
    path: Path, where: str, form: type[BaseModel], findings: Findings
) -> Iterator[dict[str, Any]]:
    """Yield the rows that have their form; each other one is a finding."""
    try:
        for number, row, unread in scan_rows(path):
            fault = unread if row is None else _fault_of(row, form)
            if fault or row is None:
                findings.serious("row", f"{where}, line {number}", fault, PACK_AGAIN)
            else:
                yield row
    except ValueError as error:
        findings.serious("file", where, str(error), PACK_AGAIN)


def _fault_of(row: Mapping[str, Any], form: type[BaseModel]) -> str:
    try:
        form.model_validate(row)
    except ValidationError as error:
        field_name, fault = faults_of(error)[0]
        return f"{field_name}: {fault}"
    if form is DiaryRow:
        for phase, needed in _NEEDED.items():
            if row["phase"] in phase and any(row.get(name) is None for name in needed):
                return f"a row of {row['phase']} without {' and '.join(needed)}"
    return ""


_NEEDED = {
    ("admission",): ("when", "checks"),
    ("open", "ingest", "settle", "search", "memories", "forget"): ("user", "seconds"),
    ("search", "memories"): ("sample", "hits"),
    ("settle",): ("turns", "sessions"),
}
