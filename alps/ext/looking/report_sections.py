"""Sections of the report page: one for each track of each run, with all that is shown of it."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from markupsafe import Markup

from alps.errors import RunFolderError
from alps.ext.looking.distributions import BarPart, Bin, curve_of_bins, histogram, stacked
from alps.ext.looking.record import Highlights, RecordCard, cards, cards_of, rule
from alps.ext.looking.whole_run import baselines_title, has_floors, notes_of, undefined
from alps.extension import blamed
from alps.jsonl import Row
from alps.rows import BreakdownRow, Floor, GroupRow, Interval, Score, Summary, TrackSummary
from alps.run.opened import AnswerKey, RunFolder, Samples, state_of
from alps.schema import FAILURES, UNHEARD
from alps.show import charts
from alps.show.charts import colour_of
from alps.show.formatting import (
    MEANINGS,
    interval,
    letter_of,
    number,
    served_lines,
    signed,
    strongest_above,
)
from alps.show.parts import ChartedTrack, shown_parts
from alps.show.short_form import needs_rating_judge
from alps.show.svg import axis_labels
from alps.show.table import Line, on_page
from alps.tasks import Metric, Task
from alps.tasks.record_parts import ScoredAnswer


@dataclass(frozen=True)
class Below:
    """A trivial baseline that a run scores below; `difference` is on the records that both have."""

    metric: Metric
    score: Score
    baseline: str
    its_score: Score
    difference: Interval

    @property
    def line(self) -> str:
        """Both scores and the difference, in one line."""
        apart = f"Δ {signed(self.difference.value)}"
        if self.difference.low is not None:
            apart += f" {interval(self.difference)}"
        # A judge that costs money rates baselines on a part of the records.
        if 0 < self.difference.n < self.score.n:
            apart += f" on {self.difference.n:,} shared records"
        ours, theirs = number(self.score.value), number(self.its_score.value)
        return f"{self.metric.title.strip()} {ours}, {self.baseline} {theirs} ({apart})"


def below_baseline(track: TrackSummary, metrics: Sequence[Metric]) -> Below | None:
    """Return the trivial baseline that a run scores furthest below on a track, if there is one."""
    by_name = {metric.name: metric for metric in metrics}
    for lead in dict.fromkeys(floor.lead for floor in track.floors.values()):
        differences: dict[str, float] = {}
        for name, floor in track.floors.items():
            # Under another judge they are not compared.
            if floor.lead == lead and floor.above is not None and floor.above.value is not None:
                differences[name] = floor.above.value
        metric = by_name[lead]
        strongest = strongest_above(differences, lower_is_better=metric.lower_is_better)
        if strongest is not None:
            floor = track.floors[strongest]
            assert floor.above is not None
            return Below(metric, track.scores[lead], strongest, floor.scores[lead], floor.above)
    return None


@dataclass(frozen=True)
class MetricRow:
    """A row of a score table."""

    metric: Metric
    score: Score
    chart: Markup


@dataclass(frozen=True)
class FloorRow:
    """A trivial baseline compared with a run.

    Attributes:
        metric: The figure that stands for it: the run's own, or what its judge can tell.
        above: How far the run is above it; None where they had different judges.
        headline: Its score by the figure that stands for the run; None where its judge can't tell
            it.
    """

    name: str
    judge: str
    metric: Metric
    score: Score
    above: Interval | None
    headline: Score | None
    chart: Markup
    sign: Markup


@dataclass(frozen=True)
class BreakdownPart:
    """A breakdown on a page, each group with its interval; a standardised one has a curve."""

    row: BreakdownRow
    groups: list[tuple[GroupRow, Markup]]
    curve: Markup
    notes: list[str]


def page_part(row: BreakdownRow, style: str) -> BreakdownPart:
    """Return a breakdown as a page draws it, in the colour of its run."""
    groups = []
    for group in row.groups:
        groups.append((group, charts.whisker(group.figure, name=group.group, style=style)))
    curve = Markup()
    if row.standardised:
        bins = [Bin(one.group, one.figure, one.standardised) for one in row.groups]
        curve = curve_of_bins(bins, name=f"{row.title}: {row.metric}", style=style)
    return BreakdownPart(row, groups, curve, list(notes_of(row)))


@dataclass(frozen=True)
class AccountRow(BarPart):
    """Outcome of some of the records."""

    meaning: str


def account(states: Counter[str]) -> list[AccountRow]:
    """Count what `state_of` says of records by kind; every record is in exactly one row."""
    repaired = "repaired, then scored"
    rows = [
        AccountRow("OK", "ok", states["ok"], "answered, judged and scored"),
        AccountRow("repaired", "repaired", states["repaired"], repaired),
    ]
    for kind in FAILURES:
        meaning = f"{MEANINGS[kind]}: given the minimum score"
        rows.append(AccountRow(kind, f"failed {kind}", states[kind], meaning))
    for kind in UNHEARD:
        rows.append(AccountRow(kind, "unscored", states[kind], f"{MEANINGS[kind]}: unscored"))
    unrated = f"{MEANINGS['unrated']}: unscored"
    rows.append(AccountRow("not rated", "unscored", states["unrated"], unrated))
    for state, count in sorted(states.items()):
        if state.startswith("judge:"):
            kind = state.removeprefix("judge:")
            name, whose = f"judge {kind}", "judge's response: "
            if kind == "no_gold":
                name, whose = "no gold", ""
            meaning = f"{whose}{MEANINGS.get(kind, kind)}: unscored"
            rows.append(AccountRow(name, "unscored", count, meaning))
    return [row for row in rows if row.count]


@dataclass(frozen=True)
class TrackSection(ChartedTrack):
    """One track of one run."""

    headline: MetricRow
    scales: list[tuple[Markup, list[MetricRow]]]
    floors: list[FloorRow]
    account: list[AccountRow]
    bar: Markup
    distribution: Markup
    plane: Markup
    without_recall: int
    matrix: Markup
    breakdowns: list[BreakdownPart]
    records: list[tuple[str, list[RecordCard]]]
    rule: str
    samples: Samples
    tables: list[Markup]
    worst: tuple[AnswerKey, float] | None
    best: tuple[AnswerKey, float] | None

    @property
    def cards(self) -> dict[AnswerKey, RecordCard]:
        """The instructive records, by their keys."""
        return {card.view.key: card for _, cards in self.records for card in cards}

    @property
    def anchor(self) -> str:
        """The fragment by which the section is reached."""
        return anchor(self.run, self.letter, self.track)

    @property
    def failed(self) -> int:
        """How many responses are invalid, and how many records unscored."""
        return self.found.unscored + sum(
            count for kind, count in self.found.failed_predictions.items() if kind in FAILURES
        )

    @property
    def comparable(self) -> bool:
        """Whether its headline is comparable with those of LLM judges."""
        return self.summary.comparable or not self.judged

    @property
    def needs_rating_judge(self) -> bool:
        """Whether it has no figure at all, since its judge rates no answers."""
        unrated = needs_rating_judge(self.found, self.task.metrics)
        return unrated and not self.summary.judge_check

    @property
    def bare(self) -> list[str]:
        """The figures that no scored record defines."""
        return undefined(self.found, self.task.metrics)

    @property
    def prompts(self) -> dict[str, str]:
        """The hashes of the prompts of this task, by their names."""
        others = set(self.run.task_names) - {self.task.name}
        prompts = self.run.manifest.prompts.items()
        # The prompt of a rubric is of no task: it belongs to every section.
        return {name: sha256 for name, sha256 in prompts if name.partition("/")[0] not in others}

    @property
    def paired_floors(self) -> bool:
        """Whether each score has a difference to trivial baselines."""
        return any(floor.differences for floor in self.found.floors.values())

    @property
    def below(self) -> Below | None:
        """The trivial baseline that it scores below, if there is one."""
        return below_baseline(self.found, self.task.metrics)

    @property
    def baselines_title(self) -> str:
        """What its table of trivial baselines is called."""
        return baselines_title(floor.score for floor in self.floors)


Cards = dict[tuple[str, AnswerKey], RecordCard]
"""Cards by the fragment of their section and the key of their record."""


def cards_in(
    wanted: Iterable[tuple[TrackSection, AnswerKey]],
) -> tuple[Cards, dict[str, list[RecordCard]]]:
    """Return the cards of records, and by the fragments of sections those that no section has."""
    together: dict[str, tuple[TrackSection, list[AnswerKey]]] = {}
    for section, key in wanted:
        keys = together.setdefault(section.anchor, (section, []))[1]
        if key not in keys:
            keys.append(key)
    found: Cards = {}
    more: dict[str, list[RecordCard]] = {}
    for section, keys in together.values():
        if missing := [key for key in keys if key not in section.cards]:
            more[section.anchor] = cards_of(section.run, section.track, missing)
        for card in (*section.cards.values(), *more.get(section.anchor, ())):
            found[section.anchor, card.view.key] = card
    return found, more


def anchor(run: RunFolder, letter: str, track: str) -> str:
    """Return the fragment of a track of a run; of an only track, that of the run."""
    return f"run-{letter.lower()}" if len(run.tracks) == 1 else f"run-{letter.lower()}-{track}"


@dataclass
class _Passed:
    """What a section shows of the records of its track, which pass one by one.

    Attributes:
        highlights: Finds the instructive ones.
        outcomes: What became of how many.
        dots: Recall and precision of each that has both.
        without_recall: How many have precision alone.
        values: The headline of each that has it.
        lowest: The first record with the lowest of them.
        highest: The first with the highest.
    """

    highlights: Highlights
    outcomes: Counter[str] = field(default_factory=Counter)
    # Counted by place, as scores of few memories are few different fractions.
    dots: Counter[tuple[float, float]] = field(default_factory=Counter)
    without_recall: int = 0
    # 8 bytes a record, where a list of floats takes 32; a run may have 50,000.
    values: "array[float]" = field(default_factory=lambda: array("d"))
    lowest: tuple[AnswerKey, float] | None = None
    highest: tuple[AnswerKey, float] | None = None

    def add(self, key: AnswerKey, lead: Metric, row: Row) -> None:
        """Add the scores of a record."""
        values: Mapping[str, float] = row["scores"]
        precision, recall = plane_figures(lead)
        if precision in values and recall in values:
            self.dots[values[recall], values[precision]] += 1
        elif precision in values:
            self.without_recall += 1
        if (value := values.get(lead.name)) is not None:
            self.values.append(value)
            # Of equal ones the first: the same run gives the same page.
            if self.lowest is None or value < self.lowest[1]:
                self.lowest = key, value
            # Nothing to find and nothing predicted: right, but nothing to read.
            empty = row.get("counts", {}).get("empty_vs_empty")
            if not empty and (self.highest is None or value > self.highest[1]):
                self.highest = key, value


def _passed(
    task: Task, lead: Metric, scores: Mapping[AnswerKey, Row], predictions: Mapping[AnswerKey, Row]
) -> _Passed:
    passed = _Passed(Highlights(task.shown.highlights))
    for key, row in scores.items():
        state = state_of(row, predictions.get(key))
        passed.outcomes[state] += 1
        passed.highlights.add(key, ScoredAnswer(state, row))
        passed.add(key, lead, row)
    return passed


def _build_section(
    run: RunFolder,
    track: str,
    position: int,
    scores: Mapping[AnswerKey, Row],
    predictions: Mapping[AnswerKey, Row],
) -> TrackSection:
    """Return the section about one track of the run that stands at `position` on the page."""
    summary = run.finished
    task, found = run.tasks[track], summary.tracks[track]
    letter, lead = letter_of(position), run.lead(track)
    metrics = []
    for metric in task.metrics:
        if metric.name in found.scores:
            metrics.append(_metric_row(metric, found.scores[metric.name], position))
    # Rows of dashes would say nothing: a judge that rates nothing rates no baselines either.
    floors: list[FloorRow] = []
    for name, floor in (found.floors if has_floors(found) else {}).items():
        floors.append(_floor_row(len(floors), name, floor, task, lead))
    passed = _passed(task, lead, scores, predictions)
    outcomes = account(passed.outcomes)
    chosen, samples = cards(run, track, passed.highlights.chosen(), scores, predictions)
    tables: list[Markup] = []
    for part in shown_parts(summary):
        tables += map(on_page, part.tables(summary, track, task.metrics))
    worst, best = passed.lowest, passed.highest
    if lead.lower_is_better:
        worst, best = best, worst
    # The id of a pattern is that of the whole page: the first of two would fill both bars.
    hatching = f"unscored-{anchor(run, letter, track)}"
    return TrackSection(
        letter=letter,
        colour=position,
        run=run,
        summary=summary,
        track=track,
        task=task,
        found=found,
        metric=lead,
        headline=next(row for row in metrics if row.metric == lead),
        scales=_scales(metrics),
        floors=floors,
        account=outcomes,
        bar=stacked(outcomes, name=hatching),
        distribution=histogram(
            passed.values,
            axis=charts.axis_of(lead),
            name=lead.title.strip(),
            style=colour_of(position),
        ),
        plane=draw_plane(
            [(letter, position, run.model, found)], found.floors, passed.dots.elements(), lead
        ),
        without_recall=passed.without_recall,
        matrix=draw_actions(found.counts),
        breakdowns=[page_part(row, colour_of(position)) for row in found.breakdowns.values()],
        records=chosen,
        rule=rule(task.shown.highlights),
        samples=samples,
        tables=tables,
        worst=_shown_one(worst, chosen, lead),
        best=_shown_one(best, chosen, lead),
    )


def _shown_one(
    found: tuple[AnswerKey, float] | None,
    chosen: Sequence[tuple[str, Sequence[RecordCard]]],
    lead: Metric,
) -> tuple[AnswerKey, float] | None:
    """Return an instructive record with the score of the one found, or else the one found."""
    for _, members in chosen:
        for card in members:
            if found is not None and card.view.scores.get(lead.name) == found[1]:
                return card.view.key, found[1]
    return found


def draw_actions(counts: Mapping[str, float]) -> Markup:
    """Draw gold actions against predicted ones, or nothing for a task that counts none."""
    golds, columns = charts.occurring_actions(counts)
    if not golds:
        return Markup()
    rows, right = [], set()
    for n, gold in enumerate(golds):
        rows.append([int(counts.get(f"cell_{gold}_{name}", 0)) for name in columns])
        # To do nothing where nothing is asked is no hit: of those there is no end.
        if gold != "none":
            right.add((n, columns.index(gold)))
    matrix = charts.HeatMap(
        rows=["not in gold" if gold == "none" else f"gold {gold}" for gold in golds],
        columns=["not found" if name == "none" else name for name in columns],
        counts=rows,
        right=frozenset(right),
        down="",
        across="predicted",
        shares=False,
    )
    return charts.heat_map(matrix, label="Gold and predicted actions.")


def plane_figures(lead: Metric) -> tuple[str, str]:
    """Return the names of the precision and the recall that belong to a headline."""
    # Most of an updated list is copied: of the whole list any baseline is near the corner.
    changed = "_changed" if lead.name == "f1_changed" else ""
    return f"precision{changed}", f"recall{changed}"


def draw_plane(
    points: Sequence[tuple[str, int, str, TrackSummary]],
    floors: Mapping[str, Floor],
    dots: Iterable[tuple[float, float]],
    lead: Metric,
) -> Markup:
    """Draw the precision–recall plane that belongs to `lead`, or nothing.

    `dots` are recall and precision of single records.
    """
    placed = []
    for letter, colour, model, found in points:
        if at := _in_plane(found.scores, lead):
            placed.append(charts.ChartPoint(model, letter, charts.colour_of(colour), *at))
    if not placed:
        return Markup()
    names = ", ".join(point.name for point in placed)
    for sign, (name, floor) in enumerate(floors.items()):
        # Counted before those without a place are left out: the legend has the same signs.
        if at := _in_plane(floor.scores, lead):
            placed.append(charts.ChartPoint(name, "", "floor", *at, sign=sign))
    return charts.plane(placed, dots, name=f"Precision and recall of {names}")


def _in_plane(scores: Mapping[str, Score], lead: Metric) -> tuple[Score, Score] | None:
    """Return precision and recall; None where either has no value."""
    precision, recall = map(scores.get, plane_figures(lead))
    if precision is None or precision.value is None or recall is None or recall.value is None:
        return None
    return precision, recall


def _metric_row(metric: Metric, score: Score, position: int) -> MetricRow:
    chart = charts.whisker(
        score,
        name=metric.title.strip(),
        axis=charts.axis_of(metric),
        style=charts.colour_of(position),
    )
    return MetricRow(metric, score, chart)


def _scales(rows: Sequence[MetricRow]) -> list[tuple[Markup, list[MetricRow]]]:
    """Put the rows that share an axis together, in their order, with its labels."""
    scales = []
    # Neighbours alone: the order of the metrics is what a reader knows from the terminal.
    for axis, group in groupby(rows, key=lambda row: charts.axis_of(row.metric)):
        scales.append((axis_labels(axis), list(group)))
    return scales


def _floor_row(position: int, name: str, floor: Floor, task: Task, lead: Metric) -> FloorRow:
    own = next((metric for metric in task.metrics if metric.name == floor.lead), lead)
    headline = floor.scores.get(lead.name)
    chart = Markup()
    if headline is not None:
        chart = charts.whisker(headline, name=name, axis=charts.axis_of(lead), style="floor")
    return FloorRow(
        name=name,
        judge=floor.judge,
        metric=own,
        score=floor.scores[own.name],
        above=floor.above,
        headline=headline,
        chart=chart,
        sign=charts.floor_sign(position),
    )


@dataclass(frozen=True)
class Head:
    """One run, with its letter and the sections about its tracks."""

    letter: str
    colour: int
    run: RunFolder
    summary: Summary
    sections: list[TrackSection]

    @property
    def anchor(self) -> str:
        """The fragment of its first section."""
        return self.sections[0].anchor

    @property
    def scored(self) -> list[TrackSection]:
        """Its sections whose headline has a value."""
        return [section for section in self.sections if section.headline.score.value is not None]

    @property
    def n(self) -> int:
        """How many records it was asked for."""
        return sum(section.found.n for section in self.sections)

    @property
    def comparable(self) -> bool:
        """Whether all its headlines are comparable with those of LLM judges."""
        return all(section.comparable for section in self.sections)

    @property
    def tables(self) -> list[Markup]:
        """What extensions show of the whole run."""
        found: list[Markup] = []
        for part in shown_parts(self.summary):
            found += map(on_page, part.tables_of_run(self.summary))
            found += (on_page(Line(note)) for note in part.notes(self.summary))
        return found

    @property
    def served(self) -> list[str]:
        """What answered its calls, in lines."""
        return list(served_lines(self.summary.served, self.summary.calibrated_otherwise))


def _sections(run: RunFolder, position: int) -> list[TrackSection]:
    sections = []
    with run.stored("scores") as scores, run.stored("predictions") as predictions:
        for track in run.finished.tracks:
            own = scores.on(track), predictions.on(track)
            sections.append(_build_section(run, track, position, *own))
    return sections


def heads_of(runs: Sequence[RunFolder]) -> list[Head]:
    """Return the runs with a section for each track, in the order given.

    Raises:
        RunFolderError: If a run's files are not those of a run of this alps.
    """
    heads: list[Head] = []
    for position, run in enumerate(runs):
        summary = run.finished
        try:
            sections = _sections(run, position)
        # Rows of journals are not read by a model: a damaged one fails wherever it is used.
        except (LookupError, TypeError, ValueError, AttributeError, StopIteration) as error:
            # A fault of an extension's is no damage: it is said by the name of that.
            if blamed(error):
                raise
            fault = f"not a run of this alps version ({error!r})"
            raise RunFolderError(f"{run.folder}: {fault}") from error
        if not sections:
            raise RunFolderError(f"{run.folder}: its summary has no task")
        heads.append(Head(letter_of(position), position, run, summary, sections))
    return heads
