"""Account of a run's memory system: its admission, and how long its phases took."""

from collections.abc import Iterator

from rich import box
from rich.table import Table

from alps.ext.memory.admission import DECLARED, declared_in
from alps.rows import Summary, Used
from alps.show.formatting import counted


def phase_tables(summary: Summary) -> Iterator[Table]:
    """Yield the times of the phases; nothing for a run without a memory system."""
    if not summary.phases:
        return
    title = "Memory system: seconds a call by phase"
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    phases = dict(summary.phases)
    if summary.answers is not None:
        phases["answer"] = summary.answers
    metered = any(phase.used for phase in phases.values())
    used = ("requests", "tokens", "cost") if metered else ()
    for name in ("", "calls", "p50", "p95", "p99", "in all", *used):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for name, phase in phases.items():
        each = (f"{seconds:.4f}" for seconds in (phase.p50, phase.p95, phase.p99))
        cells = _used(phase.used) if metered else ()
        table.add_row(name, f"{phase.calls:,}", *each, f"{phase.seconds:.1f}", *cells)
    yield table


def _used(used: Used | None) -> tuple[str, str, str]:
    if used is None:
        return "0", "0", "$0"
    tokens = used.prompt_tokens + used.completion_tokens
    return f"{used.requests:,}", f"{tokens:,}", "–" if used.cost is None else f"${used.cost:.4f}"


def admission_lines(summary: Summary) -> Iterator[str]:
    """Say how many checks were passed, where there were any."""
    if summary.admission:
        took = sum(check.seconds for check in summary.admission)
        names = [check.name for check in summary.admission]
        declared = [name for name in names if name.endswith(DECLARED)]
        passed = counted(len(names) - len(declared), "check")
        yield f"Admission of the memory system: {passed} passed in {took:.1f} s."
        if declared:
            yield f"It declares that these checks are not for it: {', '.join(declared_in(names))}."
    if settled := summary.phases.get("settle"):
        each = zip(("p50", "p95", "p99"), (settled.p50, settled.p95, settled.p99), strict=True)
        lag = ", ".join(f"{seconds:.4f} s ({name})" for name, seconds in each)
        yield f"Write to readable: {lag} from the end of ingest until settle says ready."
    if summary.bytes_per_1000_turns is not None:
        size = f"{summary.bytes_per_1000_turns:,.0f} bytes for each 1,000 turns"
        yield f"It holds {size} that it was told."
