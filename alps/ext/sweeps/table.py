"""End of a sweep: who ties with the best on each track, scores against costs, and a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from rich.console import Console

from alps.errors import RunFolderError, UsageError
from alps.ext.sweeps.sweep import Ended, Swept
from alps.llm.ledger import Totals, calls_in
from alps.run.opened import open_run
from alps.show.compare import TrackComparison, compare_runs
from alps.show.formatting import (
    BELOW_MARK,
    counted,
    dollars,
    judge_of,
    metric_title,
    number,
    task_title,
)
from alps.show.html import refuse_other_file, write_tables_page
from alps.show.short_form import Headline, needs_rating_judge
from alps.show.table import (
    WIDTH,
    Cell,
    Line,
    Part,
    Table,
    dim,
    figures,
    named,
    row_of,
    show_parts,
    with_interval,
)
from alps.stats.bootstrap import Estimate
from alps.stats.paired import SIGNIFICANT, Spot, front_of
from alps.tasks import Metric

_TIED = "*"
# Columns for the names of systems and their costs
_NAMES = 30
_TIES = (
    "ties: systems that share a letter do not differ significantly (p > .05, Holm over all pairs "
    "of a task). "
)
_EXPLANATION = (
    "cost: US dollars for a system's own requests, without the judge; cached replies are free, "
    "and – means an unknown price. Pareto: no other system with a known cost scores as high "
    "at the same or lower cost."
)


@dataclass(frozen=True)
class SweepStanding:
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
    standings: tuple[SweepStanding, ...]

    @property
    def title(self) -> str:
        """The name of the task as people type it."""
        return task_title(self.track, open_run(self.standings[0].folder).summary_of(self.track))


@dataclass(frozen=True)
class SweepReport:
    """Result of a sweep, and runs that could not be compared.

    Attributes:
        bare: Why each run has no score, by the title of each task without one; of complete runs.
    """

    runs: tuple[Ended, ...]
    bare: tuple[Mapping[str, str], ...]
    tracks: tuple[TrackStandings, ...]
    notes: tuple[str, ...]

    @property
    def explanation(self) -> str:
        """Meaning of the columns; of tie letters only if there are any."""
        tied = any(one.letters for track in self.tracks for one in track.standings)
        return (_TIES if tied else "") + _EXPLANATION

    @property
    def incomplete(self) -> int:
        """How many runs are not complete."""
        return sum(bool(run.failure) for run in self.runs)


def report_sweep(swept: Swept) -> SweepReport:
    """Compare the finished runs of a sweep, those of one task under one judge together."""
    runs, bare = swept.ended, []
    groups: dict[tuple[str, str], list[Ended]] = {}
    for run in runs:
        bare.append({} if run.failure else _without_score(run.folder, run.cell.task))
        if run.judge is not None:
            groups.setdefault((run.cell.task, run.judge), []).append(run)
    tracks: list[TrackStandings] = []
    notes: list[str] = []
    for (task, judge), group in groups.items():
        # One that has no score would leave no record that all have.
        scored = [run for run in group if _is_scored(run)]
        try:
            tracks += _compared(scored) if len(scored) > 1 else chain(*map(_alone, scored))
        except (UsageError, RunFolderError) as error:
            notes.append(f"No comparison of {task} under {judge}: {error}")
            tracks += chain(*map(_alone, scored))
    if swept.left:
        notes.append(f"Not repeated, because they did not fail: {counted(swept.left, 'run')}")
    for run in runs:
        if run.failure:
            notes.append(f"{run.cell}: {run.failure.rstrip('.')}")
    notes += _bare_lines(runs, bare)
    return SweepReport(runs, tuple(bare), tuple(tracks), tuple(notes))


def _without_score(folder: Path, task: str) -> dict[str, str]:
    """Return why tracks of a finished run have no score, by title; by `task` where it is all."""
    run, bare = open_run(folder), {}
    for name, track in run.finished.tracks.items():
        score = track.scores[run.lead(name).name]
        if score.value is None:
            reason = score.unscored or score.reason or "no record is scored"
            if needs_rating_judge(track, run.tasks[name].metrics):
                reason = "needs an LLM judge; set judge=PROVIDER/MODEL"
            bare[task_title(name, track)] = reason
    reasons = list(bare.values())
    alike = len(set(reasons)) == 1 and len(reasons) == len(run.finished.tracks)
    return {task: reasons[0]} if alike else bare


def _bare_lines(runs: Sequence[Ended], bare: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Say which tasks of complete runs have no score, those of one reason together."""
    by_title: dict[tuple[str, str], list[str]] = {}
    for run, reasons in zip(runs, bare, strict=True):
        for title, reason in reasons.items():
            by_title.setdefault((title, reason), []).append(run.cell.system)
    titles: dict[tuple[str, str], list[str]] = {}
    for (title, reason), systems in by_title.items():
        titles.setdefault((", ".join(systems), reason), []).append(title)
    for (named_systems, reason), together in titles.items():
        yield f"No score: {', '.join(together)} of {named_systems} ({reason})"


def _is_scored(run: Ended) -> bool:
    return any(track.scored for track in open_run(run.folder).finished.tracks.values())


def _compared(group: Sequence[Ended]) -> Iterator[TrackStandings]:
    comparison = compare_runs([run.folder for run in group], headlines=True)
    judges = list(dict.fromkeys(judge_of(open_run(run.folder)) for run in group))
    # Runs of one judge were asked the same items, unless some were not checked.
    shown = ", ".join(judges)
    by_letter = {}
    for side, run in zip(comparison.sides, group, strict=True):
        by_letter[side.letter] = run, _cost_without_judge(run.folder)
    for track in comparison.tracks:
        if track.lead is None or not track.shared:
            continue
        standings = []
        for letter, estimate, ties in _ranks(track):
            run, cost = by_letter[letter]
            standings.append(SweepStanding(run.cell.system, run.folder, estimate, ties, cost))
        yield _with_front(track.track, shown, track.lead.metric, track.shared, standings)


def _alone(single: Ended) -> Iterator[TrackStandings]:
    run = open_run(single.folder)
    for track in run.scored_tracks:
        lead, scores = run.lead(track), run.summary_of(track).scores
        if lead.name not in scores:
            continue
        score = scores[lead.name]
        estimate = Estimate(score.value, score.low, score.high, score.n)
        standing = SweepStanding(
            single.cell.system, single.folder, estimate, "", _cost_without_judge(single.folder)
        )
        yield _with_front(track, judge_of(run), lead, score.n, [standing])


def _cost_without_judge(folder: Path) -> float | None:
    """Return the US dollars that a run cost, its judge left out; None where a price is not known.

    Cached replies cost nothing.
    """
    totals = Totals()
    totals.add_all(call for call in calls_in(folder / "calls.jsonl") if call.purpose != "judge")
    return None if totals.unpriced else totals.cost


def _ranks(track: TrackComparison) -> Iterator[tuple[str, Estimate, str]]:
    """Yield the letter of each run, its score and the letters of its ties, the best first."""
    assert track.lead is not None
    if track.lead.ranked:
        for ranked in track.lead.ranked:
            yield ranked.name, ranked.estimate, "".join(ranked.letters)
        return
    # Letters of ties are made from three runs on; two have one test.
    contrast = track.lead.contrasts[0]
    sides = list(zip((contrast.first, contrast.second), contrast.scores, strict=True))
    sign = 1.0 if track.lead.metric.lower_is_better else -1.0
    sides.sort(key=lambda side: sign * (side[1].value or 0.0))
    tied = contrast.corrected is None or contrast.corrected > SIGNIFICANT
    for (letter, estimate), ties in zip(sides, ("a", "a" if tied else "b"), strict=True):
        yield letter, estimate, ties


def _with_front(
    track: str, judge: str, metric: Metric, n: int, standings: Sequence[SweepStanding]
) -> TrackStandings:
    sign = -1.0 if metric.lower_is_better else 1.0
    places: list[int] = []
    spots: list[Spot] = []
    for place, one in enumerate(standings):
        # A system of unknown price would stand at 0 dollars and beat every other.
        if one.cost is not None and one.estimate.value is not None:
            places.append(place)
            spots.append(Spot(one.cost, sign * one.estimate.value))
    front = {places[spot] for spot in front_of(spots)}
    marked = tuple(replace(one, front=at in front) for at, one in enumerate(standings))
    return TrackStandings(track, judge, metric, n, marked)


def print_sweep(report: SweepReport, console: Console) -> None:
    """Print the scores of all systems on all tasks, and what failed."""
    width = min(WIDTH, console.width)
    columns = _columns(report.tracks)
    matrices = [_matrix(report, chosen) for chosen in _fitting(columns, width)]
    show_parts(
        console, [Line(_completeness(report), "bold"), *matrices, *_remarks(report, columns)]
    )


def _completeness(report: SweepReport) -> str:
    of = f", {report.incomplete:,} incomplete" if report.incomplete else ""
    if bare := sum(map(bool, report.bare)):
        of += f", {bare:,} without a score"
    complete = len(report.runs) - report.incomplete
    return f"{counted(len(report.runs), 'run')}: {complete:,} complete{of}"


@dataclass(frozen=True)
class _TrackColumn:
    """A track under one judge: its heading, a cell a system, and the best trivial baseline."""

    heading: tuple[str, ...]
    cells: dict[str, Cell]
    baseline: str

    @property
    def width(self) -> int:
        return max(map(len, (*self.heading, "1.000*"))) + 2


def _columns(tracks: Sequence[TrackStandings]) -> list[_TrackColumn]:
    # Only where judges differ does a heading need to name one.
    judges = {track.judge for track in tracks if track.metric.judged}
    columns: dict[tuple[str, str], _TrackColumn] = {}
    for track in tracks:
        best, cells, baseline = set(track.standings[0].letters), {}, "–"
        for one in track.standings:
            found = open_run(one.folder).summary_of(track.track)
            lead = Headline(track.track, found, track.metric)
            mark = BELOW_MARK if lead.is_below else ""
            # By letters, which stand for tests corrected for all pairs: the highest score alone may
            # be chance.
            mark += _TIED if best & set(one.letters) else ""
            cells[one.system] = Cell(f"{number(one.estimate.value)}{mark:1}", one.estimate.value)
            if baseline == "–" and lead.baseline is not None:
                baseline = number(lead.baseline[1].scores[track.metric.name].value)
        by = (track.judge,) if len(judges) > 1 and track.metric.judged else ()
        heading = track.title, metric_title(track.metric), *by
        column = _TrackColumn(heading, cells, baseline)
        # Runs that could not be compared stand in one column all the same.
        columns.setdefault((track.track, track.judge), column).cells.update(cells)
    return list(columns.values())


def _remarks(report: SweepReport, columns: Sequence[_TrackColumn]) -> Iterator[Line]:
    """Yield the meaning of each mark in the matrix, then what failed."""
    marks = {cell.text[-1] for column in columns for cell in column.cells.values()}
    if _TIED in marks:
        yield dim(f"{_TIED} the best, or not significantly worse (p > .05, Holm)")
    if BELOW_MARK in marks:
        yield dim(f"{BELOW_MARK} below a trivial baseline")
    for note in report.notes:
        yield dim(f"{note}.")


def _fitting(columns: Sequence[_TrackColumn], width: int) -> Iterator[list[_TrackColumn]]:
    """Yield the columns of each table, as many as fit."""
    chosen: list[_TrackColumn] = []
    for column in columns:
        if chosen and _NAMES + sum(one.width for one in (*chosen, column)) > width:
            yield chosen
            chosen = []
        chosen.append(column)
    if chosen:
        yield chosen


def _matrix(report: SweepReport, columns: Sequence[_TrackColumn], title: str = "") -> Table:
    """Return the table of systems and tasks, with the cost of each system on all tasks."""
    costs = _costs(report)
    rows = []
    for system, cost in costs.items():
        cells = [column.cells.get(system, Cell("– ")) for column in columns]
        rows.append(row_of(system, *cells, Cell(dollars(cost), cost)))
    baselines = [f"{column.baseline} " for column in columns]
    rows[-1] = rows[-1]._replace(ends=True)
    rows.append(row_of("best baseline", *baselines, "", style="dim"))
    # A page has room for a heading in one line; it is also the label of a cell on a phone.
    if title:
        headings = [", ".join(column.heading) for column in columns]
    else:
        headings = ["\n".join(f"{part} " for part in column.heading) for column in columns]
    return Table(title, [named(wraps="fold"), *figures(*headings, "cost")], rows)


def _costs(report: SweepReport) -> dict[str, float | None]:
    """Return what each system cost on all tasks, the judge left out; None where unknown."""
    costs: dict[str, float | None] = {}
    for run in report.runs:
        # A run that was refused has no folder, and spent nothing.
        cost = _cost_without_judge(run.folder) if run.folder.is_dir() else 0.0
        before = costs.get(run.cell.system, 0.0)
        # One unknown price makes the sum unknown: without it the sum would be too low.
        costs[run.cell.system] = None if before is None or cost is None else before + cost
    return costs


def _table(track: TrackStandings) -> Table:
    rows = []
    for one in track.standings:
        taken = Cell(dollars(one.cost), one.cost), "front" if one.front else ""
        cells = Cell(one.system, note=one.folder.name), *with_interval(one.estimate), one.letters
        rows.append(row_of(*cells, *taken, style="bold" if one.front else ""))
    title = f"{track.title}, {metric_title(track.metric)}: {counted(track.n, 'shared record')}"
    columns = "score", "95 % interval", "ties", "cost", "Pareto"
    title += f", judged by {track.judge}"
    return Table(title, [named("system"), *figures(*columns)], rows)


def write_sweep_page(report: SweepReport, path: Path) -> Path:
    """Write the page of a sweep: the matrix of systems and tasks, then a table per task.

    Raises:
        AlpsError: If another file is there, or it can't be written.
    """
    refuse_other_file(path)
    columns = _columns(report.tracks)
    first: list[Part] = list(_remarks(report, columns))
    if columns:
        title = "Score per system and task, with the cost of all tasks"
        first.insert(0, _matrix(report, columns, title))
    tables = ((track.title, [_table(track)]) for track in report.tracks)
    return write_tables_page(
        path,
        kind="alps sweep",
        title=path.stem,
        lede=f"{_completeness(report)}.",
        sections=[("", first), *tables],
        notes=[report.explanation] if report.tracks else [],
    )
