"""Commands `ls` and `show`."""

from pathlib import Path

import click

from alps.commands.common import command, console
from alps.completion import words_of


@command(quick=True)
@click.argument("folder", default="runs", shell_complete=words_of(folders=True))
def ls(folder: str) -> None:
    """List the runs in a folder, the newest first."""
    from alps.ext.looking.listing import list_runs

    list_runs(Path(folder), console())


@command("[task=python:MODULE]", run=True, record=True, own_task=True, quick=True)
@click.option("--full", is_flag=True, help="Show long turns whole.")
def show(run: Path, record: str, full: bool) -> None:
    """Show one record of a run: dialogue, gold, prediction and verdicts side by side.

    Without ID the tables of the run are shown again, with all its breakdowns.

    ID is a benchmark id, the unique beginning of one, or a number in the order of the data; where a
    run has several tracks, TRACK/ID.
    """
    from alps.ext.looking.record_text import show_record
    from alps.ext.looking.whole_run import show_whole_run

    if record:
        show_record(run, record, console(), full=full)
    else:
        show_whole_run(run)
