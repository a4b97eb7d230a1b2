"""Commands that show and compare runs."""

from pathlib import Path

import click

from alps.commands.common import allow_typed, command, console, print_as, say, takes_time
from alps.completion import takes, words_of


@command()
@click.argument("folder", default="runs", shell_complete=words_of(folders=True))
def ls(folder: str) -> None:
    """List the runs in a folder, the newest first."""
    from alps.show.listing import list_runs

    list_runs(Path(folder), console())


@command()
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@click.argument("record", metavar="[ID]", default="")
@takes("[task=python:MODULE]", own_task=True)
@click.option("--full", is_flag=True, help="Show long turns whole.")
def show(run_folder: str, record: str, settings: tuple[str, ...], full: bool) -> None:
    """Show one record of a run: dialogue, gold, prediction and verdicts side by side.

    Without ID the tables of the run are shown again, with all its breakdowns.

    ID is a benchmark id, the unique beginning of one, or a number in the order of the data; where a
    run has several tracks, TRACK/ID.
    """
    from alps.run.opened import find_run
    from alps.show.record_text import show_record
    from alps.show.run_tables import show_whole_run

    if record.startswith("task=python:"):
        record, settings = "", (record, *settings)
    if others := allow_typed(settings):
        raise click.UsageError(f"'{others[0]}': expected no more than task=python:MODULE")
    if not record:
        show_whole_run(find_run(run_folder))
        return
    show_record(find_run(run_folder), record, console(), full=full)


@command()
@takes("RUN… [out=FILE]", "alps.settings:ReportSettings", own_task=True, runs=True)
@takes_time
def report(words: tuple[str, ...]) -> None:
    """Write one self-contained HTML page about one or several runs.

    \b
      alps report runs/extraction-rules-samples out=report.html
    """
    from alps.parsing import parse_words, part_words
    from alps.run.opened import find_run
    from alps.settings import ReportSettings
    from alps.show.report_page import write_report

    runs, settings = part_words(allow_typed(words))
    out = parse_words(settings, ReportSettings).out
    folders = [find_run(run) for run in runs]
    if not folders:
        raise click.UsageError("name at least one run")
    path = write_report(folders, Path(out) if out else folders[0] / "report.html")
    say(f"wrote {path}")


@command()
@takes("RUN… [seed=…] [format=json]", "alps.settings:CompareSettings", own_task=True, runs=True)
@takes_time
def compare(words: tuple[str, ...]) -> None:
    """Compare runs on the records that all of them scored: differences, tests, ties.

    Only runs on the same data under the same judge are compared.

    \b
      alps compare runs/extraction-rules-samples runs/extraction-oracle-samples
    """
    from alps.parsing import parse_words, part_words
    from alps.run.opened import find_run
    from alps.settings import CompareSettings
    from alps.show.compare import compare_runs
    from alps.show.compare_table import print_comparison

    runs, settings = part_words(allow_typed(words))
    parsed = parse_words(settings, CompareSettings)
    comparison = compare_runs([find_run(word) for word in runs], seed=parsed.seed)
    print_as(comparison, parsed.format, print_comparison)
