"""Finished runs: a list of them, what is in one, and a page about some."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from alps.commands import command, console, say
from alps.explained import on_tab
from alps.extension import EVERYDAY, Extension

if TYPE_CHECKING:
    from alps.ext.looking.settings import ReportSettings


@command(quick=True)
@click.argument("folder", default="runs", shell_complete=on_tab(folders=True))
def ls(folder: str) -> None:
    """List the runs of a folder, newest first."""
    from alps.ext.looking.listing import list_runs

    list_runs(Path(folder), console())


@command("[task=python:MODULE]", run=True, record=True, own_task=True, quick=True)
@click.option("--full", is_flag=True, help="Show long turns in full.")
def show(run: Path, record: str, full: bool) -> None:
    """Print a run, or one record of it.

    Without ID, alps prints all tables of the run, with breakdowns. With ID, alps prints the
    dialogue, gold, prediction and verdicts of that record, and with --full long turns in full.

    ID is a benchmark id, the unique beginning of an id, or a number in the order of the data. If
    a run has several tasks, write TASK/ID.

    \b
      alps show runs/extraction-rules-samples
      alps show runs/extraction-rules-samples 4
      alps show runs/all extraction/4
    """
    from alps.ext.looking.record_text import show_record
    from alps.ext.looking.whole_run import show_whole_run

    if record:
        show_record(run, record, console(), full=full)
    else:
        show_whole_run(run)


@command("RUN… [out=FILE]", "alps.ext.looking.settings:ReportSettings", runs=True, own_task=True)
def report(runs: list[Path], settings: "ReportSettings") -> None:
    """Write one HTML page about one or more runs.

    \b
      alps report runs/extraction-rules-samples out=report.html
    """
    from alps.ext.looking.report_page import write_report

    path = write_report(runs, Path(settings.out) if settings.out else runs[0] / "report.html")
    say(f"wrote {path}")


EXTENSION = Extension(
    "looking",
    heading=EVERYDAY,
    in_notebook="alps.ext.looking.notebook:run_as_html",
    commands={
        "ls": "alps.ext.looking:ls",
        "show": "alps.ext.looking:show",
        "report": "alps.ext.looking:report",
    },
)
