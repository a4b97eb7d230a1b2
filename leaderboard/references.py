"""Typed tables of reference rows: metrics, authors, data, and how to recompute them.

They stand below the boards and are never ranked. `references.json` of the package holds them;
`bench/reference_rows.py` of the repository makes those that can be recomputed anew.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import from_json

from alps.extension import extensions
from alps.leaderboard.pages import FilePlace
from alps.leaderboard.untrusted import read_model

REFERENCES = Path(__file__).with_name("references.json")


class _ReferenceRow(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Source(_ReferenceRow):
    """Where figures, or the answers that they were computed from, were published."""

    title: str
    venue: str
    place: str


class ReferenceColumn(_ReferenceRow):
    """The metric of a column, in our names."""

    track: str
    metric: str


class ReferenceFigure(_ReferenceRow):
    """A figure; what is reported without an interval, or without n, has none."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = Field(None, ge=0)


class ReferenceLead(ReferenceFigure):
    """How far a row is above a trivial baseline, by the metric of the first column."""

    baseline: str


class Anchored(_ReferenceRow):
    """What two people share with the draft that both started from.

    Attributes:
        verbatim: The share of each person's items that are the draft's, word for word.
        without: Their agreement on all other items; None where there are none.
    """

    verbatim: tuple[float, float]
    without: float | None = None


class ReferenceRow(_ReferenceRow):
    """One row.

    Attributes:
        name: What the system is called.
        role: A system, a trivial baseline that we computed beside them, or two people.
        file: The file of its answers, as seen from the public folder, and `sha256` its hash.
        figures: One a column; None where there is none.
        above: How far it is above the strongest trivial baseline.
        anchored: What people share with their draft.
    """

    name: str
    role: Literal["system", "baseline", "people"] = "system"
    file: str | None = None
    sha256: str | None = None
    figures: list[ReferenceFigure | None]
    above: ReferenceLead | None = None
    anchored: Anchored | None = None


class ReferenceData(_ReferenceRow):
    """What systems were run on; a hash and n where we have seen it."""

    name: str
    sha256: str | None = None
    n: int | None = Field(None, ge=0)


class JudgeNamed(_ReferenceRow):
    """Who judged, and how far that agrees with others; both in words."""

    name: str
    agreement: str


class Recipe(_ReferenceRow):
    """How the rows of a table are computed from a public folder.

    Attributes:
        each: The files that hold the answers of one system each, as a pattern below the folder.
        settings: Those of `alps run`. `{file}`, `{parent}`, `{folder}`, `{split}`, `{dialogues}` in
            them stand for the file, its folder, the public folder, the split of its release and
            the input of its dialogues.
        track: The track of the release that must be there; None where there is no release.
        told: The track whose queries are each given the dialogue of their session, and the one
            that has it; None where they need none.
        people: A folder with the annotations of two people, whose agreement is a row.
        names: What rows are called, by the name of their file or folder.
    """

    each: str
    settings: list[str]
    track: str | None = None
    told: tuple[str, str] | None = None
    people: str | None = None
    names: dict[str, str] = {}


class ReferenceTable(_ReferenceRow):
    """One table.

    Attributes:
        kind: `recomputed` by us from public answers, `reported` by somebody, or `run` by alps.
        group: What its rows are.
        ran_by: Who ran the systems.
        judge: Who judged; None where no judge has a part in the figures.
        conditions: What a board must be run under to show them.
        recipe: How to recompute it; None of the other kinds.
    """

    id: str
    title: str
    kind: Literal["recomputed", "reported", "run"]
    group: Literal["models", "memory systems", "retrievers"]
    benchmark: str
    ran_by: str
    data: ReferenceData
    judge: JudgeNamed | None = None
    source: Source
    note: str = ""
    conditions: dict[str, str] = {}
    recipe: Recipe | None = None
    columns: list[ReferenceColumn] = Field(min_length=1)
    rows: list[ReferenceRow]

    @property
    def recomputed(self) -> bool:
        """Whether we scored published answers ourselves; else somebody reports the figures."""
        return self.kind == "recomputed"

    def fits(self, conditions: Mapping[str, Any]) -> bool:
        """Tell whether a board under `conditions` shows it."""
        # Scores of a paper hold under its own conditions, such as its pool size or prompt.
        return all(conditions.get(name) == value for name, value in self.conditions.items())

    @model_validator(mode="after")
    def _whole(self) -> "ReferenceTable":
        for row in self.rows:
            if len(row.figures) != len(self.columns):
                counts = f"{len(row.figures)} figures, {len(self.columns)} columns"
                raise ValueError(f"{self.id}, {row.name}: {counts}")
        # Without a recipe nobody can check a row that claims to be recomputed.
        if self.recomputed != (self.recipe is not None):
            raise ValueError(f"{self.id}: a recipe belongs to recomputed rows only")
        return self


class References(_ReferenceRow):
    """All reference tables."""

    format: Literal[1] = 1
    tables: list[ReferenceTable]


@dataclass(frozen=True)
class Reported:
    """A row on the boards of one track: the origins of its metrics."""

    row: ReferenceRow
    table: ReferenceTable
    scores: dict[str, FilePlace]

    @property
    def name(self) -> str:
        """What the system is called."""
        return self.row.name


@dataclass(frozen=True)
class ReferenceFile:
    """Reference tables and the places of their figures; `more` are those of extensions."""

    references: References
    root: FilePlace
    more: tuple["ReferenceFile", ...] = ()

    @property
    def tables(self) -> list[ReferenceTable]:
        """All tables."""
        return [table for table, _ in self.placed()]

    def placed(self) -> Iterator[tuple[ReferenceTable, FilePlace]]:
        """Yield the tables with their places."""
        for n, table in enumerate(self.references.tables):
            yield table, self.root["tables"][n]
        for other in self.more:
            yield from other.placed()

    def on(self, track: str) -> Iterator[Reported]:
        """Yield the rows with a figure on `track`, in the order of the tables."""
        for table, place in self.placed():
            for n, row in enumerate(table.rows):
                scores = {}
                for at, column in enumerate(table.columns):
                    if column.track == track and row.figures[at] is not None:
                        scores[column.metric] = place["rows"][n]["figures"][at]
                if scores:
                    yield Reported(row, table, scores)


def read_references(path: Path = REFERENCES) -> ReferenceFile:
    """Read reference tables; with those of the package come those of extensions.

    Raises:
        DataError: If the file does not fit its form; names the field.
    """
    references = read_model(path, References)
    more = tuple(map(read_references, files_of_extensions())) if path == REFERENCES else ()
    return ReferenceFile(references, FilePlace(path.name, "", from_json(path.read_bytes())), more)


def files_of_extensions() -> list[Path]:
    """Return the reference tables that extensions bring."""
    named = [one.references.partition(":") for one in extensions() if one.references]
    return [Path(str(files(package) / name)) for package, _, name in named]
