"""The sets of histories and questions as a table."""

from dataclasses import dataclass
from typing import Any

from pydantic import Field
from rich.console import Console

from alps.ext.histories import READERS, SETS
from alps.ext.histories.book import known_defects
from alps.ext.histories.files import SetChoice
from alps.ext.histories.model import CitedSet
from alps.extension import load
from alps.keys import Format, FrozenSettings
from alps.show.table import Table, named, print_parts, row_of, thousands


class ListSettings(FrozenSettings):
    """What `alps data list` takes."""

    format: Format = Field("table", description="table or json")


@dataclass(frozen=True)
class Sets:
    """All sets that there are readers of."""

    sets: tuple[CitedSet, ...]

    def as_json(self) -> list[dict[str, Any]]:
        """Return them as JSON values."""
        rows = []
        for one in self.sets:
            row: dict[str, Any] = {"task": one.name, "title": one.title, "licence": one.licence}
            row |= {"language": one.language, "from": one.source}
            row["questions"] = dict(one.expected(SetChoice()))
            rows.append({**row, "known_defects": len(known_defects(one.name))})
        return rows


def list_sets() -> Sets:
    """Return the sets by the names of their tasks."""
    return Sets(tuple(load(f"{READERS}.{name}:SET") for name in SETS))


def print_sets(found: Sets, console: Console) -> None:
    """Print a table of them."""
    rows = []
    for one in found.sets:
        asked = sum(one.expected(SetChoice()).values())
        questions = thousands(asked) if asked else "–"
        rows.append(row_of(one.name, one.licence, one.language, questions, one.source))
    columns = ("licence", "language", "questions", "source")
    table = Table("Sets of histories and questions", [named("task"), *map(named, columns)], rows)
    print_parts(console, [table], ())
