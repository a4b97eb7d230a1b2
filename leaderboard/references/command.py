"""The command `alps reference`: recomputes reference rows and says whether they are equal."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from alps.errors import UsageError
from alps.leaderboard.references.compare import (
    ComparedTable,
    Recomputed,
    differences,
    recompute_all,
)
from alps.leaderboard.references.rows import ReferenceFigure
from alps.leaderboard.references.settings import ReferenceSettings
from alps.parsing import parse_words, part_words
from alps.show.formatting import number, visible
from alps.show.table import terminal

DIFFERENT = 1
_NOTHING, _NAMES = "–", 20


def reference_command(words: Sequence[str]) -> int:
    """Recompute the tables that the folders among `words` have answers for; return the exit code.

    It is 1 where `check` was asked for, and a figure is not equal, the answers to the same data are
    others, or nothing could be compared. A copy that lacks systems, or records, is fine.

    Raises:
        AlpsError: If no folder is named, nothing can be recomputed, or a file can't be read.
    """
    named, of_settings = part_words(words)
    settings = parse_words(of_settings, ReferenceSettings)
    folders = [Path(name).expanduser() for name in named]
    if not folders:
        raise UsageError("name at least one folder with your copy of the public files")
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder")
    recomputed = recompute_all(folders, settings, _tell)
    if settings.format == "json":
        print(json.dumps(_as_json(recomputed), ensure_ascii=False, indent=2))
    else:
        print_recomputed(recomputed, terminal())
    for folder in recomputed.idle:
        print(visible(f"{folder}: nothing in it was recomputed"), file=sys.stderr)
    if recomputed.wrote is not None:
        print(f"wrote {recomputed.wrote}", file=sys.stderr)
    wrong = recomputed.count("differs", "other answers") or not recomputed.count("equal")
    return DIFFERENT if settings.check and wrong else 0


def _tell(line: str) -> None:
    if sys.stderr.isatty():
        print(visible(line), file=sys.stderr)


def _as_json(recomputed: Recomputed) -> dict[str, object]:
    tables = []
    for table in recomputed.tables:
        verdicts = {row.row.name: row.verdict for row in table.rows}
        own = table.table.model_dump(mode="json", exclude_none=True)
        tables.append({**own, "verdicts": verdicts, "missing": list(table.missing)})
    return {"tables": tables}


def print_recomputed(recomputed: Recomputed, console: Console) -> None:
    """Print every table with its leading figure, and the verdict on each row."""
    for table in recomputed.tables:
        _print_table(table, console)
    equal, differs = recomputed.count("equal"), recomputed.count("differs")
    other = recomputed.count("other data", "other answers", "new")
    line = f"{equal} rows equal to the digit, {differs} differ, {other} of other data or answers."
    console.print(line)


def _print_table(table: ComparedTable, console: Console) -> None:
    about = table.table
    judged = f"judged by {about.judge.name}" if about.judge is not None else "no judge"
    console.print(Text(f"{about.title} ({about.id})", "bold"))
    console.print(f"{about.data.name}, n {about.data.n:,}; {judged}")
    columns = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    columns.add_column("row", overflow="fold", min_width=_NAMES)
    for name in (about.columns[0].metric, "n", "Δ vs. baseline"):
        columns.add_column(name, justify="right", no_wrap=True)
    columns.add_column("compared", overflow="fold")
    for row in table.rows:
        lead = row.row.figures[0]
        n = _NOTHING if lead is None or lead.n is None else f"{lead.n:,}"
        cells = (_figure(lead), n, _figure(row.row.above), row.verdict)
        columns.add_row(visible(row.row.name), *cells)
    console.print(columns)
    for row in table.rows:
        if row.verdict == "differs":
            for line in differences(row, about):
                console.print(f"  {visible(row.row.name)}, {line}")
    if table.missing:
        console.print(f"Not in the folder: {visible(', '.join(table.missing))}")
    console.print()


def _figure(figure: ReferenceFigure | None) -> str:
    if figure is None:
        return _NOTHING
    if figure.low is None or figure.high is None:
        return number(figure.value)
    return f"{number(figure.value)} [{number(figure.low)}, {number(figure.high)}]"
