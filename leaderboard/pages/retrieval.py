"""Recall over the size of the pool: the curve, and the same as a table of systems by pool size."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from alps.leaderboard.boards import Board
from alps.leaderboard.figures import COLOURED, Line, recall_curve
from alps.leaderboard.origin import NOTHING, Place, figure
from alps.leaderboard.pages.common import Renderer, page_of
from alps.leaderboard.tables import TableRow, facts_of, foreign, pair, system_name

Scores = Mapping[int, Place]
"""Scores by the size of the pool."""


def write_retrieval(renderer: Renderer) -> None:
    """Write the page of the curve; the boards of the sizes stand on pages of their own."""
    boards = [renderer.content.by_track[one.track][0] for one in renderer.content.tracks_of("retrieval")]
    systems = _systems(boards)
    others = sorted(_others(boards))
    marks = _marks([slug for slug, scores in systems.items() if len(scores) > 1])
    lines = [Line(_name(boards, slug), "system", marks.get(slug, ""), sorted(s.items())) for slug, s in systems.items()]
    lines += [Line(name, style, "", sorted(_scores(boards, style, name).items())) for style, name in others]
    sizes = [_size(board) for board in boards]
    renderer.write(
        "retrieval.html",
        "retrieval.html",
        sizes=[(board, page_of(board.task)) for board in boards],
        curve=recall_curve(lines, name="Recall at the first choice over the number of distractors"),
        legend=[(mark, _name(boards, slug)) for slug, mark in marks.items()],
        grey=len(systems) > len(marks),
        styles={style for style, _ in others},
        rows=[_row(boards, slug, scores, sizes) for slug, scores in systems.items()],
        others={
            kind: [
                _other_row(name, kind, _scores(boards, kind, name), sizes) for style, name in others if style == kind
            ]
            for kind in ("floor", "reported")
        },
    )


def _size(board: Board) -> int:
    return board.task.pool_size or 0


def _systems(boards: Sequence[Board]) -> dict[str, Scores]:
    """Return the scores of every system by its slug, the best on the largest pools first."""
    found: dict[str, dict[int, Place]] = {}
    for board in boards:
        for row in board.standings:
            found.setdefault(row.system.slug, {})[_size(board)] = row.score(board.metric.name)
    largest = max(map(_size, boards), default=0)

    def order(slug: str) -> tuple[float, str]:
        last = found[slug].get(largest)
        return -float(last["value"].value) if last is not None else 1.0, slug

    return {slug: found[slug] for slug in sorted(found, key=order)}


def _marks(slugs: Sequence[str]) -> dict[str, str]:
    return {slug: str(n) for n, slug in enumerate(slugs[:COLOURED], start=1)}


def _name(boards: Sequence[Board], slug: str) -> str:
    return next(row.system.card.name for board in boards for row in board.standings if row.system.slug == slug)


def _row(boards: Sequence[Board], slug: str, scores: Scores, sizes: Sequence[int]) -> TableRow:
    row = next(row for board in boards for row in board.standings if row.system.slug == slug)
    cells = [pair(scores[size]) if size in scores else NOTHING for size in sizes]
    return TableRow([system_name(row.system, ""), *cells], facts_of(row.system, row.track))


def _others(boards: Sequence[Board]) -> set[tuple[str, str]]:
    """Return the style and the name of every floor, and of all that is reported."""
    found = {("floor", row.system.card.name) for board in boards for row in board.floor_systems}
    found |= {("floor", floor.name) for board in boards for floor in board.floors}
    return found | {("reported", row.name) for board in boards for row in board.reported}


def _scores(boards: Sequence[Board], style: str, name: str) -> dict[int, Place]:
    found: dict[int, Place] = {}
    for board in boards:
        metric = board.metric.name
        if style == "reported":
            places = [row.scores[metric] for row in board.reported if row.name == name and metric in row.scores]
            found |= {_size(board): Place(p.file, p.pointer, {"value": p.value}) for p in places}
        else:
            found |= {_size(board): r.score(metric) for r in board.floor_systems if r.system.card.name == name}
            found |= {_size(board): floor.scores[metric] for floor in board.floors if floor.name == name}
    return found


def _other_row(name: str, style: str, scores: Scores, sizes: Sequence[int]) -> TableRow:
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
