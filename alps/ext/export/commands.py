"""The command `alps export`."""

import click

from alps.commands.common import allow_typed, command, say, takes_time
from alps.completion import takes


@command()
@takes("RUN… format=… out=DIR", "alps.ext.export.settings:ExportSettings", own_task=True, runs=True)
@takes_time
def export(words: tuple[str, ...]) -> None:
    """Export runs to tables, or to the tools that experiments are kept in.

    One row for each answer, and one for each score with its interval.

    \b
      alps export runs/extraction-rules-samples format=parquet out=tables
      alps export runs/extraction-rules-samples format=inspect out=logs
    """
    from alps.ext.export.settings import ExportSettings
    from alps.ext.export.write import export_runs
    from alps.parsing import parse_words, part_words
    from alps.run.opened import find_run

    runs, settings = part_words(allow_typed(words))
    parsed = parse_words(settings, ExportSettings)
    if not runs:
        raise click.UsageError("name at least one run")
    for path in export_runs([find_run(run) for run in runs], parsed):
        say(f"wrote {path}")
