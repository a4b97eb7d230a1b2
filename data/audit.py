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
| `misaligned-row` | serious | everywhere: rows or parts that don't belong together |
| `split-overlap` | serious | everywhere: a session, dialogue or query stands in two splits |

How each is decided stands where it is decided: `audit_rows`, `audit_gold`, `audit_pools`, and the
statistical tests in `audit_findings`. Rows stream; no pool is kept.
"""

from collections import defaultdict
from pathlib import Path

from alps.data.audit_findings import SEVERITIES, AuditReport, Example, Finding, Tally, TrackLooked
from alps.data.audit_gold import (
    Overlap,
    UpdateAudit,
    check_evidence,
    check_labels,
    check_rejected,
    known_values,
    order_of,
    track_folders,
)
from alps.data.audit_pools import PoolAudit
from alps.data.audit_rows import check_alignment, check_emptiness, joined, task_of
from alps.data.hub import HubSplit
from alps.data.release import open_split

__all__ = ["AuditReport", "Example", "Finding", "TrackLooked", "audit"]

Known = defaultdict[str, set[str]]


def audit(data: str, split: str | None) -> AuditReport:
    """Audit every track of one split; `data` and `split` are what `alps run` takes.

    Raises:
        UsageError: If there is no such data set or split, or the split must be named.
    """
    opened = open_split(data, split)
    unchecked = []
    overlap = None
    if isinstance(opened, HubSplit):
        unchecked.append(
            "split-overlap: the other splits of the hub are not fetched; audit a local copy of "
            "them all"
        )
    else:
        overlap = Overlap(opened)
        if not overlap.splits:
            unchecked.append("split-overlap: there is no other split beside this one")
    looked: list[TrackLooked] = []
    findings: list[Finding] = []
    # What the other tracks say of a user is known before the pools are looked at, and to nobody
    # where there are none.
    tracks = sorted(track_folders(opened), key=lambda pair: _has_pools(pair[0]))
    known: Known | None = None
    if any(_has_pools(track) for track, _ in tracks):
        known = defaultdict(set)
    for track, folder in tracks:
        of_track, rows = _audit_track(track, folder, known, overlap)
        findings += of_track
        looked.append(rows)
        if not rows.with_gold:
            unchecked.append(
                f"{track}: its gold is withheld, so nothing about gold could be looked at"
            )
    looked.sort(key=lambda rows: order_of(rows.track))
    findings.sort(key=lambda f: (SEVERITIES.index(f.severity), order_of(f.track), f.code, -f.count))
    return AuditReport(data, opened.name, tuple(looked), tuple(findings), tuple(unchecked))


def _has_pools(track: str) -> bool:
    return task_of(track) == "task3"


def _audit_track(
    track: str, folder: Path, known: Known | None, overlap: Overlap | None
) -> tuple[list[Finding], TrackLooked]:
    tally = Tally(track)
    pools = PoolAudit(folder, tally, known) if known is not None and _has_pools(track) else None
    updates = UpdateAudit(tally) if task_of(track) == "task2" else None
    rows = with_gold = 0
    for name, row, gold in joined(folder, tally):
        rows += 1
        with_gold += gold is not None
        check_alignment(name, row, gold, tally)
        check_emptiness(name, row, gold, tally)
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
