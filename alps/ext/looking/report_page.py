"""Report page on one run or several: one self-contained file that needs no network or script.

The first screen has the answer: every task's score against its trivial baselines and records worth
reading, or which of two runs is better. Everything else is folded; nothing is averaged.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from alps.errors import UsageError
from alps.ext.looking.report_first import Differences, Overview, alike, differences_of, overview_of
from alps.ext.looking.report_sections import Head, MetricRow, TrackSection, draw_plane, heads_of
from alps.ext.looking.whole_run import empty_line, judge_check_lines, known_agreement, method_lines
from alps.extension import has_command
from alps.judges.base import people_say
from alps.rows import Score
from alps.run.opened import AnswerKey, RunFolder, open_run
from alps.show import charts
from alps.show.charts import (
    DASHES,
    Chart,
    ChartLine,
    LegendKey,
    axis_of,
    colour_of,
    letter_sign,
    line_sign,
    recall_curve,
)
from alps.show.formatting import (
    conditions,
    counted,
    judge_mark,
    metric_title,
    p_value,
    signed,
    task_title,
)
from alps.show.html import page_environment, refuse_other_file, write_page
from alps.show.parts import shown_parts
from alps.show.svg import SHARES, Axis, axis_labels


def share_axes(sections: Iterable[TrackSection]) -> list[dict[str, object]]:
    """Group the sections that share track, judge and data, and so an axis, in their order."""
    together: dict[tuple[str, ...], list[TrackSection]] = {}
    for section in sections:
        together.setdefault(section.comparable_with, []).append(section)
    return list(map(_shared_axis, together.values()))


def _shared_axis(sections: list[TrackSection]) -> dict[str, object]:
    first = sections[0]
    lead = first.headline.metric
    points = []
    for section in sections:
        points.append((section.letter, section.colour, section.run.model, section.found))
    # The plane of an only section stands with it already.
    plane = draw_plane(points, first.found.floors, (), lead) if len(sections) > 1 else Markup()
    floors = [floor for floor in first.floors if floor.headline is not None]
    axis = axis_labels(axis_of(lead))
    return {"sections": sections, "floors": floors, "axis": axis, "plane": plane}


def recall_curves(heads: Sequence[Head]) -> list[Chart]:
    """Draw recall over pool sizes, the runs on the same pools together."""
    figures = []
    for members in alike(heads, _pool_sections):
        if len(_pool_sections(members[0])) > 1:
            figures.append(_curve(members))
    return figures


def _pool_sections(head: Head) -> list[TrackSection]:
    return [section for section in head.scored if section.task.data.pool_size is not None]


def _rated_sections(head: Head) -> list[TrackSection]:
    return [section for section in head.scored if section.headline.metric.needs.rating]


def _curve(heads: list[Head]) -> Chart:
    lines = []
    legend: list[LegendKey] = []
    for head in heads:
        points = _points(_pool_sections(head))
        note = head.run.name if len(heads) > 1 else ""
        legend.append(LegendKey(letter_sign(head.letter, head.colour), head.run.model, note))
        lines.append(ChartLine(head.run.model, head.letter, colour_of(head.colour), points))
    first = _pool_sections(heads[0])
    floors = [floor for floor in first[0].floors if floor.headline is not None]
    for n, floor in enumerate(floors):
        # By dashes and not by colour: baselines are grey, and a page may be printed.
        dashes = DASHES[n % len(DASHES)]
        lines.append(ChartLine(floor.name, "", "floor-line", _points(first, floor.name), dashes))
        legend.append(LegendKey(line_sign(dashes), floor.name))
    metric = first[0].headline.metric.title
    about = f"The lines show {metric} by the number of distractors. "
    about += "Bands show 95 % intervals; the y-axis starts at 0."
    drawing = recall_curve(lines, name=f"{metric} by the number of distractors")
    title = "Recall and the size of the pool"
    return Chart("curves", "Size of the pool", title, about, drawing, legend)


def _points(sections: Sequence[TrackSection], floor: str | None = None) -> list[tuple[int, Any]]:
    """Return pool size and headline score of every section, or of a floor beside it."""
    points = []
    for section in sections:
        score: Score | None = section.headline.score
        if floor is not None:
            score = next((row.headline for row in section.floors if row.name == floor), None)
        if score is not None and score.value is not None:
            points.append((section.task.data.pool_size or 0, score))
    return sorted(points, key=lambda point: point[0])


def _abilities(heads: list[Head]) -> dict[str, object]:
    """Lay out the abilities of runs that share judge and data; each scale has its own axis."""
    by_scale: dict[Axis, list[tuple[Head, MetricRow]]] = {}
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
                    row = MetricRow(metric, score, chart)
                    by_scale.setdefault(axis, []).append((head, row))
    scales = [(axis_labels(axis), rows) for axis, rows in by_scale.items()]
    return {"heads": heads, "scales": scales}


SCRIPT = """\
// A record is printed if the reader has it open: all of them are a hundred pages.
const folded = (part) => part.querySelectorAll("details:not(.record, .cards)");
addEventListener("beforeprint", () => folded(document).forEach((one) => { one.open = true; }));
document.querySelectorAll("button.toggle").forEach((button) => {
  button.hidden = false;
  button.onclick = () => {
    const open = button.ariaPressed !== "true";
    button.ariaPressed = open;
    const part = button.closest("section");
    // Of the whole page the records stay folded: all of them would be 200,000 pixels high.
    const unfolded = part ? part.querySelectorAll("details")
      : document.querySelectorAll(open ? "details:not(.record)" : "details");
    unfolded.forEach((one) => { one.open = open; });
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
"""An enhancement: unfolds what a link leads to; for printing and on demand all but records."""


def write_report(run_folders: Sequence[Path], out: Path) -> Path:
    """Write the report on some finished runs, in their order; the same runs give the same bytes.

    Raises:
        UsageError: If there is no run, one of them is not finished, or `out` is a folder or a file
            of another kind.
        RunFolderError: If a file of a run can't be read, or the page can't be written.
    """
    # Named first: to rename onto a folder fails only when the whole page is made.
    if out.is_dir():
        raise UsageError(f"out={out}: this is a folder; name a file, such as {out / 'report.html'}")
    # Looked at before the runs are read: a report replaced any file that a typo named.
    refuse_other_file(out)
    runs = list(map(open_run, run_folders))
    if not runs:
        raise UsageError("no run to report on")
    return write_page(render(runs), out)


def render(runs: Sequence[RunFolder]) -> str:
    """Return the page about some finished runs."""
    environment = page_environment()
    environment.globals.update(conditions=conditions, counted=counted, empty_line=empty_line)
    environment.globals.update(method_lines=method_lines, shares_axis=axis_labels(SHARES))
    environment.globals.update(known_agreement=known_agreement, people_say=people_say)
    environment.globals.update(judge_mark=judge_mark, judge_check_lines=judge_check_lines)
    environment.globals.update(metric_title=metric_title, task_title=task_title)
    environment.globals.update(has_command=has_command)
    environment.filters.update(p_value=p_value, signed=signed)
    heads = heads_of(runs)
    sections: list[TrackSection] = []
    for head in heads:
        sections += head.sections
    differences = differences_of(heads)
    overview = overview_of(heads[0]) if len(heads) == 1 else None
    figures = {
        "comparisons": share_axes(sections),
        "curves": recall_curves(heads),
        "more": charts_of(runs, sections),
        "abilities": list(map(_abilities, alike(heads, _rated_sections))),
    }
    return environment.get_template("report.html").render(
        title=_title(heads, overview, differences),
        heads=heads,
        sections=sections,
        overview=overview,
        differences=differences,
        anchors=_anchors(overview, differences),
        cards_of_first=overview.more if overview is not None else differences.more,
        tasks=list(dict.fromkeys(task_title(one.track, one.found) for one in sections)),
        contents=list(_contents(sections, figures)),
        **figures,
        script=Markup(SCRIPT),
        # The page's policy runs this script and no other, whatever a text of a model holds.
        script_hash=base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode(),
    )


def _title(heads: Sequence[Head], overview: Overview | None, differences: Differences) -> str:
    """Return the answer of the page in one line."""
    if overview is not None:
        return overview.answer
    # More sentences than one are of several judges, data or tasks: none of them is the page's.
    if len(differences.answers) == 1:
        return differences.answers[0]
    if len(heads) == 2 and differences.refused:
        return f"{heads[0].run.model} and {heads[1].run.model}: not compared"
    return f"{len(heads)} runs"


def _anchors(
    overview: Overview | None, differences: Differences
) -> dict[tuple[str, AnswerKey], str]:
    """Return the fragments of the records that the first screen links to."""
    anchors = {}
    for one in overview.notable if overview is not None else ():
        anchors[one.section.anchor, one.card.view.key] = one.anchor
    for apart in differences.apart:
        for anchor in apart.anchors:
            anchors[anchor.rpartition("-apart-")[0], apart.key] = anchor
    return anchors


def charts_of(runs: Sequence[RunFolder], sections: Sequence[TrackSection]) -> list[list[Chart]]:
    """Return the charts of extensions, those of one name together."""
    together: dict[str, list[Chart]] = {}
    for part in shown_parts(*(run.finished for run in runs)):
        for chart in part.charts(sections):
            together.setdefault(chart.name, []).append(chart)
    return list(together.values())


def _contents(
    sections: Sequence[TrackSection], figures: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield the fragments of the page's parts, and their titles."""
    if len(sections) == 1:
        for name, title in _parts(sections[0]):
            yield f"{sections[0].anchor}-{name}", title
    else:
        yield sections[0].anchor, "Task by task"
    for alike_charts in (figures["curves"], *figures["more"]):
        if alike_charts:
            yield f"{alike_charts[0].name}-1", alike_charts[0].contents
    if figures["abilities"]:
        yield "abilities-1", "Abilities"
    yield "cost", "Cost"
    yield "provenance", "Provenance"


def _parts(section: TrackSection) -> Iterator[tuple[str, str]]:
    if section.records:
        yield "records", "Records"
    yield "scores", "All metrics"
    yield "outcomes", "Failures" if section.failed else "Outcomes"
    if section.distribution or section.plane:
        yield "distribution", "Distribution"
    if section.matrix:
        yield "actions", "Actions"
    if section.breakdowns:
        yield "slices", "Subgroups"
