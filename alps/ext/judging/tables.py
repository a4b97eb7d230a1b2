"""Judges and prompts next to each other as tables, in 80 columns and on a page."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from markupsafe import Markup
from rich.console import Console

from alps.ext.judging.judges import FIGURES, Observatory, TrackJudges
from alps.ext.judging.judging_runs import track_and_metric
from alps.rows import Interval
from alps.show.charts import whisker
from alps.show.formatting import counted, interval, number, spent
from alps.show.html import write_tables_page
from alps.show.short_form import run_legend
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
)
from alps.tasks.registry import track_title

FILE = "judges.html"
_ACROSS = 9
"""Columns of a matrix that fit beside the numbers of its rows and a judge's name."""


def print_observatory(found: Observatory, console: Console) -> None:
    """Print for every track the scores, the agreements, the sources of the spread and the ranks."""
    parts: list[Part] = [_legend(found)]
    for track in found.tracks:
        parts += [BLANK, *_track_parts(track)]
    print_parts(console, parts, map(dim, _notes(found)))


def write_observatory_page(found: Observatory, path: Path) -> Path:
    """Write the page of the same tables; the same findings give the same bytes.

    Raises:
        RunFolderError: If it can't be written.
    """
    judges = {one.judge for track in found.tracks for one in track.judged if one.counts}
    sections: list[tuple[str, Iterable[Part]]] = [("", [_legend(found)])]
    for track in found.tracks:
        best = [Line(line) for line in _best(track)]
        sections.append((track_title(track.track), [*best, *_track_parts(track)]))
    return write_tables_page(
        path,
        kind="alps report",
        title=f"The same answers under {counted(len(judges), 'judge')}",
        sections=sections,
        notes=_notes(found),
    )


def _legend(found: Observatory) -> Table:
    return run_legend((letter, folder, model) for letter, (folder, model) in found.runs.items())


def _notes(found: Observatory) -> list[str]:
    return [*(f"{note}." for note in found.notes), *_explanations(found)]


def _best(track: TrackJudges) -> Iterator[str]:
    """Say which run is the best, and how sure that is over judges."""
    if not track.winner:
        return
    letter = max(track.winner, key=track.winner.__getitem__)
    swapped = [swap.swapped for swap in track.swaps if swap.swapped]
    orders = "all judges and prompts agree on the order of every two runs"
    if swapped:
        share = number(max(swapped))
        pairs = "pairs of judge-and-prompt combinations"
        orders = f"for any two runs, at most {share} of all {pairs} disagree on the order"
    yield f"{letter} is best with probability {number(track.winner[letter])}; {orders}."


def _track_parts(track: TrackJudges) -> Iterator[Part]:
    title = track_and_metric(track.track, track.metric)
    if not track.n:
        yield Line(f"{title}: no record has a score from every judge in every run.", "bold")
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
        between = Markup(' <span class="interval">{}</span>').format(interval(pair.estimate))
        shown[pair.first, pair.second] = Cell(number(agreed), agreed, drawn=between)
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
    return str(place + 1), one.judge, one.prompt if one.counts else "(comparison)"


def _sources(track: TrackJudges) -> Table:
    rows: list[Row] = []
    for one in track.sources:
        for name, component in one.components.items():
            deviation = Cell(number(component.deviation), component.deviation)
            part = component.share
            drawn = whisker(
                Interval(value=part.value, low=part.low, high=part.high),
                name=f"{one.letter}, {name}",
            )
            share = Cell(number(part.value), part.value), Cell(interval(part), drawn=drawn)
            rows.append(row_of(one.letter, name, deviation, *share))
        if one.draws is not None:
            draws = Cell(number(one.draws), one.draws)
            rows.append(row_of(one.letter, "  repeated verdicts", draws, "", ""))
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
    combined = counted(cells, "combination of judge and prompt", "combinations of judge and prompt")
    title = f"Order of two runs across {combined}"
    columns = [named("pair"), *figures("first ahead", "second ahead", "swapped")]
    return Table(title, columns, rows)


def _explanations(found: Observatory) -> Iterator[str]:
    if any(not one.counts for track in found.tracks for one in track.judged):
        yield "(comparison): this judge does not affect the spread or the ranks."
    if any(track.sources for track in found.tracks):
        yield (
            "noise: variation between records or repeated verdicts. Intervals are bootstrap "
            "intervals over sessions, with judges and prompts held fixed."
        )
    if any(track.swaps for track in found.tracks):
        yield (
            "swapped: share of pairs of judge-and-prompt combinations that disagree on the order "
            "of the two runs."
        )
    if any(track.clusters is None for track in found.tracks):
        yield (
            "alps did not find the sessions in the run's data set, so the intervals treat records "
            "as independent."
        )
    yield spent(found.calls)
