"""One self-contained HTML page about one run or several: no script is needed to read it, nothing is
fetched by it.
"""

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from alps.errors import RunFolderError, UsageError
from alps.judges.lexical import AGREEMENT
from alps.report.comparisons import Head, ability_tables, compare_sections, recall_curves
from alps.report.numbers import counted, interval, number
from alps.report.page_file import refuse_other_file, write_page
from alps.report.runs import Run, folded_away, letter_of, open_run, visible
from alps.report.sections import build_section
from alps.report.tables import conditions

TEMPLATES = Path(__file__).with_name("templates")
FOLDED_VALUE, FOLDED_RAW = 400, 1_200
MOST_PAIRINGS = 40

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
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters.update(number=number, interval=interval)
    environment.globals.update(
        folded=lambda text, limit=FOLDED_VALUE: _folded(text, limit),
        folded_away=folded_away,
        conditions=conditions,
        counted=counted,
        FOLDED_RAW=FOLDED_RAW,
        MOST_PAIRINGS=MOST_PAIRINGS,
    )
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
        if run.summary is None:
            raise UsageError(f"{run.folder}: not finished; the same alps run again goes on with it")
        try:
            sections = [
                build_section(run, run.summary, track, position) for track in run.summary["tracks"]
            ]
        except (LookupError, TypeError, ValueError, AttributeError, StopIteration) as error:
            raise RunFolderError(f"{run.folder}: not a run of this alps ({error!r})") from error
        if not sections:
            raise RunFolderError(f"{run.folder}: its summary is of no track")
        heads.append(Head(letter_of(position), position, run, run.summary, sections))
    return heads


def _finalize(value: Any) -> Any:
    """Make whatever is printed safe to encode; markup of our own stays as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _folded(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]} {folded_away(len(text) - limit, 'characters')}"
