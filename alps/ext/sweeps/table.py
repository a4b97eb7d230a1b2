"""End of a sweep: who ties with the best on each track, scores against costs, and a page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from alps.errors import RunFolderError, UsageError
from alps.llm.ledger import cost_without_judge
from alps.run.opened import open_run
from alps.show.caveats import judge_of
from alps.show.compare import SIGNIFICANT, TrackComparison, compare_runs
from alps.show.formatting import counted, dollars
from alps.show.html import refuse_other_file, write_tables_page
from alps.show.table import (
    BLANK,
    Cell,
    Part,
    Table,
    dim,
    figures,
    named,
    print_parts,
    row_of,
    with_interval,
)
from alps.stats.bootstrap import Estimate
from alps.stats.curves import Spot, front_of
from alps.tasks import Metric

_FEW = 10
_TIES = (
    "ties: systems that share a letter do not differ significantly (p ≥ .05, Holm over all pairs "
    "of a task). "
)
_EXPLANATION = (
    "cost: US dollars of a system's own requests, judge left out; kept replies cost "
    "nothing; – where a price is not known. Pareto: no other system scores as high for as little, "
    "among those with a cost."
)


@dataclass(frozen=True)
class Standing:
    """A system on a track; `letters` are of its ties, `front` tells whether it is on the front.

    Its cost is None where the price of a model is not known: it is on no front then.
    """

    system: str
    folder: Path
    estimate: Estimate
    letters: str
    cost: float | None
    front: bool = False


@dataclass(frozen=True)
class TrackStandings:
    """The systems on one track under one judge, the best first."""

    track: str
    judge: str
    metric: Metric
    n: int
    standings: tuple[Standing, ...]

    @property
    def shown(self) -> tuple[Standing, ...]:
        """All systems; of many, those that tie with the best or are on the front."""
        if len(self.standings) <= _FEW:
            return self.standings
        best = set(self.standings[0].letters)
        return tuple(one for one in self.standings if one.front or best & set(one.letters))


@dataclass(frozen=True)
class SweptRun:
    """A run of a sweep.

    Attributes:
        system: How the sweep calls it.
        judge: Who judged; None where it is not finished.
        failure: Why it is not complete; nothing where it is.
    """

    system: str
    task: str
    folder: Path
    judge: str | None
    failure: str = ""


@dataclass(frozen=True)
class SweepReport:
    """What a sweep came to, and what could not be compared."""

    runs: tuple[SweptRun, ...]
    tracks: tuple[TrackStandings, ...]
    notes: tuple[str, ...]

    @property
    def explanation(self) -> str:
        """What the columns of its tables mean; of letters only where there are any."""
        tied = any(one.letters for track in self.tracks for one in track.standings)
        return (_TIES if tied else "") + _EXPLANATION

    @property
    def incomplete(self) -> int:
        """How many runs are not complete."""
        return sum(bool(run.failure) for run in self.runs)


def report_sweep(runs: Sequence[SweptRun], *, left: int = 0) -> SweepReport:
    """Compare the finished runs of a sweep, those of one task under one judge together.

    `left` is how many were not to be run now.
    """
    groups: dict[tuple[str, str], list[SweptRun]] = {}
    for run in runs:
        if run.judge is not None:
            groups.setdefault((run.task, run.judge), []).append(run)
    tracks: list[TrackStandings] = []
    notes: list[str] = []
    for (task, judge), group in groups.items():
        try:
            tracks += _compared(group) if len(group) > 1 else _alone(group[0])
        except (UsageError, RunFolderError) as error:
            notes.append(f"{task} under {judge} is not compared: {error}")
    if left:
        notes.append(f"Left out, as they did not fail: {counted(left, 'run')}")
    for run in runs:
        if run.failure:
            notes.append(f"{run.task} {run.system}: {run.failure.rstrip('.')}")
    return SweepReport(tuple(runs), tuple(tracks), tuple(notes))


def _compared(group: Sequence[SweptRun]) -> Iterator[TrackStandings]:
    comparison = compare_runs([run.folder for run in group], headlines=True)
    judges = list(dict.fromkeys(judge_of(open_run(run.folder)) for run in group))
    # Runs of one judge were asked the same items, unless some were not checked.
    shown = ", ".join(judges)
    by_letter = {}
    for side, run in zip(comparison.sides, group, strict=True):
        by_letter[side.letter] = run, cost_without_judge(run.folder)
    for track in comparison.tracks:
        if track.lead is None or not track.shared:
            continue
        standings = []
        for letter, estimate, ties in _ranks(track):
            run, cost = by_letter[letter]
            standings.append(Standing(run.system, run.folder, estimate, ties, cost))
        yield _with_front(track.track, shown, track.lead.metric, track.shared, standings)


def _alone(single: SweptRun) -> Iterator[TrackStandings]:
    run = open_run(single.folder)
    for track in run.scored_tracks:
        lead, scores = run.lead(track), run.summary_of(track).scores
        if lead.name not in scores:
            continue
        score = scores[lead.name]
        estimate = Estimate(score.value, score.low, score.high, score.n)
        standing = Standing(
            single.system, single.folder, estimate, "", cost_without_judge(single.folder)
        )
        yield _with_front(track, judge_of(run), lead, score.n, [standing])


def _ranks(track: TrackComparison) -> Iterator[tuple[str, Estimate, str]]:
    """Yield the letter of each run, its score and the letters of its ties, the best first."""
    assert track.lead is not None
    if track.lead.ranked:
        for ranked in track.lead.ranked:
            yield ranked.name, ranked.estimate, "".join(ranked.letters)
        return
    contrast = track.lead.contrasts[0]
    sides = list(zip((contrast.first, contrast.second), contrast.scores, strict=True))
    sign = 1.0 if track.lead.metric.lower_is_better else -1.0
    sides.sort(key=lambda side: sign * (side[1].value or 0.0))
    tied = contrast.corrected is None or contrast.corrected > SIGNIFICANT
    for (letter, estimate), ties in zip(sides, ("a", "a" if tied else "b"), strict=True):
        yield letter, estimate, ties


def _with_front(
    track: str, judge: str, metric: Metric, n: int, standings: Sequence[Standing]
) -> TrackStandings:
    sign = -1.0 if metric.lower_is_better else 1.0
    places: list[int] = []
    spots: list[Spot] = []
    for place, one in enumerate(standings):
        if one.cost is not None and one.estimate.value is not None:
            places.append(place)
            spots.append(Spot(one.cost, sign * one.estimate.value))
    front = {places[spot] for spot in front_of(spots)}
    marked = tuple(replace(one, front=at in front) for at, one in enumerate(standings))
    return TrackStandings(track, judge, metric, n, marked)


def print_sweep(report: SweepReport, console: Console) -> None:
    """Print who leads each track, and what failed."""
    parts: list[Part] = []
    for track in report.tracks:
        parts += [*([BLANK] if parts else []), _table(track)]
    print_parts(console, parts, map(dim, _notes(report)))


def _notes(report: SweepReport) -> list[str]:
    explained = [report.explanation] if report.tracks else []
    return [*(f"{note}." for note in report.notes), *explained]


def _table(track: TrackStandings, *, whole: bool = False) -> Table:
    rows = []
    standings = track.standings if whole else track.shown
    for one in standings:
        taken = Cell(dollars(one.cost), one.cost), "front" if one.front else ""
        # A page has room for the folder of each run.
        name = Cell(one.system, note=one.folder.name if whole else "")
        cells = name, *with_interval(one.estimate), one.letters, *taken
        rows.append(row_of(*cells, style="bold" if one.front else ""))
    if others := len(track.standings) - len(standings):
        rows.append(row_of(f"and {others} more, on the page", style="dim"))
    title = f"{track.track}: {track.metric.title.strip()}, {counted(track.n, 'shared record')}"
    columns = "score", "95 % interval", "ties", "cost", "Pareto"
    title += f", judged by {track.judge}"
    return Table(title, [named("system"), *figures(*columns)], rows)


def write_sweep_page(report: SweepReport, path: Path) -> Path:
    """Write the page of a sweep.

    Raises:
        AlpsError: If another file is there, or it can't be written.
    """
    refuse_other_file(path)
    return write_tables_page(
        path,
        kind="alps sweep",
        title=path.stem,
        lede=f"{len(report.runs):,} runs; {report.incomplete} of them not complete.",
        sections=((track.track, [_table(track, whole=True)]) for track in report.tracks),
        notes=_notes(report),
    )
