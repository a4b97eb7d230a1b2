"""Recompute reference rows: python bench/reference_rows.py FOLDER… [check=yes] [only=ID].

From your own copy of the public files: folders with `outputs`, `benchmark_data`, `annotations` of
AlpsBench, or PersonaMem's questions and predictions. Every system is one run, as the recipe of its
table says; the runs are in a scratch folder and thrown away. A row is `equal` to that of
`references.json` to the sixth digit, `differs`, or is of `other data` or `other answers`, by their
hashes; then there is nothing to compare with. With `check=yes` exits 1 where a figure is not equal,
the answers to the same data are others, or nothing could be compared. `out=FILE` writes all tables,
those of the folders anew, and `file=FILE` compares with other tables.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from pydantic import BaseModel, ConfigDict

from alps.data.release import Row, read_rows
from alps.errors import AlpsError, DataError, UsageError
from alps.ext.people.agreement import measure
from alps.ext.people.agreement_rows import AgreementFigure, GoldAgreement
from alps.ext.people.board import AgreementFile
from alps.ext.people.gold import PUBLISHERS
from alps.ext.people.settings import AgreementSettings
from alps.jsonl import dump
from alps.judges.embedded import AGREEMENTS
from alps.keys import HomePath
from alps.leaderboard.pages import FilePlace
from alps.leaderboard.references import (
    REFERENCES,
    Anchored,
    JudgeNamed,
    Recipe,
    ReferenceData,
    ReferenceFigure,
    ReferenceLead,
    ReferenceRow,
    References,
    ReferenceTable,
    read_references,
)
from alps.rows import Floor, Interval, Score, TrackSummary
from alps.run.opened import RunFolder, open_run
from alps.run.start import run
from alps.settings import RunSettings, parse_settings, parse_words, part_words
from alps.show.formatting import number, visible
from alps.tasks import all_tracks
from alps.waiting import tell

RELEASE, INPUT = "benchmark_data", "model_input.jsonl"
# Digits that are kept: libraries differ in the last ones of a float.
DIGITS = 6


class Settings(BaseModel):
    """What the command can be told beside the folders."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: HomePath | None = None
    only: str | None = None
    check: bool = False
    out: HomePath | None = None


@dataclass(frozen=True)
class Found:
    """A public folder that has what a recipe asks for.

    Attributes:
        files: Those of the answers, one a system.
        split: The split of its release; empty where the recipe asks for none.
    """

    folder: Path
    files: tuple[Path, ...]
    split: str = ""


def found_in(folder: Path, recipe: Recipe) -> Found | None:
    """Return what of a folder a recipe takes; None where it has nothing for it."""
    files = tuple(sorted(path for path in folder.glob(recipe.each) if path.is_file()))
    if not files:
        return None
    if recipe.track is None:
        return Found(folder, files)
    for split in sorted((folder / RELEASE).glob("*")):
        if (split / recipe.track / INPUT).is_file():
            return Found(folder, files, split.name)
    return None


def recompute(table: ReferenceTable, found: Found) -> ReferenceTable:
    """Return a table with its rows computed from a public folder.

    Args:
        table: The table; its own rows are not looked at.
        found: The folder and its files.

    Raises:
        AlpsError: If a file can't be read.
    """
    recipe = _recipe_of(table)
    rows: list[ReferenceRow] = []
    with TemporaryDirectory(prefix="alps-reference-") as scratch:
        settings = _Places(recipe, found, Path(scratch))
        opened = None
        for n, file in enumerate(found.files):
            tell(f"{table.id}: {recipe.names.get(_key(file), _key(file))}")
            opened = _run(settings.words(file), Path(scratch) / str(n))
            rows.append(_system(table, found, file, opened))
    if opened is None:
        raise UsageError(f"{found.folder}: no {recipe.each} in it")
    rows.sort(key=lambda row: -(row.figures[0].value if row.figures[0] is not None else 0.0))
    track = table.columns[0].track
    rows += baselines_of(table, opened.summary_of(track))
    rows += _people(table, found)
    about = opened.tracks[track]
    judge = table.judge
    if judge is not None:
        judge = JudgeNamed(name=opened.judge, agreement=AGREEMENTS.get(opened.judge, ""))
    data = ReferenceData(name=table.data.name, sha256=about.sha256, n=opened.summary_of(track).n)
    return table.model_copy(update={"rows": rows, "data": data, "judge": judge})


def _recipe_of(table: ReferenceTable) -> Recipe:
    if table.recipe is None:
        raise UsageError(f"only={table.id}: its figures are reported; nothing can recompute them")
    return table.recipe


class _Places:
    """The words of the runs of a recipe, with its folders filled in."""

    def __init__(self, recipe: Recipe, found: Found, scratch: Path) -> None:
        self._recipe, self._found = recipe, found
        self._folder, self._dialogues = found.folder, Path()
        if recipe.told is not None:
            queries, dialogues = recipe.told
            release = found.folder / RELEASE / found.split
            self._folder, self._dialogues = scratch / "told", release / dialogues / INPUT
            told = self._folder / RELEASE / found.split / queries
            write_told(release / queries, self._dialogues, told)

    def words(self, file: Path) -> list[str]:
        """Return the settings of the run of one system."""
        places = {"file": file, "parent": file.parent, "folder": self._folder}
        places |= {"split": self._found.split, "dialogues": self._dialogues}
        return [word.format(**places) for word in self._recipe.settings]


def write_told(queries: Path, dialogues: Path, out: Path) -> None:
    """Write a track of queries, each with the dialogue of its session, into the folder `out`.

    Args:
        queries: The folder of the track.
        dialogues: The input rows that hold the dialogues.
        out: The folder that is written.

    Raises:
        DataError: If a query is of a session without a dialogue.
    """
    told = {}
    for line, row in _rows(dialogues):
        if "dialogue" not in row["input"]:
            raise DataError("must be a dialogue", path=dialogues, line=line, field="input.dialogue")
        told[row["session_id"]] = row["input"]["dialogue"]
    out.mkdir(parents=True)
    with (out / INPUT).open("wb") as file:
        for line, row in _rows(queries / INPUT):
            if row["session_id"] not in told:
                lacking = f"no dialogue of session {row['session_id']}"
                raise DataError(lacking, path=queries / INPUT, line=line)
            row["input"]["dialogue"] = told[row["session_id"]]
            file.write(dump(row))
    for path in sorted(queries.iterdir()):
        if path.name != INPUT:
            (out / path.name).write_bytes(path.read_bytes())


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the number of each line and its row, which names a session and has an input."""
    for line, row in read_rows(path):
        for field, kind in (("session_id", str), ("input", dict)):
            if not isinstance(row.get(field), kind):
                raise DataError("is missing", path=path, line=line, field=field)
        yield line, row


def _run(words: Sequence[str], out: Path) -> RunFolder:
    finished = run(parse_words([*words, f"out={out}"], RunSettings))
    return open_run(finished.folder)


def _key(file: Path) -> str:
    """Return what a file of answers goes by: its folder's name where all files are called alike."""
    return file.stem if file.suffix == ".csv" else file.parent.name


def figure_of(score: Interval | Score | AgreementFigure | None) -> ReferenceFigure | None:
    """Return a score as a figure of a reference row; None where it has no value."""
    if score is None or score.value is None:
        return None
    return ReferenceFigure(
        value=round(score.value, DIGITS),
        low=None if score.low is None else round(score.low, DIGITS),
        high=None if score.high is None else round(score.high, DIGITS),
        n=score.n,
    )


def _system(table: ReferenceTable, found: Found, file: Path, opened: RunFolder) -> ReferenceRow:
    summary = opened.summary_of(table.columns[0].track)
    return ReferenceRow(
        name=_recipe_of(table).names.get(_key(file), _key(file)),
        file=file.relative_to(found.folder).as_posix(),
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        figures=[figure_of(summary.scores.get(column.metric)) for column in table.columns],
        above=lead_of(summary, table.columns[0].metric),
    )


def lead_of(summary: TrackSummary, metric: str) -> ReferenceLead | None:
    """Return how far a run is above the strongest trivial baseline by a metric."""
    strongest = strongest_floor(summary.floors, metric)
    if strongest is None:
        return None
    floor = summary.floors[strongest]
    difference = floor.differences.get(metric)
    if difference is None and floor.lead == metric:
        difference = floor.above
    figure = figure_of(difference)
    return None if figure is None else ReferenceLead(baseline=strongest, **figure.model_dump())


def strongest_floor(floors: Mapping[str, Floor], metric: str) -> str | None:
    """Return the name of the trivial baseline with the highest score by a metric."""
    best: tuple[float, str] | None = None
    for name, floor in floors.items():
        score = floor.scores.get(metric)
        if score is not None and score.value is not None:
            best = max(best or (score.value, name), (score.value, name))
    return None if best is None else best[1]


def baselines_of(table: ReferenceTable, summary: TrackSummary) -> Iterator[ReferenceRow]:
    """Yield the rows of the trivial baselines of a run."""
    for name, floor in summary.floors.items():
        figures = [figure_of(floor.scores.get(column.metric)) for column in table.columns]
        yield ReferenceRow(name=name, role="baseline", figures=figures)


def _people(table: ReferenceTable, found: Found) -> Iterator[ReferenceRow]:
    """Yield the row of people, whose memories the judge of the table matches."""
    folder = found.folder / (_recipe_of(table).people or "")
    if _recipe_of(table).people is None or not folder.is_dir():
        return
    tell(f"{table.id}: people")
    rule = PUBLISHERS if table.judge is None else table.judge.name
    agreement = measure([str(folder)], parse_settings({"rule": rule}, AgreementSettings)).row
    if not isinstance(agreement, GoldAgreement):
        return
    metrics = {metric.name: metric for metric in all_tracks()[table.columns[0].track].metrics}
    asked = [metrics[column.metric] for column in table.columns]
    row = AgreementFile(agreement, FilePlace("", "", agreement.as_json())).on(asked)
    if row is None:
        return
    figures = []
    for column in table.columns:
        place = row.scores.get(column.metric)
        figures.append(None if place is None else figure_of(AgreementFigure(**place.value)))
    anchored = None
    if row.verbatim is not None:
        one, other = (round(share.value, DIGITS) for share in row.verbatim)
        without = None if row.without is None else round(row.without.value, DIGITS)
        anchored = Anchored(verbatim=(one, other), without=without)
    name = " and ".join(row.names)
    yield ReferenceRow(name=name, role="people", figures=figures, anchored=anchored)


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


def recompute_all(folders: Sequence[Path], settings: Settings) -> Recomputed:
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
        new[table.id] = recompute(table, found)
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
    known = old[row.name]
    same = (known.figures, known.above, known.anchored) == (row.figures, row.above, row.anchored)
    return "equal" if same else "differs"


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


def text_of(references: References) -> str:
    """Return the file of reference tables: a line a row, so that a changed figure is one line."""
    tables = []
    for table in references.tables:
        fields = []
        for name, value in table.model_dump(mode="json", exclude_defaults=True).items():
            written = json.dumps(value, ensure_ascii=False)
            if name in ("columns", "rows"):
                lines = ",\n   ".join(json.dumps(item, ensure_ascii=False) for item in value)
                written = f"[\n   {lines}\n  ]"
            fields.append(f'  "{name}": {written}')
        tables.append(" {\n" + ",\n".join(fields) + "\n }")
    return f'{{"format": {references.format}, "tables": [\n' + ",\n".join(tables) + "\n]}\n"


def main(words: Sequence[str]) -> int:
    """Recompute the tables that the folders among `words` have answers for; return the exit code.

    Raises:
        AlpsError: If no folder is named, nothing can be recomputed, or a file can't be read.
    """
    named, of_settings = part_words(words)
    settings = parse_words(of_settings, Settings)
    folders = [Path(name).expanduser() for name in named]
    if not folders:
        raise UsageError("name at least one folder with your copy of the public files")
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder")
    recomputed = recompute_all(folders, settings)
    for table in recomputed.tables:
        _print_table(table)
    for folder in recomputed.idle:
        print(visible(f"{folder}: nothing in it was recomputed"))
    equal, differs = recomputed.count("equal"), recomputed.count("differs")
    other = recomputed.count("other data", "other answers", "new")
    print(f"{equal} rows equal to the digit, {differs} differ, {other} of other data or answers.")
    return int(settings.check and (differs or recomputed.count("other answers") or not equal))


def _print_table(compared: ComparedTable) -> None:
    table = compared.table
    print(f"{table.title} ({table.id}): {table.columns[0].metric}, n {table.data.n:,}")
    for row in compared.rows:
        lead = row.row.figures[0]
        print(visible(f"  {row.row.name}: {_figure_words(lead)}; {row.verdict}"))
        for line in differences(row, table) if row.verdict == "differs" else ():
            print(visible(f"    {line}"))
    if compared.missing:
        print(visible(f"  not in the folder: {', '.join(compared.missing)}"))


def _figure_words(figure: ReferenceFigure | None) -> str:
    if figure is None:
        return "no figure"
    if figure.low is None or figure.high is None:
        return number(figure.value)
    return f"{number(figure.value)} [{number(figure.low)}, {number(figure.high)}]"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except AlpsError as error:
        sys.exit(f"error: {error}")
