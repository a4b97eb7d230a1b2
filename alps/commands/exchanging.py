"""Commands that bring results out of alps and into it: `export`, `import`."""

from typing import Any

import click

from alps.commands.common import allow_typed, command, console, say, takes_time
from alps.completion import takes

FILE_FORMATS = ("amb", "beam", "halumem", "inspect", "locomo", "longmemeval", "mem0", "omnimemeval")


@command()
@takes("RUN… format=… out=DIR", "alps.export.settings:ExportSettings", own_task=True, runs=True)
@takes_time
def export(words: tuple[str, ...]) -> None:
    """Export runs to tables, or to the tools that experiments are kept in.

    One row for each answer, and one for each score with its interval.

    \b
      alps export runs/extraction-rules-samples format=parquet out=tables
      alps export runs/extraction-rules-samples format=inspect out=logs
    """
    from alps.export.settings import ExportSettings
    from alps.export.write import export_runs
    from alps.parsing import parse_words, part_words
    from alps.run.opened import find_run

    runs, settings = part_words(allow_typed(words))
    parsed = parse_words(settings, ExportSettings)
    if not runs:
        raise click.UsageError("name at least one run")
    for path in export_runs([find_run(run) for run in runs], parsed):
        say(f"wrote {path}")


@command("import")
@click.argument("form", metavar="FORMAT", type=click.Choice(FILE_FORMATS))
@takes(
    "FILE… out=DIR [data=FILE] [verdict=FIELD] [reported=…]",
    "alps.importers.settings:ImportSettings",
    folders=True,
)
@takes_time
def import_results(form: Any, words: tuple[str, ...]) -> None:
    """Import result files of other benchmarks: scores recomputed, doubts named.

    FORMAT is one of amb, beam, halumem, inspect, locomo, longmemeval, mem0 and omnimemeval.

    \b
      alps import mem0 evaluation_metrics.json out=imported
      alps import longmemeval mine.jsonl.eval-results-gpt-4o data=longmemeval_s.json out=imported
    """
    from pathlib import Path

    from alps.importers.files import import_files
    from alps.importers.settings import ImportSettings
    from alps.importers.table import print_imported
    from alps.parsing import parse_words, part_words

    files, settings = part_words(words)
    parsed = parse_words(settings, ImportSettings)
    if not files:
        raise click.UsageError("name at least one file")
    paths = [Path(file).expanduser() for file in files]
    print_imported(import_files(form, paths, parsed), console())
