"""Comparison of runs in a terminal of 80 columns."""

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from alps.report.compare import (
    SIGNIFICANT,
    Comparison,
    Contrast,
    MetricComparison,
    Side,
    TrackComparison,
)
from alps.report.formatting import counted, interval, number, signed, visible
from alps.report.tables import close_table
from alps.report.terminal import WIDTH
from alps.tasks import Metric

_RUNS_A_TABLE = 5
_NARROW = 76
_LOWER = " ↓"


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print a comparison: every metric of two runs, or the ties and pairs of more."""
    parts: list[RenderableType] = [_legend(comparison.sides)]
    for found in comparison.tracks:
        parts += [Text(), *_track(comparison.sides, found, narrow=console.width < _NARROW)]
    parts.append(Text())
    parts += [Text(visible(f"{note}."), style="dim") for note in comparison.notes]
    parts += [
        Text(line, style="dim")
        for line in _explanations(comparison, narrow=console.width < _NARROW)
    ]
    console.print(Group(*parts), width=min(WIDTH, console.width))


def _legend(sides: Sequence[Side]) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for side in sides:
        name = Text(visible(str(side.folder)))
        name.append(visible(f"  {side.model} · judged by {side.judge}"), style="dim")
        grid.add_row(Text(side.letter, style="bold"), name)
    return grid


def _track(
    sides: Sequence[Side], found: TrackComparison, *, narrow: bool
) -> Iterator[RenderableType]:
    where = "" if found.clusters is None else f" from {counted(found.clusters, 'session')}"
    title = visible(f"{found.track}: {counted(found.shared, 'shared record')}{where}")
    if not found.metrics or not found.shared:
        yield Text(title, style="bold")
    elif len(sides) == 2:
        yield _differences(title, sides, found, narrow=narrow)
        yield from _discordant(found)
    else:
        yield from _ranks(title, sides, found)
        if found.lead is not None:
            yield _pairs(found.lead, narrow=narrow)
    yield Text(_account(sides, found))
    if bare := [metric.metric.title.strip() for metric in found.metrics if not _records(metric)]:
        yield Text(
            visible(f"Left out (no record has it in all runs): {', '.join(bare)}."), style="dim"
        )
    for note in found.notes:
        yield Text(visible(f"{note}."), style="dim")


def _differences(
    title: str, sides: Sequence[Side], found: TrackComparison, *, narrow: bool
) -> Table:
    """Lay out every metric of two runs; a narrow terminal gets no scores, only differences."""
    first, second = (side.letter for side in sides)
    scored = () if narrow else (first, second)
    table = _table(
        title, "", *scored, f"{first} – {second}", "95 % interval", "p", *_seen(narrow), "n"
    )
    for metric in found.metrics:
        contrast = metric.contrasts[0]
        if not _records(metric):
            continue
        scores = () if narrow else tuple(number(score.value) for score in contrast.scores)
        count = str(contrast.difference.estimate.n)
        table.add_row(
            _title(metric.metric),
            *scores,
            *_difference(contrast, narrow),
            count,
            style=_style(contrast),
        )
    return table


def _seen(narrow: bool) -> tuple[str, ...]:
    return () if narrow else ("MDE",)


def _difference(contrast: Contrast, narrow: bool) -> tuple[str, ...]:
    """Return the cells of a difference: value, interval, corrected p, and what was detectable."""
    estimate = contrast.difference.estimate
    return (
        signed(estimate.value),
        interval(vars(estimate)),
        _p(contrast.corrected),
        *(() if narrow else (number(contrast.difference.detectable),)),
    )


def _discordant(found: TrackComparison) -> Iterator[Text]:
    for metric in found.metrics:
        contrast = metric.contrasts[0]
        if (test := contrast.mcnemar) is None or not (test.first_only or test.second_only):
            continue
        counts = f"{test.first_only} only in {contrast.first}"
        counts += f", {test.second_only} only in {contrast.second}"
        # Of records that belong together its p is none, and another than the table's would be a
        # test of its own.
        exact = f"; exact McNemar p {_p(contrast.corrected)}" if contrast.exact else ""
        yield Text(visible(f"{metric.metric.title.strip()}: {counts}{exact}."))


def _ranks(title: str, sides: Sequence[Side], found: TrackComparison) -> Iterator[RenderableType]:
    """Lay out the headline of every run, the best first, then every metric with its ties."""
    lead = found.lead
    assert lead is not None
    table = _table(title, "", "", visible(lead.metric.title.strip()), "95 % interval", "ties")
    table.columns[1].justify = "left"
    table.columns[1].overflow = "fold"
    models = {side.letter: side.model for side in sides}
    for one in lead.ranked:
        row = (number(one.estimate.value), interval(vars(one.estimate)), " ".join(one.letters))
        table.add_row(one.name, Text(visible(models[one.name])), *row)
    yield table
    for start in range(0, len(sides), _RUNS_A_TABLE):
        letters = [side.letter for side in sides[start : start + _RUNS_A_TABLE]]
        grid = _table("Every metric, with the letters of its ties", "", *letters, "n")
        for metric in (metric for metric in found.metrics if _records(metric)):
            cells = {
                one.name: f"{number(one.estimate.value)} {' '.join(one.letters)}"
                for one in metric.ranked
            }
            count = str(metric.ranked[0].estimate.n)
            grid.add_row(_title(metric.metric), *(cells[letter] for letter in letters), count)
        yield grid


def _pairs(lead: MetricComparison, *, narrow: bool) -> Table:
    title = f"{lead.metric.title.strip()}: every pair"
    table = _table(visible(title), "", "difference", "95 % interval", "p", *_seen(narrow), "n")
    for contrast in lead.contrasts:
        count = str(contrast.difference.estimate.n)
        pair = f"{contrast.first} – {contrast.second}"
        table.add_row(pair, *_difference(contrast, narrow), count, style=_style(contrast))
    return table


def _records(found: MetricComparison) -> int:
    """Return on how many records all runs have a metric."""
    return found.ranked[0].estimate.n if found.ranked else found.contrasts[0].difference.estimate.n


def _account(sides: Sequence[Side], found: TrackComparison) -> str:
    """Say of each run how many of its records are not among the shared ones."""
    said = []
    if not any(count.left_out or count.asked > count.scored for count in found.counts):
        return "All records are shared."
    for side, count in zip(sides, found.counts, strict=True):
        unscored = (
            f", {count.asked - count.scored:,} unscored" if count.asked > count.scored else ""
        )
        said.append(f"{count.left_out:,} of {side.letter}'s {count.scored:,} scored{unscored}")
    return f"Left out: {'; '.join(said)}."


def _explanations(comparison: Comparison, *, narrow: bool) -> list[str]:
    pairs = {
        contrast
        for track in comparison.tracks
        for metric in track.metrics
        for contrast in metric.contrasts
    }
    reasons = dict.fromkeys(
        c.difference.estimate.reason for c in pairs if c.difference.estimate.reason
    )
    lines = [f"No interval: {reason}." for reason in reasons]
    if not comparison.family:
        return lines
    tests = counted(comparison.family, "test")
    lines.append(f"p: Holm-corrected for {tests}, all that are shown; bold: at most .05.")
    if any(contrast.exact for contrast in pairs):
        lines.append(
            "  McNemar's exact test where scores are 0 or 1 and every record stands alone."
        )
    if not narrow:
        lines.append("MDE: minimum detectable effect (80 % power) of one test.")
    if any(
        metric.metric.lower_is_better for track in comparison.tracks for metric in track.metrics
    ):
        lines.append(f"{_LOWER.strip()}: lower is better.")
    if len(comparison.sides) > 2:
        lines.append(
            "ties: runs that share a letter are not significantly different (p ≥ .05, Holm)."
        )
    return lines


def _table(title: str, first: str, *columns: str) -> Table:
    table = close_table(title)
    table.add_column(first)
    for name in columns:
        table.add_column(Text(name), justify="right", no_wrap=name not in ("",))
    return table


def _title(metric: Metric) -> Text:
    return Text(visible(metric.title) + (_LOWER if metric.lower_is_better else ""))


def _style(contrast: Contrast) -> str:
    return "bold" if contrast.corrected is not None and contrast.corrected <= SIGNIFICANT else ""


def _p(value: float | None) -> str:
    return "<.001" if value is not None and value < 0.001 else number(value)
