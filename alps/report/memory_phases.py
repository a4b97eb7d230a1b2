"""Account of a run's memory system: its admission, and how long its phases took."""

from collections.abc import Iterator

from rich import box
from rich.table import Table

from alps.report.formatting import counted
from alps.rows import Summary


def phase_tables(summary: Summary) -> Iterator[Table]:
    """Yield the times of the phases; nothing for a run without a memory system."""
    if not summary.phases:
        return
    title = "Memory system: seconds a call by phase"
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for name in ("", "calls", "p50", "p95", "p99", "in all"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for name, phase in summary.phases.items():
        each = (f"{seconds:.4f}" for seconds in (phase.p50, phase.p95, phase.p99))
        table.add_row(name, f"{phase.calls:,}", *each, f"{phase.seconds:.1f}")
    yield table


def admission_lines(summary: Summary) -> Iterator[str]:
    """Say how many checks were passed, where there were any."""
    if summary.admission:
        took = sum(check.seconds for check in summary.admission)
        passed = counted(len(summary.admission), "check")
        yield f"Admission of the memory system: {passed} passed in {took:.1f} s."
