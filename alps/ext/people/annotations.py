"""Annotations of two people in the release layout, and the draft that both started from.

A file has a session a line, as one person left it: its `session_id`, and by part what the person
holds to be right.

- `task1` and `task2`: `memories`, the lists of extraction and of update.
- `task3`: the `memory` that a query needs, and the `query`.
- `task4`: a `memory`, and the `queries` about it: `queryText`, and what the person says of each.

A memory has a `value`, and where known `type`, `label`, `time_scope` and `confidence`. A part may
be missing or null; other fields are left alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from alps.data.release import GOLD, Row, read_rows, read_track
from alps.errors import DataError, UsageError, shown
from alps.schema import Memory, read_gold
from alps.slips import Slips, read_model

TITLES = {
    "task1": "Extraction: the memories of a dialogue",
    "task2": "Update: the memories after a second dialogue",
    "task3": "Retrieval: a query, and the memory that it needs",
    "task4": "Utilization: queries about a memory",
}
"""The parts of a session, in their order, as people read them."""
SAID = {
    "ability": "ability",
    "overallVerdict": "verdict",
    "testsTargetAbility": "tests the ability",
    "memoryDependency": "memory dependency",
    "abilityPurity": "ability purity",
}
"""What a person says of a query, by its field."""
# The authors of AlpsBench published theirs under these names.
_FOLDER, _FILES, _RELEASE = "annotations", "annotator_*.jsonl", "benchmark_data"


def _no_empty_text(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise ValueError("must not be empty")
    return value


def _no_truth(value: object) -> object:
    # Pydantic would read true as 1.
    if isinstance(value, bool) or (isinstance(value, str) and not _is_number(value)):
        raise ValueError("must be a number from 0 to 1, or null")
    return value


def _is_number(text: str) -> bool:
    try:
        return bool(text.strip()) and math.isfinite(float(text))
    except ValueError:
        return False


def _none_as_empty(value: object) -> object:
    return () if value is None else value


Text = Annotated[str, BeforeValidator(_no_empty_text)]
Confidence = Annotated[Annotated[float, Field(ge=0, le=1)] | None, BeforeValidator(_no_truth)]


class _AnnotationRow(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class AnnotatedMemory(_AnnotationRow):
    """A memory as a person left it; type, label and time scope are of any vocabulary."""

    value: Text
    type: str | None = None
    label: str | None = None
    label_suggestion: str | None = None
    time_scope: str | None = None
    confidence: Confidence = None
    evidence: Any = None
    evidence_text: Any = None

    def as_memory(self) -> Memory:
        """Return the memory as judges are shown it."""
        return read_gold([self.model_dump(exclude={"confidence"})])[0]


class AnnotatedQuery(_AnnotationRow):
    """A query with a person's edits and labels."""

    queryText: Text
    ability: str | None = None
    overallVerdict: str | None = None
    testsTargetAbility: str | None = None
    memoryDependency: str | None = None
    abilityPurity: str | None = None


class _Memories(_AnnotationRow):
    memories: tuple[AnnotatedMemory, ...]


class _ChosenMemory(_AnnotationRow):
    memory: AnnotatedMemory | None = None
    query: Text | None = None


class _Queries(_AnnotationRow):
    memory: AnnotatedMemory | None = None
    queries: Annotated[tuple[AnnotatedQuery, ...], BeforeValidator(_none_as_empty)] = ()


class _SessionRow(_AnnotationRow):
    session_id: Text
    task1: _Memories | None = None
    task2: _Memories | None = None
    task3: _ChosenMemory | None = None
    task4: _Queries | None = None


@dataclass(frozen=True)
class AnnotatedSession:
    """Annotations of a session by one person or a draft, by part; only parts with any.

    `chosen` is the one memory that the queries of a part are about.
    """

    memories: dict[str, tuple[AnnotatedMemory, ...]] = field(default_factory=dict)
    chosen: dict[str, tuple[AnnotatedMemory]] = field(default_factory=dict)
    queries: dict[str, tuple[AnnotatedQuery, ...]] = field(default_factory=dict)


Sessions = Mapping[str, AnnotatedSession]
"""Sessions by their ids."""


class TwoPeople(NamedTuple):
    """The annotations of two people, and what both are called."""

    names: tuple[str, str]
    sessions: tuple[Sessions, Sessions]
    folder: Path


def annotation_files(paths: list[Path]) -> list[Path]:
    """Return the two files that folders and files name; none where they hold no annotations.

    Raises:
        UsageError: If there are more or fewer than two, or one is not there.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inner = path / _FOLDER
            files += sorted((inner if inner.is_dir() else path).glob(_FILES))
        elif path.is_file():
            files.append(path)
        else:
            raise UsageError(f"{path}: no such file or folder")
    if not files and all(path.is_dir() for path in paths):
        return []
    if len(files) != 2:
        names = ", ".join(path.name for path in files)
        raise UsageError(f"agreement needs two annotators; name two files (found: {names})")
    return files


def read_two(paths: list[Path]) -> TwoPeople:
    """Read the annotations of two people.

    Raises:
        DataError: If a row can't be read; names the file, the line and the field.
    """
    first, second = paths
    names = (first.stem, second.stem)
    # Two people may have a file of one name in folders of their own.
    if first.stem == second.stem:
        names = (str(first), str(second))
    return TwoPeople(names, (read_annotations(first), read_annotations(second)), first.parent)


def read_annotations(path: Path) -> dict[str, AnnotatedSession]:
    """Read the annotations of one person; slips are named and left out.

    Raises:
        DataError: If the file is empty, or more of its rows are wrong than slips may be; names the
            file, the line and the field.
    """
    sessions: dict[str, AnnotatedSession] = {}
    slips = Slips(path)
    for line, row in read_rows(path, on_fault=slips.unreadable):
        slips.rows += 1
        with slips.leaving_out():
            read = read_model(_SessionRow, row, slips, line)
            if read.session_id in sessions:
                twice = f"{shown(read.session_id)} appears twice: keep one of them"
                raise DataError(twice, path=path, line=line, field="session_id")
            sessions[read.session_id] = _session(read)
    slips.settle()
    if not sessions:
        raise DataError("is empty: expected one session per line", path=path)
    return sessions


def _session(row: _SessionRow) -> AnnotatedSession:
    session = AnnotatedSession()
    for part in TITLES:
        said = getattr(row, part)
        if isinstance(said, _Memories):
            session.memories[part] = said.memories
        elif isinstance(said, _ChosenMemory | _Queries):
            if said.memory is not None:
                session.chosen[part] = (said.memory,)
            if isinstance(said, _Queries):
                session.queries[part] = said.queries
            else:
                query = said.query
                own = () if query is None else (AnnotatedQuery(queryText=query),)
                session.queries[part] = own
    return session


def release_beside(folder: Path) -> Path | None:
    """Return the release next to or in a folder of annotations, which both people edited."""
    # In the authors' packets the release and the annotations lie side by side.
    for base in (folder.resolve().parent, folder.resolve()):
        if (base / _RELEASE).is_dir():
            return base / _RELEASE
    return None


def read_draft(path: Path) -> Sessions:
    """Read the draft: a folder in the release layout, of any splits, or a file of annotations.

    Raises:
        UsageError: If there is no such file or folder, or no gold in it.
        DataError: If a row can't be read; names the file and the line.
    """
    if path.is_file():
        return read_annotations(path)
    if not path.is_dir():
        raise UsageError(f"draft={path}: no such file or folder")
    sessions: dict[str, AnnotatedSession] = {}
    tracks = sorted({file.parent for file in path.rglob(GOLD)})
    for track in tracks:
        # `task4_ability2` is of task 4.
        parts = [name.partition("_")[0] for name in track.parts]
        part = next((name for name in reversed(parts) if name in TITLES), None)
        if part is not None:
            _add_track(sessions, track, part)
    if not sessions:
        raise UsageError(f"draft={path}: no {GOLD} with sessions in this folder")
    return sessions


def _add_track(sessions: dict[str, AnnotatedSession], track: Path, part: str) -> None:
    slips = Slips(track / GOLD)
    for pair in read_track(track):
        name = pair.input.get("session_id")
        if pair.gold is None or not isinstance(name, str):
            continue
        slips.rows += 1
        session = sessions.setdefault(name, AnnotatedSession())
        try:
            _add_gold(session, part, pair.input, pair.gold["gold"])
        except (ValueError, KeyError, TypeError) as error:
            fault, line = f"can't be read as a draft ({error})", pair.gold_line
            slips.errors.append(DataError(fault, path=slips.path, line=line, field="gold"))
    slips.settle()


def _add_gold(session: AnnotatedSession, part: str, given: Row, gold: Row) -> None:
    # Extraction and update have lists, retrieval and utilization the memory of a query.
    if "selected_memory" not in gold:
        values = [AnnotatedMemory(value=memory.value) for memory in read_gold(gold, "gold")]
        session.memories[part] = (*session.memories.get(part, ()), *values)
        return
    session.chosen[part] = (AnnotatedMemory(value=gold["selected_memory"]["value"]),)
    query = AnnotatedQuery(queryText=given["input"]["query"])
    session.queries[part] = (*session.queries.get(part, ()), query)
