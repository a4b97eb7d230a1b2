"""The table of `alps transport`: whether audits of some runs hold for another."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from alps.report.formatting import interval, number, visible
from alps.run.transport import Transported, Transports

_COLOURS = {"pass": "green", "fail": "red", "inconclusive": "yellow"}


def print_transports(found: Transports, console: Console) -> None:
    """Print by how much the judge errs otherwise on a run, with the verdict."""
    others = ", ".join(visible(run.name) for run in found.others)
    console.print(Text(f"{visible(found.run.name)}, corrected by audits of {others}"))
    console.print(
        Text(f"Error of judge {found.run.judge} here less there; margin {found.margin:g}"),
        style="dim",
    )
    table = Table(box=None, pad_edge=False)
    for title, side in (("score", "left"), ("", "right"), ("95 %", "right"), ("n", "right")):
        table.add_column(title, justify="right" if side == "right" else "left", no_wrap=True)
    table.add_column("")
    tracks = {row.track for row in found.rows}
    for row in found.rows:
        title = row.metric.title.strip()
        name = title if len(tracks) == 1 else f"{row.track} {title}"
        table.add_row(name, *_cells(row))
    console.print(table, highlight=False)


def _cells(row: Transported) -> tuple[str, str, str, Text]:
    if row.found is None:
        return "–", "", "", Text(f"refused: {row.refused}", style="yellow")
    found = row.found
    verdict = Text(found.verdict, style=_COLOURS[found.verdict])
    return number(found.value), interval(found), f"{found.n:,}", verdict
