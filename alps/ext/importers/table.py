"""Tables of imported figures in the terminal."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from alps.ext.importers.files import DATA, Imported
from alps.show.formatting import number
from alps.show.table import (
    Cell,
    Column,
    Line,
    Part,
    Row,
    Table,
    named,
    printed,
    row_of,
    thousands,
    with_interval,
)

_TASK = "python:alps.ext.importers.answered"


def print_imported(found: Imported, console: Console) -> None:
    """Print the figures, the baselines, the ties, what is in doubt, and how to judge again."""
    for part in printed(_parts(found), console.width):
        console.print(part, highlight=False)
    for path in found.predictions:
        again = f"task={_TASK} data={found.folder / DATA} model=predictions:{path}"
        console.print(Text(f"Judge again: alps run {again} judge=PROVIDER/MODEL"), soft_wrap=True)


def _parts(found: Imported) -> Iterator[Part]:
    for part in dict.fromkeys(figure.part for figure in found.figures):
        yield _table(found, part)
    for flag in found.flags:
        yield Line(f"– {flag}")
    yield Line(f"Folder: {found.folder}")


def _table(found: Imported, part: str) -> Table:
    title = f"{found.form}, {part}" if part else found.form
    columns = [named("system", "fold"), named("questions", "fold")]
    for name in ("score", "95 % interval", "n", "unscored", "token F1"):
        columns.append(Column(name, right=True))
    notes = []
    for ties in found.ties:
        if ties.part == part:
            letters = ", ".join(f"{name} {own}" for name, own in ties.letters.items())
            tied = "Systems that share a letter do not differ significantly (Holm)"
            notes.append(Line(f"{tied}: {letters}"))
    return Table(title, columns, list(_rows(found, part)), notes, layout="bare")


def _rows(found: Imported, part: str) -> Iterator[Row]:
    shown = ""
    for figure in found.figures:
        if figure.part != part:
            continue
        system = figure.system if figure.system != shown else ""
        shown = figure.system
        counts = thousands(figure.score.n), thousands(figure.unscored)
        cells = (
            *with_interval(figure.score),
            *counts,
            _f1(None if figure.f1 is None else figure.f1.value),
        )
        yield row_of(system, figure.category or "all", *cells)
    for baseline in found.baselines:
        if baseline.part == part:
            score = "–" if baseline.score is None else f"≥ {number(baseline.score)}"
            yield row_of(baseline.name, "baseline", score, "", "", "", _f1(baseline.f1))


def _f1(value: float | None) -> Cell:
    return Cell(number(value), value)
