"""First page: a matrix of systems and tasks, and what scores cost.

Rows are ordered by the number of tasks on which the interval of the difference to the strongest
trivial baseline is above zero, then by that difference on the leftmost task. Columns with a score
of the official judge come first; a column without any score is left out. There is no average over
tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from alps.leaderboard.pages import NOTHING, FilePlace, bounds, figure, pair, whole
from alps.leaderboard.pages.board_table import (
    NOT_RECOMPUTED,
    REFUTED_MARK,
    delta_of,
    difference_of,
    facts_of,
    foreign,
    metric_title,
    rank_of,
    reference_name,
    signed_delta,
    system_name,
)
from alps.leaderboard.pages.charts import cost_chart, score_whisker
from alps.leaderboard.pages.common import BoardView, Renderer, page_of, view
from alps.leaderboard.ranking import Board, RankedSystem
from alps.leaderboard.references import ReferenceTable, Reported
from alps.leaderboard.site_data import ORDER, JudgedBy
from alps.show.charts import axis_of
from alps.show.formatting import signed
from alps.show.svg import axis_labels
from alps.tasks import Metric, Task, board_tracks

# How many systems the first page shows, and how many charts of cost.
# With 200 systems the page has to stay below 300 kB.
LEADING, CHARTS = 20, 3


@dataclass(frozen=True)
class TaskColumn:
    """A task in the matrix; one that nobody submitted to has no view.

    `places` are the systems on any board of its leading metric, by slug: each on the board whose
    judge says most.
    """

    task: Task
    view: BoardView | None
    places: Mapping[str, tuple[Board, RankedSystem]]

    @property
    def board(self) -> Board | None:
        """The leading board of its track."""
        return None if self.view is None else self.view.board

    @property
    def metric(self) -> Metric:
        """The metric that is shown of it."""
        return self.task.headline if self.board is None else self.board.metric

    @property
    def page(self) -> str:
        """The page of its boards; empty where it has none."""
        return "" if self.view is None else page_of(self.task)

    @property
    def count(self) -> Markup:
        """How many records its leading board is of."""
        return NOTHING if self.board is None else figure(self.board.any.track["n"], whole)


@dataclass(frozen=True)
class MatrixRow:
    """A row: its name, and a cell for each column."""

    name: Markup
    cells: Sequence[Markup]
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MatrixSection:
    """Rows that belong together, with the columns that any of them has a score in.

    The section is folded; `open` says whether its rows are shown at first.
    """

    id: str
    title: str
    note: Markup
    columns: Sequence[TaskColumn]
    rows: Sequence[MatrixRow]
    open: bool = False


OTHERS: Mapping[JudgedBy, tuple[str, str]] = {
    "llm": (
        "Judged by another LLM",
        "Each judge has its own boards, so these systems have no rank under the official judge.",
    ),
    "embedded": (
        "Judged by lexical or another built-in judge",
        "Use these scores only for debugging: with a built-in judge, the style of an answer alone "
        "can change its score.",
    ),
}
"""The heading and the note of systems that no official judge has judged."""


def write_overview(renderer: Renderer) -> None:
    """Write the first page, and the whole matrix where the first page does not hold it."""
    every = list(_columns(renderer))
    columns = sorted((column for column in every if column.view is not None), key=_is_unofficial)
    groups = _grouped(columns)
    rows = [_row(slug, columns) for slug in groups["official"]]
    missing = [column.task for column in every if column.view is None]
    baselines = [_baseline(column, groups["official"]) for column in columns]
    matrix = {"columns": columns, "baselines": baselines, "missing": missing}
    others = list(_others(columns, groups))
    more = any(len(group) > LEADING for group in groups.values())
    renderer.write(
        "index.html",
        "overview.html",
        rows=rows[:LEADING],
        more=more,
        sections=[*(replace(one, rows=one.rows[:LEADING]) for one in others)],
        reported=list(_reported(renderer, every)),
        panels=list(_panels(renderer)),
        charts=list(_charts(columns))[:CHARTS],
        submissions=len(renderer.content.systems),
        **matrix,
    )
    if more:
        renderer.write("matrix.html", "matrix.html", rows=rows, sections=others, **matrix)


def _charts(columns: Sequence[TaskColumn]) -> Iterator[dict[str, object]]:
    for column in columns:
        if column.board is not None and (chart := cost_chart(column.board)) is not None:
            yield chart


def _columns(renderer: Renderer) -> Iterator[TaskColumn]:
    """Yield the columns: every track, with a board or without.

    Of pools of many sizes the smallest and the largest stand for the others.
    """
    content = renderer.content
    tracks = board_tracks().values()
    for name in content.tasks:
        tasks = [task for task in tracks if task.name == name]
        sizes = [task.data.pool_size for task in tasks if task.data.pool_size is not None]
        ends = (min(sizes), max(sizes)) if sizes else (None,)
        for task in tasks:
            if task.data.pool_size not in ends:
                continue
            boards = content.by_track.get(task.track, [])
            leading = view(boards[0], most=0, brief=True, first=False) if boards else None
            yield TaskColumn(task, leading, _places(boards))


def _places(boards: Sequence[Board]) -> dict[str, tuple[Board, RankedSystem]]:
    """Return where systems stand on the first board that has them, of those of one metric."""
    places: dict[str, tuple[Board, RankedSystem]] = {}
    for board in boards:
        if board.metric == boards[0].metric:
            for row in board.standings:
                places.setdefault(row.system.slug, (board, row))
    return places


def _is_unofficial(column: TaskColumn) -> bool:
    return all(board.judged_by != "official" for board, _ in column.places.values())


def _section(
    id: str,
    title: str,
    note: Markup,
    columns: Sequence[TaskColumn],
    rows: Sequence[MatrixRow],
    *,
    open: bool = False,
) -> MatrixSection:
    """Return a section without the columns that are empty in all of its rows."""
    kept = [n for n in range(len(columns)) if any(row.cells[n] for row in rows)]
    shown = [replace(row, cells=[row.cells[n] for n in kept]) for row in rows]
    return MatrixSection(id, title, note, [columns[n] for n in kept], shown, open)


def _grouped(columns: Sequence[TaskColumn]) -> dict[JudgedBy, list[str]]:
    """Return the systems with a score in any column, by the best of their judges.

    Within a group the order is that of the matrix.
    """
    best: dict[str, JudgedBy] = {}
    for column in columns:
        for slug, (board, _) in column.places.items():
            by = best.get(slug, ORDER[-1])
            best[slug] = min(by, board.judged_by, key=ORDER.index)

    def order(slug: str) -> tuple[int, list[float], str]:
        shown, differences = 0, []
        for column in columns:
            _, row = column.places.get(slug, (None, None))
            value, low = difference_of(row)
            # By the interval: a difference that may be chance must not move a system up.
            shown += low is not None and low > 0
            differences.append(float("inf") if value is None else -value)
        return -shown, differences, slug

    groups: dict[JudgedBy, list[str]] = {by: [] for by in ORDER}
    for slug in sorted(best, key=order):
        groups[best[slug]].append(slug)
    return groups


def _others(
    columns: Sequence[TaskColumn], groups: Mapping[JudgedBy, Sequence[str]]
) -> Iterator[MatrixSection]:
    """Yield the systems that the official judge did not judge, by who did."""
    for by, (title, note) in OTHERS.items():
        if groups[by]:
            rows = [_row(slug, columns) for slug in groups[by]]
            yield _section(by, title, Markup(note), columns, rows, open=by == "llm")


def _row(slug: str, columns: Sequence[TaskColumn]) -> MatrixRow:
    places = [column.places.get(slug) for column in columns]
    _, first = next(place for place in places if place is not None)
    cells = []
    for place, column in zip(places, columns, strict=True):
        # Where it has no score, nothing is said: on a phone the task is not listed.
        cells.append(Markup() if place is None else _cell(*place, column))
    return MatrixRow(system_name(first.system, ""), cells, facts_of(first.system, first.track))


def _cell(board: Board, row: RankedSystem, column: TaskColumn) -> Markup:
    """Return a score, its interval, its rank and its difference; or why there is none."""
    if row.withheld:
        return Markup('<small class="unproven">not admitted</small>')
    cell = _score(row.lead(board.metric.name))
    if board is not column.board:
        cell += Markup(" <small>judged by {}</small>").format(
            foreign(str(row.track["judge"].value))
        )
    if rank := rank_of(board, row):
        cell += Markup(' <span class="place">rank {}</span>').format(rank)
    if row.system.refuted:
        return cell + REFUTED_MARK
    if not row.recomputed:
        return cell + NOT_RECOMPUTED
    return cell + delta_of(row, board)


def _score(score: FilePlace) -> Markup:
    interval = bounds(score) if score["low"] else ""
    return Markup("<b>{}</b> {}").format(figure(score["value"]), interval)


def _baseline(column: TaskColumn, slugs: Sequence[str]) -> Markup:
    """Return the strongest trivial baseline of a column; of a board of memories no memory.

    It is of each board that one of `slugs` is shown on: another judge gives it another score.
    """
    shown = {place[0].id: place[0] for slug in slugs if (place := column.places.get(slug))}
    boards = list(shown.values()) or [board for board in (column.board,) if board is not None]
    cells = [_baseline_on(board, column) for board in boards]
    return Markup("<br>").join(filter(None, cells))


def _baseline_on(board: Board, column: TaskColumn) -> Markup:
    judge = foreign(str(board.any.track["judge"].value))
    if board.baseline is None:
        said = Markup("<small>none recomputed under {}</small>").format(judge)
        return said if board.key.judge is not None else Markup()
    name = Markup(" <small>{}</small>").format(foreign(board.baseline.name))
    if board is not column.board:
        name += Markup(" <small>judged by {}</small>").format(judge)
    return _score(board.baseline.score) + name


def _reported(renderer: Renderer, columns: Sequence[TaskColumn]) -> Iterator[MatrixSection]:
    """Yield what is reported of models, which are many tasks at a time."""
    tables: dict[str, dict[str, list[Reported | None]]] = {}
    by_id: dict[str, ReferenceTable] = {}
    for at, column in enumerate(columns):
        for row in renderer.content.references.on(column.task.track):
            shown = row.table.kind == "reported" and row.table.group == "models"
            if shown and column.metric.name in row.scores:
                by_id[row.table.id] = row.table
                rows = tables.setdefault(row.table.id, {})
                rows.setdefault(row.name, [None] * len(columns))[at] = row
    for name, rows in tables.items():
        title = f"Published by others: {by_id[name].title}"
        written = [_reference_row(cells, columns) for cells in rows.values()]
        yield _section(name, title, _note(by_id[name]), columns, written)


def _note(table: ReferenceTable) -> Markup:
    judged = "no judge" if table.judge is None else f"judge: {table.judge.name}"
    note = Markup(
        '{}, other data; never ranked with submissions. <a href="references.html#{}">{}</a>'
    )
    return note.format(foreign(judged), table.id, "Source")


def _reference_row(cells: Sequence[Reported | None], columns: Sequence[TaskColumn]) -> MatrixRow:
    first = next(cell for cell in cells if cell is not None)
    written = []
    for cell, column in zip(cells, columns, strict=True):
        written.append(Markup() if cell is None else _score(cell.scores[column.metric.name]))
    return MatrixRow(reference_name(first.row), written, {"search": first.name.lower()})


def _panels(renderer: Renderer) -> Iterator[dict[str, object]]:
    """Yield the tables that were recomputed, each with its rows by the leading metric."""
    for table, place in renderer.content.references.placed():
        if table.recomputed:
            task = board_tracks()[table.columns[0].track]
            metric = _metric(task, table.columns[0].metric)
            yield {
                "table": table,
                "title": f"{table.title}: {task.heading}",
                "metric": metric_title(metric),
                "count": figure(place["data"]["n"], whole),
                "labels": axis_labels(axis_of(metric)),
                "rows": list(_panel_rows(table, place, metric)),
            }


def _panel_rows(
    table: ReferenceTable, place: FilePlace, metric: Metric
) -> Iterator[tuple[str, Markup, Markup, Markup]]:
    """Yield style, name, drawing and figures of systems, people and the strongest baseline."""
    strongest = {row.above.baseline for row in table.rows if row.above is not None}
    for n, row in enumerate(table.rows):
        here = place["rows"][n]
        score = here["figures"][0]
        if not score or (row.role == "baseline" and row.name not in strongest):
            continue
        style = "floor" if row.role == "baseline" else "reported" if row.role == "people" else ""
        name = reference_name(row)
        if row.above is not None:
            written = figure(here["above"]["value"], signed)
            name += signed_delta(written, row.above.value, row.above.low)
        yield style, name, score_whisker(score, axis_of(metric), style), pair(score)


def write_references(renderer: Renderer) -> None:
    """Write the page of all tables."""
    placed = renderer.content.references.placed()
    views = [_reference_view(renderer, *one) for one in placed]
    renderer.write("references.html", "references.html", views=views)


def _reference_view(
    renderer: Renderer, table: ReferenceTable, place: FilePlace
) -> dict[str, object]:
    tracks = board_tracks()
    metrics = []
    links: dict[str, str] = {}
    for column in table.columns:
        task = tracks[column.track]
        metrics.append(_metric(task, column.metric))
        links[task.heading] = page_of(task) if task.track in renderer.content.by_track else ""
    named = [_title(table, n, metric) for n, metric in enumerate(metrics)]
    has_above = any(row.above is not None for row in table.rows)
    return {
        "table": table,
        "place": place,
        "tracks": list(links.items()),
        # Of the run that makes one row anew; what is reported has none.
        "settings": "" if table.recipe is None else " ".join(table.recipe.settings),
        "lead": (named[0], axis_labels(axis_of(metrics[0]))),
        "others": named[1:],
        "rows": list(_reference_rows(table, place, metrics[0], above=has_above)),
        "above": has_above,
    }


def _metric(task: Task, name: str) -> Metric:
    return next(metric for metric in task.metrics if metric.name == name)


def _title(table: ReferenceTable, n: int, metric: Metric) -> str:
    """Return the title of a column; it names the track where the table is of several."""
    track = table.columns[n].track
    title = metric_title(metric)
    if len({column.track for column in table.columns}) == 1:
        return title
    heading = board_tracks()[track].heading
    return heading if metric.headline else f"{heading}: {title}"


def _reference_rows(
    table: ReferenceTable, place: FilePlace, lead: Metric, *, above: bool
) -> Iterator[Sequence[Markup]]:
    for at, row in enumerate(table.rows):
        here = place["rows"][at]
        first, name = here["figures"][0], reference_name(row)
        if row.anchored is not None:
            shares = here["anchored"]["verbatim"]
            told = "<small>shares of their items from the draft: {} and {}</small>"
            name += Markup(told).format(figure(shares[0]), figure(shares[1]))
        drawn = score_whisker(first, axis_of(lead), "reported") if first else Markup()
        cells = [name, figure(first["value"]), bounds(first), drawn, figure(first["n"], whole)]
        if above:
            delta = here["above"]
            baseline = Markup(" <small>{}</small>").format(row.above.baseline) if row.above else ""
            cells.append(pair(delta) + baseline if delta else NOTHING)
        cells += [pair(here["figures"][n]) for n in range(1, len(row.figures))]
        yield cells
