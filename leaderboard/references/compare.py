"""Recomputed tables against those of a file, figure by figure and equal to the digit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from alps.errors import UsageError
from alps.leaderboard.references.recompute import Found, Tell, found_in, recompute
from alps.leaderboard.references.rows import (
    REFERENCES,
    ReferenceRow,
    References,
    ReferenceTable,
    read_references,
    text_of,
)
from alps.leaderboard.references.settings import ReferenceSettings

Verdict = Literal["equal", "differs", "other data", "other answers", "new"]


@dataclass(frozen=True)
class ComparedRow:
    """A recomputed row, and how it compares with that of the file."""

    row: ReferenceRow
    verdict: Verdict
    expected: ReferenceRow | None


@dataclass(frozen=True)
class ComparedTable:
    """A recomputed table and its rows; `missing` are rows of the file that were not found."""

    table: ReferenceTable
    rows: tuple[ComparedRow, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Recomputed:
    """What a command recomputed; `idle` are the folders that nothing was taken from."""

    tables: tuple[ComparedTable, ...]
    wrote: Path | None
    idle: tuple[Path, ...] = ()

    def count(self, *verdicts: Verdict) -> int:
        """Return how many rows have one of these verdicts."""
        rows = [row for table in self.tables for row in table.rows]
        return sum(row.verdict in verdicts for row in rows)


def recompute_all(folders: Sequence[Path], settings: ReferenceSettings, tell: Tell) -> Recomputed:
    """Recompute every table that the folders have something for; write them where `out` says.

    Raises:
        AlpsError: If there is nothing to recompute in the folders, or a file can't be read.
    """
    file = REFERENCES if settings.file is None else Path(settings.file)
    references = read_references(file).references
    new: dict[str, ReferenceTable] = {}
    compared, used = [], set()
    for table, found in _chosen(references, folders, settings.only):
        used.add(found.folder)
        new[table.id] = recompute(table, found, tell)
        compared.append(compare(table, new[table.id]))
    out = None if settings.out is None else Path(settings.out)
    if out is not None:
        write(References(tables=[new.get(one.id, one) for one in references.tables]), out)
    return Recomputed(tuple(compared), out, tuple(one for one in folders if one not in used))


def _chosen(
    references: References, folders: Sequence[Path], only: str | None
) -> list[tuple[ReferenceTable, Found]]:
    """Return the tables to recompute, each with the folder that has its answers."""
    tables = {table.id: table for table in references.tables if table.recipe is not None}
    if only is not None and only not in tables:
        raise UsageError(f"only={only}: no such table; choose one of {', '.join(tables)}")
    chosen = []
    for name, table in tables.items():
        places = [found_in(folder, table.recipe) for folder in folders if table.recipe is not None]
        found = next((place for place in places if place is not None), None)
        if found is not None and only in (None, name):
            chosen.append((table, found))
    if not chosen:
        patterns = sorted({table.recipe.each for table in tables.values() if table.recipe})
        named = ", ".join(map(str, folders))
        raise UsageError(f"{named}: nothing to recompute; looked for {', '.join(patterns)}")
    return chosen


def compare(table: ReferenceTable, new: ReferenceTable) -> ComparedTable:
    """Compare a recomputed table with that of the file, row by row."""
    old = {row.name: row for row in table.rows}
    same_data = table.data.sha256 == new.data.sha256
    rows = []
    for row in new.rows:
        rows.append(ComparedRow(row, _verdict(old, row, same_data), old.get(row.name)))
    names = {row.name for row in new.rows}
    return ComparedTable(new, tuple(rows), tuple(name for name in old if name not in names))


def _verdict(old: Mapping[str, ReferenceRow], row: ReferenceRow, same_data: bool) -> Verdict:
    if row.name not in old:
        return "new"
    if not same_data:
        return "other data"
    if old[row.name].sha256 != row.sha256:
        return "other answers"
    return (
        "equal" if old[row.name].figures == row.figures and _same(old[row.name], row) else "differs"
    )


def _same(one: ReferenceRow, other: ReferenceRow) -> bool:
    return one.above == other.above and one.anchored == other.anchored


def differences(row: ComparedRow, table: ReferenceTable) -> Iterator[str]:
    """Say which figures of a row differ from those of the file."""
    if row.expected is None:
        return
    for column, old, new in zip(table.columns, row.expected.figures, row.row.figures, strict=True):
        if old != new:
            yield f"{column.metric}: {_words(old)} in the file, {_words(new)} now"
    if row.expected.above != row.row.above:
        yield f"Δ: {_words(row.expected.above)} in the file, {_words(row.row.above)} now"
    if row.expected.anchored != row.row.anchored:
        yield "the shares of the draft differ"


def _words(figure: object) -> str:
    return "none" if figure is None else str(figure)


def write(references: References, out: Path) -> None:
    """Write reference tables.

    Raises:
        UsageError: If they can't be written.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text_of(references), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"out={out}: {error.strerror}; choose another file") from error
