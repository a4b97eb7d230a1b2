"""The command `alps import`."""

from typing import Any

import click

from alps.commands.common import command, console, takes_time
from alps.completion import takes

FILE_FORMATS = ("amb", "beam", "halumem", "inspect", "locomo", "longmemeval", "mem0", "omnimemeval")


@command("import")
@click.argument("form", metavar="FORMAT", type=click.Choice(FILE_FORMATS))
@takes(
    "FILE… out=DIR [data=FILE] [verdict=FIELD] [reported=…]",
    "alps.ext.importers.settings:ImportSettings",
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

    from alps.ext.importers.files import import_files
    from alps.ext.importers.settings import ImportSettings
    from alps.ext.importers.table import print_imported
    from alps.parsing import parse_words, part_words

    files, settings = part_words(words)
    parsed = parse_words(settings, ImportSettings)
    if not files:
        raise click.UsageError("name at least one file")
    paths = [Path(file).expanduser() for file in files]
    print_imported(import_files(form, paths, parsed), console())
