"""Import of result files of other benchmarks and harnesses, from the user's own copy."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alps.commands import command, console
from alps.extension import Extension

if TYPE_CHECKING:
    from alps.ext.importers.settings import ImportSettings

FILE_FORMATS = (
    *("amb", "beam", "halumem", "inspect", "locomo", "longmemeval", "mem0", "omnimemeval"),
    *("personamem_v3", "rows"),
)


@command(
    "FILE… out=DIR [data=FILE] [verdict=FIELD] [reported=…]",
    "alps.ext.importers.settings:ImportSettings",
    name="import",
    folders=True,
)
@click.argument("form", metavar="FORMAT", type=click.Choice(FILE_FORMATS))
def import_results(form: Any, folders: list[str], settings: "ImportSettings") -> None:
    """Import results of other benchmarks; recompute and check them.

    FORMAT is one of amb, beam, halumem, inspect, locomo, longmemeval, mem0, omnimemeval,
    personamem_v3 or rows; rows are objects of any project with question, answer and verdict.

    \b
      alps import mem0 evaluation_metrics.json out=imported
      alps import longmemeval results.jsonl data=longmemeval_s.json out=imported
    """
    from alps.ext.importers.files import import_files, print_imported

    if not folders:
        raise click.UsageError("name at least one file")
    paths = [Path(file).expanduser() for file in folders]
    print_imported(import_files(form, paths, settings), console())


EXTENSION = Extension(
    "importers",
    commands={"import": "alps.ext.importers:import_results"},
    heading="Data",
)
