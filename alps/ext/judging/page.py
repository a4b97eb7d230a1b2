"""The page of judges and prompts beside each other: one HTML file without a script.

It shows what the tables in the terminal show; nothing is computed here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from alps.ext.judging.judges import FIGURES, Judged, Observatory, TrackJudges
from alps.rows import Interval
from alps.show.charts import bar, colour_of, whisker
from alps.show.formatting import counted, number, spent, visible
from alps.show.html import page_environment, write_page
from alps.show.svg import SHARES, axis_labels
from alps.stats.bootstrap import Estimate

FILE = "judges.html"
TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class Cell:
    """An agreement of two judges; `strength` is how strongly it is coloured, in percent."""

    estimate: Estimate
    strength: int


@dataclass(frozen=True)
class Row:
    """A judge with a prompt, and how far it agrees with those before it."""

    number: int
    judged: Judged
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class SourceRow:
    """A source of the spread of a run's score; `share` is None of what is no part of the whole."""

    letter: str
    name: str
    deviation: float
    share: Estimate | None
    chart: Markup


@dataclass(frozen=True)
class TrackView:
    """What the page shows of a track."""

    found: TrackJudges
    title: str
    size: str
    figure: str
    answers: int
    rows: tuple[Row, ...]
    sources: tuple[SourceRow, ...]
    winners: tuple[tuple[str, float, Markup], ...]
    best: str


def write_observatory_page(found: Observatory, path: Path) -> Path:
    """Write the page; the same findings give the same bytes.

    Raises:
        RunFolderError: If it can't be written.
    """
    template = page_environment(TEMPLATES).get_template("judges.html")
    views = [_view(track) for track in found.tracks]
    judges = {one.judge for view in views for one in view.found.judged if one.counts}
    page: str = template.render(
        runs=[(letter, *run) for letter, run in found.runs.items()],
        colours={letter: colour_of(place) for place, letter in enumerate(found.runs)},
        tracks=views,
        judges=len(judges),
        notes=[visible(note) for note in found.notes],
        spent=spent(found.calls),
        axis=axis_labels(SHARES),
        beside=any(not one.counts for view in views for one in view.found.judged),
        unclustered=any(view.found.clusters is None for view in views),
    )
    return write_page(page.lstrip(), path)


def _view(track: TrackJudges) -> TrackView:
    where = "" if track.clusters is None else f" from {counted(track.clusters, 'session')}"
    letters = list(track.judged[0].scores) if track.judged else []
    return TrackView(
        track,
        f"{track.track}, {track.metric.title.strip()}",
        f"{counted(track.n, 'record')}{where}",
        FIGURES[track.figure],
        len(letters) * track.n,
        tuple(_rows(track)),
        tuple(_sources(track)),
        tuple(_winners(track)),
        _best(track),
    )


def _rows(track: TrackJudges) -> Iterator[Row]:
    shown: dict[tuple[int, int], Cell] = {}
    for pair in track.agreements:
        value = pair.estimate.value
        # At most half: the figure stands on it, and has to be read.
        strength = 0 if value is None else round(50 * max(0.0, min(1.0, value)))
        shown[pair.second, pair.first] = Cell(pair.estimate, strength)
    for place, judged in enumerate(track.judged):
        yield Row(place + 1, judged, tuple(shown[place, other] for other in range(place)))


def _sources(track: TrackJudges) -> Iterator[SourceRow]:
    for one in track.sources:
        for name, component in one.components.items():
            share = component.share
            shown = Interval(value=share.value, low=share.low, high=share.high)
            chart = whisker(shown, name=f"{one.letter}, {name}")
            yield SourceRow(one.letter, name, component.deviation, share, chart)
        if one.draws is not None:
            yield SourceRow(one.letter, "noise of asking once more", one.draws, None, Markup())


def _winners(track: TrackJudges) -> Iterator[tuple[str, float, Markup]]:
    for place, (letter, share) in enumerate((track.winner or {}).items()):
        shown = Interval(value=share, low=None, high=None)
        name = f"{letter} is the best"
        yield letter, share, bar(shown, name=name, style=colour_of(place))


def _best(track: TrackJudges) -> str:
    """Return in a sentence which run is the best, and how sure that is over judges."""
    if not track.winner:
        return ""
    letter = max(track.winner, key=lambda name: track.winner[name] if track.winner else 0.0)
    swapped = [swap.swapped for swap in track.swaps if swap.swapped]
    orders = (
        "no two judges and prompts order two runs differently"
        if not swapped
        else f"up to {number(max(swapped))} of the pairs of judges and prompts order two runs "
        "differently"
    )
    return f"{letter} is the best with probability {number(track.winner[letter])}; {orders}."
