"""Tables of audits: corrected scores, slices, and causes of the cheap judge's bias."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alps.ext.audits.records import HALF
from alps.rows import AuditedScore, AuditedTrack, AuditSummary, BentRow, Summary
from alps.run.opened import RunFolder
from alps.show.formatting import counted, judge_mark, known_item_lines, number, p_value
from alps.show.parts import CorrectedComparison, Pair, ShownPart
from alps.show.table import (
    Cell,
    Cells,
    Line,
    Part,
    Row,
    Table,
    both,
    change,
    dim,
    figures,
    named,
    row_of,
    thousands,
    ungrouped,
    with_interval,
)
from alps.stats.paired import SIGNIFICANT, Difference
from alps.tasks import Metric
from alps.tasks.metrics import headline_of


class AuditShownPart(ShownPart):
    """What is shown of audits."""

    def rows(self, summary: Summary, track: str, metric: Metric) -> Iterator[Row]:
        """Yield the headline as audits correct it."""
        found = summary.audit.tracks.get(track) if summary.audit is not None else None
        score = found.scores.get(metric.name) if found is not None else None
        if summary.audit is None or score is None:
            return
        by = f"with {counted(score.audited, 'audit')} by {summary.audit.judge}"
        if not summary.audit.by_people and not summary.audit.judge_check:
            by += judge_mark(summary.audit)
        yield row_of(
            "corrected", *with_interval(score), by if score.reason is None else "not corrected"
        )

    def tables(self, summary: Summary, track: str, metrics: Sequence[Metric]) -> Iterator[Part]:
        """Yield what audits correct on a track."""
        audit = summary.audit
        found = audit.tracks.get(track) if audit is not None else None
        if audit is None or found is None or not found.scores:
            return
        lead = headline_of(metrics)
        yield _scores(audit, track, metrics)
        yield from _slices(found, lead)
        yield from bent_table(found.bent, lead)

    def corrected(
        self, runs: Mapping[str, RunFolder], tracks: Sequence[str]
    ) -> CorrectedComparison | None:
        """Compare runs by the audits that they share."""
        from alps.ext.audits.compare import compare_audits

        return compare_audits(runs, tracks)


def _scores(audit: AuditSummary, track: str, metrics: Sequence[Metric]) -> Table:
    scores, rows = audit.tracks[track].scores, []
    for metric in metrics:
        if (score := scores.get(metric.name)) is not None:
            alone = both(score.alone) if score.alone is not None else "–"
            rows.append(row_of(metric.title, *_corrected(score), alone, ungrouped(score.audited)))
    columns = [named(), *figures("as judged", "corrected", "audits alone", "audits")]
    notes = list(map(Line, audit_lines(audit, track, metrics)))
    return Table(f"Corrected with audits by {audit.judge}", columns, rows, notes)


def _corrected(score: AuditedScore) -> tuple[Cells, Cells]:
    judged = Cell(number(score.cheap.value), score.cheap.value)
    if score.value is None:
        return judged, "not corrected"
    return judged, both(score, "!" if score.outside else "")


def _slices(found: AuditedTrack, lead: Metric) -> Iterator[Table]:
    columns = [named(), *figures("as judged", "corrected", "audits", "n")]
    for title, groups in found.slices.items():
        rows, notes = [], []
        for group, score in groups.items():
            rows.append(
                row_of(group, *_corrected(score), ungrouped(score.audited), thousands(score.n))
            )
            if score.reason:
                notes.append(dim(f"{group}: {score.reason}."))
        name = f"{lead.title.strip()} by {title}, corrected by audits"
        yield Table(name, columns, rows, notes)


def bent_table(bent: Sequence[BentRow], lead: Metric) -> Iterator[Table]:
    """Yield the table of a cheap judge's bias, if there is any."""
    if not bent:
        return
    rows = []
    for one in bent:
        style = "bold" if one.p_holm <= SIGNIFICANT else ""
        rows.append(row_of(one.by, *change(one), Cell(p_value(one.p), one.p), style=style))
    how = (
        "alps estimates the changes by least squares, with intervals clustered by session; bold "
        "marks p ≤ .05 (Holm)."
    )
    yield Table(
        "Judge bias: audit minus judge, per standard deviation of each feature",
        [named(), *figures("change", "95 % interval", "p")],
        rows,
        [Line(f"Metric: {lead.title.strip()}. {how}")],
    )


@dataclass(frozen=True)
class SliceContrast:
    """The headline of two runs on one slice of their records, corrected by shared audits.

    Attributes:
        by: What the slices are by.
        name: That of the slice.
        pair: The letters of the runs.
        difference: First less second; None where there are too few audits, and `reason` says so.
        audited: How many records of the slice are audited in both.
        n: How many there are.
        corrected: p by Holm's method over all slices and pairs of the track.
    """

    by: str
    name: str
    pair: Pair
    difference: Difference | None
    audited: int
    n: int
    reason: str | None = None
    corrected: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        found: dict[str, Any] = {"by": self.by, "slice": self.name}
        found |= {"first": self.pair[0], "second": self.pair[1]}
        found |= {"audited": self.audited, "n": self.n}
        if self.difference is None:
            return {**found, "difference": None, "reason": self.reason}
        found |= {"difference": self.difference.estimate.row, "p": self.difference.p}
        return {**found, "p_holm": self.corrected, "detectable": self.difference.detectable}


def slice_tables(slices: Sequence[SliceContrast], lead: Metric) -> Iterator[Part]:
    """Yield a table of the differences by slice, if runs were compared by slices."""
    columns = [named(), *figures("", "difference", "95 % interval", "p", "audits", "n")]
    for by in dict.fromkeys(one.by for one in slices):
        rows: list[Row] = []
        short: dict[str, None] = {}
        for one in slices:
            if one.by != by:
                continue
            if one.difference is None:
                short[f"{one.name} ({one.audited} audited)"] = None
            else:
                rows.append(_slice_row(one, one.difference))
        few = [dim(f"By {by}, too few records are audited in both runs: {'; '.join(short)}.")]
        notes = few if short else []
        title = f"{lead.title.strip()} by {by}, corrected by audits"
        yield from [Table(title, columns, rows, notes)] if rows else notes
    if any(one.corrected is not None for one in slices):
        yield Line("Bold marks p ≤ .05 (Holm over all slices).")


def _slice_row(one: SliceContrast, difference: Difference) -> Row:
    bold = one.corrected is not None and one.corrected <= SIGNIFICANT
    tested = (*change(difference.estimate), Cell(p_value(difference.p), difference.p))
    cells = one.name, " – ".join(one.pair), *tested, ungrouped(one.audited), thousands(one.n)
    return row_of(*cells, style="bold" if bold else "")


def audit_lines(audit: AuditSummary, track: str, metrics: Sequence[Metric]) -> list[str]:
    """Describe audits: coverage, cost, scores not corrected, and how many more would help."""
    scores = audit.tracks[track].scores
    lead = headline_of(metrics)
    lines = [_coverage(audit, scores)]
    if not audit.by_people:
        lines += known_item_lines(audit.judge, audit.judge_check or audit.judge_check_before)
    lines += _why_not(scores, metrics)
    score = scores.get(lead.name)
    if score is not None and score.low is not None:
        lines.append(f"{lead.title.strip()}: {_needed(score)}.")
    if any(score.outside for score in scores.values()):
        lines.append("! The interval of a corrected score extends beyond the scale.")
    return lines


def _why_not(scores: Mapping[str, AuditedScore], metrics: Sequence[Metric]) -> Iterator[str]:
    """Say which scores audits don't correct, or give no interval, and why."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for metric in metrics:
        score = scores.get(metric.name)
        if score is not None and score.reason:
            what = "corrected score" if score.value is None else "interval"
            lacking.setdefault((what, score.reason), []).append(metric.title.strip())
    for (what, reason), titles in lacking.items():
        of = "" if len(titles) == len(scores) else f" for {', '.join(titles)}"
        yield f"No {what}{of}: {reason}."


def _coverage(audit: AuditSummary, scores: Mapping[str, AuditedScore]) -> str:
    most = max(scores.values(), key=lambda score: score.audited)
    calls = audit.calls
    said = f"{most.audited:,} of {counted(most.n, 'record')} audited"
    if audit.by_people:
        return f"{said} by people. Method: PPI++ with sessions as units."
    cost = "cost unknown" if calls.cost is None else f"${calls.cost:.4f}"
    asked = f"{counted(calls.http, 'call')}, {calls.cached:,} cached, {cost}"
    return f"{said}: {asked}. Method: PPI++ with sessions as units."


def _needed(score: AuditedScore) -> str:
    goal = f"an interval of ±{number(HALF)[:-1]}"
    if score.needed is not None and score.needed <= score.audited:
        return f"{goal} is reached"
    if score.audited == score.n:
        return f"all records are audited; {goal} needs more data"
    # Of few audits both the variance and the judge's correlation are uncertain.
    said = f"estimated from {counted(score.audited, 'audit')}"
    if score.needed is None:
        return f"{said}, even a full audit of these records may not give {goal}"
    more = counted(score.needed - score.audited, "more record")
    return f"{said}, {goal} needs audits of about {more}"
