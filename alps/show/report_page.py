"""Report page on one run or several: one self-contained file that needs no network or script.

Several runs stand side by side, and nothing is averaged: their differences first, then headlines on
one axis, recall over pool sizes, and each run in a part that unfolds.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from alps.errors import UsageError
from alps.judges.agreement import people_say
from alps.judges.resolve import known_agreement
from alps.run.opened import Run, open_run
from alps.show.charts import Chart
from alps.show.formatting import counted, p_value
from alps.show.html import page_environment, refuse_other_file, write_page
from alps.show.judge_check import judge_check_lines, judge_mark
from alps.show.parts import shown_parts
from alps.show.report_figures import ability_tables, differences_of, recall_curves, share_axes
from alps.show.report_sections import Section, heads_of
from alps.show.run_tables import conditions, empty_line, method_lines
from alps.show.svg import SHARES, axis_labels

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
    for charts in (figures["curves"], *figures["more"]):
        if charts:
            yield f"{charts[0].name}-1", charts[0].contents
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
