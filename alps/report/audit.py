"""Findings of an audit, in a terminal of 80 columns."""

from collections import Counter
from collections.abc import Iterator

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from alps.data.audit_findings import SEVERITIES, AuditReport, Finding
from alps.report.formatting import visible

_WIDTH = 80
_STYLES = {"serious": "bold red", "warning": "yellow", "note": "dim"}
_PLURALS = {"serious": "serious", "warning": "warnings", "note": "notes"}


def print_audit(report: AuditReport, console: Console) -> None:
    """Print what was audited, a table of the findings, and an example of each serious one."""
    rows = sum(track.rows for track in report.tracks)
    tracks = f"{len(report.tracks)} track{'s' if len(report.tracks) != 1 else ''}"
    parts: list[RenderableType] = [
        Text(
            f"Audit of {visible(report.data)}, split {visible(report.split)}: "
            f"{rows:,} rows in {tracks}.",
            "bold",
        )
    ]
    if report.findings:
        parts += [_table(report), *_explanations(report), Text()]
    parts += [Text(f"Not looked at: {visible(line)}.", style="dim") for line in report.unchecked]
    parts.append(_verdict(report))
    console.print(Group(*parts), width=min(_WIDTH, console.width))


def _table(report: AuditReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", "finding", "track"):
        table.add_column(name, no_wrap=True)
    table.add_column("found in", justify="right")
    for finding in report.findings:
        found = f"{finding.count:,} of {finding.of:,} {finding.unit}"
        table.add_row(
            Text(finding.severity, style=_STYLES[finding.severity]),
            finding.code,
            finding.track,
            found,
        )
    return table


def _explanations(report: AuditReport) -> Iterator[RenderableType]:
    """Say of each kind of finding what it means, with one example.

    Tracks that share it are named together.
    """
    alike: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in report.findings:
        alike.setdefault((finding.severity, finding.code, finding.detail), []).append(finding)
    for (severity, code, detail), findings in alike.items():
        line = Text(f"{code}: ", style=_STYLES[severity])
        line.append(visible(detail), style="not bold default" if severity != "note" else "")
        line.append(
            f" ({', '.join(finding.track for finding in findings)})", style="dim not bold default"
        )
        yield line
        example = next((finding.examples[0] for finding in findings if finding.examples), None)
        if example is not None and severity != "note":
            yield Padding(
                Text(visible(f"{example.benchmark_id}: {example.what}"), style="dim"), (0, 0, 0, 2)
            )


def _verdict(report: AuditReport) -> Text:
    counts = Counter(finding.severity for finding in report.findings)
    said = ", ".join(
        f"{counts[severity]} {_PLURALS[severity]}" for severity in SEVERITIES if counts[severity]
    )
    if report.serious:
        return Text(
            f"Serious findings: scores on this data can't be taken at their word ({said}).",
            style="bold red",
        )
    return Text(f"Nothing serious{f' ({said})' if said else ''}.", style="bold green")
