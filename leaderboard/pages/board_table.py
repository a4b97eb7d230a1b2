"""Table of a board: columns in groups, rows in sections, cells ready for a page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from alps.judges.embedded import is_embedded_judge
from alps.leaderboard.comparison import DIGITS
from alps.leaderboard.pages import (
    NOTHING,
    FilePlace,
    bounds,
    computed,
    figure,
    money,
    pair,
    seconds,
    whole,
)
from alps.leaderboard.pages.charts import score_whisker
from alps.leaderboard.parts import BoardPart, needed, part_of, parts_of
from alps.leaderboard.ranking import Board, PeopleRow, RankedSystem
from alps.leaderboard.references import ReferenceRow, ReferenceTable
from alps.leaderboard.site_data import SiteSystem
from alps.rows import PEOPLE
from alps.show.charts import axis_of
from alps.show.formatting import NOT_CHECKED, signed, strongest_above, visible
from alps.show.svg import axis_labels
from alps.tasks import Metric, Task

KINDS = {
    "llm": "LLM",
    "memory": "memory system",
    "retriever": "retriever",
    "rules": "rules",
    "floor": "trivial baseline",
    "program": "program",
    "python": "Python class",
    "recorded": "recorded answers",
}
# A score that is its submitter's word alone, and one that a maintainer's judge did not reproduce.
NOT_RECOMPUTED = Markup('<small class="unproven">not recomputed</small>')
REFUTED_MARK = Markup('<small class="unproven">refuted</small>')
# In place of what would seem cheap, and was paid for in an earlier run
CACHED = Markup('<span class="nothing" title="replies came from a cache">cached</span>')
# Groups of columns that a reader may fold away.
GROUPS = {"more": "more metrics", "coverage": "coverage", "cost": "cost"}


@dataclass(frozen=True)
class BoardColumn:
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
class BoardSection:
    """Rows that belong together; only the rows of `ranked` are ours and ranked."""

    kind: str
    title: str
    note: str | Markup
    rows: Sequence[TableRow]


@dataclass(frozen=True)
class BoardTable:
    """A table of one board."""

    id: str
    caption: str
    columns: Sequence[BoardColumn]
    sections: Sequence[BoardSection]

    @property
    def score(self) -> int:
        """The index of the column with the score."""
        return [column.key for column in self.columns].index("score")

    @property
    def drawn(self) -> int:
        """The index of the column in which its interval is drawn."""
        return [column.key for column in self.columns].index("chart")

    @property
    def groups(self) -> dict[str, str]:
        """The groups of columns that it has."""
        return {column.group: GROUPS[column.group] for column in self.columns if column.group}


def foreign(words: str) -> Markup:
    """Return untrusted words: escaped, nothing invisible, and isolated from the text around."""
    # A name may be written from right to left, and would turn the figures beside it around.
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
) -> BoardTable:
    """Return the table of a board, with at most so many systems.

    `root` is the way from the page to the root of the site. A `brief` one has the score, without
    the other metrics, coverage and cost; `reported` says whether reference rows stand below.
    """
    beside, more = _other_metrics(board, brief)
    columns = [*_lead_columns(board), *map(_metric_column, beside)]
    columns += [_metric_column(metric, "more") for metric in more]
    columns += [] if brief else _account_columns(board)
    further = [] if brief else list(_further_columns(board))
    columns += [column for column, _ in further]
    shown = [*beside, *more]
    ranked = []
    for row in board.standings[:most]:
        own = _standing(board, row, shown, root, brief)
        cells = [*own.cells, *(cell_of(row) for _, cell_of in further)]
        ranked.append(TableRow(cells, own.facts))
    sections = [BoardSection("ranked", "", "", ranked)]
    if (part := part_of(board.key.field)) is not None:
        sections += part.sections(board, shown, len(columns))
    sections += _floors(board, shown, root, len(columns))
    if board.people is not None:
        sections.append(_people(board, board.people, shown, len(columns)))
    if reported:
        sections += _reported(board, shown, root, brief, len(columns))
    return BoardTable(board.id, metric_title(board.metric), columns, sections)


def _other_metrics(board: Board, brief: bool) -> tuple[list[Metric], list[Metric]]:
    """Return the metrics that stand beside the score of a board, and those folded away."""
    beside: list[Metric] = []
    more: list[Metric] = []
    for metric in board.others:
        if metric.name in board.metric.on_boards.companions:
            beside.append(metric)
        elif not brief:
            more.append(metric)
    return beside, more


def _lead_columns(board: Board) -> Iterator[BoardColumn]:
    metric = board.metric
    yield BoardColumn("rank", "rank", "rank", first="ascending")
    yield BoardColumn("system", "system", "name", first="ascending")
    if board.by_difference:
        yield BoardColumn("ahead", needed(board.key.field).difference_title, "pair")
    yield BoardColumn("score", metric_title(metric), "figure lead")
    yield BoardColumn("interval", "95 % interval", "bounds")
    yield BoardColumn("chart", "interval, drawn", "chart", note=axis_labels(axis_of(metric)))
    if board.has_corrected:
        yield BoardColumn("corrected", "corrected", "pair")


def _metric_column(metric: Metric, group: str = "") -> BoardColumn:
    first = "ascending" if metric.lower_is_better else ""
    return BoardColumn(metric.name, metric_title(metric), "pair", group, first=first)


def _account_columns(board: Board) -> Iterator[BoardColumn]:
    yield BoardColumn("n", "n", "figure", "coverage")
    yield BoardColumn("unscored", "unscored", "figure", "coverage", first="ascending")
    if board.has_worst_case:
        yield BoardColumn("bounds", "worst–best", "bounds", "coverage")
    yield BoardColumn("failed", "failed", "figure", "coverage", first="ascending")
    yield BoardColumn("cost", "cost", "figure", "cost", first="ascending")
    yield BoardColumn("tokens", "tokens", "figure", "cost", first="ascending")
    if board.task.data.pool_size is not None:
        yield BoardColumn("seconds", "time per query", "figure", "cost", first="ascending")


def _further_columns(
    board: Board,
) -> Iterator[tuple[BoardColumn, Callable[[RankedSystem], Markup]]]:
    """Yield the columns of extensions that the systems of a board were run with."""
    parts: dict[BoardPart, None] = {}
    for row in board.standings:
        parts |= dict.fromkeys(parts_of(row.system.card))
    for part in parts:
        yield from part.columns(board)


def _standing(
    board: Board, row: RankedSystem, shown: Sequence[Metric], root: str, brief: bool
) -> TableRow:
    name = system_name(row.system, root)
    if row.copy_of is not None:
        link = Markup('<a href="{}systems/{}.html">{}</a>')
        original = link.format(root, row.copy_of, foreign(row.copy_of))
        name = Markup("{}<small>same answers as {}</small>").format(name, original)
    if (part := part_of(board.key.field)) is not None:
        name += part.under_name(board, row)
    cells = [rank_of(board, row) or NOTHING, name, *_standing_cells(board, row, shown)]
    cells += [] if brief else _account(board, row)
    return TableRow(cells, facts_of(row.system, row.track))


def rank_of(board: Board, row: RankedSystem) -> Markup:
    """Return the rank of a system on a board; nothing where it has none."""
    if row.rank is None:
        return Markup()
    return computed(row.rank.best, "rank", board.id, row.system.slug, written=str(row.rank))


def facts_of(system: SiteSystem, track: FilePlace) -> dict[str, str]:
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


def system_name(system: SiteSystem, root: str) -> Markup:
    """Return a system's name as a link, with who made it, its kind, and how far it is confirmed."""
    card = system.card
    org = Markup("{} · ").format(foreign(card.org)) if card.org else ""
    status = Markup('<span class="status {0}">{0}</span>').format(system.status)
    return Markup('<a href="{}systems/{}.html">{}</a><small>{}{} {}</small>').format(
        root, system.slug, foreign(card.name), org, KINDS[card.system.kind], status
    )


def score_cells(board: Board, score: FilePlace, style: str = "") -> list[Markup]:
    """Return the cells of a score: the number, its interval, and both drawn."""
    drawn = score_whisker(score, axis_of(board.metric), style)
    return [figure(score["value"]), bounds(score), drawn]


def _standing_cells(
    board: Board, row: RankedSystem, shown: Sequence[Metric], style: str = ""
) -> list[Markup]:
    """Return the cells of a system's scores, marked where not all records or not proven."""
    score = row.lead(board.metric.name)
    value, *others = score_cells(board, score, style)
    cells = [pair(row.ahead) if row.ahead is not None else NOTHING] if board.by_difference else []
    cells += [proven(row, noted(board, row, with_count(value, score, row.track))), *others]
    if board.has_corrected:
        name = board.metric.name
        drawn = row.system.audit_is_drawn(board.key.track)
        audit = row.track["audit"]
        cells.append(corrected(row.score(name), audit, board.metric, board.task, drawn=drawn))
    for metric in shown:
        score = row.score(metric.name)
        cells.append(with_count(pair(score), score, row.track))
    return cells


def noted(board: Board, row: RankedSystem, cell: Markup) -> Markup:
    """Return a score with what moved it: failures that count as wrong, a second judgement."""
    # What a board sorts by stands in the cell, so that the order of its rows explains itself.
    metric = board.metric.name
    counted = row.counted(metric)
    if counted.pointer != row.lead(metric)["value"].pointer:
        note = '{} <small class="of">ranked as {}, because missing responses count as wrong</small>'
        cell = Markup(note).format(cell, figure(counted))
    if (below := below_baseline(board, row)) is not None:
        name, apart = below
        note = '{} <small class="of">below a trivial baseline, {} (Δ {})</small>'
        written = computed(apart, "above", board.id, row.system.slug, written=signed(apart))
        cell = Markup(note).format(cell, foreign(name), written)
    if row.again is not None:
        note = '{} <small class="of">judged again; submitted {}</small>'
        cell = Markup(note).format(cell, figure(row.score(metric)["value"]))
    if board.key.judge is not None and (known := known_items(row.system, board.task)):
        cell = Markup('{} <small class="of">{}</small>').format(cell, known)
    return cell


def difference_of(row: RankedSystem | None) -> tuple[float | None, float | None]:
    """Return how far a system is above a baseline, or no memory, and where its interval begins."""
    if row is None or not row.recomputed or row.system.refuted:
        return None, None
    if row.ahead is not None:
        return row.ahead["value"].value, row.ahead["low"].value
    return (None, None) if row.above is None else (row.above.value, row.above.low)


def delta_of(row: RankedSystem, board: Board) -> Markup:
    """Return how far a system is above a baseline, or no memory; nothing where it is not known."""
    if row.ahead is not None:
        return signed_delta(figure(row.ahead["value"], signed), *difference_of(row))
    if row.above is None:
        return Markup()
    value = round(row.above.value, DIGITS)
    written = computed(value, "above", board.id, row.system.slug, written=signed(value))
    return signed_delta(written, *difference_of(row))


def signed_delta(written: Markup, value: float | None, low: float | None) -> Markup:
    """Return a difference, green where its interval is above 0."""
    if value is None:
        return Markup()
    style = "delta sure" if low is not None and low > 0 else "delta"
    return Markup(' <span class="{}">Δ {}</span>').format(style, written)


def below_baseline(board: Board, row: RankedSystem) -> tuple[str, float] | None:
    """Return the trivial baseline that a system scores below, and its score less that one's."""
    baseline, score = board.baseline, row.lead(board.metric.name)["value"]
    if baseline is None or row.withheld or not score:
        return None
    judge = str(row.track["judge"].value)
    judges = {floor.name: floor.judge for floor in board.floors}
    if board.key.judge is not None and judges.get(baseline.name, judge) != judge:
        return None  # under another judge they are not compared
    apart = float(score.value) - float(baseline.score["value"].value)
    if row.above is not None:
        apart = row.above.value
    apart, lower = round(apart, DIGITS), board.metric.lower_is_better
    below = strongest_above({baseline.name: apart}, lower_is_better=lower)
    return None if below is None else (below, apart)


def known_items(system: SiteSystem, task: Task) -> Markup:
    """Return how many known items the judge of a track got right, or that nobody asked any.

    Nothing for an embedded judge, nor where none has a part.
    """
    judge = str(system.tracks[task.track]["judge"].value)
    return _known_items(judge, system.run(task.track)["judge_check"], task)


def _known_items(judge: str, checks: FilePlace, task: Task) -> Markup:
    if not task.rubrics or is_embedded_judge(judge):
        return Markup("")
    parts = []
    for rubric in task.rubrics:
        if share := checks[rubric.name]:
            right, n = figure(share["right"], whole), figure(share["n"], whole)
            parts.append(Markup("{} {} of {}").format(rubric.name, right, n))
    if not parts:
        return Markup("judge {}").format(NOT_CHECKED)
    return Markup("known items: {}").format(Markup(", ").join(parts))


def proven(row: RankedSystem, cell: Markup) -> Markup:
    """Return a score, marked where nobody could recompute it, or a maintainer refuted it."""
    if row.system.refuted:
        return Markup("{} {}").format(cell, REFUTED_MARK)
    return cell if row.recomputed else Markup("{} {}").format(cell, NOT_RECOMPUTED)


def with_count(cell: Markup, score: FilePlace, track: FilePlace) -> Markup:
    """Return a score with its n where that is less than all records of its track."""
    # A metric that few records define looks as well measured as the others without it.
    if not score["value"] or (score["n"].value or 0) >= track["n"].value:
        return cell
    return Markup('{} <small class="of">n {}</small>').format(cell, figure(score["n"], whole))


def corrected(
    score: FilePlace, audit: FilePlace, metric: Metric, task: Task, *, drawn: bool
) -> Markup:
    """Return the corrected score and what corrects it; why there is none, where it was tried.

    `drawn` is whether a maintainer drew the records that were audited.
    """
    by_audits, row = audit["scores"][metric.name], score["corrected"]
    if by_audits and not drawn:
        return Markup('<span class="nothing">audit hidden: no maintainer drew its records</span>')
    if by_audits["value"]:
        return _by_audits(by_audits, audit, task)
    # An empty cell would read as not calibrated; here the labels were too few or did not fit.
    if by_audits or (row and not row["value"]):
        return Markup('<span class="nothing">not correctable</span>')
    if not row:
        return pair(row)
    names = foreign(", ".join(row["calibration"].value or {}))
    # Cut off at the ends of the scale, it would hide that the calibration does not fit the run.
    off = ": off the scale, may not fit" if row["impossible"].value else ""
    return Markup('{} <small class="of">calibration {}{}</small>').format(pair(row), names, off)


def _by_audits(score: FilePlace, audit: FilePlace, task: Task) -> Markup:
    by, judge = '{} <small class="of">{} audits by {}{}</small>', str(audit["judge"].value)
    known = "" if judge == PEOPLE else _known_items(judge, audit["judge_check"], task)
    known = Markup("; {}").format(known) if known else ""
    audited = figure(score["audited"], whole)
    return Markup(by).format(pair(score), audited, foreign(judge), known)


def _account(board: Board, row: RankedSystem) -> Iterator[Markup]:
    score, track = row.score(board.metric.name), row.track
    calls = row.system.run(board.key.track)["calls"]
    yield figure(score["n"], whole)
    yield figure(track["unscored"], whole)
    worst, best = score["worst_case"], score["best_case"]
    if board.has_worst_case:
        yield Markup("{}–{}").format(figure(worst), figure(best)) if worst and best else NOTHING
    failed = sum(track["failed_predictions"].value.values())
    yield computed(failed, "failed", row.system.slug, board.key.track)
    cached = row.system.from_cache(board.key.track)
    yield CACHED if cached else figure(calls["cost"], money)
    tokens = calls["prompt_tokens"].value + calls["completion_tokens"].value
    known = computed(tokens, "tokens", row.system.slug, board.key.track)
    yield CACHED if cached else known
    if board.task.data.pool_size is not None:
        yield figure(track["seconds_per_query"], seconds)


def _floors(board: Board, shown: Sequence[Metric], root: str, width: int) -> Iterator[BoardSection]:
    rows = []
    for row in board.floor_systems:
        name = system_name(row.system, root)
        cells = [Markup(), name, *_standing_cells(board, row, shown, "floor")]
        rows.append(filled(cells, facts_of(row.system, row.track), width))
    by = "judged by {}" if board.key.judge is not None else "no judge"
    for floor in board.floors:
        judged = Markup(by).format(foreign(floor.judge))
        name = Markup("{}<small>{}</small>").format(foreign(floor.name), judged)
        cells = _unranked_cells(board, name, dict(floor.scores.items()), shown, "floor")
        rows.append(filled(cells, {"search": visible(floor.name).lower()}, width))
    if rows:
        yield BoardSection("floors", "Trivial baselines", "not ranked", rows)


def _reported(
    board: Board, shown: Sequence[Metric], root: str, brief: bool, width: int
) -> Iterator[BoardSection]:
    """Yield a section for every table of reference rows, each row with who is in it."""
    tables = {row.table.id: row.table for row in board.reported}
    for table in tables.values():
        if brief and table.group != "models" and not table.recomputed:
            continue
        rows = []
        for row in board.reported:
            if row.table.id == table.id:
                cells = _unranked_cells(board, reference_name(row.row), row.scores, shown)
                rows.append(filled(cells, {"search": row.name.lower()}, width))
        title = f"{_how(table)}: {table.title}"
        yield BoardSection("reported", title, reference_note(table, root), rows)


def _how(table: ReferenceTable) -> str:
    """Return how the figures of a table came to be."""
    if table.kind == "reported":
        by = "the paper" if table.ran_by.startswith("the authors") else "others"
        return f"Reported by {by}"
    return "Recomputed from public answers" if table.recomputed else "Run by alps"


def reference_note(table: ReferenceTable, root: str) -> Markup:
    """Return who ran the rows of a table, on what, judged by whom, with a link to how."""
    judged = f"judge {table.judge.name}" if table.judge is not None else "no judge"
    words = (table.ran_by, table.data.name, judged, table.note)
    note = Markup("not ranked here; run by {} on {}, with {}. {} ").format(*map(foreign, words))
    link = Markup('<a href="{}references.html#{}">{}</a>')
    asked = {"recomputed": "how to recompute", "run": "how to run"}.get(table.kind, "source")
    return note + link.format(root, table.id, asked)


def reference_name(row: ReferenceRow) -> Markup:
    """Return the name of a reference row; that of people says how far they share a draft."""
    name = foreign(row.name)
    if row.role == "baseline":
        return name + Markup("<small>trivial baseline</small>")
    if row.role == "people":
        badge = Markup(' <span class="badge poor">anchored</span>')
        anchored = "" if row.anchored is None else badge
        return name + Markup("<small>agreement between people{}</small>").format(anchored)
    return name


def _people(board: Board, row: PeopleRow, shown: Sequence[Metric], width: int) -> BoardSection:
    """Return the row of people, marked where both started from one draft."""
    one, other = map(foreign, row.names)
    name = Markup("{} and {}<small>{} sessions").format(one, other, figure(row.sessions, whole))
    if row.verbatim is not None:
        badge = Markup('; <span class="badge poor">anchored</span>')
        shares = Markup(" shares of items from a draft: {} and {}")
        name += badge + shares.format(*map(figure, row.verbatim))
        if row.without is not None:
            name += Markup("; agreement on the other items {}").format(figure(row.without))
    name += Markup("</small>")
    cells = _unranked_cells(board, name, row.scores, shown)
    note = "one annotator's labels scored with another's as gold, on other data; never ranked"
    note += f". Matched by: {visible(row.rule)}" if row.rule else ""
    facts = {"search": visible(" ".join(row.names)).lower()}
    return BoardSection("reported", "People", note, [filled(cells, facts, width)])


def _unranked_cells(
    board: Board,
    name: Markup,
    scores: Mapping[str, FilePlace],
    shown: Sequence[Metric],
    style: str = "reported",
) -> list[Markup]:
    """Return the cells of a row that is no submission, some of whose scores may be unknown."""
    lead = scores.get(board.metric.name)
    cells = [Markup(), name, *([NOTHING] if board.by_difference else [])]
    nothing = [NOTHING, NOTHING, Markup()]
    cells += nothing if lead is None else score_cells(board, lead, style)
    cells += [NOTHING] if board.has_corrected else []
    for metric in shown:
        score = scores.get(metric.name)
        cells.append(NOTHING if score is None else pair(score))
    return cells


def filled(cells: Sequence[Markup], facts: Mapping[str, str], width: int) -> TableRow:
    """Return a row with a cell for every column."""
    # Every section has all columns: a short row would leave the frame of the table open.
    return TableRow([*cells, *[Markup()] * (width - len(cells))], facts)
