"""Differences between the runs of a report: which is better, by how much, and on which records."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from alps.errors import UsageError
from alps.ext.looking.record import RecordCard
from alps.ext.looking.report_sections import Head, TrackSection, cards_in
from alps.run.opened import AnswerKey
from alps.show import charts
from alps.show.charts import axis_of, colour_of
from alps.show.compare import MetricComparison, TrackComparison, compare_runs
from alps.show.compare_table import answers
from alps.show.formatting import counted, metric_title, task_title
from alps.show.shared_records import record_values
from alps.show.svg import Axis, axis_labels, round_numbers
from alps.stats.bootstrap import Estimate
from alps.tasks import Metric

_MOST_APART = 5
_NONE = ("no difference", 0.0)


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
class TrackDifference:
    """Headline of a track in two runs: both scores, and the first minus the second."""

    title: str
    metric: Metric
    scores: tuple[Estimate, Estimate]
    difference: Estimate
    p: float | None
    shared: str
    chart: Markup
    score_charts: Sequence[Markup]
    score_axis: Markup


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

    answers: list[str]
    pair: tuple[Head, ...]
    tracks: list[TrackDifference]
    tables: list[DifferenceTable]
    apart: list[DifferingRecord]
    refused: list[str]
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
    return Differences(said, (), [], tables, [], refused)


def _of_two(members: Sequence[Head]) -> Differences:
    if members[0].run.folder.resolve() == members[1].run.folder.resolve():
        return Differences([], (), [], [], [], [])
    try:
        compared = compare_runs([head.run.folder for head in members])
    except UsageError as error:
        return Differences([], (), [], [], [], [str(error)])
    tracks = [track for track in compared.tracks if track.lead is not None and track.shared]
    # One task is told of the better run, as its sentence is; of several the order is that given.
    swapped = len(tracks) == 1 and _second_is_better(tracks[0].lead)
    pair = (members[1], members[0]) if swapped else (members[0], members[1])
    oriented = []
    for track in tracks:
        assert track.lead is not None
        contrast = track.lead.contrasts[0]
        estimate, scores = contrast.difference.estimate, contrast.scores
        if swapped:
            estimate, scores = _negated(estimate), (scores[1], scores[0])
        oriented.append(_Oriented(track, track.lead.metric, scores, estimate, contrast.p))
    axis = _around_zero(one.difference for one in oriented)
    rows = [_track_difference(one, pair, axis) for one in oriented]
    apart, more = _apart(pair, [track.track for track in tracks])
    said = [line.text for line in answers(compared)]
    notes = [*compared.shown, *(note for track in tracks for note in track.of_all)]
    return Differences(said, pair, rows, [], apart, [], notes, axis_labels(axis), more)


def _second_is_better(lead: MetricComparison | None) -> bool:
    value = None if lead is None else lead.contrasts[0].difference.estimate.value
    return lead is not None and value is not None and (value < 0) != lead.metric.lower_is_better


@dataclass(frozen=True)
class _Oriented:
    """The comparison of two runs on a track, the first less the second of the page."""

    track: TrackComparison
    metric: Metric
    scores: tuple[Estimate, Estimate]
    difference: Estimate
    p: float | None


def _track_difference(found: _Oriented, pair: Sequence[Head], axis: Axis) -> TrackDifference:
    own, task = axis_of(found.metric), found.track.title
    drawn = []
    for head, score in zip(pair, found.scores, strict=True):
        style = colour_of(head.colour)
        drawn.append(charts.whisker(score, name=head.run.model, axis=own, style=style))
    name = f"difference on {task}"
    title = metric_title(found.metric)
    return TrackDifference(
        title=title if title.startswith(task) else f"{task}, {title}",
        metric=found.metric,
        scores=found.scores,
        difference=found.difference,
        p=found.p,
        shared=_shared(found.track),
        chart=charts.whisker(found.difference, name=name, axis=axis, tick=_NONE),
        score_charts=drawn,
        score_axis=axis_labels(own),
    )


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
    best, *others = _best_first(lead)
    rows = [DifferenceRow(by_letter[best.name], best.score, best.ties)]
    apart = {one.name: _less_the_best(lead, one.name, best.name) for one in others}
    axis = _around_zero(found for found, _ in apart.values() if found is not None)
    for one in others:
        (from_best, p), head = apart[one.name], by_letter[one.name]
        chart: Markup | str = ""
        if from_best is not None:
            name = f"{head.run.model}: difference from the best"
            chart = charts.whisker(
                from_best, name=name, axis=axis, style=colour_of(head.colour), tick=_NONE
            )
        rows.append(DifferenceRow(head, one.score, one.ties, from_best, p, chart))
    return DifferenceTable(track.title, lead.metric, _shared(track), rows, axis_labels(axis))


@dataclass(frozen=True)
class _Placed:
    name: str
    score: Estimate
    ties: str


def _best_first(lead: MetricComparison) -> list[_Placed]:
    if lead.ranked:
        placed = []
        for one in lead.ranked:
            placed.append(_Placed(one.name, one.estimate, " ".join(one.letters)))
        return placed
    (contrast,) = lead.contrasts
    first = _Placed(contrast.first, contrast.scores[0], "")
    second = _Placed(contrast.second, contrast.scores[1], "")
    ahead = (first.score.value or 0.0) >= (second.score.value or 0.0)
    return [first, second] if ahead != lead.metric.lower_is_better else [second, first]


def _less_the_best(
    lead: MetricComparison, name: str, best: str
) -> tuple[Estimate | None, float | None]:
    """Return the score of a run less that of the best, and its p."""
    for contrast in lead.contrasts:
        found = contrast.difference.estimate
        if (contrast.first, contrast.second) == (name, best):
            return found, contrast.p
        if (contrast.first, contrast.second) == (best, name):
            return _negated(found), contrast.p
    return None, None


def _negated(found: Estimate) -> Estimate:
    if found.value is None:
        return found
    if found.low is None or found.high is None:
        return replace(found, value=-found.value)
    return replace(found, value=-found.value, low=-found.high, high=-found.low)
