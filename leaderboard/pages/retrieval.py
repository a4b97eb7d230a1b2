"""Recall over the size of the pool: the curve, and the same as a table of systems by pool size."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from alps.leaderboard.boards import Board, Standing
from alps.leaderboard.figures import COLOURED, Line, letter_of, recall_curve
from alps.leaderboard.pages.common import Renderer, page_of
from alps.leaderboard.provenance import NOTHING, Place, figure, pair
from alps.leaderboard.tables import TableRow, facts_of, foreign, proven, system_name, with_count

METRIC = "recall_at_1"
Standings = Mapping[int, Standing]
"""The places of a system by the size of the pool."""
Lines = Mapping[str, Mapping[int, Place]]
"""Scores by system and size of the pool."""


def write_retrieval(renderer: Renderer) -> None:
    """Write the page of the curve; the boards of the sizes stand on pages of their own."""
    boards = [
        renderer.content.by_track[one.track][0] for one in renderer.content.tracks_of("retrieval")
    ]
    systems = _systems(boards)
    drawn = _drawn(systems)
    others = sorted(_others(boards))
    marks = _marks([slug for slug, scores in drawn.items() if len(scores) > 1])
    lines = [
        Line(_name(boards, slug), "system", marks.get(slug, ""), sorted(s.items()))
        for slug, s in drawn.items()
    ]
    lines += [
        Line(name, style, "", sorted(_scores(boards, style, name).items()))
        for style, name in others
    ]
    sizes = [_size(board) for board in boards]
    renderer.write(
        "retrieval.html",
        "retrieval.html",
        sizes=[(board, page_of(board.task)) for board in boards],
        curve=recall_curve(lines, name="Recall at the first choice over the number of distractors"),
        legend=[(mark, _name(boards, slug)) for slug, mark in marks.items()],
        grey=len(drawn) > len(marks),
        styles={style for style, _ in others},
        rows=[_row(standings, sizes) for standings in systems.values()],
        unproven=any(
            not row.recomputed for standings in systems.values() for row in standings.values()
        ),
        others={
            kind: [
                _other_row(name, kind, _scores(boards, kind, name), sizes)
                for style, name in others
                if style == kind
            ]
            for kind in ("floor", "reported")
        },
    )


def _size(board: Board) -> int:
    return board.task.pool_size or 0


def _systems(boards: Sequence[Board]) -> dict[str, Standings]:
    """Return the places of every system by its slug, the best on the largest pools first."""
    found: dict[str, dict[int, Standing]] = {}
    for board in boards:
        for row in board.standings:
            found.setdefault(row.system.slug, {})[_size(board)] = row
    largest = max(map(_size, boards), default=0)

    def order(slug: str) -> tuple[bool, float, str]:
        last = found[slug].get(largest)
        best = -float(_score(last)["value"].value) if last is not None else 1.0
        return last is not None and not last.recomputed, best, slug

    return {slug: found[slug] for slug in sorted(found, key=order)}


def _score(row: Standing) -> Place:
    return row.score(METRIC)


def _drawn(systems: Mapping[str, Standings]) -> Lines:
    """Return the scores that the curve shows: those that came out again."""
    found = {
        slug: {size: _score(row) for size, row in standings.items() if row.recomputed}
        for slug, standings in systems.items()
    }
    return {slug: scores for slug, scores in found.items() if scores}


def _marks(slugs: Sequence[str]) -> dict[str, str]:
    return {slug: letter_of(n) for n, slug in enumerate(slugs[:COLOURED])}


def _name(boards: Sequence[Board], slug: str) -> str:
    return next(
        row.system.card.name
        for board in boards
        for row in board.standings
        if row.system.slug == slug
    )


def _row(standings: Standings, sizes: Sequence[int]) -> TableRow:
    cells = [_cell(standings[size]) if size in standings else NOTHING for size in sizes]
    row = next(iter(standings.values()))
    return TableRow([system_name(row.system, ""), *cells], facts_of(row.system, row.track))


def _cell(row: Standing) -> Markup:
    score = _score(row)
    return proven(row, with_count(pair(score), score, row.track))


def _others(boards: Sequence[Board]) -> set[tuple[str, str]]:
    """Return the style and the name of every floor, and of all that is reported."""
    found = {("floor", row.system.card.name) for board in boards for row in board.floor_systems}
    found |= {("floor", floor.name) for board in boards for floor in board.floors}
    return found | {("reported", row.name) for board in boards for row in board.reported}


def _scores(boards: Sequence[Board], style: str, name: str) -> dict[int, Place]:
    found: dict[int, Place] = {}
    for board in boards:
        metric = METRIC
        if style == "reported":
            places = [
                row.scores[metric]
                for row in board.reported
                if row.name == name and metric in row.scores
            ]
            found |= {_size(board): Place(p.file, p.pointer, {"value": p.value}) for p in places}
        else:
            found |= {
                _size(board): r.score(metric)
                for r in board.floor_systems
                if r.system.card.name == name
            }
            found |= {
                _size(board): floor.scores[metric] for floor in board.floors if floor.name == name
            }
    return found


def _other_row(
    name: str, style: str, scores: Mapping[int, Place], sizes: Sequence[int]
) -> TableRow:
    cells: list[Markup] = []
    for size in sizes:
        score = scores.get(size)
        if score is None:
            cells.append(NOTHING)
        elif style == "reported":
            cells.append(figure(Place(score.file, score.pointer, score.value["value"])))
        else:
            cells.append(pair(score))
    return TableRow([foreign(name), *cells], {"search": name.lower()})
