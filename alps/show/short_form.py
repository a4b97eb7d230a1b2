"""Short form of a finished run: its score against the best trivial baseline, and what to know.

Below it is what its other tables share with pages.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rich.cells import cell_len
from rich.console import Group

from alps.extension import has_command
from alps.rows import Floor, Interval, Score, Summary, TrackSummary
from alps.run.opened import RunFolder, lead_of, read_manifest
from alps.schema import FAILURES
from alps.show.formatting import (
    BELOW_MARK,
    MORE_THAN_ONE,
    NO_COUNTS,
    conditions,
    counted,
    dollars,
    duration,
    interval,
    judge_mark,
    metric_title,
    number,
    served_lines,
    signed,
    task_and_metric,
    task_title,
    visible,
)
from alps.show.parts import ShownPart, shown_parts
from alps.show.table import (
    BLANK,
    Cell,
    Cells,
    Line,
    Part,
    Row,
    Table,
    change,
    figures,
    named,
    printed,
    row_of,
    terminal,
    ungrouped,
    with_interval,
)
from alps.systems.base import STDERR, TRACEBACKS
from alps.tasks import Metric
from alps.tasks.metrics import headline_of, only_rated
from alps.tasks.registry import track_title

Metrics = Mapping[str, Sequence[Metric]]
_MOST_OTHERS = 2
"""How many other metrics stand next to the counts of a run of one task."""
_ERROR = 120
"""How many characters of the first error are printed; `alps show` has all of it."""
_MOST_LINES = 14
"""Above so many lines of one task, blank ones are left out."""
_WIDE, _NARROW = 100, 72
_NEXT = {
    "view": "alps view RUN (records)",
    "show": "alps show RUN (all metrics)",
    "report": "alps report RUN",
}
"""What to look at a run with, by the word of the command: all are of extensions."""


@dataclass(frozen=True)
class Headline:
    """The headline score of a task, and its best trivial baseline."""

    name: str
    track: TrackSummary
    metric: Metric

    @property
    def score(self) -> Score:
        """That of the run."""
        return self.track.scores[self.metric.name]

    @cached_property
    def baseline(self) -> tuple[str, Floor] | None:
        """The trivial baseline that the run is least above; None where none has a score."""
        # Under another judge they are not compared.
        floors = {
            name: floor
            for name, floor in self.track.floors.items()
            if floor.lead == self.metric.name and floor.scores[floor.lead].value is not None
        }
        paired = {name: floor for name, floor in floors.items() if _value(floor.above) is not None}
        sign = -1.0 if self.metric.lower_is_better else 1.0
        if paired:
            best = min(paired, key=lambda name: sign * (_value(paired[name].above) or 0.0))
        elif floors:
            best = max(floors, key=lambda name: sign * floors[name].scores[self.metric.name].known)
        else:
            return None
        return best, floors[best]

    @property
    def ahead(self) -> Interval | None:
        """How far the run is above it, on the records that both have."""
        return None if self.baseline is None else self.baseline[1].above

    @property
    def part(self) -> str:
        """A mark where that is of a part of the records."""
        return "†" if self.ahead is not None and 0 < self.ahead.n < self.score.n else ""

    @property
    def is_above(self) -> bool:
        """Whether the interval of the difference is above 0."""
        sides = (None, None) if self.ahead is None else (self.ahead.low, self.ahead.high)
        if None in sides:
            return False
        low, high = sides
        return (high or 0.0) < 0 if self.metric.lower_is_better else (low or 0.0) > 0

    @property
    def is_below(self) -> bool:
        """Whether the run scores below it; what is written as .000 is no difference."""
        value = _value(self.ahead) or 0.0
        return signed(-value if self.metric.lower_is_better else value).startswith("-")

    @property
    def verdict(self) -> str:
        """Which of both it is, in words; empty where they are not compared."""
        if self.ahead is None or self.ahead.value is None:
            return ""
        if self.is_below:
            return "below a trivial baseline"
        if self.ahead.low is None:
            return f"{signed(self.ahead.value)} over the best trivial baseline (no interval)"
        return f"{'' if self.is_above else 'not '}above the best trivial baseline"


def _value(figure: Interval | None) -> float | None:
    return None if figure is None else figure.value


def headlines(summary: Summary, metrics: Metrics) -> list[Headline]:
    """Return the headline of each track of a run."""
    found = summary.tracks.items()
    return [Headline(name, track, lead_of(track, metrics[name])) for name, track in found]


def _parts(
    summary: Summary,
    metrics: Metrics,
    folder: Path,
    *,
    width: int,
    resumed: int,
    took: float | None,
) -> Iterator[Part]:
    extended = shown_parts(summary)
    yield from scores_of(summary, metrics, folder, extended)
    if len(summary.tracks) == 1:
        yield BLANK
    facts = [_counts(summary)]
    if took is not None:
        facts.append(f"took {duration(took)}")
    facts += [*_cost(summary), *_others(summary, metrics)]
    facts += [fact for part in extended for fact in part.facts(summary)]
    if resumed:
        facts.append(f"{counted(resumed, 'answer')} reused")
    yield from map(Line, _packed(facts, width))
    yield from map(Line, _caveats(summary, metrics, folder))
    if advice := [said for word, said in _NEXT.items() if has_command(word)]:
        yield Line(f"Next: {', '.join(advice)}")
    yield Line(f"RUN = {folder}")


def _packed(facts: Sequence[str], width: int) -> Iterator[str]:
    """Yield lines that break between facts, and inside of one only where it is too long."""
    line = ""
    for fact in facts:
        longer = f"{line} · {fact}" if line else fact
        if line and cell_len(longer) > width:
            yield line
            longer = fact
        line = longer
    yield line


def scores_of(
    summary: Summary, metrics: Metrics, folder: Path, extended: Sequence[ShownPart]
) -> Iterator[Part]:
    """Yield the scores of a run: an answer in one line, what was run, and a table."""
    leads = headlines(summary, metrics)
    if len(leads) == 1:
        yield from _of_one(summary, leads[0], folder, extended)
    else:
        yield from _of_many(summary, leads, folder)


def _of_one(
    summary: Summary, lead: Headline, folder: Path, extended: Sequence[ShownPart]
) -> Iterator[Part]:
    title, score = metric_title(lead.metric), lead.score
    task = task_title(lead.name, lead.track)
    named_so = title if title.startswith(task) else f"{task}: {title}"
    between = f" {interval(score)}" if score.low is not None else ""
    verdict = f", {lead.verdict}" if lead.verdict else ""
    value = f"{number(score.value)}{between}{verdict}"
    if score.value is None:
        value = f"no score, {score.unscored}" if score.unscored else "no score"
    yield Line(f"{named_so} {value}", "bold")
    how = conditions(lead.track, sized=False)
    answers = "answer" if lead.track.repeats > 1 else "record"
    judged = f"judged by {summary.judge}{judge_mark(summary)}" if lead.metric.judged else "no judge"
    what = f"{summary.model}{how} on {_data_of(folder)}"
    yield Line(f"{what}, {counted(lead.track.n, answers)}, {judged}")
    rows = list(_rows_of_one(summary, lead, title, extended))
    if score.value is not None:
        columns = [named(), *figures("score", "95 % interval"), named()]
        yield BLANK
        yield Table("", columns, rows, layout="plain")


def _rows_of_one(
    summary: Summary, lead: Headline, title: str, extended: Sequence[ShownPart]
) -> Iterator[Row]:
    yield row_of(title, *with_interval(lead.score), style="bold")
    for part in extended:
        yield from part.rows(summary, lead.name, lead.metric)
    if lead.score.worst_case is not None:
        bounds = f"[{number(lead.score.worst_case)}, {number(lead.score.best_case)}]"
        yield row_of("bounds", "", bounds, "unscored records get the worst or best score")
    if lead.baseline is None:
        return
    name, floor = lead.baseline
    own = floor.scores[floor.lead]
    yield row_of("best baseline", *with_interval(own), name)
    if lead.ahead is None:
        yield row_of("Δ vs. baseline", "–", "", f"judged by {floor.judge}")
        return
    is_of_all = lead.ahead.n >= max(lead.score.n, own.n)
    why = "" if is_of_all else f"on {counted(lead.ahead.n, 'shared record')}"
    yield row_of("Δ vs. baseline", *change(lead.ahead), why)


def _of_many(summary: Summary, leads: Sequence[Headline], folder: Path) -> Iterator[Part]:
    compared = [lead for lead in leads if lead.verdict]
    above, below = sum(lead.is_above for lead in leads), sum(lead.is_below for lead in leads)
    said = f"above the best trivial baseline on {above} of {len(leads)} tasks, below on {below}"
    yield Line(f"{summary.model}: {said if compared else counted(len(leads), 'task')}", "bold")
    judges = f", judged by {summary.judge}{judge_mark(summary)}"
    memories = {str(lead.track.memory) for lead in leads if lead.track.memory is not None}
    memory = f", memory {' or '.join(sorted(memories))}" if memories else ""
    judged = judges if any(lead.metric.judged for lead in leads) else ", no judge"
    yield Line(
        f"{counted(len(leads), 'task')}, not averaged, on {_data_of(folder)}{memory}{judged}"
    )
    rows = []
    for lead in leads:
        cells: list[Cells] = [*with_interval(lead.score), ungrouped(lead.score.n)]
        best, ahead, between = "–", "–", ""
        if lead.baseline is not None:
            best = number(lead.baseline[1].scores[lead.metric.name].value)
        if lead.ahead is not None:
            mark = "*" if lead.is_above else BELOW_MARK if lead.is_below else " "
            ahead = f"{signed(lead.ahead.value)}{mark}{lead.part or ' '}"
            between = interval(lead.ahead)
        name = task_and_metric(lead.name, lead.track, lead.metric)
        rows.append(row_of(name, *cells, best, ahead, between))
    columns = [
        named("", wraps="fold"),
        *figures("score"),
        *figures("95 % interval", "n", from_width=_NARROW),
        *figures("baseline", "Δ  "),
        *figures("95 % interval of Δ", from_width=_WIDE),
    ]
    yield Table("", columns, rows)
    yield from map(Line, _legend(leads))


def _legend(leads: Sequence[Headline]) -> Iterator[str]:
    below = [lead for lead in leads if lead.is_below]
    names = []
    for lead in below:
        assert lead.baseline is not None
        floor = lead.baseline[0].removeprefix("floor/")
        names.append(f"{task_title(lead.name, lead.track)} ({floor})")
    if names:
        yield f"{BELOW_MARK} below a trivial baseline: {', '.join(names)}"
    if any(lead.is_above for lead in leads):
        yield "* the interval of Δ is above 0; baseline: the best trivial baseline"
    if any(lead.part for lead in leads):
        yield "† Δ covers only the records with a judged baseline (baseline_records)"


def _data_of(folder: Path) -> str:
    name, _, split = RunFolder(folder, read_manifest(folder), None).data.rpartition(" ")
    return f"{name} ({split})" if name else split


def failures_of(summary: Summary) -> tuple[Counter[str], Counter[str]]:
    """Return the failures of a run by kind: invalid responses, and what leaves records unscored."""
    failed: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for track in summary.tracks.values():
        for kind, count in track.failed_predictions.items():
            (failed if kind in FAILURES else missing)[kind] += count
        for kind, count in track.failed_judgements.items():
            missing[f"judge {kind}"] += count
    return failed, missing


def _counts(summary: Summary) -> str:
    tracks = summary.tracks.values()
    failed, missing = failures_of(summary)
    scored, unscored = sum(one.scored for one in tracks), sum(one.unscored for one in tracks)
    lost = f"{unscored:,} unscored{_kinds(missing)}"
    if not scored:
        return f"0 of {scored + unscored:,} scored, {lost}"
    # A failed answer is scored, too: as the worst.
    whose = " of them" if failed else ""
    return f"{scored:,} scored, {failed.total():,}{whose} failed{_kinds(failed)}, {lost}"


def _kinds(counts: Counter[str]) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    return f" ({kinds})" if kinds else ""


def _others(summary: Summary, metrics: Metrics) -> Iterator[str]:
    """Yield the metrics next to the headline, of a run of one task."""
    if len(summary.tracks) > 1:
        return
    (lead,) = headlines(summary, metrics)
    first, left = metric_title(lead.metric).partition(" ")[0], _MOST_OTHERS
    said = []
    for metric in metrics[lead.name]:
        score, title = lead.track.scores.get(metric.name), metric.title
        # What begins with a blank is a part of the metric above it.
        if score is None or score.value is None:
            continue
        if left and not title.startswith((" ", first)):
            said.append(f"{title} {number(score.value)}")
            left -= 1
    if said:
        yield ", ".join(said)


def _cost(summary: Summary) -> Iterator[str]:
    calls = summary.calls
    if calls.http:
        why = "ALPS_PRICES=FILE sets prices" if calls.without_price else NO_COUNTS
        yield f"cost unknown ({why})" if calls.cost is None else f"cost {dollars(calls.cost)}"
    if calls.cached:
        yield f"{counted(calls.cached, 'reply', 'replies')} from the cache"


def _caveats(summary: Summary, metrics: Metrics, folder: Path) -> Iterator[str]:
    """Yield what to know before the scores are used, a line each."""
    leads = headlines(summary, metrics)
    yield from _no_scores(summary, metrics, leads)
    for reason in summary.not_calibrated:
        yield f"Calibration not used: {reason}."
    for line in served_lines(summary.served, summary.calibrated_otherwise):
        if line.startswith(MORE_THAN_ONE):
            yield line
    if any(track.scoring == "authors-v1" for track in summary.tracks.values()):
        yield "authors-v1: compare these scores only with the authors' first published scores."
    elif not summary.comparable and any(headline_of(one).judged for one in metrics.values()):
        how = "for debugging; rank with judge=PROVIDER/MODEL (docs/judges.md)"
        yield f"Judge {summary.judge}: {how}"
    yield from _errors(summary, folder)


def _no_scores(summary: Summary, metrics: Metrics, leads: Sequence[Headline]) -> Iterator[str]:
    """Say why scores, or their intervals, are missing."""
    unrated, lacking = False, dict[str, list[str]]()
    for lead in leads:
        task = task_title(lead.name, lead.track)
        if needs_rating_judge(lead.track, metrics[lead.name]) and not summary.judge_check:
            unrated = True
        elif lead.score.unscored and len(leads) > 1:
            lacking.setdefault(f"No score{{}}: {lead.score.unscored}.", []).append(task)
        elif lead.score.reason:
            lacking.setdefault(f"No interval{{}}: {lead.score.reason}.", []).append(task)
    if unrated:
        yield "Utilization needs an LLM judge: alps score RUN judge=PROVIDER/MODEL"
    for line, tasks in lacking.items():
        yield line.format(f" for {', '.join(tasks)}" if len(leads) > 1 else "")
    left_out: dict[str, list[str]] = {}
    for name, reason in summary.left_out.items():
        left_out.setdefault(reason, []).append(track_title(name))
    for reason, names in left_out.items():
        yield f"Left out: {', '.join(names)} ({reason})."


def _errors(summary: Summary, folder: Path) -> Iterator[str]:
    """Yield the first error, in one line, and the file that has more."""
    tracks = summary.tracks.values()
    errors = [error for track in tracks for error in track.errors.items()]
    if not errors:
        return
    # A judge that got known items wrong is told in the place of the score.
    told = {score.unscored for track in tracks for score in track.scores.values()}
    if untold := [error for error in errors if error[1] not in told]:
        kind, text = untold[0]
        # A provider's message, or a user's exception, may hold anything that steers a terminal.
        said = " ".join(visible(text).split())
        yield f"First error, {kind}: {said[:_ERROR]}{'…' if len(said) > _ERROR else ''}"
    for name in (TRACEBACKS, STDERR):
        if (path := folder / name).is_file():
            yield f"More on the errors: {path}"


def needs_rating_judge(track: TrackSummary, metrics: Sequence[Metric]) -> bool:
    """Tell whether a track has no score, since its judge rates no answers."""
    # Words shared with the memory are no score: word salad had .36 where real models had .19.
    untold = all(score.unscored is not None for score in track.scores.values())
    return only_rated(metrics) and untold


def show_run(
    summary: Summary, metrics: Metrics, *, folder: str, resumed: int = 0, took: float | None = None
) -> None:
    """Print the short form of a run.

    Args:
        summary: What it found.
        metrics: The columns of each track.
        folder: Where it is.
        resumed: How many of its answers an earlier command had left.
        took: The seconds of the command that carried it out.
    """
    console = terminal()
    width = console.width
    parts = list(_parts(summary, metrics, Path(folder), width=width, resumed=resumed, took=took))
    lines = sum(len(one.rows) + 1 if isinstance(one, Table) else 1 for one in parts)
    if lines > _MOST_LINES:
        parts = [one for one in parts if one is not BLANK]
    console.print(Group(*printed(parts, width)))


def run_legend(runs: Iterable[tuple[str, Path, str]]) -> Table:
    """Lay out the run of each letter: folder and content."""
    rows = []
    for letter, folder, about in runs:
        rows.append(row_of(Cell(letter, style="bold"), Cell(str(folder), note=about)))
    return Table("", [named(wraps="no"), named(wraps="fold")], rows, layout="legend")
