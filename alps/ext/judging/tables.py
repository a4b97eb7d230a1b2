"""Tables of judges and prompts beside each other, in 80 columns."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from alps.ext.judging.judges import FIGURES, Observatory, TrackJudges
from alps.show.formatting import counted, number, spent
from alps.show.run_tables import run_legend
from alps.show.table import (
    BLANK,
    Cell,
    Cells,
    Column,
    Line,
    Part,
    Row,
    Table,
    dim,
    figures,
    named,
    print_parts,
    row_of,
    with_interval,
)

_ACROSS = 9
"""Columns of a matrix that fit beside the numbers of its rows and a judge's name."""


def print_observatory(found: Observatory, console: Console) -> None:
    """Print for every track the scores, the agreements, the sources of the spread and the ranks."""
    runs = [(letter, folder, model) for letter, (folder, model) in found.runs.items()]
    parts: list[Part] = [run_legend(runs)]
    for track in found.tracks:
        parts += [BLANK, *_track_parts(track)]
    lines = [*(f"{note}." for note in found.notes), *_explanations(found)]
    print_parts(console, parts, map(dim, lines))


def _track_parts(track: TrackJudges) -> Iterator[Part]:
    title = f"{track.track}, {track.metric.title.strip()}"
    if not track.n:
        yield Line(f"{title}: no record is scored in every run by all.", "bold")
        return
    where = "" if track.clusters is None else f" from {counted(track.clusters, 'session')}"
    yield from _scores(f"{title}: {counted(track.n, 'record')}{where}", track)
    yield BLANK
    yield from _matrix(track)
    if track.sources:
        yield BLANK
        yield _sources(track)
    if track.swaps:
        yield BLANK
        yield _swaps(track)
    if track.winner is not None:
        shares = (f"{letter} {number(share)}" for letter, share in track.winner.items())
        yield Line(f"P(winner): {', '.join(shares)}")


def _scores(title: str, track: TrackJudges) -> Iterator[Table]:
    letters = list(track.judged[0].scores)
    for start in range(0, len(letters), _ACROSS):
        part = letters[start : start + _ACROSS]
        rows = []
        for place, one in enumerate(track.judged):
            cells = [Cell(number(one.scores[letter]), one.scores[letter]) for letter in part]
            style = "" if one.counts else "dim"
            rows.append(row_of(*_names(track, place), *cells, style=style))
        yield Table(title, _judge_columns(part), rows)


def _matrix(track: TrackJudges) -> Iterator[Table]:
    shown = {}
    for pair in track.agreements:
        agreed = pair.estimate.value
        shown[pair.first, pair.second] = Cell(number(agreed), agreed)
    count = len(track.judged)
    pairs = len(track.judged[0].scores) * track.n
    title = f"Agreement ({FIGURES[track.figure]}, n = {pairs:,} answers)"
    for start in range(0, count - 1, _ACROSS):
        across = range(start, min(start + _ACROSS, count - 1))
        rows = []
        for place in range(start, count):
            cells = [shown.get((other, place), "") for other in across]
            rows.append(row_of(*_names(track, place), *cells))
        yield Table(title, _judge_columns([str(place + 1) for place in across]), rows)


def _judge_columns(titles: Sequence[str]) -> list[Column]:
    """Return the columns of a table with a row a judge and prompt, whose names are folded."""
    return [named(), named("judge", "fold"), named("prompt", "fold"), *figures(*titles)]


def _names(track: TrackJudges, place: int) -> tuple[Cells, ...]:
    one = track.judged[place]
    return str(place + 1), one.judge, one.prompt if one.counts else "(beside)"


def _sources(track: TrackJudges) -> Table:
    rows: list[Row] = []
    for one in track.sources:
        for name, component in one.components.items():
            deviation = Cell(number(component.deviation), component.deviation)
            rows.append(row_of(one.letter, name, deviation, *with_interval(component.share)))
        if one.draws is not None:
            draws = Cell(number(one.draws), one.draws)
            rows.append(row_of(one.letter, "  asking once more", draws, "", ""))
        rows[-1] = rows[-1]._replace(ends=True)
    columns = [named("run"), named("source", "no"), *figures("sd", "share", "95 % interval")]
    return Table("Sources of the spread of a score", columns, rows)


def _swaps(track: TrackJudges) -> Table:
    rows = []
    for swap in track.swaps:
        shares = swap.ahead, swap.behind, swap.swapped
        numbers = (Cell(number(share), share) for share in shares)
        rows.append(row_of(f"{swap.first} – {swap.second}", *numbers))
    cells = sum(one.counts for one in track.judged)
    title = f"Order of two runs over {counted(cells, 'judge and prompt', 'judges and prompts')}"
    columns = [named("pair"), *figures("first ahead", "second ahead", "swapped")]
    return Table(title, columns, rows)


def _explanations(found: Observatory) -> Iterator[str]:
    if any(not one.counts for track in found.tracks for one in track.judged):
        yield "(beside): not among the judges whose spread and ranks are told."
    if any(track.sources for track in found.tracks):
        yield "noise: other records, or the same judge asked once more. Intervals: other sessions,"
        yield "the same judges and prompts."
    if any(track.swaps for track in found.tracks):
        yield "swapped: pairs of judges and prompts that order the two runs differently."
    if any(track.clusters is None for track in found.tracks):
        yield "The data was not found again: each record stands alone in intervals."
    yield spent(found.calls)
