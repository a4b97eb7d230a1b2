"""Tables of the site: columns in groups, rows in sections, and cells that are ready to stand in a
page.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from alps.leaderboard.pages.charts import scale, whisker
from alps.leaderboard.provenance import (
    NOTHING,
    Place,
    bounds,
    computed,
    figure,
    money,
    seconds,
    whole,
)
from alps.leaderboard.ranking import BESIDE, Board, FloorRow, Standing
from alps.leaderboard.site_data import Reported, System
from alps.report.runs import visible
from alps.tasks import Metric

KINDS = {
    "llm": "LLM",
    "memory": "memory system",
    "retriever": "retriever",
    "rules": "rules",
    "floor": "floor",
    "program": "program",
    "python": "Python class",
    "recorded": "recorded",
}
NOT_RECOMPUTED = Markup('<small class="unproven">not recomputed</small>')
"""What marks a score that is its submitter's word alone."""
REFUTED_MARK = Markup('<small class="unproven">refuted</small>')
"""What marks a score that a maintainer's judge did not find again."""
GROUPS = {"more": "more metrics", "coverage": "coverage", "cost": "cost"}
"""Groups of columns that a reader may fold away."""


@dataclass(frozen=True)
class Column:
    """A column; `style` says how it is set, `group` with which others it is folded away."""

    key: str
    title: str
    style: str = "figure"
    group: str = ""
    note: str = ""
    first: str = ""


@dataclass(frozen=True)
class TableRow:
    """A row; `facts` are what filters go by."""

    cells: Sequence[Markup]
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """Rows that belong together; only the rows of `ranked` are ours and ranked."""

    kind: str
    title: str
    note: str
    rows: Sequence[TableRow]


@dataclass(frozen=True)
class Table:
    """A table of one board."""

    id: str
    caption: str
    columns: Sequence[Column]
    sections: Sequence[Section]

    @property
    def groups(self) -> dict[str, str]:
        """The groups of columns that it has."""
        return {
            name: said
            for name, said in GROUPS.items()
            if any(column.group == name for column in self.columns)
        }


def foreign(words: str) -> Markup:
    """Return what a stranger wrote: escaped, nothing invisible in it, and apart from what stands
    around it.
    """
    return Markup(f"<bdi>{escape(visible(words))}</bdi>")


def metric_title(metric: Metric) -> str:
    """Return the name of a metric without its indentation."""
    return metric.title.strip()


def board_table(
    board: Board,
    *,
    root: str = "",
    most: int | None = None,
    brief: bool = False,
    reported: bool = True,
) -> Table:
    """Return the table of a board.

    Args:
        board: What is shown.
        root: The way from the page to the root of the site.
        most: How many systems are shown; None for all.
        brief: Whether only the score is shown, without the other metrics, coverage and cost.
        reported: Whether what the paper reports stands below.
    """
    beside = [m for m in board.others if m.name in BESIDE.get(board.metric.name, ())]
    more = [] if brief else [m for m in board.others if m not in beside]
    columns = [
        *_lead_columns(board),
        *(_metric_column(m) for m in beside),
        *(_metric_column(m, "more") for m in more),
    ]
    columns += [] if brief else list(_account_columns(board))
    shown = [*beside, *more]
    sections = [
        Section(
            "ranked",
            "",
            "",
            [_standing(board, row, shown, root, brief) for row in board.standings[:most]],
        ),
        *_unranked(board, shown, root, brief, len(columns)),
    ]
    sections = [section for section in sections if reported or section.kind != "reported"]
    return Table(board.id, metric_title(board.metric), columns, sections)


def _lead_columns(board: Board) -> Iterator[Column]:
    metric = board.metric
    yield Column("rank", "rank", "rank", first="ascending")
    yield Column("system", "system", "name", first="ascending")
    yield Column("score", metric_title(metric), "figure lead")
    yield Column("interval", "95 % interval", "bounds")
    yield Column("chart", "interval, drawn", "chart", note=scale(metric.lowest, metric.highest))
    if is_corrected(board):
        yield Column("corrected", "corrected", "pair")


def is_corrected(board: Board) -> bool:
    """Tell whether raw and corrected scores stand side by side: where the score is a mean of a
    judge's marks.
    """
    rows = (*board.standings, *board.floor_systems)
    return bool(board.metric.rubrics) or any(
        row.score(board.metric.name)["corrected"] for row in rows
    )


def _metric_column(metric: Metric, group: str = "") -> Column:
    first = "ascending" if metric.lower_is_better else ""
    return Column(metric.name, metric_title(metric), "pair", group, first=first)


def _account_columns(board: Board) -> Iterator[Column]:
    yield Column("n", "n", "figure", "coverage")
    yield Column("unscored", "unscored", "figure", "coverage", first="ascending")
    if _has_bounds(board):
        yield Column("bounds", "worst–best", "bounds", "coverage")
    yield Column("failed", "failed", "figure", "coverage", first="ascending")
    yield Column("cost", "cost", "figure", "cost", first="ascending")
    yield Column("tokens", "tokens", "figure", "cost", first="ascending")
    if board.task.name == "retrieval":
        yield Column("seconds", "time a query", "figure", "cost", first="ascending")


def _has_bounds(board: Board) -> bool:
    return any(row.score(board.metric.name)["worst_case"] for row in board.standings)


def _standing(
    board: Board, row: Standing, shown: Sequence[Metric], root: str, brief: bool
) -> TableRow:
    rank = NOTHING
    if row.rank is not None:
        rank = computed(row.rank.best, "rank", board.id, row.system.slug, written=str(row.rank))
    name = system_name(row.system, root)
    if row.copy_of is not None:
        original = Markup('<a href="{}systems/{}.html">{}</a>').format(
            root, row.copy_of, foreign(row.copy_of)
        )
        name = Markup("{}<small>same answers as {}</small>").format(name, original)
    cells = [rank, name, *_standing_cells(board, row)]
    if is_corrected(board):
        cells.append(corrected(row.score(board.metric.name)))
    cells += [_counted(row, metric.name) for metric in shown]
    return TableRow(
        [*cells, *([] if brief else _account(board, row))], facts_of(row.system, row.track)
    )


def facts_of(system: System, track: Place) -> dict[str, str]:
    """Return what filters and search go by."""
    open_weights = {True: "yes", False: "no", None: "unknown"}[system.card.system.open_weights]
    searched = " ".join(filter(None, (system.card.name, system.card.org, system.card.system.model)))
    return {
        "kind": system.card.system.kind,
        "open": open_weights,
        "status": system.status,
        "judge": visible(str(track["judge"].value)),
        "search": visible(searched).lower(),
    }


def system_name(system: System, root: str) -> Markup:
    """Return the name of a system as a link, with who made it, what it is, and how far it is
    confirmed.
    """
    card = system.card
    org = Markup("{} · ").format(foreign(card.org)) if card.org else ""
    status = Markup('<span class="status {0}">{0}</span>').format(system.status)
    return Markup('<a href="{}systems/{}.html">{}</a><small>{}{} {}</small>').format(
        root, system.slug, foreign(card.name), org, KINDS[card.system.kind], status
    )


def _score_cells(board: Board, score: Place, style: str = "") -> list[Markup]:
    drawn = whisker(score, lowest=board.metric.lowest, highest=board.metric.highest, style=style)
    return [figure(score["value"]), bounds(score), drawn]


def _standing_cells(board: Board, row: Standing, style: str = "") -> list[Markup]:
    """Return the cells of a system's score: with its n where that is not all, and a mark where it
    did not come out.
    """
    score = row.lead(board.metric.name)
    value, *others = _score_cells(board, score, style)
    return [proven(row, noted(board, row, with_count(value, score, row.track))), *others]


def noted(board: Board, row: Standing, said: Markup) -> Markup:
    """Return a score with what moved it: unheard answers that count as the worst, and a
    maintainer's second judgement.

    What a board sorts by stands in the cell, so that the order of its rows explains itself.
    """
    metric = board.metric.name
    counted = row.counted(metric)
    if counted.pointer != row.lead(metric)["value"].pointer:
        note = '{} <small class="of">counted as {}: unheard are wrong</small>'
        said = Markup(note).format(said, figure(counted))
    if row.again is not None:
        note = '{} <small class="of">judged again; submitted {}</small>'
        said = Markup(note).format(said, figure(row.score(metric)["value"]))
    return said


def proven(row: Standing, said: Markup) -> Markup:
    """Return a score, marked where nobody could recompute it, or a maintainer refuted it."""
    if row.system.refuted:
        return Markup("{} {}").format(said, REFUTED_MARK)
    return said if row.recomputed else Markup("{} {}").format(said, NOT_RECOMPUTED)


def with_count(said: Markup, score: Place, track: Place) -> Markup:
    """Return a score with its n where that is less than all records of its track."""
    if not score["value"] or (score["n"].value or 0) >= track["n"].value:
        return said
    return Markup('{} <small class="of">n {}</small>').format(said, figure(score["n"], whole))


def _counted(row: Standing, metric: str) -> Markup:
    return with_count(pair(row.score(metric)), row.score(metric), row.track)


def pair(score: Place) -> Markup:
    """Return a score and its interval in one cell; a dash where there is none."""
    if not score["value"]:
        return NOTHING
    return Markup("{} {}").format(figure(score["value"]), bounds(score) if score["low"] else "")


def corrected(score: Place) -> Markup:
    """Return the corrected score; why there is none, where it was tried."""
    row = score["corrected"]
    if row and not row["value"]:
        return Markup('<span class="nothing">not correctable</span>')
    return pair(row)


def _account(board: Board, row: Standing) -> Iterator[Markup]:
    score, track = row.score(board.metric.name), row.track
    calls = row.system.run(board.key.track)["calls"]
    yield figure(score["n"], whole)
    yield figure(track["unscored"], whole)
    worst, best = score["worst_case"], score["best_case"]
    if _has_bounds(board):
        yield Markup("{}–{}").format(figure(worst), figure(best)) if worst and best else NOTHING
    failed = sum(track["failed_predictions"].value.values())
    yield computed(failed, "failed", row.system.slug, board.key.track)
    yield figure(calls["cost"], money)
    tokens = calls["prompt_tokens"].value + calls["completion_tokens"].value
    yield computed(tokens, "tokens", row.system.slug, board.key.track)
    if board.task.name == "retrieval":
        yield figure(track["seconds_per_query"], seconds)


def _unranked(
    board: Board, shown: Sequence[Metric], root: str, brief: bool, width: int
) -> Iterator[Section]:
    floors = [_floor_system(board, row, shown, root) for row in board.floor_systems]
    floors += [_floor(board, row, shown) for row in board.floors]
    if floors:
        yield Section(
            "floors", "Floors", "answers that deserve nothing, never ranked", _filled(floors, width)
        )
    for table in dict.fromkeys(row.table.id for row in board.reported):
        rows = [row for row in board.reported if row.table.id == table]
        if brief and rows[0].table.kind == "memory":
            continue
        said = rows[0].table
        title = f"Reported by the paper: {said.title}"
        note = f"other judge, other data, never ranked with ours. {said.note}"
        yield Section(
            "reported", title, note, _filled([_reported(board, row, shown) for row in rows], width)
        )


def _filled(rows: Sequence[TableRow], width: int) -> list[TableRow]:
    return [
        TableRow([*row.cells, *[Markup()] * (width - len(row.cells))], row.facts) for row in rows
    ]


def _floor_system(board: Board, row: Standing, shown: Sequence[Metric], root: str) -> TableRow:
    score = row.score(board.metric.name)
    cells = [Markup(), system_name(row.system, root), *_standing_cells(board, row, "floor")]
    cells += [corrected(score)] if is_corrected(board) else []
    return TableRow(
        [*cells, *(_counted(row, m.name) for m in shown)], facts_of(row.system, row.track)
    )


def _floor(board: Board, row: FloorRow, shown: Sequence[Metric]) -> TableRow:
    by = (
        Markup("judged by {}").format(foreign(row.judge))
        if board.key.judge is not None
        else "no judge"
    )
    name = Markup("{}<small>{}</small>").format(foreign(row.name), by)
    cells = [Markup(), name, *_score_cells(board, row.scores[board.metric.name], "floor")]
    cells += [NOTHING] if is_corrected(board) else []
    return TableRow(
        [*cells, *(pair(row.scores[m.name]) for m in shown)], {"search": visible(row.name).lower()}
    )


def _reported(board: Board, row: Reported, shown: Sequence[Metric]) -> TableRow:
    lead = row.scores.get(board.metric.name)
    drawn = Markup()
    if lead is not None:
        held = Place(lead.file, lead.pointer, {"value": lead.value})
        drawn = whisker(
            held, lowest=board.metric.lowest, highest=board.metric.highest, style="reported"
        )
    value = figure(lead) if lead is not None else NOTHING
    cells = [Markup(), foreign(row.name), value, NOTHING, drawn]
    cells += [NOTHING] if is_corrected(board) else []
    cells += [figure(row.scores[m.name]) if m.name in row.scores else NOTHING for m in shown]
    return TableRow(cells, {"search": row.name.lower()})
