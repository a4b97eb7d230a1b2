"""The pages of the tasks: their boards, and the figure that belongs to each."""

from collections.abc import Iterator
from dataclasses import replace

from alps.leaderboard.boards import Board, Standing
from alps.leaderboard.figures import COLOURED, Point, letter_of, plane
from alps.leaderboard.pages.common import BoardView, Renderer, page_of, track_title, view
from alps.leaderboard.pages.matrix import Matrix, matrix_of
from alps.leaderboard.pages.retrieval import write_retrieval
from alps.leaderboard.provenance import NOTHING
from alps.leaderboard.site_data import System
from alps.leaderboard.tables import Section
from alps.tasks import Task

MATRICES, PANEL_ROWS = 4, 6


def write_tasks(renderer: Renderer) -> None:
    """Write the pages of all tasks, and of every track that has its own."""
    _write_boards(renderer, "extraction", "extraction.html")
    _write_boards(renderer, "update", "update.html")
    write_retrieval(renderer)
    for one in renderer.content.tracks_of("retrieval"):
        _write_track(renderer, one)
    _write_utilization(renderer)


def _write_boards(renderer: Renderer, task: str, name: str) -> None:
    boards = [
        board
        for one in renderer.content.tracks_of(task)
        for board in renderer.content.by_track[one.track]
    ]
    views = [view(board, first=board is boards[0]) for board in boards]
    renderer.write(
        name,
        "task.html",
        task=task,
        title=task.capitalize(),
        views=views,
        plane=_plane(boards[0]) if boards and task == "extraction" else None,
        matrices=list(_matrices(boards[0])) if boards and task == "update" else [],
    )


def _write_track(renderer: Renderer, one: Task) -> None:
    boards = renderer.content.by_track[one.track]
    views = [view(board, first=board is boards[0]) for board in boards]
    renderer.write(
        page_of(one),
        "task.html",
        task=one.name,
        title=track_title(one),
        views=views,
        plane=None,
        matrices=[],
    )


def _plane(board: Board) -> dict[str, object] | None:
    """Return the precision–recall plane of a board, with its legend."""
    points: list[Point] = []
    legend: list[tuple[str, System]] = []
    for row in (row for row in board.standings if row.recomputed):
        precision, recall = row.score("precision"), row.score("recall")
        if precision["value"] and recall["value"]:
            mark = letter_of(len(legend)) if len(legend) < COLOURED else ""
            points.append(Point(row.system.card.name, "system", mark, precision, recall))
            legend += [(mark, row.system)] if mark else []
    for floor in board.floors:
        precision, recall = floor.scores["precision"], floor.scores["recall"]
        if precision["value"] and recall["value"]:
            points.append(Point(floor.name, "floor", "", precision, recall))
    drawn = plane(points, name="Precision against recall of the systems on the board above")
    return (
        {"drawing": drawn, "legend": legend, "rest": len(points) > len(legend)} if drawn else None
    )


def _matrices(board: Board) -> Iterator[tuple[Standing, Matrix]]:
    """Yield the action matrices of the leading systems of a board."""
    for row in [row for row in board.standings if row.recomputed][:MATRICES]:
        matrix = matrix_of(row.track["counts"])
        if matrix.rows:
            yield row, matrix


def _write_utilization(renderer: Renderer) -> None:
    panels = []
    for one in renderer.content.tracks_of("utilization"):
        _write_track(renderer, one)
        board = renderer.content.by_track[one.track][0]
        panel = view(board, most=PANEL_ROWS, brief=True)
        panels.append(
            {
                "title": track_title(one),
                "page": page_of(one),
                "view": panel,
                "sections": list(_drawn(panel)),
            }
        )
    renderer.write("utilization.html", "utilization.html", panels=panels)


def _drawn(panel: BoardView) -> Iterator[Section]:
    """Yield the sections of a panel without the rows that have no value on its axis."""
    place = [column.key for column in panel.table.columns].index("score")
    for section in panel.table.sections:
        rows = [row for row in section.rows if row.cells[place] != NOTHING]
        if rows:
            yield replace(section, rows=rows)
