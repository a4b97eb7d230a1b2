"""Pages of a board's records: the scores of two systems of the reader's choice, side by side.

A page holds the scores of all systems, and CSS shows the two that are chosen: no script is needed,
and as many pages as boards do for all pairs of systems.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from alps.leaderboard.gold_data import known_track
from alps.leaderboard.pages.board_table import metric_title
from alps.leaderboard.pages.common import Renderer, answer_id, record_file, records_folder
from alps.leaderboard.provenance import NOTHING, computed
from alps.leaderboard.ranking import Board, Standing
from alps.show.formatting import number

DIGITS = 6
FOLDER = "compare"
# Shows a column: that of the address, or else of the first choice, and that of the second.
_SHOWN = (
    "main:is(:has(#of{n}:target,.other option:nth-child({n}):checked),"
    ":not(:has(:target)):has(.one option:nth-child({n}):checked)) .c{n}{{display:table-cell}}\n"
)


@dataclass(frozen=True)
class RecordRow:
    """A record, the way to its page, and the cell of each system, in the order of the columns."""

    name: str
    page: str
    cells: Markup


def compare_page(board: Board) -> str:
    """Return the page on which two systems of a board are compared; empty where it has none."""
    return _page(board) if len(compared(board)) > 1 else ""


def place_on(board: Board, slug: str) -> str:
    """Return the page with a system of a board beside the first; empty where it is not there."""
    rows = compared(board)
    for n, row in enumerate(rows, start=1):
        if row.system.slug == slug and len(rows) > 1:
            # Beside itself the first would stand alone: the page shows it next to the second.
            return f"{_page(board)}#of{n}" if n > 1 else _page(board)
    return ""


def _page(board: Board) -> str:
    return f"{FOLDER}/{board.id}.html"


def compared(board: Board) -> list[Standing]:
    """Return the systems of a board whose records may be shown: those of the package's data."""
    sha256 = str(board.any.track["data_sha256"].value)
    if known_track(board.key.track, sha256) is None:
        return []
    return [row for row in (*board.standings, *board.floor_systems) if row.records]


def write_compared(renderer: Renderer) -> None:
    """Write the page of each board with several systems, and the style that shows two of them."""
    most = 0
    for board in renderer.content.boards:
        page, rows = compare_page(board), compared(board)
        if page:
            most = max(most, len(rows))
            records = list(_records(board, rows))
            title = metric_title(board.metric)
            renderer.write(
                page, "compare.html", board=board, metric=title, systems=rows, records=records
            )
    renderer.put(f"{FOLDER}/columns.css", "".join(_SHOWN.format(n=n + 1) for n in range(most)))


def _records(board: Board, rows: list[Standing]) -> Iterator[RecordRow]:
    folder = records_folder(board.task)
    names = sorted({name for row in rows for name in row.records})
    for name in names:
        page = f"records/{folder}/{record_file(name)}"
        cells = [_cell(board, row, name, f"../{page}", n) for n, row in enumerate(rows, start=1)]
        yield RecordRow(name, page, Markup("".join(cells)))


def _cell(board: Board, row: Standing, name: str, page: str, n: int) -> str:
    """Return a score with the way to the answer that got it.

    Short, as a page has tens of thousands: its origin stands on the table, its file on its column.
    """
    if name not in row.records:
        return f'<td class="c{n}">{NOTHING}</td>'
    answer = answer_id(board.key.track, row.system.slug)
    written = number(round(row.records[name], DIGITS))
    return f'<td class="c{n}"><a href="{page}#{answer}">{written}</a></td>'


def record_score(board: Board, row: Standing, name: str) -> Markup:
    """Return what a system scored on a record, by the metric of a board."""
    value = round(row.records[name], DIGITS)
    args = (row.system.slug, board.key.track, board.metric.name, name)
    return computed(value, "record_score", *args, written=number(value))
