"""What the AlpsBench paper reports, as facts with their source: shown beside our boards, never
ranked with them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import from_json

from alps.leaderboard.origin import Place
from alps.leaderboard.reading import read_part

PUBLISHED = Path(__file__).with_name("published.json")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Source(_Part):
    """What the figures were read from."""

    title: str
    venue: str
    place: str


class Column(_Part):
    """What a column measures, in our names."""

    track: str
    metric: str


class ReportedRow(_Part):
    """One row of a table of the paper."""

    name: str
    values: list[float | None]


class ReportedTable(_Part):
    """One table of the paper: who is in it, and how it was measured."""

    id: str
    title: str
    note: str
    kind: str
    columns: list[Column] = Field(min_length=1)
    rows: list[ReportedRow] = Field(min_length=1)

    @model_validator(mode="after")
    def _rectangular(self) -> "ReportedTable":
        for row in self.rows:
            if len(row.values) != len(self.columns):
                raise ValueError(
                    f"{self.id}, {row.name}: {len(row.values)} values, {len(self.columns)} columns"
                )
        return self


class Reports(_Part):
    """All that is reported."""

    format: int
    source: Source
    tables: list[ReportedTable]


@dataclass(frozen=True)
class Reported:
    """One system as the paper reports it on one track: the places of its figures by metric."""

    name: str
    table: ReportedTable
    scores: dict[str, Place]


@dataclass(frozen=True)
class Published:
    """The reported tables with the places of their numbers."""

    reports: Reports
    root: Place

    def on(self, track: str) -> Iterator[Reported]:
        """Yield the systems that are reported on `track`, in the order of the tables."""
        for at, table in enumerate(self.reports.tables):
            wanted = [
                (n, column.metric)
                for n, column in enumerate(table.columns)
                if column.track == track
            ]
            for place, row in enumerate(table.rows):
                values = self.root["tables"][at]["rows"][place]["values"]
                scores = {metric: values[n] for n, metric in wanted if row.values[n] is not None}
                if scores:
                    yield Reported(row.name, table, scores)


def read_published(path: Path = PUBLISHED) -> Published:
    """Read the reported tables.

    Raises:
        DataError: If the file does not fit its form.
    """
    reports = read_part(path, Reports)
    return Published(reports, Place(path.name, "", from_json(path.read_bytes())))
