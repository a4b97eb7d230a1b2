"""Rows of reference tables, made anew from a public folder by the recipe of their table.

Every system is one run, as its settings say; the runs are in a scratch folder and thrown away.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from alps.data.release import Row, read_rows
from alps.errors import DataError, UsageError
from alps.ext.people.agreement.matching import PUBLISHERS
from alps.ext.people.agreement.measure import measure
from alps.ext.people.agreement.rows import FigureRow, GoldAgreement
from alps.ext.people.agreement.settings import AgreementSettings
from alps.ext.people.board import AgreementFile
from alps.jsonl import dump
from alps.judges.resolve import AGREEMENTS
from alps.leaderboard.provenance import Place
from alps.leaderboard.references.rows import (
    Above,
    Anchored,
    Data,
    JudgeNamed,
    Recipe,
    ReferenceFigure,
    ReferenceRow,
    ReferenceTable,
)
from alps.parsing import parse_settings, parse_words
from alps.rows import Floor, Interval, Score, TrackSummary
from alps.run.opened import Run, open_run
from alps.run.start import run
from alps.settings import RunSettings
from alps.tasks import all_tracks

RELEASE, INPUT = "benchmark_data", "model_input.jsonl"
# Digits that are kept: libraries differ in the last ones of a float.
DIGITS = 6
Tell = Callable[[str], None]


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


def recompute(table: ReferenceTable, found: Found, tell: Tell) -> ReferenceTable:
    """Return a table with its rows computed from a public folder.

    Args:
        table: The table; its own rows are not looked at.
        found: The folder and its files.
        tell: Is told what is computed next.

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
    rows += _baselines(table, opened.summary_of(track))
    rows += _people(table, found, tell)
    about = opened.tracks[track]
    judge = table.judge
    if judge is not None:
        judge = JudgeNamed(name=opened.judge, agreement=AGREEMENTS.get(opened.judge, ""))
    data = Data(name=table.data.name, sha256=about.sha256, n=opened.summary_of(track).n)
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
        places = {
            "file": file,
            "parent": file.parent,
            "folder": self._folder,
            "split": self._found.split,
            "dialogues": self._dialogues,
        }
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
    for number, row in read_rows(path):
        for field, kind in (("session_id", str), ("input", dict)):
            if not isinstance(row.get(field), kind):
                raise DataError("is missing", path=path, line=number, field=field)
        yield number, row


def _run(words: Sequence[str], out: Path) -> Run:
    finished = run(parse_words([*words, f"out={out}"], RunSettings))
    return open_run(finished.folder)


def _key(file: Path) -> str:
    """Return what a file of answers goes by: its folder's name where all files are called alike."""
    return file.stem if file.suffix == ".csv" else file.parent.name


def _figure(score: Interval | Score | FigureRow | None) -> ReferenceFigure | None:
    if score is None or score.value is None:
        return None
    return ReferenceFigure(
        value=round(score.value, DIGITS),
        low=None if score.low is None else round(score.low, DIGITS),
        high=None if score.high is None else round(score.high, DIGITS),
        n=score.n,
    )


def _system(table: ReferenceTable, found: Found, file: Path, opened: Run) -> ReferenceRow:
    summary = opened.summary_of(table.columns[0].track)
    return ReferenceRow(
        name=_recipe_of(table).names.get(_key(file), _key(file)),
        file=file.relative_to(found.folder).as_posix(),
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        figures=[_figure(summary.scores.get(column.metric)) for column in table.columns],
        above=_above(summary, table.columns[0].metric),
    )


def _above(summary: TrackSummary, metric: str) -> Above | None:
    """Return how far a run is above the strongest trivial baseline by a metric."""
    strongest = strongest_floor(summary.floors, metric)
    if strongest is None:
        return None
    floor = summary.floors[strongest]
    difference = floor.differences.get(metric)
    if difference is None and floor.lead == metric:
        difference = floor.above
    figure = _figure(difference)
    return None if figure is None else Above(baseline=strongest, **figure.model_dump())


def strongest_floor(floors: Mapping[str, Floor], metric: str) -> str | None:
    """Return the name of the trivial baseline with the highest score by a metric."""
    best: tuple[float, str] | None = None
    for name, floor in floors.items():
        score = floor.scores.get(metric)
        if score is not None and score.value is not None:
            best = max(best or (score.value, name), (score.value, name))
    return None if best is None else best[1]


def _baselines(table: ReferenceTable, summary: TrackSummary) -> Iterator[ReferenceRow]:
    for name, floor in summary.floors.items():
        figures = [_figure(floor.scores.get(column.metric)) for column in table.columns]
        yield ReferenceRow(name=name, role="baseline", figures=figures)


def _people(table: ReferenceTable, found: Found, tell: Tell) -> Iterator[ReferenceRow]:
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
    row = AgreementFile(agreement, Place("", "", agreement.as_json())).on(asked)
    if row is None:
        return
    figures = []
    for column in table.columns:
        place = row.scores.get(column.metric)
        figures.append(None if place is None else _figure(FigureRow(**place.value)))
    anchored = None
    if row.verbatim is not None:
        one, other = (round(share.value, DIGITS) for share in row.verbatim)
        without = None if row.without is None else round(row.without.value, DIGITS)
        anchored = Anchored(verbatim=(one, other), without=without)
    name = " and ".join(row.names)
    yield ReferenceRow(name=name, role="people", figures=figures, anchored=anchored)
