"""Page of recall over the size of the pool: a curve in which every line is named, and a table."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from alps.leaderboard.pages.board_table import (
    TableRow,
    facts_of,
    foreign,
    proven,
    system_name,
    with_count,
)
from alps.leaderboard.pages.charts import score_of
from alps.leaderboard.pages.common import Renderer, page_of
from alps.leaderboard.pages.named_lines import NamedLine, named_lines
from alps.leaderboard.provenance import NOTHING, Place, pair
from alps.leaderboard.ranking import Board, Standing
from alps.rows import Figure
from alps.show.charts import COLOURS, colour_of

METRIC = "recall_at_1"

# By the size of the pool: a system's places, and the scores of anything.
Standings = Mapping[int, Standing]
BySize = dict[int, Place]


def write_pools(renderer: Renderer, task: str) -> None:
    """Write the page of recall over the size of the pool, as a curve and as a table."""
    tracks = renderer.content.tracks_of(task)
    boards = [renderer.content.by_track[one.track][0] for one in tracks]
    sizes = list(map(_size, boards))
    systems, others = _systems(boards), _others(boards)
    rows: dict[str, list[TableRow]] = {"floor": [], "reported": []}
    for (style, name), by_size in others.items():
        rows[style].append(_other_row(name, style, by_size, sizes))
    lines = [*_system_lines(systems), *_other_lines(others)]
    unproven = any(not row.recomputed for rows in systems.values() for row in rows.values())
    renderer.write(
        f"{task}.html",
        "pools.html",
        task=task,
        sizes=[(board, page_of(board.task)) for board in boards],
        curve=named_lines(lines, name="Recall at the first choice over the number of distractors"),
        lines=lines,
        all_drawn=len(systems) <= COLOURS,
        rows=[_row(standings, sizes) for standings in systems.values()],
        unproven=unproven,
        others=rows,
    )


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


def _other_lines(others: Mapping[tuple[str, str], BySize]) -> list[NamedLine]:
    """Return the lines of trivial baselines and of reference rows."""
    lines = []
    for (style, name), scores in others.items():
        if len(scores) > 1:
            lines.append(NamedLine(name, style, _points(scores)))
    return lines


def _points(scores: BySize) -> list[tuple[int, Figure]]:
    return [(size, score_of(score)) for size, score in sorted(scores.items())]


def _size(board: Board) -> int:
    return board.task.data.pool_size or 0


def _systems(boards: Sequence[Board]) -> dict[str, Standings]:
    """Return the places of every system by its slug, the best on the largest pools first."""
    systems: dict[str, dict[int, Standing]] = {}
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


def _other_row(name: str, style: str, scores: BySize, sizes: Sequence[int]) -> TableRow:
    cells: list[Markup] = []
    for size in sizes:
        if (score := scores.get(size)) is None:
            cells.append(NOTHING)
        else:
            cells.append(pair(score))
    return TableRow([foreign(name), *cells], {"search": name.lower()})
