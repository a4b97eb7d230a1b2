"""Tables of judges and prompts beside each other, in 80 columns."""

from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from alps.ext.judging.judges import FIGURES, Observatory, TrackJudges
from alps.show.formatting import counted, interval, number, spent, visible
from alps.show.run_tables import print_parts, run_legend
from alps.show.terminal import figures_table

_ACROSS = 9
"""Columns of a matrix that fit beside the numbers of its rows and a judge's name."""


def print_observatory(found: Observatory, console: Console) -> None:
    """Print for every track the scores, the agreements, the sources of the spread and the ranks."""
    names = [(letter, folder, model) for letter, (folder, model) in found.runs.items()]
    parts: list[RenderableType] = [run_legend(names)]
    for track in found.tracks:
        parts += [Text(), *_track_parts(track)]
    print_parts(console, parts, list(found.notes), _explanations(found))


def _track_parts(track: TrackJudges) -> Iterator[RenderableType]:
    title = f"{track.track}, {track.metric.title.strip()}"
    if not track.n:
        yield Text(visible(f"{title}: no record is scored in every run by all."), style="bold")
        return
    where = "" if track.clusters is None else f" from {counted(track.clusters, 'session')}"
    yield from _scores(f"{title}: {counted(track.n, 'record')}{where}", track)
    yield Text()
    yield from _matrix(track)
    if track.sources:
        yield Text()
        yield _sources(track)
    if track.swaps:
        yield Text()
        yield _swaps(track)
    if track.winner is not None:
        shares = (f"{letter} {number(share)}" for letter, share in track.winner.items())
        yield Text(f"P(winner): {', '.join(shares)}")


def _scores(title: str, track: TrackJudges) -> Iterator[Table]:
    letters = list(track.judged[0].scores)
    for start in range(0, len(letters), _ACROSS):
        part = letters[start : start + _ACROSS]
        table = _judges_table(title, part)
        for place, one in enumerate(track.judged):
            cells = [number(one.scores[letter]) for letter in part]
            table.add_row(*_names(track, place), *cells, style="" if one.counts else "dim")
        yield table


def _matrix(track: TrackJudges) -> Iterator[Table]:
    shown = {}
    for pair in track.agreements:
        shown[pair.first, pair.second] = number(pair.estimate.value)
    count = len(track.judged)
    pairs = len(track.judged[0].scores) * track.n
    title = f"Agreement ({FIGURES[track.figure]}, n = {pairs:,} answers)"
    for start in range(0, count - 1, _ACROSS):
        across = range(start, min(start + _ACROSS, count - 1))
        table = _judges_table(title, [str(place + 1) for place in across])
        for place in range(start, count):
            cells = [shown.get((other, place), "") for other in across]
            table.add_row(*_names(track, place), *cells)
        yield table


def _judges_table(title: str, columns: Sequence[str]) -> Table:
    """Return a table with a row a judge and prompt, whose names are folded."""
    table = figures_table(title, "", "judge", "prompt", *columns)
    for column in table.columns[1:3]:
        column.justify, column.no_wrap, column.overflow = "left", False, "fold"
    return table


def _names(track: TrackJudges, place: int) -> tuple[str, Text, Text]:
    one = track.judged[place]
    prompt = one.prompt if one.counts else "(beside)"
    return str(place + 1), Text(visible(one.judge)), Text(visible(prompt))


def _sources(track: TrackJudges) -> Table:
    columns = ("source", "sd", "share", "95 % interval")
    table = figures_table("Sources of the spread of a score", "run", *columns)
    table.columns[1].justify = "left"
    for one in track.sources:
        for name, component in one.components.items():
            share = component.share
            row = (number(component.deviation), number(share.value), interval(share))
            table.add_row(one.letter, name, *row)
        if one.draws is not None:
            table.add_row(one.letter, "  asking once more", number(one.draws), "", "")
        table.add_section()
    return table


def _swaps(track: TrackJudges) -> Table:
    cells = sum(one.counts for one in track.judged)
    title = f"Order of two runs over {counted(cells, 'judge and prompt', 'judges and prompts')}"
    table = figures_table(title, "pair", "first ahead", "second ahead", "swapped")
    for swap in track.swaps:
        row = (number(swap.ahead), number(swap.behind), number(swap.swapped))
        table.add_row(f"{swap.first} – {swap.second}", *row)
    return table


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
