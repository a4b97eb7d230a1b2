"""Pages of the tasks with their boards and charts, and the changelog."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from alps.leaderboard.gold_data import known_track
from alps.leaderboard.pages import NOTHING, FilePlace, pair
from alps.leaderboard.pages.board_table import (
    BoardSection,
    TableRow,
    facts_of,
    foreign,
    proven,
    system_name,
    with_count,
)
from alps.leaderboard.pages.charts import (
    Matrix,
    NamedLine,
    matrix_of,
    named_lines,
    score_of,
    style_of,
)
from alps.leaderboard.pages.common import BoardView, Renderer, data_name, page_of, view
from alps.leaderboard.pages.records import compare_page
from alps.leaderboard.ranking import Board, RankedSystem
from alps.leaderboard.site_data import SiteSystem
from alps.leaderboard.submission import Review
from alps.rows import Figure
from alps.show.charts import COLOURS, ChartPoint, colour_of, plane
from alps.show.formatting import letter_of
from alps.tasks import Task, board_tracks

# How many matrices the page of updates shows, and how many rows a panel of utilization.
MATRICES, PANEL_ROWS = 4, 6
_SQUARE = 1
"""The sign of a trivial baseline, as the legend has it."""


def write_tasks(renderer: Renderer) -> None:
    """Write a page of every task; one that has several tracks gets a page of each, too."""
    content = renderer.content
    for name in content.tasks:
        tracks = content.tracks_of(name)
        every = [task for task in board_tracks().values() if task.name == name]
        # Of all its tracks, with boards or without: links to its page must lead somewhere.
        if len(every) == 1:
            _write_boards(renderer, every[0])
            continue
        for task in tracks:
            _write_boards(renderer, task)
        if every[0].data.pool_size is not None:
            write_pools(renderer, name)
        else:
            panels = [_panel(content.by_track[task.track][0]) for task in tracks]
            renderer.write(f"{name}.html", "panels.html", task=name, panels=panels)


def _panel(board: Board) -> dict[str, object]:
    panel = view(board, most=PANEL_ROWS, brief=True)
    about = {"title": board.task.heading, "page": page_of(board.task)}
    return {**about, "view": panel, "sections": list(_drawn_sections(panel))}


def _write_boards(renderer: Renderer, task: Task) -> None:
    boards = renderer.content.by_track.get(task.track, [])
    # What is published stands once on a page: on the first board that it fits.
    first = next((board for board in boards if board.reported), None)
    matrices = list(_matrices(boards[0])) if boards else []
    renderer.write(
        page_of(task),
        "task.html",
        task=task.name,
        title=task.heading,
        views=[view(board, first=board is first) for board in boards],
        compare={board.id: compare_page(board) for board in boards},
        # Where a task counts actions, its matrix says more than a plane of changes alone.
        plane=_plane(boards[0]) if boards and not matrices else None,
        matrices=matrices,
    )


def _plane(board: Board) -> dict[str, object] | None:
    """Return the precision–recall plane of a board, with its legend."""
    points: list[ChartPoint] = []
    legend: list[tuple[str, SiteSystem]] = []
    for row in board.standings:
        # A score that nobody could recompute is in the table, marked, and in no chart.
        at = _in_plane(row.score("precision"), row.score("recall"))
        if row.recomputed and at is not None:
            mark = letter_of(len(legend)) if len(legend) < COLOURS else ""
            points.append(ChartPoint(row.system.card.name, mark, style_of(mark), *at))
            legend += [(mark, row.system)] if mark else []
    for floor in board.floors:
        at = _in_plane(floor.scores["precision"], floor.scores["recall"])
        if at is not None:
            points.append(ChartPoint(floor.name, "", "floor", *at, sign=_SQUARE))
    if not points:
        return None
    name = "Precision against recall of the systems on the board above"
    drawing = plane(points, (), name=name)
    return {"drawing": drawing, "legend": legend, "rest": len(points) > len(legend)}


def _in_plane(precision: FilePlace, recall: FilePlace) -> tuple[Figure, Figure] | None:
    """Return where scores lie in the plane; None where either has no value."""
    if not precision["value"] or not recall["value"]:
        return None
    return score_of(precision), score_of(recall)


def _matrices(board: Board) -> Iterator[tuple[RankedSystem, Matrix]]:
    """Yield the action matrices of the leading systems of a board."""
    leading = [row for row in board.standings if row.recomputed]
    for row in leading[:MATRICES]:
        matrix = matrix_of(row.track["counts"])
        if matrix.rows:
            yield row, matrix


def _drawn_sections(panel: BoardView) -> Iterator[BoardSection]:
    """Yield the sections of a panel without the rows that have no value on its axis."""
    for section in panel.table.sections:
        rows = [row for row in section.rows if row.cells[panel.table.score] != NOTHING]
        if rows:
            yield replace(section, rows=rows)


@dataclass(frozen=True)
class BoardChange:
    """What changed boards on a day: a submission, or a maintainer's review of one."""

    system: SiteSystem
    review: Review | None

    @property
    def replaced(self) -> str:
        """The tracks whose scores the review replaced."""
        names = () if self.review is None else self.review.tracks
        return ", ".join(task.heading for name, task in board_tracks().items() if name in names)


def write_changes(renderer: Renderer) -> None:
    """Write the changelog with the data versions, and the page on how to read the site."""
    changes: list[tuple[str, BoardChange]] = []
    for system in renderer.content.systems:
        review = system.entry.review
        changes.append((system.card.submitted, BoardChange(system, None)))
        if review is not None:
            changes.append((review.date, BoardChange(system, review)))
    changes.sort(key=lambda change: (change[0], change[1].system.slug), reverse=True)
    days: dict[str, list[BoardChange]] = {}
    for day, change in changes:
        days.setdefault(day, []).append(change)
    renderer.write("changes.html", "changes.html", days=days, versions=list(_versions(renderer)))
    renderer.write("about.html", "about.html")


def _versions(renderer: Renderer) -> Iterator[dict[str, object]]:
    """Yield what the changelog says of each version of the data of each track."""
    runs: dict[tuple[str, str], list[SiteSystem]] = {}
    for system in renderer.content.systems:
        for track, place in system.tracks.items():
            runs.setdefault((track, place["data_sha256"].value), []).append(system)
    for track, task in board_tracks().items():
        for (own, sha256), systems in sorted(runs.items()):
            if own == track:
                first = systems[0]
                conditions = first.card.tracks[track].conditions
                yield {
                    "track": track,
                    "title": task.heading,
                    "name": data_name(task, first),
                    "sha256": sha256,
                    "public": bool(first.run(track)["data"]["public"].value),
                    "known": known_track(track, sha256, 0, conditions) is not None,
                    "systems": len(systems),
                }


METRIC = "recall_at_1"

# By the size of the pool: a system's places, and the scores of anything.
Standings = Mapping[int, RankedSystem]
BySize = dict[int, FilePlace]


def write_pools(renderer: Renderer, task: str) -> None:
    """Write the page of recall over the size of the pool, as a curve and as a table."""
    tracks = renderer.content.tracks_of(task)
    boards = [renderer.content.by_track[one.track][0] for one in tracks]
    sizes = list(map(_size, boards))
    systems, others = _systems(boards), _others(boards)
    rows: dict[str, list[TableRow]] = {"floor": [], "reported": []}
    for (style, name), by_size in others.items():
        cells = [pair(by_size[size]) if size in by_size else NOTHING for size in sizes]
        rows[style].append(TableRow([foreign(name), *cells], {"search": name.lower()}))
    lines = [*_system_lines(systems), *_other_lines(others)]
    unproven = any(not row.recomputed for rows in systems.values() for row in rows.values())
    renderer.write(
        f"{task}.html",
        "pools.html",
        task=task,
        sizes=[(board, page_of(board.task)) for board in boards],
        curve=named_lines(lines, name="Recall@1 by the number of distractors"),
        lines=lines,
        all_drawn=len(systems) <= COLOURS,
        rows=[_row(standings, sizes) for standings in systems.values()],
        unproven=unproven,
        others=rows,
    )


def _other_lines(others: Mapping[tuple[str, str], BySize]) -> Iterator[NamedLine]:
    """Yield the lines of trivial baselines and of reference rows."""
    for (style, name), scores in others.items():
        if len(scores) > 1:
            yield NamedLine(name, style, _points(scores))


def _system_lines(systems: Mapping[str, Standings]) -> list[NamedLine]:
    """Return the lines of the leading systems, of scores that were recomputed."""
    lines: list[NamedLine] = []
    for standings in systems.values():
        scores = {size: row.score(METRIC) for size, row in standings.items() if row.recomputed}
        # One size makes no line, and beyond six colours no reader tells one from another.
        if len(scores) > 1 and len(lines) < COLOURS:
            name = next(iter(standings.values())).system.card.name
            lines.append(NamedLine(name, colour_of(len(lines)), _points(scores)))
    return lines


def _points(scores: BySize) -> list[tuple[int, Figure]]:
    return [(size, score_of(score)) for size, score in sorted(scores.items())]


def _size(board: Board) -> int:
    return board.task.data.pool_size or 0


def _systems(boards: Sequence[Board]) -> dict[str, Standings]:
    """Return the places of every system by its slug, the best on the largest pools first."""
    systems: dict[str, dict[int, RankedSystem]] = {}
    for board in boards:
        for row in board.standings:
            systems.setdefault(row.system.slug, {})[_size(board)] = row
    largest = max(map(_size, boards), default=0)

    def order(slug: str) -> tuple[bool, float, str]:
        last = systems[slug].get(largest)
        best = -float(last.score(METRIC)["value"].value) if last is not None else 1.0
        return last is not None and not last.recomputed, best, slug

    return {slug: systems[slug] for slug in sorted(systems, key=order)}


def _row(standings: Standings, sizes: Sequence[int]) -> TableRow:
    cells = []
    for size in sizes:
        cell = NOTHING
        if (row := standings.get(size)) is not None:
            score = row.score(METRIC)
            cell = proven(row, with_count(pair(score), score, row.track))
        cells.append(cell)
    first = next(iter(standings.values()))
    return TableRow([system_name(first.system, ""), *cells], facts_of(first.system, first.track))


def _others(boards: Sequence[Board]) -> dict[tuple[str, str], BySize]:
    """Return the scores of floors and of what is reported, by style and name, in their order."""
    others: dict[tuple[str, str], BySize] = {}
    for board in boards:
        size = _size(board)
        for row in board.floor_systems:
            others.setdefault(("floor", row.system.card.name), {})[size] = row.score(METRIC)
        for floor in board.floors:
            others.setdefault(("floor", floor.name), {})[size] = floor.scores[METRIC]
        for reported in board.reported:
            if (score := reported.scores.get(METRIC)) is None or reported.row.role != "system":
                continue
            others.setdefault(("reported", reported.name), {})[size] = score
    return dict(sorted(others.items(), key=lambda item: item[0]))
