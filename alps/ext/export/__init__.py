"""Export of runs to tables, and to the tools that people keep experiments in."""

from pathlib import Path
from typing import TYPE_CHECKING

from alps.commands import command, say
from alps.extension import Extension

if TYPE_CHECKING:
    from alps.ext.export.formats import ExportSettings


@command(
    "RUN… format=… out=DIR", "alps.ext.export.formats:ExportSettings", runs=True, own_task=True
)
def export(runs: list[Path], settings: "ExportSettings") -> None:
    """Export runs to CSV, Parquet, Inspect, MLflow or W&B.

    The export has one row per answer and one row per score, with its interval.

    \b
      alps export runs/extraction-rules-samples format=parquet out=tables
      alps export runs/extraction-rules-samples format=inspect out=logs
    """
    from alps.ext.export.formats import export_runs

    for path in export_runs(runs, settings):
        say(f"wrote {path}")


EXTENSION = Extension(
    "export",
    needs=("audits",),
    commands={"export": "alps.ext.export:export"},
    heading="Data",
)
