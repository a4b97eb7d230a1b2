"""Tables of imported figures in the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from alps.ext.importers.files import DATA, Imported
from alps.show.formatting import interval, number, visible
from alps.stats.bootstrap import Estimate

_TASK = "python:alps.ext.importers.answered"


def print_imported(found: Imported, console: Console) -> None:
    """Print the figures, the baselines, the ties, what is in doubt, and how to judge again."""
    parts = list(dict.fromkeys(figure.part for figure in found.figures))
    for part in parts:
        console.print(_table(found, part), highlight=False)
        _print_ties(found, part, console)
    for flag in found.flags:
        console.print(Text(f"– {visible(flag)}"))
    console.print(Text(f"Folder: {found.folder}"))
    for path in found.predictions:
        again = f"task={_TASK} data={found.folder / DATA} model=predictions:{path}"
        console.print(Text(f"Judge again: alps run {again} judge=PROVIDER/MODEL"), soft_wrap=True)


def _table(found: Imported, part: str) -> Table:
    title = f"{found.form}, {part}" if part else found.form
    table = Table(title=visible(title), title_justify="left", box=None, pad_edge=False)
    for name in ("system", "questions"):
        table.add_column(name, overflow="fold")
    for name in ("score", "95 % interval", "n", "unscored", "token F1"):
        table.add_column(name, justify="right")
    shown = ""
    for figure in found.figures:
        if figure.part != part:
            continue
        system = figure.system if figure.system != shown else ""
        shown = figure.system
        table.add_row(
            visible(system),
            visible(figure.category or "all"),
            *_cells(figure.score),
            f"{figure.score.n:,}",
            f"{figure.unscored:,}",
            "–" if figure.f1 is None else number(figure.f1.value),
        )
    for baseline in found.baselines:
        if baseline.part == part:
            score = "–" if baseline.score is None else f"≥ {number(baseline.score)}"
            f1 = "–" if baseline.f1 is None else number(baseline.f1)
            table.add_row(baseline.name, "baseline", score, "", "", "", f1)
    return table


def _cells(score: Estimate) -> Sequence[str]:
    return number(score.value), interval(score)


def _print_ties(found: Imported, part: str, console: Console) -> None:
    for ties in found.ties:
        if ties.part != part:
            continue
        letters = ", ".join(f"{visible(name)} {own}" for name, own in ties.letters.items())
        console.print(
            Text(f"Systems that share a letter do not differ significantly (Holm): {letters}")
        )
