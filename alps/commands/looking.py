"""Commands that report and compare runs."""

from pathlib import Path
from typing import TYPE_CHECKING

from alps.commands.common import command, print_as, say

if TYPE_CHECKING:
    from alps.settings import CompareSettings, ReportSettings


@command("RUN… [out=FILE]", "alps.settings:ReportSettings", runs=True, own_task=True)
def report(runs: list[Path], settings: "ReportSettings") -> None:
    """Write one HTML page about one or more runs.

    \b
      alps report runs/extraction-rules-samples out=report.html
    """
    from alps.show.report_page import write_report

    path = write_report(runs, Path(settings.out) if settings.out else runs[0] / "report.html")
    say(f"wrote {path}")


@command("RUN… [seed=…] [format=json]", "alps.settings:CompareSettings", runs=True, own_task=True)
def compare(runs: list[Path], settings: "CompareSettings") -> None:
    """Compare runs on shared records: Δ, interval, p.

    Only runs on the same data under the same judge are compared.

    \b
      alps compare runs/extraction-rules-samples runs/extraction-oracle-samples
    """
    from functools import partial

    from alps.show.compare import compare_runs
    from alps.show.compare_table import print_comparison

    print_table = partial(print_comparison, whole=settings.metrics == "all")
    print_as(compare_runs(runs, seed=settings.seed), settings.format, print_table)
