"""Command that compares runs."""

from pathlib import Path
from typing import TYPE_CHECKING

from alps.commands.common import command, print_as

if TYPE_CHECKING:
    from alps.settings import CompareSettings


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
