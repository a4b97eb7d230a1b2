"""Report page on one run or several: one self-contained file that needs no network or script.

Several runs stand side by side, and nothing is averaged: headlines on one axis, recall over pool
sizes, and scores ability by ability.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from markupsafe import Markup

from alps.errors import RunFolderError, UsageError
from alps.jsonl import Row
from alps.judges.resolve import known_agreement
from alps.report import charts
from alps.report.accounts import AccountRow, account
from alps.report.breakdowns import BreakdownPart, page_part
from alps.report.charts import DASHES, Line, axis_of, colour_of, line_sign, recall_curve
from alps.report.corrected import audit_lines, correction_lines
from alps.report.curves import context_figures
from alps.report.formatting import counted, letter_of, served_lines
from alps.report.html import page_environment, refuse_other_file, write_page
from alps.report.record import RecordCard, cards, rule
from alps.report.svg import SHARES, Axis, axis_labels
from alps.report.tables import (
    conditions,
    empty_line,
    has_floors,
    method_lines,
    needs_rating_judge,
    undefined,
)
from alps.rows import AuditedTrack, Floor, Interval, Score, Summary, TrackSummary
from alps.run.opened import Key, Run, Samples, open_run
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
    breakdowns: list[BreakdownPart]
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
        prompts = self.run.manifest.prompts.items()
        # The prompt of a rubric is of no task: it belongs to every section.
        return {name: sha256 for name, sha256 in prompts if name.partition("/")[0] not in others}

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the judge on this track."""
        return self.run.judge_fingerprint(self.track)

    @property
    def paired_floors(self) -> bool:
        """Whether the differences to trivial baselines stand with each score."""
        return any(floor.differences for floor in self.found.floors.values())

    @property
    def corrected(self) -> list[MetricRow]:
        """The rows whose score stands corrected beside the one that the judge gave."""
        rows: list[MetricRow] = []
        for scale in self.scales:
            rows += (row for row in scale.rows if row.score.corrected is not None)
        return rows

    @property
    def correction_lines(self) -> list[str]:
        """How they were corrected, in sentences."""
        corrected = {}
        for row in self.corrected:
            if row.score.corrected is not None:
                corrected[row.metric.title] = row.score.corrected
        return correction_lines(corrected)

    @property
    def audited(self) -> AuditedTrack | None:
        """What audits found on this track; None without."""
        audit = self.run.finished.audit
        return audit.tracks.get(self.track) if audit is not None else None

    @property
    def audit_lines(self) -> list[str]:
        """What its audits rest on and cost, in sentences."""
        audit = self.run.finished.audit
        return audit_lines(audit, self.track, self.task.metrics) if audit is not None else []

    @property
    def comparable_with(self) -> tuple[str, ...]:
        """What two sections must share to be drawn on one axis."""
        return (
            self.task.name,
            self.track,
            self.headline.metric.name,
            self.fingerprint if self.judged else "",
            str(self.run.tracks[self.track].sha256),
            # As many records: with limit= a run has a part of the same data.
            str(self.found.n),
            str(sorted(self.task.conditions.items())),
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
    # Rows of dashes would say nothing: a judge that rates nothing rates no baselines either.
    floors: list[FloorRow] = []
    for name, floor in (found.floors if has_floors(found) else {}).items():
        floors.append(_floor_row(len(floors), name, floor, task, lead))
    outcomes = account(scores, predictions)
    chosen, samples = cards(run, track, scores, predictions)
    pairs: list[Mapping[str, float]] = []
    without_recall = 0
    precision, recall = plane_figures(lead)
    for row in scores.values():
        if row["scores"]:
            pairs.append(row["scores"])
            without_recall += precision in row["scores"] and recall not in row["scores"]
    # The id of a pattern is that of the whole page: the first of two would fill both bars.
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
        account=outcomes,
        bar=charts.stacked(outcomes, name=hatching),
        plane=draw_plane([(letter, position, run.model, found)], found.floors, pairs, lead),
        without_recall=without_recall,
        matrix=draw_actions(found.counts),
        breakdowns=[page_part(row, colour_of(position)) for row in found.breakdowns.values()],
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
    # Most of an updated list is copied: of the whole list any baseline is near the corner.
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
    placed = []
    for letter, colour, model, found in points:
        if at := _in_plane(found.scores, lead):
            placed.append(charts.Point(model, letter, charts.colour_of(colour), *at))
    if not placed:
        return Markup()
    names = ", ".join(point.name for point in placed)
    for sign, (name, floor) in enumerate(floors.items()):
        # Counted before those without a place are left out: the legend has the same signs.
        if at := _in_plane(floor.scores, lead):
            placed.append(charts.Point(name, "", "floor", *at, sign=sign))
    dots = []
    for row in records:
        if recall in row and precision in row:
            dots.append((row[recall], row[precision]))
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


def _scales(rows: Sequence[MetricRow]) -> list[Scale]:
    """Put the rows that share an axis together, in their order."""
    scales = []
    # Neighbours alone: the order of the metrics is what a reader knows from the terminal.
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


@dataclass(frozen=True)
class Head:
    """One run, with its letter and the sections about its tracks."""

    letter: str
    colour: int
    run: Run
    summary: Summary
    sections: list[Section]

    @property
    def anchor(self) -> str:
        """The fragment of its first section."""
        return self.sections[0].anchor

    @property
    def scored(self) -> list[Section]:
        """Its sections whose headline has a value."""
        return [section for section in self.sections if section.headline.score.value is not None]

    @property
    def n(self) -> int:
        """How many records it was asked for."""
        return sum(section.found.n for section in self.sections)

    @property
    def comparable(self) -> bool:
        """Whether all its headlines may stand beside those of LLM judges."""
        return all(section.comparable for section in self.sections)

    @property
    def served(self) -> list[str]:
        """What answered its calls, in lines."""
        return list(served_lines(self.summary.served, self.summary.calibrated_otherwise))


@dataclass(frozen=True)
class SharedAxis:
    """Sections that share track, judge and data, with their trivial baselines."""

    sections: list[Section]
    floors: list[FloorRow]
    axis: Markup
    plane: Markup


@dataclass(frozen=True)
class CurveFigure:
    """Recall over pool sizes of runs on the same pools, with the signs of the floors in it."""

    heads: list[Head]
    metric: str
    drawing: Markup
    floors: list[tuple[str, Markup]]


@dataclass(frozen=True)
class AbilityRow:
    """One figure of one ability of one run."""

    head: Head
    row: MetricRow


@dataclass(frozen=True)
class AbilityTable:
    """The abilities of runs that share judge and data; each scale has its own axis."""

    heads: list[Head]
    scales: list[tuple[Markup, list[AbilityRow]]]


def share_axes(sections: Iterable[Section]) -> list[SharedAxis]:
    """Put the sections that may stand on one axis together, in their order."""
    together: dict[tuple[str, ...], list[Section]] = {}
    for section in sections:
        together.setdefault(section.comparable_with, []).append(section)
    return list(map(_shared_axis, together.values()))


def _shared_axis(sections: list[Section]) -> SharedAxis:
    first = sections[0]
    lead = first.headline.metric
    points = []
    for section in sections:
        points.append((section.letter, section.colour, section.run.model, section.found))
    # The plane of an only section stands with it already.
    plane = draw_plane(points, first.found.floors, (), lead) if len(sections) > 1 else Markup()
    floors = [floor for floor in first.floors if floor.headline is not None]
    return SharedAxis(sections, floors, axis_labels(axis_of(lead)), plane)


def recall_curves(heads: Sequence[Head]) -> list[CurveFigure]:
    """Draw recall over pool sizes, the runs on the same pools together."""
    figures = []
    for members in _alike(heads, _pool_sections):
        if len(_pool_sections(members[0])) > 1:
            figures.append(_curve(members))
    return figures


def _pool_sections(head: Head) -> list[Section]:
    return [section for section in head.scored if section.task.pool_size is not None]


def _rated_sections(head: Head) -> list[Section]:
    return [section for section in head.scored if section.headline.metric.rates]


def _curve(heads: list[Head]) -> CurveFigure:
    lines = []
    for head in heads:
        points = _points(_pool_sections(head))
        lines.append(Line(head.run.model, head.letter, colour_of(head.colour), points))
    first = _pool_sections(heads[0])
    signs: list[tuple[str, Markup]] = []
    for floor in first[0].floors:
        if floor.headline is not None:
            # By dashes and not by colour: baselines are grey, and a page may be printed.
            dashes = DASHES[len(signs) % len(DASHES)]
            points = _points(first, floor.name)
            lines.append(Line(floor.name, "", "floor-line", points, dashes))
            signs.append((floor.name, line_sign(dashes)))
    metric = first[0].headline.metric.title
    drawing = recall_curve(lines, name=f"{metric} over the number of distractors")
    return CurveFigure(heads, metric, drawing, signs)


def _points(sections: Sequence[Section], floor: str | None = None) -> list[tuple[int, Any]]:
    """Return pool size and headline score of every section, or of a floor beside it."""
    points = []
    for section in sections:
        score: Score | None = section.headline.score
        if floor is not None:
            score = next((row.headline for row in section.floors if row.name == floor), None)
        if score is not None and score.value is not None:
            points.append((section.task.pool_size or 0, score))
    return sorted(points, key=lambda point: point[0])


def ability_tables(heads: Sequence[Head]) -> list[AbilityTable]:
    """Lay out the abilities of the runs that were rated, by judge and data."""
    return list(map(_abilities, _alike(heads, _rated_sections)))


def _abilities(heads: list[Head]) -> AbilityTable:
    by_scale: dict[Axis, list[AbilityRow]] = {}
    for sections in zip(*map(_rated_sections, heads), strict=True):
        lead = sections[0].headline.metric
        for metric in sections[0].task.metrics:
            # The dimensions of a rating belong to it; counts beside it are on no scale of marks.
            if metric.name != lead.name and not metric.name.startswith(f"{lead.name}_"):
                continue
            axis, name = axis_of(metric), metric.title.strip()
            for head, section in zip(heads, sections, strict=True):
                score = section.found.scores.get(metric.name)
                if score is not None and score.value is not None:
                    chart = charts.bar(score, name=name, axis=axis, style=colour_of(head.colour))
                    row = AbilityRow(head, MetricRow(metric, score, chart))
                    by_scale.setdefault(axis, []).append(row)
    scales = [(axis_labels(axis), rows) for axis, rows in by_scale.items()]
    return AbilityTable(heads, scales)


def _alike(heads: Sequence[Head], of: Callable[[Head], list[Section]]) -> list[list[Head]]:
    """Group the runs whose sections may be compared; runs without any are left out."""
    together: dict[tuple[tuple[str, ...], ...], list[Head]] = {}
    for head in heads:
        if sections := of(head):
            key = tuple(section.comparable_with for section in sections)
            together.setdefault(key, []).append(head)
    return list(together.values())


SCRIPT = """\
const all = () => document.querySelectorAll("details");
addEventListener("beforeprint", () => all().forEach((one) => { one.open = true; }));
document.querySelectorAll("button.toggle").forEach((button) => {
  button.hidden = false;
  button.onclick = () => {
    const open = button.ariaPressed !== "true";
    button.ariaPressed = open;
    button.closest("section").querySelectorAll("details").forEach((one) => { one.open = open; });
  };
});
"""
"""An enhancement: unfolds every record for printing, and on demand."""


def write_report(run_folders: Sequence[Path], out: Path) -> Path:
    """Write the report on some finished runs; the same runs give the same bytes.

    Args:
        run_folders: The runs, in the order in which they shall stand.
        out: The HTML file.

    Raises:
        UsageError: If there is no run, one of them is not finished, or `out` is a folder or a file
            of another kind.
        RunFolderError: If a file of a run can't be read, or the page can't be written.
    """
    # Named first: to rename onto a folder fails only when the whole page is made.
    if out.is_dir():
        raise UsageError(
            f"out={out}: a folder is there; name a file, such as {out / 'report.html'}"
        )
    # Looked at before the runs are read: a report replaced any file that a typo named.
    refuse_other_file(out)
    runs = list(map(open_run, run_folders))
    if not runs:
        raise UsageError("no run to report on")
    return write_page(render(runs), out)


def render(runs: Sequence[Run]) -> str:
    """Return the page about some finished runs."""
    environment = page_environment()
    environment.globals.update(conditions=conditions, counted=counted, empty_line=empty_line)
    environment.globals.update(method_lines=method_lines, shares_axis=axis_labels(SHARES))
    heads = _heads(runs)
    sections: list[Section] = []
    for head in heads:
        sections += head.sections
    return environment.get_template("report.html").render(
        title=heads[0].run.model if len(heads) == 1 else f"{len(heads)} runs",
        heads=heads,
        sections=sections,
        tasks=list(dict.fromkeys(section.task.name for section in sections)),
        comparisons=share_axes(sections),
        curves=recall_curves(heads),
        contexts=context_figures(sections),
        abilities=ability_tables(heads),
        known_agreement=known_agreement,
        script=Markup(SCRIPT),
        # The page's policy runs this script and no other, whatever a text of a model holds.
        script_hash=base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
    )


def _heads(runs: Sequence[Run]) -> list[Head]:
    heads: list[Head] = []
    for position, run in enumerate(runs):
        summary = run.finished
        try:
            sections = [build_section(run, summary, track, position) for track in summary.tracks]
        # Rows of journals are not read by a model: a damaged one fails wherever it is used.
        except (LookupError, TypeError, ValueError, AttributeError, StopIteration) as error:
            raise RunFolderError(f"{run.folder}: not a run of this alps ({error!r})") from error
        if not sections:
            raise RunFolderError(f"{run.folder}: its summary is of no track")
        heads.append(Head(letter_of(position), position, run, summary, sections))
    return heads
