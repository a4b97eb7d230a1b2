"""The audit of a data set: what in it would make a score mean something else than it says.

| code | severity | what it is, and where it is looked for |
|---|---|---|
| `id-leak` | serious | retrieval: the gold can be told from candidate ids alone |
| `position-cue` | serious | retrieval: the gold's place in the pool is far from uniform |
| `length-cue` | serious, warning | retrieval: the gold's length or mean rank stands out |
| `duplicate-candidate` | serious, warning | retrieval: equal values (serious: the gold's) |
| `same-session-distractor` | serious, warning | retrieval: a distractor is of the gold's own user |
| `near-duplicate-of-gold` | warning | retrieval: a distractor says nearly what the gold says |
| `update-position-cue` | serious | update: new memories come at the same distances from the end |
| `update-count-cue` | warning | update: nearly every record has the same number of changes |
| `rejected-gold` | warning | everywhere: a gold memory carries the mark of rejection |
| `label-in-input` | serious, note | everywhere: a field of the input gives the gold away |
| `evidence-not-in-user-turn` | warning | everywhere: a quote that no user turn holds |
| `empty-row` | serious, warning, note | everywhere: no dialogue, query or text |
| `refused-row` | serious | everywhere: `alps run` can't read the row |
| `misaligned-row` | serious | everywhere: rows or parts that don't belong together |
| `split-overlap` | serious | everywhere: a session, dialogue or query stands in two splits |

How each is decided stands where it is decided: `audit_records` for single rows, `audit_pools`
for pools, and the statistical tests in `audit_findings`. Rows stream; no pool is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from alps.data.audit_findings import (
    SEVERITIES,
    AuditReport,
    DataFinding,
    Tally,
    TrackLooked,
)
from alps.data.hub import HubSplit
from alps.data.release import GOLD, open_split
from alps.errors import UsageError
from alps.ext.datasets.audit_pools import PoolAudit
from alps.ext.datasets.audit_records import (
    SplitOverlap,
    UpdateAudit,
    check_alignment,
    check_emptiness,
    check_evidence,
    check_labels,
    check_readable,
    check_rejected,
    joined,
    known_values,
    order_of,
    task_of,
    track_folders,
)
from alps.extension import brought_tasks
from alps.show.formatting import counted, visible
from alps.show.table import WIDTH, Cell, Column, Table, named, printed, row_of
from alps.tasks import TASKS, TaskOptions, load_task
from alps.tasks.registry import track_title

_STYLES = {"serious": "bold red", "warning": "yellow", "note": "dim"}
_PLURALS = {"serious": "serious", "warning": "warnings", "note": "notes"}


Known = defaultdict[str, set[str]]


def audit_data(data: str, split: str | None, task: str | None = None) -> AuditReport:
    """Audit data in a layout that a task has to itself, `task` if given, or else the release's.

    Raises:
        UsageError: If there is no such data set or split, or the split must be named.
        DataError: If a file can't be read.
    """
    # Tasks that extensions bring have samples of their own: `task=` names whose.
    brought = () if data == "samples" else brought_tasks()
    for name in (*TASKS, *brought) if task is None else (task,):
        files = load_task(name).data
        report = None if files.audit is None else files.audit(data, split)
        if report is not None:
            return report
        if task is not None and files.open_records is not None:
            # Opened as a run opens them, files that can't be read say why.
            files.open_records(data, TaskOptions(added=(("split", split),) if split else ()))

    return audit(data, split, task)


def audit(data: str, split: str | None, task: str | None = None) -> AuditReport:
    """Audit every track of one split; `data` and `split` are what `alps run` takes.

    Raises:
        UsageError: If there is no such data set or split, the split must be named, or the split has
            no files that are known here, of `task` where one is named.
    """
    opened = open_split(data, split)
    unchecked = []
    overlap = None
    if isinstance(opened, HubSplit):
        unchecked.append(
            "split-overlap: alps does not fetch the other splits from the hub; audit a local "
            "copy of all splits"
        )
    else:
        overlap = SplitOverlap(opened)
        if not overlap.splits:
            unchecked.append("split-overlap: the data has no other split")
    looked: list[TrackLooked] = []
    findings: list[DataFinding] = []
    # What the other tracks say of a user is known before the pools are looked at, and to nobody
    # where there are none.
    tracks = sorted(track_folders(opened), key=lambda pair: _has_pools(pair[0]))
    _refuse_unread(f"data={data}, split {opened.name}", [track for track, _ in tracks], task)
    known: Known | None = None
    if any(_has_pools(track) for track, _ in tracks):
        known = defaultdict(set)
    for track, folder in tracks:
        of_track, rows = _audit_track(track, folder, known, overlap)
        findings += of_track
        looked.append(rows)
        if not (rows.with_gold or (folder / GOLD).is_file()):
            unchecked.append(f"{track}: gold is withheld and was not checked")
    looked.sort(key=lambda rows: order_of(rows.track))
    findings.sort(key=lambda f: (SEVERITIES.index(f.severity), order_of(f.track), f.code, -f.count))
    return AuditReport(data, opened.name, tuple(looked), tuple(findings), tuple(unchecked))


def _refuse_unread(where: str, tracks: Sequence[str], task: str | None) -> None:
    """Refuse data of which nothing is looked at, or nothing of the task that was named."""
    there = set(map(task_of, tracks))
    if task is not None:
        there &= {task_of(load_task(task).place)}
    if not there:
        of_task = "" if task is None else f" of {task}"
        reads = "it reads the tasks of the release and the sets of alps data list"
        raise UsageError(f"{where}: no files{of_task} that alps data audit reads; {reads}")


def _has_pools(track: str) -> bool:
    return task_of(track) == "task3"


def _audit_track(
    track: str, folder: Path, known: Known | None, overlap: SplitOverlap | None
) -> tuple[list[DataFinding], TrackLooked]:
    tally = Tally(track)
    pools = PoolAudit(folder, tally, known) if known is not None and _has_pools(track) else None
    updates = UpdateAudit(tally) if task_of(track) == "task2" else None
    rows = with_gold = 0
    for name, row, gold in joined(folder, tally):
        rows += 1
        with_gold += gold is not None
        check_alignment(name, row, gold, tally)
        check_emptiness(name, row, gold, tally)
        check_readable(name, row, gold, track, tally)
        check_rejected(name, gold, tally)
        check_evidence(name, row, gold, tally)
        check_labels(name, row, gold, tally)
        if overlap is not None:
            overlap.check(name, row, tally)
        if updates is not None:
            updates.look(name, row, gold)
        if pools is not None:
            pools.look(name, row, gold)
        elif known is not None:
            for session, value in known_values(row, gold):
                known[session].add(value)
    findings = tally.findings()
    for aggregate in (pools, updates):
        findings += aggregate.findings() if aggregate is not None else []
    return findings, TrackLooked(track, rows, with_gold)


def print_audit(report: AuditReport, console: Console) -> None:
    """Print the audited data, a table of the findings, and an example of each serious one."""
    rows = sum(track.rows for track in report.tracks)
    size = f"{counted(rows, 'row')} in {counted(len(report.tracks), 'task')}"
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
