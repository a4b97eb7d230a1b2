"""Sections of the report page, one a track of a run: tables, charts and records."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from alps.jsonl import Row
from alps.report import charts
from alps.report.formatting import MEANINGS, letter_of
from alps.report.highlights import RecordCard, cards, rule
from alps.report.record import state_of
from alps.report.svg import axis_labels
from alps.report.tables import correction_lines, has_floors, needs_rating_judge, undefined
from alps.rows import Floor, Interval, Score, Summary, TrackSummary
from alps.run.opened import Key, Run, Samples
from alps.schema import FAILURES, UNHEARD
from alps.tasks import Metric, Task


@dataclass(frozen=True)
class MetricRow:
    """A row of a score table."""

    metric: Metric
    score: Score
    chart: Markup


@dataclass(frozen=True)
class Scale:
    """The rows of a score table that share an axis."""

    axis: Markup
    rows: list[MetricRow]


@dataclass(frozen=True)
class FloorRow:
    """A floor beside a run.

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
class AccountRow(charts.Part):
    """What became of some of the records."""

    meaning: str


@dataclass(frozen=True)
class Section:
    """One track of one run."""

    letter: str
    colour: int
    run: Run
    summary: Summary
    track: str
    task: Task
    found: TrackSummary
    headline: MetricRow
    scales: list[Scale]
    floors: list[FloorRow]
    account: list[AccountRow]
    bar: Markup
    plane: Markup
    without_recall: int
    matrix: Markup
    records: list[tuple[str, list[RecordCard]]]
    rule: str
    samples: Samples

    @property
    def anchor(self) -> str:
        """The fragment by which the section is reached."""
        return anchor(self.run, self.letter, self.track)

    @property
    def judged(self) -> bool:
        """Whether the figure that stands for it depends on a judge."""
        return self.task.judged

    @property
    def comparable(self) -> bool:
        """Whether its headline may stand beside those of LLM judges."""
        return self.summary.comparable or not self.judged

    @property
    def needs_rating_judge(self) -> bool:
        """Whether it has no figure at all, since its judge rates no answers."""
        return needs_rating_judge(self.found, self.task.metrics)

    @property
    def bare(self) -> list[str]:
        """The figures that no scored record defines."""
        return undefined(self.found, self.task.metrics)

    @property
    def prompts(self) -> dict[str, str]:
        """The hashes of the prompts of this task, by their names."""
        others = set(self.run.task_names) - {self.task.name}
        given = self.run.manifest.prompts.items()
        return {name: sha256 for name, sha256 in given if name.partition("/")[0] not in others}

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the judge on this track."""
        return self.run.judge_fingerprint(self.track)

    @property
    def corrected(self) -> list[MetricRow]:
        """The rows whose score stands corrected beside the one that the judge gave."""
        rows = [row for scale in self.scales for row in scale.rows]
        return [row for row in rows if row.score.corrected is not None]

    @property
    def correction_lines(self) -> list[str]:
        """How they were corrected, in sentences."""
        corrected = {}
        for row in self.corrected:
            if row.score.corrected is not None:
                corrected[row.metric.title] = row.score.corrected
        return correction_lines(corrected)

    @property
    def comparable_with(self) -> tuple[str, ...]:
        """What two sections must share to be drawn on one axis."""
        sha256 = str(self.run.tracks[self.track].sha256)
        judge = self.fingerprint if self.judged else ""
        shown = str(sorted(self.task.conditions.items()))
        return (
            self.task.name,
            self.track,
            self.headline.metric.name,
            judge,
            sha256,
            str(self.found.n),
            shown,
        )


def anchor(run: Run, letter: str, track: str) -> str:
    """Return the fragment of a track of a run; of an only track, that of the run."""
    return f"run-{letter.lower()}" if len(run.tracks) == 1 else f"run-{letter.lower()}-{track}"


def build_section(run: Run, summary: Summary, track: str, position: int) -> Section:
    """Return the section about one track of the run that stands at `position` on the page."""
    task, found = run.tasks[track], summary.tracks[track]
    predictions, scores = _on(track, run.rows("predictions")), _on(track, run.rows("scores"))
    letter, lead = letter_of(position), run.lead(track)
    metrics = []
    for metric in task.metrics:
        if metric.name in found.scores:
            metrics.append(_metric_row(metric, found.scores[metric.name], position))
    floors: list[FloorRow] = []
    for name, floor in (found.floors if has_floors(found) else {}).items():
        floors.append(_floor_row(len(floors), name, floor, task, lead))
    account = _account(scores, predictions)
    chosen, samples = cards(run, track, scores, predictions)
    pairs = [row["scores"] for row in scores.values() if row["scores"]]
    precision, recall = plane_figures(lead)
    hatching = f"unscored-{anchor(run, letter, track)}"
    return Section(
        letter=letter,
        colour=position,
        run=run,
        summary=summary,
        track=track,
        task=task,
        found=found,
        headline=next(row for row in metrics if row.metric == lead),
        scales=_scales(metrics),
        floors=floors,
        account=account,
        bar=charts.stacked(account, name=hatching),
        plane=draw_plane([(letter, position, run.model, found)], found.floors, pairs, lead),
        without_recall=sum(precision in row and recall not in row for row in pairs),
        matrix=draw_actions(found.counts),
        records=chosen,
        rule=rule(task.highlights),
        samples=samples,
    )


def _on(track: str, rows: Mapping[Key, Row]) -> dict[Key, Row]:
    return {key: row for key, row in rows.items() if key.track == track}


def draw_actions(counts: Mapping[str, float]) -> Markup:
    """Draw gold actions against predicted ones, or nothing for a task that counts none."""
    matrix = charts.action_matrix(counts)
    if matrix is None:
        return Markup()
    return charts.heat_map(matrix, label="Gold actions against predicted ones.")


def plane_figures(lead: Metric) -> tuple[str, str]:
    """Return the names of the precision and the recall that belong to a headline."""
    changed = "_changed" if lead.name == "f1_changed" else ""
    return f"precision{changed}", f"recall{changed}"


def draw_plane(
    points: Sequence[tuple[str, int, str, TrackSummary]],
    floors: Mapping[str, Floor],
    records: Sequence[Mapping[str, float]],
    lead: Metric,
) -> Markup:
    """Draw the precision–recall plane that belongs to `lead`, or nothing."""
    precision, recall = plane_figures(lead)

    def has_place(scores: Mapping[str, Score]) -> bool:
        axes = [scores.get(name) for name in (precision, recall)]
        return all(score is not None and score.value is not None for score in axes)

    placed = []
    for letter, colour, model, found in points:
        if has_place(found.scores):
            at = found.scores[precision], found.scores[recall]
            placed.append(charts.Point(model, letter, charts.colour_of(colour), *at))
    if not placed:
        return Markup()
    names = ", ".join(point.name for point in placed)
    for sign, (name, floor) in enumerate(floors.items()):
        if has_place(floor.scores):
            at = floor.scores[precision], floor.scores[recall]
            placed.append(charts.Point(name, "", "floor", *at, sign=sign))
    dots = []
    for row in records:
        if recall in row and precision in row:
            dots.append((row[recall], row[precision]))
    return charts.plane(placed, dots, name=f"Precision and recall of {names}")


def _metric_row(metric: Metric, score: Score, position: int) -> MetricRow:
    chart = charts.whisker(
        score,
        name=metric.title.strip(),
        axis=charts.axis_of(metric),
        style=charts.colour_of(position),
    )
    return MetricRow(metric, score, chart)


def _scales(rows: Sequence[MetricRow]) -> list[Scale]:
    """Put the rows that share an axis together, in their order."""
    scales = []
    for axis, group in groupby(rows, key=lambda row: charts.axis_of(row.metric)):
        scales.append(Scale(axis_labels(axis), list(group)))
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


def _account(scores: Mapping[Key, Row], predictions: Mapping[Key, Row]) -> list[AccountRow]:
    """Count what became of the records, by kind; every record is in exactly one row."""
    states = Counter(state_of(row, predictions.get(key)) for key, row in scores.items())
    repaired = "repaired before it could be read, then scored"
    rows = [
        AccountRow("OK", "ok", states["ok"], "answered, judged and scored"),
        AccountRow("repaired", "repaired", states["repaired"], repaired),
    ]
    for kind in FAILURES:
        meaning = f"{MEANINGS[kind]}: scored as the worst"
        rows.append(AccountRow(kind, f"failed {kind}", states[kind], meaning))
    for kind in UNHEARD:
        rows.append(AccountRow(kind, "unscored", states[kind], f"{MEANINGS[kind]}: unscored"))
    unrated = f"{MEANINGS['unrated']}: unscored"
    rows.append(AccountRow("not rated", "unscored", states["unrated"], unrated))
    for state, count in sorted(states.items()):
        if state.startswith("judge:"):
            kind = state.removeprefix("judge:")
            name, whose = f"judge {kind}", "of the judge: "
            if kind == "no_gold":
                name, whose = "no gold", ""
            meaning = f"{whose}{MEANINGS.get(kind, kind)}: unscored"
            rows.append(AccountRow(name, "unscored", count, meaning))
    return [row for row in rows if row.count]
