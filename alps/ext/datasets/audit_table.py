"""Findings of an audit, in a terminal of 80 columns."""

from collections import Counter
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from alps.data.audit_findings import SEVERITIES, AuditReport, DataFinding
from alps.show.formatting import counted, visible
from alps.show.table import WIDTH, Cell, Column, Table, named, printed, row_of
from alps.tasks.registry import track_title

_STYLES = {"serious": "bold red", "warning": "yellow", "note": "dim"}
_PLURALS = {"serious": "serious", "warning": "warnings", "note": "notes"}


def print_audit(report: AuditReport, console: Console) -> None:
    """Print the audited data, a table of the findings, and an example of each serious one."""
    rows = sum(track.rows for track in report.tracks)
    size = f"{rows:,} rows in {counted(len(report.tracks), 'task')}"
    title = f"Audit of {visible(report.data)}, split {visible(report.split)}: {size}."
    parts: list[RenderableType] = [Text(title, "bold")]
    if report.findings:
        parts += [*printed([_table(report)]), *_explanations(report), Text()]
    parts += [Text(f"Not checked: {visible(line)}.", style="dim") for line in report.unchecked]
    parts.append(_verdict(report))
    console.print(Group(*parts), width=min(WIDTH, console.width))


def _table(report: AuditReport) -> Table:
    rows = []
    for finding in report.findings:
        severity = Cell(finding.severity, style=_STYLES[finding.severity])
        share = f"{finding.count:,} of {finding.of:,} {finding.unit}"
        rows.append(row_of(severity, finding.code, track_title(finding.track), share))
    columns = [named(name, "no") for name in ("", "finding", "task")]
    return Table("", [*columns, Column("found in", right=True)], rows, layout="close")


def _explanations(report: AuditReport) -> Iterator[RenderableType]:
    """Say of each kind of finding what it means, with one example.

    Tracks that share it are named together.
    """
    alike: dict[tuple[str, str, str], list[DataFinding]] = {}
    for finding in report.findings:
        alike.setdefault((finding.severity, finding.code, finding.detail), []).append(finding)
    for (severity, code, detail), findings in alike.items():
        line = Text(f"{code}: ", style=_STYLES[severity])
        line.append(visible(detail), style="not bold default" if severity != "note" else "")
        tracks = ", ".join(track_title(finding.track) for finding in findings)
        line.append(f" ({tracks})", style="dim not bold default")
        yield line
        example = next((finding.examples[0] for finding in findings if finding.examples), None)
        if example is not None and severity != "note":
            shown = visible(f"{example.benchmark_id}: {example.what}")
            yield Padding(Text(shown, style="dim"), (0, 0, 0, 2))


def _verdict(report: AuditReport) -> Text:
    counts = Counter(finding.severity for finding in report.findings)
    parts = []
    for severity in SEVERITIES:
        if counts[severity]:
            parts.append(counted(counts[severity], severity, _PLURALS[severity]))
    shown = f" ({', '.join(parts)})" if parts else ""
    if report.serious:
        serious = f"Do not trust scores on this data: the audit has serious findings{shown}."
        return Text(serious, style="bold red")
    return Text(f"Nothing serious{shown}.", style="bold green")
