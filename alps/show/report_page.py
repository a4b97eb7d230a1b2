"""Report page on one run or several: one self-contained file that needs no network or script.

Several runs stand side by side, and nothing is averaged: their differences first, then headlines on
one axis, recall over pool sizes, and each run in a part that unfolds.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from alps.errors import UsageError
from alps.judges.agreement import people_say
from alps.judges.resolve import known_agreement
from alps.rows import Score
from alps.run.opened import Run, open_run
from alps.show import charts
from alps.show.caveats import judge_check_lines, judge_mark
from alps.show.charts import (
    DASHES,
    Chart,
    Key,
    Line,
    axis_of,
    colour_of,
    letter_sign,
    line_sign,
    recall_curve,
)
from alps.show.compare import MetricComparison, TrackComparison, compare_runs
from alps.show.formatting import counted, p_value
from alps.show.html import page_environment, refuse_other_file, write_page
from alps.show.names import conditions
from alps.show.parts import shown_parts
from alps.show.report_sections import FloorRow, Head, MetricRow, Section, draw_plane, heads_of
from alps.show.run_tables import empty_line, method_lines
from alps.show.svg import SHARES, Axis, axis_labels
from alps.stats.bootstrap import Estimate
from alps.tasks import Metric


@dataclass(frozen=True)
class SharedAxis:
    """Sections that share track, judge and data, with their trivial baselines."""

    sections: list[Section]
    floors: list[FloorRow]
    axis: Markup
    plane: Markup


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


@dataclass(frozen=True)
class DifferenceRow:
    """A run beside the best of its table; `from_best` and `p` are None for the best."""

    head: Head
    score: Estimate
    ties: str
    from_best: Estimate | None = None
    p: float | None = None


@dataclass(frozen=True)
class DifferenceTable:
    """The headline of a track in runs that may be compared, the best first."""

    track: str
    metric: Metric
    shared: str
    rows: list[DifferenceRow]


@dataclass(frozen=True)
class Differences:
    """Paired differences between runs; `refused` says why some could not be compared."""

    tables: list[DifferenceTable]
    refused: list[str]

    @property
    def ties(self) -> bool:
        """Whether any run has a letter of its ties."""
        return any(row.ties for table in self.tables for row in table.rows)


def differences_of(heads: Sequence[Head]) -> Differences:
    """Compare the runs that share judge, data and tracks, on the records that all of them scored.

    Each p is of one test by itself, as its interval is; letters of ties are by Holm's method.
    """
    tables: list[DifferenceTable] = []
    refused: list[str] = []
    for alike in _alike(heads, lambda head: head.scored):
        # A run that is named twice has no difference from itself.
        members = list({head.run.folder.resolve(): head for head in alike}.values())
        if len(members) < 2:
            continue
        try:
            compared = compare_runs([head.run.folder for head in members])
        except UsageError as error:
            refused.append(str(error))
            continue
        by_letter = dict(zip((side.letter for side in compared.sides), members, strict=True))
        for track in compared.tracks:
            if track.lead is not None and track.shared:
                tables.append(_difference_table(track, track.lead, by_letter))
    return Differences(tables, refused)


def _difference_table(
    track: TrackComparison, lead: MetricComparison, by_letter: dict[str, Head]
) -> DifferenceTable:
    shared = counted(track.shared, "shared record")
    if track.clusters is not None:
        shared += f" from {counted(track.clusters, 'session')}"
    best, *others = _best_first(lead)
    rows = [DifferenceRow(by_letter[best.name], best.score, best.ties)]
    for one in others:
        from_best, p = _less_the_best(lead, one.name, best.name)
        rows.append(DifferenceRow(by_letter[one.name], one.score, one.ties, from_best, p))
    return DifferenceTable(track.track, lead.metric, shared, rows)


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


def recall_curves(heads: Sequence[Head]) -> list[Chart]:
    """Draw recall over pool sizes, the runs on the same pools together."""
    figures = []
    for members in _alike(heads, _pool_sections):
        if len(_pool_sections(members[0])) > 1:
            figures.append(_curve(members))
    return figures


def _pool_sections(head: Head) -> list[Section]:
    return [section for section in head.scored if section.task.data.pool_size is not None]


def _rated_sections(head: Head) -> list[Section]:
    return [section for section in head.scored if section.headline.metric.needs.rating]


def _curve(heads: list[Head]) -> Chart:
    lines = []
    legend: list[Key] = []
    for head in heads:
        points = _points(_pool_sections(head))
        note = head.run.name if len(heads) > 1 else ""
        legend.append(Key(letter_sign(head.letter, head.colour), head.run.model, note))
        lines.append(Line(head.run.model, head.letter, colour_of(head.colour), points))
    first = _pool_sections(heads[0])
    floors = [floor for floor in first[0].floors if floor.headline is not None]
    for n, floor in enumerate(floors):
        # By dashes and not by colour: baselines are grey, and a page may be printed.
        dashes = DASHES[n % len(DASHES)]
        lines.append(Line(floor.name, "", "floor-line", _points(first, floor.name), dashes))
        legend.append(Key(line_sign(dashes), floor.name))
    metric = first[0].headline.metric.title
    about = (
        f"{metric} over the number of distractors added to the one right memory. The bands are "
        "95 % intervals; the y-axis starts at 0."
    )
    drawing = recall_curve(lines, name=f"{metric} over the number of distractors")
    title = "Recall and the size of the pool"
    return Chart("curves", "Size of the pool", title, about, drawing, legend)


def _points(sections: Sequence[Section], floor: str | None = None) -> list[tuple[int, Any]]:
    """Return pool size and headline score of every section, or of a floor beside it."""
    points = []
    for section in sections:
        score: Score | None = section.headline.score
        if floor is not None:
            score = next((row.headline for row in section.floors if row.name == floor), None)
        if score is not None and score.value is not None:
            points.append((section.task.data.pool_size or 0, score))
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
// A record is printed if the reader has it open: all of them are a hundred pages.
const folded = () => document.querySelectorAll("details:not(.record, .cards)");
addEventListener("beforeprint", () => folded().forEach((one) => { one.open = true; }));
document.querySelectorAll("button.toggle").forEach((button) => {
  button.hidden = false;
  button.onclick = () => {
    const open = button.ariaPressed !== "true";
    button.ariaPressed = open;
    const part = button.closest("section") ?? document;
    part.querySelectorAll("details").forEach((one) => { one.open = open; });
  };
});
const unfoldTarget = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const inside = target?.querySelector(":scope > details");
  for (let one = inside ?? target; one; one = one.parentElement) {
    if (one.localName === "details") one.open = true;
  }
};
addEventListener("hashchange", unfoldTarget);
unfoldTarget();
"""
"""An enhancement: unfolds what a link leads to, all but records for printing, and on demand."""


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
    environment.globals.update(known_agreement=known_agreement, people_say=people_say)
    environment.globals.update(judge_mark=judge_mark, judge_check_lines=judge_check_lines)
    environment.filters.update(p_value=p_value)
    heads = heads_of(runs)
    sections: list[Section] = []
    for head in heads:
        sections += head.sections
    figures = {
        "differences": differences_of(heads),
        "comparisons": share_axes(sections),
        "curves": recall_curves(heads),
        "more": charts_of(runs, sections),
        "abilities": ability_tables(heads),
    }
    return environment.get_template("report.html").render(
        title=heads[0].run.model if len(heads) == 1 else f"{len(heads)} runs",
        heads=heads,
        sections=sections,
        tasks=list(dict.fromkeys(section.task.name for section in sections)),
        contents=list(_contents(sections, figures)),
        **figures,
        script=Markup(SCRIPT),
        # The page's policy runs this script and no other, whatever a text of a model holds.
        script_hash=base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
    )


def charts_of(runs: Sequence[Run], sections: Sequence[Section]) -> list[list[Chart]]:
    """Return the charts of extensions, those of one name together."""
    together: dict[str, list[Chart]] = {}
    for part in shown_parts(*(run.finished for run in runs)):
        for chart in part.charts(sections):
            together.setdefault(chart.name, []).append(chart)
    return list(together.values())


def _contents(sections: Sequence[Section], figures: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fragments of the page's parts, and their titles."""
    if figures["differences"].tables:
        yield "differences", "Differences"
    if len(sections) == 1:
        yield "headline-1", "Headline"
    for alike in (figures["curves"], *figures["more"]):
        if alike:
            yield f"{alike[0].name}-1", alike[0].contents
    if figures["abilities"]:
        yield "abilities-1", "Abilities"
    if len(sections) == 1:
        for name, title in _parts(sections[0]):
            yield f"{sections[0].anchor}-{name}", title
    else:
        yield sections[0].anchor, "Track by track"
    yield "cost", "Cost and tokens"


def _parts(section: Section) -> Iterator[tuple[str, str]]:
    yield "outcomes", "Record outcomes"
    if section.distribution or section.plane:
        yield "distribution", "Distribution"
    if section.matrix:
        yield "actions", "Actions"
    if section.breakdowns:
        yield "slices", "Slices"
    if section.records:
        yield "records", "Instructive records"
    yield "scores", "All figures"
