"""Corrected scores in the terminal: by people's labels, and by audits of some of the records."""

from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from alps.ext.audits.records import HALF
from alps.rows import (
    AuditedScore,
    AuditedTrack,
    AuditSummary,
    BentRow,
    Corrected,
    Figure,
    Summary,
    TrackSummary,
)
from alps.show.contrasts import SIGNIFICANT, SliceContrast
from alps.show.formatting import counted, interval, number, p_value, signed, visible
from alps.show.judge_check import known_item_lines
from alps.show.terminal import figures_table
from alps.tasks import Metric

_METHODS = {
    "ppi": "PPI++: the labelled answers are a random sample of these.",
    "rogan_gladen": "Rogan–Gladen: assumes that the judge errs here as often as on the labelled "
    "items.",
}


def corrected_part(track: TrackSummary, metrics: Sequence[Metric]) -> list[RenderableType]:
    """Return the table of what was corrected on a track, and how; nothing where nothing was."""
    corrected: dict[str, Corrected] = {}
    title = "Corrected for the judge's errors, as people's labels show them"
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for name in ("", "as judged", "corrected", "labels", "n"):
        table.add_column(name, justify="right" if name else "left")
    for metric in metrics:
        score = track.scores.get(metric.name)
        if score is None or score.corrected is None:
            continue
        row = corrected[metric.title] = score.corrected
        shown = "not correctable"
        if row.value is not None:
            shown = f"{_figure(row)}{'!' if row.outside else ''}"
        table.add_row(metric.title, _figure(score), shown, str(row.labelled), str(row.n))
    return [table, *map(Text, correction_lines(corrected))] if corrected else []


def _figure(row: Figure) -> str:
    return f"{number(row.value)} {interval(row)}"


def correction_lines(rows: Mapping[str, Corrected]) -> list[str]:
    """Return how scores were corrected, by their titles, and what could not be."""
    corrected = [row for row in rows.values() if row.value is not None]
    lines = list(dict.fromkeys(_METHODS[row.method] for row in corrected))
    # Cut off at the ends of the scale, a correction would hide that it does not fit the run.
    if any(row.impossible for row in corrected):
        lines.append("! off the scale: a sign that the calibration does not fit this run.")
    elif any(row.outside for row in corrected):
        lines.append("! reaches beyond the scale, and is shown as it is.")
    notes: dict[str, None] = {}
    calibrations: dict[str, None] = {}
    for name, row in rows.items():
        if row.reason:
            lines.append(f"Not correctable ({name.strip()}): {row.reason}.")
        notes |= dict.fromkeys(row.notes)
        calibrations |= dict.fromkeys(row.calibration)
    for note in notes:
        lines.append(f"Doubtful: {note}.")
    lines.append(f"Calibration: {', '.join(calibrations)}.")
    return lines


def audit_part(summary: Summary, track: str, metrics: Sequence[Metric]) -> list[RenderableType]:
    """Return the table of what an audit corrects on a track; nothing where there is none."""
    audit = summary.audit
    found = audit.tracks.get(track) if audit is not None else None
    if audit is None or found is None or not found.scores:
        return []
    scores = found.scores
    title = f"Corrected by audits of {audit.judge}"
    table = figures_table(title, "", "as judged", "corrected", "audits alone", "audits")
    for metric in metrics:
        if (score := scores.get(metric.name)) is not None:
            alone = _figure(score.alone) if score.alone is not None else "–"
            table.add_row(metric.title, *_audited_cells(score), alone, str(score.audited))
    lead = next((metric for metric in metrics if metric.headline), metrics[0])
    looked = [*_slices(found, lead), *bent_part(found.bent, lead)]
    return [table, *map(Text, audit_lines(audit, track, metrics)), *looked]


def _slices(found: AuditedTrack, lead: Metric) -> Iterator[RenderableType]:
    for title, groups in found.slices.items():
        name = f"{lead.title.strip()} by {title}, corrected by audits"
        table = figures_table(name, "", "as judged", "corrected", "audits", "n")
        for group, score in groups.items():
            row = (*_audited_cells(score), str(score.audited), f"{score.n:,}")
            table.add_row(Text(visible(group)), *row)
        yield table
        for group, score in groups.items():
            if score.reason:
                yield Text(visible(f"{group}: {score.reason}."), style="dim")


def slices_part(slices: Sequence[SliceContrast], lead: Metric) -> Iterator[RenderableType]:
    """Yield a table of the differences by slice, if runs were compared by slices."""
    for by in dict.fromkeys(one.by for one in slices):
        told = [one for one in slices if one.by == by]
        title = f"{lead.title.strip()} by {by}, corrected by audits"
        table = figures_table(title, "", "", "difference", "95 % interval", "p", "audits", "n")
        for one in told:
            if one.difference is not None:
                style = "bold" if one.corrected is not None and one.corrected <= SIGNIFICANT else ""
                counts = str(one.audited), f"{one.n:,}"
                row = Text(visible(one.name)), " – ".join(one.pair), *_slice_cells(one), *counts
                table.add_row(*row, style=style)
        if table.row_count:
            yield table
        short = [f"{one.name}, {one.audited}" for one in told if one.difference is None]
        if short:
            few = "; ".join(dict.fromkeys(short))
            yield Text(visible(f"Slices by {by} with too few shared audits: {few}."), style="dim")
    if any(one.corrected is not None for one in slices):
        yield Text("Slices are one family; bold: p at most .05 by Holm's method over all of them.")


def _slice_cells(one: SliceContrast) -> tuple[str, str, str]:
    if one.difference is None:
        return "–", "–", "–"
    estimate = one.difference.estimate
    return signed(estimate.value), interval(estimate), p_value(one.difference.p)


def bent_part(bent: Sequence[BentRow], lead: Metric) -> Iterator[RenderableType]:
    """Yield the table of what bends a cheap judge, if anything was looked at."""
    if not bent:
        return
    title = "What bends the judge: audit less own score, for each s.d."
    table = figures_table(title, "", "change", "95 % interval", "p")
    for row in bent:
        style = "bold" if row.p_holm <= SIGNIFICANT else ""
        cells = signed(row.value), interval(row), p_value(row.p)
        table.add_row(Text(visible(row.by)), *cells, style=style)
    yield table
    yield Text(
        f"Of {lead.title.strip()}; least squares, clustered by session; bold: p at most .05, Holm."
    )


def _audited_cells(score: AuditedScore) -> tuple[str, str]:
    shown = "not corrected" if score.value is None else _figure(score)
    return number(score.cheap.value), f"{shown}{'!' if score.outside else ''}"


def audit_lines(audit: AuditSummary, track: str, metrics: Sequence[Metric]) -> list[str]:
    """Say what audits rest on and cost, what they can't correct, and how many more would help."""
    scores = audit.tracks[track].scores
    lead = next((metric for metric in metrics if metric.headline), metrics[0])
    lines = [_coverage(audit, scores)]
    if not audit.by_people:
        lines += known_item_lines(audit.judge, audit.judge_check)
    for reason in dict.fromkeys(score.reason for score in scores.values()):
        if reason:
            lines.append(f"No corrected score: {reason}.")
    score = scores.get(lead.name)
    if score is not None and score.low is not None:
        lines.append(f"{lead.title.strip()}: {_needed(score)}.")
    if any(score.outside for score in scores.values()):
        lines.append("! reaches beyond the scale, and is shown as it is.")
    return lines


def _coverage(audit: AuditSummary, scores: Mapping[str, AuditedScore]) -> str:
    most = max(scores.values(), key=lambda score: score.audited)
    calls = audit.calls
    said = f"{most.audited:,} of {counted(most.n, 'record')} audited"
    if audit.by_people:
        return f"{said} by people. PPI++ over sessions."
    cost = "cost unknown" if calls.cost is None else f"${calls.cost:.4f}"
    asked = f"{counted(calls.http, 'call')}, {calls.cached:,} cached, {cost}"
    return f"{said}: {asked}. PPI++ over sessions."


def _needed(score: AuditedScore) -> str:
    goal = f"±{number(HALF)[:-1]}"
    if score.needed is None:
        return f"no number of audits gives {goal}: these records are too few"
    if score.needed <= score.audited:
        return f"{goal} is reached"
    return f"{score.needed - score.audited:,} more audits would give {goal}"
