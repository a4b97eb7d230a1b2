"""Report page on one run or several: one self-contained file that needs no network or script.

Several runs stand side by side, and nothing is averaged: headlines on one axis, recall over pool
sizes, and scores ability by ability.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from alps.errors import RunFolderError, UsageError
from alps.judges.lexical import AGREEMENT
from alps.report import charts
from alps.report.charts import DASHES, Line, axis_of, colour_of, line_sign, recall_curve
from alps.report.formatting import counted, letter_of, served_lines
from alps.report.html import page_environment, refuse_other_file, write_page
from alps.report.sections import FloorRow, MetricRow, Section, build_section, draw_plane
from alps.report.svg import Axis, axis_labels
from alps.report.tables import conditions, empty_line
from alps.rows import Summary
from alps.run.opened import Run, open_run


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
class Comparison:
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


def compare_sections(sections: Iterable[Section]) -> list[Comparison]:
    """Put the sections that may stand on one axis together, in their order."""
    together: dict[tuple[str, ...], list[Section]] = {}
    for section in sections:
        together.setdefault(section.comparable_with, []).append(section)
    return [_comparison(members) for members in together.values()]


def _comparison(sections: list[Section]) -> Comparison:
    first = sections[0]
    lead = first.headline.metric
    points = [
        (section.letter, section.colour, section.run.model, section.found) for section in sections
    ]
    plane = draw_plane(points, first.found.floors, (), lead) if len(sections) > 1 else Markup()
    floors = [floor for floor in first.floors if floor.headline is not None]
    return Comparison(sections, floors, axis_labels(axis_of(lead)), plane)


def recall_curves(heads: Sequence[Head]) -> list[CurveFigure]:
    """Draw recall over pool sizes, the runs on the same pools together."""
    return [
        _curve(members)
        for members in _alike(heads, _pool_sections)
        if len(_pool_sections(members[0])) > 1
    ]


def _pool_sections(head: Head) -> list[Section]:
    measured = (section for section in head.sections if section.task.pool_size is not None)
    return [section for section in measured if section.headline.score.value is not None]


def _curve(heads: list[Head]) -> CurveFigure:
    lines = []
    for head in heads:
        points = _points(_pool_sections(head))
        lines.append(Line(head.run.model, head.letter, colour_of(head.colour), points))
    first = _pool_sections(heads[0])
    signs: list[tuple[str, Markup]] = []
    for floor in first[0].floors:
        if floor.headline is not None:
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
        scores = {row.name: row.headline for row in section.floors}
        score = section.headline.score if floor is None else scores.get(floor)
        if score is not None and score.value is not None:
            points.append((section.task.pool_size or 0, score))
    return sorted(points, key=lambda point: point[0])


def ability_tables(heads: Sequence[Head]) -> list[AbilityTable]:
    """Lay out the abilities of the runs that were rated, by judge and data."""
    return [_abilities(members) for members in _alike(heads, _rated_sections)]


def _rated_sections(head: Head) -> list[Section]:
    rated = (section for section in head.sections if section.headline.metric.rates)
    return [section for section in rated if section.headline.score.value is not None]


def _abilities(heads: list[Head]) -> AbilityTable:
    by_scale: dict[Axis, list[AbilityRow]] = {}
    for sections in zip(*(_rated_sections(head) for head in heads), strict=True):
        lead = sections[0].headline.metric
        for metric in sections[0].task.metrics:
            if metric.name != lead.name and not metric.name.startswith(f"{lead.name}_"):
                continue
            axis, name = axis_of(metric), metric.title.strip()
            for head, section in zip(heads, sections, strict=True):
                score = section.found.scores.get(metric.name)
                if score is not None and score.value is not None:
                    chart = charts.bar(score, name=name, axis=axis, style=colour_of(head.colour))
                    row = AbilityRow(head, MetricRow(metric, score, chart))
                    by_scale.setdefault(axis, []).append(row)
    return AbilityTable(heads, [(axis_labels(axis), rows) for axis, rows in by_scale.items()])


def _alike(heads: Sequence[Head], of: Callable[[Head], list[Section]]) -> list[list[Head]]:
    """Group the runs whose sections may be compared; runs without any are left out."""
    together: dict[tuple[tuple[str, ...], ...], list[Head]] = {}
    for head in heads:
        if found := of(head):
            together.setdefault(tuple(section.comparable_with for section in found), []).append(
                head
            )
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
    if out.is_dir():
        raise UsageError(
            f"out={out}: a folder is there; name a file, such as {out / 'report.html'}"
        )
    refuse_other_file(out)
    runs = [open_run(folder) for folder in run_folders]
    if not runs:
        raise UsageError("no run to report on")
    return write_page(render(runs), out)


def render(runs: Sequence[Run]) -> str:
    """Return the page about some finished runs."""
    environment = page_environment()
    environment.globals.update(conditions=conditions, counted=counted, empty_line=empty_line)
    heads = _heads(runs)
    sections = [section for head in heads for section in head.sections]
    return environment.get_template("report.html").render(
        title=heads[0].run.model if len(heads) == 1 else f"{len(heads)} runs",
        heads=heads,
        sections=sections,
        tasks=list(dict.fromkeys(section.task.name for section in sections)),
        comparisons=compare_sections(sections),
        curves=recall_curves(heads),
        abilities=ability_tables(heads),
        agreement=AGREEMENT,
        script=Markup(SCRIPT),
        script_hash=base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
    )


def _heads(runs: Sequence[Run]) -> list[Head]:
    heads: list[Head] = []
    for position, run in enumerate(runs):
        summary = run.finished
        try:
            sections = [build_section(run, summary, track, position) for track in summary.tracks]
        except (LookupError, TypeError, ValueError, AttributeError, StopIteration) as error:
            raise RunFolderError(f"{run.folder}: not a run of this alps ({error!r})") from error
        if not sections:
            raise RunFolderError(f"{run.folder}: its summary is of no track")
        heads.append(Head(letter_of(position), position, run, summary, sections))
    return heads
