"""First screen of a report: every task's score of one run, or how several runs differ.

Of one run it has warnings and records worth reading, too; of several which is better, by how much,
and on which records.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from alps.errors import UsageError
from alps.ext.looking.record import RecordCard
from alps.ext.looking.report_sections import Head, TrackSection, cards_in
from alps.jsonl import scan
from alps.run.opened import AnswerKey
from alps.show import charts
from alps.show.charts import axis_of, colour_of
from alps.show.compare import Contrast, MetricComparison, TrackComparison, compare_runs
from alps.show.compare_table import answers
from alps.show.formatting import (
    conditions,
    counted,
    dollars,
    interval,
    judge_mark,
    metric_title,
    number,
    task_and_metric,
    task_title,
)
from alps.show.shared_records import record_values
from alps.show.short_form import Headline
from alps.show.svg import SHARES, Axis, axis_labels, round_numbers
from alps.stats.bootstrap import Estimate
from alps.stats.paired import Ranked
from alps.tasks import Metric

_COSTLIEST = 20
"""How many costly records are looked at: an id that several tasks have names none of them."""
_MOST_APART = 5
_NONE = ("no difference", 0.0)


@dataclass(frozen=True)
class TaskRow:
    """A task of a run: its headline against the trivial baseline that comes closest."""

    section: TrackSection
    lead: Headline
    name: str
    chart: Markup

    @property
    def baseline(self) -> str:
        """The name of that baseline, without its prefix; empty where there is none."""
        return self.lead.baseline[0].removeprefix("floor/") if self.lead.baseline else ""


@dataclass(frozen=True)
class Notable:
    """A record worth reading: why, on which task, and its card, which has a fragment."""

    why: str
    task: str
    section: TrackSection
    card: RecordCard
    score: float | None
    anchor: str


@dataclass(frozen=True)
class Overview:
    """First screen of a run's report.

    Attributes:
        answer: The result in one line.
        shown: The tasks that have a score; `warnings` name the others.
        what: What was run.
        judge: Who judged, and whether systems can be ranked with it.
        more: Cards of records worth reading that are in no group of their section.
    """

    answer: str
    what: str
    judge: str
    axis: Markup
    rows: list[TaskRow]
    shown: list[TaskRow]
    warnings: list[str]
    notable: list[Notable]
    more: dict[str, list[RecordCard]]


def overview_of(head: Head) -> Overview:
    """Put together the first screen of a run."""
    rows = [_row(section) for section in head.sections]
    notable, more = _notable(head, rows)
    return Overview(
        answer=_answer(head, rows),
        what=_what(head, rows),
        judge=_judge(head),
        axis=axis_labels(axis_of(rows[0].lead.metric) if len(rows) == 1 else SHARES),
        rows=rows,
        shown=[row for row in rows if row.lead.score.value is not None],
        warnings=list(_warnings(rows)),
        notable=notable,
        more=more,
    )


def _row(section: TrackSection) -> TaskRow:
    metric = section.headline.metric
    lead = Headline(section.track, section.found, metric)
    name = task_and_metric(section.track, section.found, metric)
    floor = lead.baseline[1].scores[metric.name].value if lead.baseline else None
    chart = charts.whisker(
        lead.score,
        name=name,
        axis=axis_of(metric),
        style=colour_of(section.colour),
        tick=None if floor is None else ("best trivial baseline", floor),
    )
    return TaskRow(section, lead, name, chart)


def _answer(head: Head, rows: Sequence[TaskRow]) -> str:
    if len(rows) > 1:
        above = sum(row.lead.is_above for row in rows)
        below = sum(row.lead.is_below for row in rows)
        if not any(row.lead.verdict for row in rows):
            return f"{head.run.model} on {counted(len(rows), 'task')}"
        of = f"above the best trivial baseline on {above} of {len(rows)} tasks"
        return f"{head.run.model}: {of}, below on {below}"
    (row,) = rows
    if row.lead.score.value is None:
        return f"{head.run.model}: {row.name}: no score"
    verdict = f", {row.lead.verdict}" if row.lead.verdict else ""
    return f"{head.run.model}: {row.name} {number(row.lead.score.value)}{verdict}"


def _what(head: Head, rows: Sequence[TaskRow]) -> str:
    # What all tasks share, such as the memory; the model is in the title.
    how = {conditions(row.section.found, sized=False) for row in rows}
    shared = how.pop() if len(how) == 1 else ""
    tasks = f", {len(rows)} tasks (not averaged)" if len(rows) > 1 else ""
    return f"{head.run.data}{shared}{tasks}, {counted(head.n, 'record')}"


def _judge(head: Head) -> str:
    if not any(section.judged for section in head.sections):
        return "no judge"
    judge = f"judged by {head.summary.judge}{judge_mark(head.summary)}"
    if head.comparable:
        return judge
    return f"{judge}, for debugging; rank with judge=PROVIDER/MODEL"


def _warnings(rows: Sequence[TaskRow]) -> Iterator[str]:
    for row in rows:
        lead = row.lead
        if lead.is_below and lead.ahead is not None and lead.baseline is not None:
            theirs = number(lead.baseline[1].scores[lead.metric.name].value)
            between = f" {interval(lead.ahead)}" if lead.ahead.low is not None else ""
            name = task_title(row.section.track, row.section.found)
            against = f"trivial baseline {row.baseline} {theirs}"
            apart = f"Δ {number(lead.ahead.value)}{between}"
            yield f"↓ {name} {number(lead.score.value)}, below {against}, {apart}"
    bare: dict[str, list[str]] = {}
    for row in rows:
        if row.lead.score.value is None:
            reason = row.lead.score.unscored or "no record is scored"
            name = task_title(row.section.track, row.section.found)
            bare.setdefault(reason, []).append(name)
    for reason, names in bare.items():
        yield f"Not scored: {', '.join(names)} ({reason})"
    if any(row.section.needs_rating_judge for row in rows):
        yield "Utilization needs an LLM judge: alps score RUN judge=PROVIDER/MODEL"
    yield from _lost([row.section for row in rows if row.lead.score.value is not None])


def _lost(sections: Sequence[TrackSection]) -> Iterator[str]:
    unscored = sum(section.found.unscored for section in sections)
    if failed := sum(section.failed for section in sections) - unscored:
        yield f"{counted(failed, 'invalid response')}, given the minimum score"
    if unscored:
        yield f"{counted(unscored, 'record')} unscored"


def _notable(
    head: Head, rows: Sequence[TaskRow]
) -> tuple[list[Notable], dict[str, list[RecordCard]]]:
    """Return the worst, the best and the most costly record, and cards that no section has."""
    found = [*_extremes(rows), *_most_costly(head)]
    own, more = cards_in((one.section, one.key) for one in found)
    notable: dict[tuple[str, AnswerKey], Notable] = {}
    for one in found:
        section, at = one.section, (one.section.anchor, one.key)
        if at in notable:
            notable[at] = replace(notable[at], why=f"{notable[at].why}, {one.why}")
            continue
        card = own[at]
        score = card.view.scores.get(section.headline.metric.name)
        task = task_title(section.track, section.found)
        anchor = f"{section.anchor}-{one.kind}"
        notable[at] = Notable(one.why, task, section, card, score, anchor)
    return list(notable.values()), more


@dataclass(frozen=True)
class _Extreme:
    kind: str
    why: str
    section: TrackSection
    key: AnswerKey


def _extremes(rows: Sequence[TaskRow]) -> Iterator[_Extreme]:
    """Yield the worst record of the weakest task and the best of the strongest."""
    scored = sorted((row for row in rows if row.section.worst), key=_strength)
    if not scored:
        return
    worst, best = scored[0].section, scored[-1].section
    # Where every record has the same score, none of them is the worst.
    if worst.worst is not None and worst.best is not None and worst.worst[1] != worst.best[1]:
        yield _Extreme("worst", "worst", worst, worst.worst[0])
    if best.best is not None:
        yield _Extreme("best", "best", best, best.best[0])


def _strength(row: TaskRow) -> float:
    ahead = row.lead.ahead
    value = 0.0 if ahead is None or ahead.value is None else ahead.value
    metric = row.lead.metric
    # By its range, or marks from 1 to 5 would be ahead of shares by their scale alone.
    return (-value if metric.lower_is_better else value) / (metric.highest - metric.lowest)


def _most_costly(head: Head) -> Iterator[_Extreme]:
    spent = spent_on(head.run.folder)
    if len(spent) < 2:
        return
    # With one price unknown, dollars give no order; tokens do.
    priced = all(one.cost is not None for one in spent.values())
    most = sorted(spent, key=lambda name: _price(spent[name], priced), reverse=True)
    first = [name for name in most[:_COSTLIEST] if _price(spent[name], priced)]
    tracks: dict[str, list[AnswerKey]] = {}
    for key in head.run.rows("scores", ids=set(first)):
        if key.repeat == 0:
            tracks.setdefault(key.id, []).append(key)
    for name in first:
        # Calls name the record alone: of an id that several tasks have, they tell none.
        if len(keys := tracks.get(name, [])) == 1:
            said = dollars(spent[name].cost) if priced else counted(spent[name].tokens, "token")
            section = next(one for one in head.sections if one.track == keys[0].track)
            yield _Extreme("costly", f"most costly, {said}", section, keys[0])
            return


class Spent(NamedTuple):
    """US dollars and tokens that one record cost; None where a price is not known."""

    cost: float | None
    tokens: int


def _price(spent: Spent, priced: bool) -> float:
    return (spent.cost or 0.0) if priced else spent.tokens


def spent_on(folder: Path) -> dict[str, Spent]:
    """Return the cost of the answer to each record of a run, by id, without verdicts."""
    spent: dict[str, Spent] = {}
    for _, _, row in scan(folder / "calls.jsonl"):
        about = (row or {}).get("about")
        if row is None or row.get("purpose") != "generate" or not isinstance(about, str):
            continue
        before, cost, total = spent.get(about, Spent(0.0, 0)), row.get("cost"), None
        if before.cost is not None and isinstance(cost, int | float):
            total = before.cost + cost
        tokens = [row.get("prompt_tokens"), row.get("completion_tokens")]
        used = sum(count for count in tokens if isinstance(count, int))
        spent[about] = Spent(total, before.tokens + used)
    return spent


@dataclass(frozen=True)
class DifferenceRow:
    """A run compared with the best of its table; `from_best` and `p` are None for the best."""

    head: Head
    score: Estimate
    ties: str
    from_best: Estimate | None = None
    p: float | None = None
    chart: Markup | str = ""


@dataclass(frozen=True)
class DifferenceTable:
    """The headline of a track in runs that may be compared, the best first."""

    title: str
    metric: Metric
    shared: str
    rows: list[DifferenceRow]
    axis: Markup


@dataclass(frozen=True)
class DifferingRecord:
    """A record on which two runs differ: its scores, and the fragments of its cards."""

    key: AnswerKey
    task: str
    opening: str
    scores: tuple[float, float]
    anchors: tuple[str, str]


@dataclass(frozen=True)
class Differences:
    """Paired differences between runs.

    Attributes:
        answers: Which run is better, by how much, and whether that is sure: a sentence a track.
        pair: The two runs of a report on no more, in the order of the subtraction.
        tracks: Their tracks, on one axis; empty of more runs.
        tables: Of more than two runs, a table a track.
        apart: The records on which two runs differ most.
        refused: Why some runs could not be compared.
        notes: What is not compared of two runs, and under which conditions each was run.
        more: Cards of those records that are in no group of their section, by its fragment.
    """

    answers: Sequence[str] = ()
    pair: tuple[Head, ...] = ()
    tracks: Sequence[Mapping[str, object]] = ()
    tables: Sequence[DifferenceTable] = ()
    apart: Sequence[DifferingRecord] = ()
    refused: Sequence[str] = ()
    notes: Sequence[str] = ()
    axis: Markup | str = ""
    more: Mapping[str, list[RecordCard]] = field(default_factory=dict)

    @property
    def ties(self) -> bool:
        """Whether any run has a letter of its ties."""
        return any(row.ties for table in self.tables for row in table.rows)


def alike(heads: Sequence[Head], of: Callable[[Head], list[TrackSection]]) -> list[list[Head]]:
    """Group the runs whose sections may be compared; runs without any are left out."""
    together: dict[tuple[tuple[str, ...], ...], list[Head]] = {}
    for head in heads:
        if sections := of(head):
            key = tuple(section.comparable_with for section in sections)
            together.setdefault(key, []).append(head)
    return list(together.values())


def differences_of(heads: Sequence[Head]) -> Differences:
    """Compare the runs that share judge, data and tracks, on the records that all of them scored.

    Each p is of one test by itself, as its interval is; letters of ties are by Holm's method.
    """
    if len(heads) == 2:
        return _of_two(heads)
    said: list[str] = []
    tables: list[DifferenceTable] = []
    refused: list[str] = []
    for together in alike(heads, lambda head: head.scored):
        # A run that is named twice has no difference from itself.
        members = list({head.run.folder.resolve(): head for head in together}.values())
        if len(members) < 2:
            continue
        try:
            compared = compare_runs([head.run.folder for head in members])
        except UsageError as error:
            refused.append(str(error))
            continue
        said += [line.text for line in answers(compared)]
        by_letter = dict(zip((side.letter for side in compared.sides), members, strict=True))
        for track in compared.tracks:
            if track.lead is not None and track.shared:
                tables.append(_difference_table(track, track.lead, by_letter))
    return Differences(said, tables=tables, refused=refused)


def _of_two(members: Sequence[Head]) -> Differences:
    if members[0].run.folder.resolve() == members[1].run.folder.resolve():
        return Differences()
    try:
        compared = compare_runs([head.run.folder for head in members])
    except UsageError as error:
        return Differences(refused=[str(error)])
    tracks = [track for track in compared.tracks if track.lead is not None and track.shared]
    # One task is told of the better run, as its sentence is; of several the order is that given.
    swapped = len(tracks) == 1 and _second_is_better(tracks[0].lead)
    pair = (members[1], members[0]) if swapped else (members[0], members[1])
    found = []
    for track in tracks:
        assert track.lead is not None
        contrast = track.lead.contrasts[0]
        found.append((track, track.lead.metric, _swapped(contrast) if swapped else contrast))
    axis = _around_zero(contrast.difference.estimate for _, _, contrast in found)
    apart, more = _apart(pair, [track.track for track in tracks])
    return Differences(
        answers=[line.text for line in answers(compared)],
        pair=pair,
        tracks=[_track_difference(*one, pair, axis) for one in found],
        apart=apart,
        notes=[*compared.shown, *(note for track in tracks for note in track.of_all)],
        axis=axis_labels(axis),
        more=more,
    )


def _second_is_better(lead: MetricComparison | None) -> bool:
    value = None if lead is None else lead.contrasts[0].difference.estimate.value
    return lead is not None and value is not None and (value < 0) != lead.metric.lower_is_better


def _track_difference(
    track: TrackComparison, metric: Metric, contrast: Contrast, pair: Sequence[Head], axis: Axis
) -> dict[str, object]:
    """Return the headline of a track in two runs: both scores, and the first minus the second."""
    own, task, title = axis_of(metric), track.title, metric_title(metric)
    drawn = []
    for head, score in zip(pair, contrast.scores, strict=True):
        style = colour_of(head.colour)
        drawn.append(charts.whisker(score, name=head.run.model, axis=own, style=style))
    name, difference = f"difference on {task}", contrast.difference.estimate
    return {
        "title": title if title.startswith(task) else f"{task}, {title}",
        "metric": metric,
        "scores": contrast.scores,
        "difference": difference,
        "p": contrast.p,
        "shared": _shared(track),
        "chart": charts.whisker(difference, name=name, axis=axis, tick=_NONE),
        "score_charts": drawn,
        "score_axis": axis_labels(own),
    }


def _shared(track: TrackComparison) -> str:
    shared = counted(track.shared, "shared record")
    if track.clusters is not None:
        shared += f" from {counted(track.clusters, 'session')}"
    return shared


def _around_zero(estimates: Iterable[Estimate]) -> Axis:
    """Return an axis that holds all differences, with 0 in its middle."""
    ends = [0.0]
    for one in estimates:
        ends += [abs(end) for end in (one.value, one.low, one.high) if end is not None]
    # One axis for all tasks: a difference twice as long is twice as large.
    reach = max(ends) or 1.0
    for step in round_numbers():
        if step * 4 >= reach:
            reach = step * -(-reach // step)
            break
    return Axis(-reach, reach)


def _apart(
    pair: tuple[Head, ...], tracks: Sequence[str]
) -> tuple[list[DifferingRecord], dict[str, list[RecordCard]]]:
    """Return the records on which two runs differ most, and cards that no section has."""
    first, second = (record_values(head.run) for head in pair)
    ranked: list[tuple[float, TrackSection, TrackSection, str, tuple[float, float]]] = []
    for track in tracks:
        sections = [next(one for one in head.sections if one.track == track) for head in pair]
        metric = sections[0].headline.metric
        for name, values in first.get(track, {}).items():
            other = second.get(track, {}).get(name, {})
            if metric.name in values and metric.name in other:
                both = values[metric.name], other[metric.name]
                reach = abs(both[0] - both[1]) / (metric.highest - metric.lowest)
                if reach:
                    ranked.append((reach, sections[0], sections[1], name, both))
    # Python's sort keeps the order of the data among equal differences.
    ranked.sort(key=lambda one: one[0], reverse=True)
    chosen = ranked[:_MOST_APART]
    wanted: list[tuple[TrackSection, AnswerKey]] = []
    for _, one, two, name, _ in chosen:
        wanted += [(section, AnswerKey(section.track, name)) for section in (one, two)]
    shown, more = cards_in(wanted)
    apart = []
    for n, (_, one, two, name, both) in enumerate(chosen, start=1):
        card = shown[one.anchor, AnswerKey(one.track, name)]
        anchors = f"{one.anchor}-apart-{n}", f"{two.anchor}-apart-{n}"
        task = task_title(one.track, one.found)
        apart.append(DifferingRecord(card.view.key, task, card.view.opening, both, anchors))
    return apart, more


def _difference_table(
    track: TrackComparison, lead: MetricComparison, by_letter: dict[str, Head]
) -> DifferenceTable:
    rows = {one.name: one for one in _best_first(lead)}
    best, *others = rows
    apart = {name: _less_the_best(lead, name, best) for name in others}
    axis = _around_zero(one.difference.estimate for one in apart.values())
    shown = [DifferenceRow(by_letter[best], rows[best].estimate, " ".join(rows[best].letters))]
    for letter, contrast in apart.items():
        head, from_best = by_letter[letter], contrast.difference.estimate
        name, style = f"{head.run.model}: difference from the best", colour_of(head.colour)
        chart = charts.whisker(from_best, name=name, axis=axis, style=style, tick=_NONE)
        row, ties = rows[letter], " ".join(rows[letter].letters)
        shown.append(DifferenceRow(head, row.estimate, ties, from_best, contrast.p, chart))
    return DifferenceTable(track.title, lead.metric, _shared(track), shown, axis_labels(axis))


def _best_first(lead: MetricComparison) -> Sequence[Ranked]:
    if lead.ranked:
        return lead.ranked
    (contrast,) = lead.contrasts
    first = Ranked(contrast.first, contrast.scores[0], ())
    second = Ranked(contrast.second, contrast.scores[1], ())
    ahead = (first.estimate.value or 0.0) >= (second.estimate.value or 0.0)
    return [first, second] if ahead != lead.metric.lower_is_better else [second, first]


def _less_the_best(lead: MetricComparison, name: str, best: str) -> Contrast:
    both = (*lead.contrasts, *map(_swapped, lead.contrasts))
    return next(one for one in both if (one.first, one.second) == (name, best))


def _swapped(contrast: Contrast) -> Contrast:
    """Return the same, the second run less the first."""
    one, other = contrast.scores
    found = _negated(contrast.difference.estimate)
    return replace(
        contrast,
        first=contrast.second,
        second=contrast.first,
        scores=(other, one),
        difference=replace(contrast.difference, estimate=found),
    )


def _negated(found: Estimate) -> Estimate:
    if found.value is None:
        return found
    if found.low is None or found.high is None:
        return replace(found, value=-found.value)
    return replace(found, value=-found.value, low=-found.high, high=-found.low)
