"""Tables of a comparison of runs: differences, tests, ties, and what the words mean."""

from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from alps.ext.calibration.corrected_tables import bent_part, slices_part
from alps.judges.embedded import LexicalJudge
from alps.show.compare import Comparison, Side
from alps.show.contrasts import (
    Contrast,
    MetricComparison,
    TrackComparison,
    contrasts_of,
)
from alps.show.formatting import (
    counted,
    interval,
    number,
    p_value,
    signed,
    visible,
)
from alps.show.pareto import EXPLANATION, front_tables
from alps.show.run_tables import print_parts, run_legend
from alps.show.terminal import figures_table
from alps.stats.bootstrap import RESAMPLED
from alps.stats.grouped import ENOUGH
from alps.tasks import Metric

_RUNS_A_TABLE = 5
_NARROW = 76
_LOWER = " ↓"
_DIAGNOSTICS = "diagnostics"


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print a comparison: every metric of two runs, or the ties and pairs of more."""
    narrow = console.width < _NARROW
    names = []
    for side in comparison.sides:
        names.append((side.letter, side.folder, f"{side.model} · judged by {side.marked}"))
    parts: list[RenderableType] = [run_legend(names)]
    for track in comparison.tracks:
        parts += [Text(), *_track_parts(comparison.sides, track, narrow=narrow)]
    for track in comparison.audited:
        parts += [Text(), *_audited_parts(comparison.sides, track, narrow=narrow)]
    notes = (*comparison.notes, *comparison.known)
    print_parts(console, parts, notes, _explanations(comparison, narrow=narrow))


def _track_parts(
    sides: Sequence[Side], track: TrackComparison, *, narrow: bool
) -> Iterator[RenderableType]:
    where = "" if track.clusters is None else f" from {counted(track.clusters, 'session')}"
    title = visible(f"{track.track}: {counted(track.shared, 'shared record')}{where}")
    if not track.metrics or not track.shared:
        yield Text(title, style="bold")
    elif len(sides) == 2:
        yield _differences(title, sides, track, narrow=narrow)
        yield from _discordant(track)
    else:
        yield from _ranks(title, sides, track)
        if track.lead is not None:
            yield _pairs(track.lead, narrow=narrow)
    yield Text(_account(sides, track))
    bare = [metric.metric.title.strip() for metric in track.metrics if not _records(metric)]
    notes = [f"Left out (no record has it in all runs): {', '.join(bare)}"] if bare else []
    for note in (*notes, *track.notes):
        yield Text(visible(f"{note}."), style="dim")
    yield from front_tables(track.fronts)


def _audited_parts(
    sides: Sequence[Side], track: TrackComparison, *, narrow: bool
) -> Iterator[RenderableType]:
    """Yield the tables of a track by shared audits; its tests are corrected together, apart."""
    sessions = counted(track.metrics[0].contrasts[0].clusters, "audited session")
    title = f"{track.track}, corrected by audits: {counted(track.shared, 'shared record')}"
    title += f", {sessions}"
    if len(sides) == 2:
        yield _differences(title, sides, track, narrow=narrow)
    else:
        yield from _ranks(title, sides, track)
        if track.lead is not None:
            yield _pairs(track.lead, narrow=narrow)
    if any(contrast.p is None for contrast in contrasts_of([track])):
        yield Text(
            f"No p where the audits rarely differ (in under {ENOUGH} sessions).", style="dim"
        )
    if track.lead is not None:
        yield from slices_part(track.slices, track.lead.metric)
        yield from bent_part(track.bent, track.lead.metric)
    yield Text("PPI++ on the differences of records.")
    for note in track.notes:
        yield Text(visible(f"{note}."), style="dim")


def _differences(
    title: str, sides: Sequence[Side], track: TrackComparison, *, narrow: bool
) -> Table:
    """Lay out every metric of two runs; a narrow terminal gets no scores, only differences."""
    # With the scores the table needs 76 columns: of what is cut, the difference would go first.
    first, second = sides[0].letter, sides[1].letter
    scored = () if narrow else (first, second)
    table = figures_table(title, "", *scored, f"{first} – {second}", *_test_columns(narrow))
    for metric in _headline_first(track, table):
        contrast = metric.contrasts[0]
        scores = () if narrow else tuple(number(score.value) for score in contrast.scores)
        cells = (*scores, *_test_cells(contrast, narrow))
        table.add_row(_title(metric.metric), *cells, style=_style(contrast))
    return table


def _headline_first(track: TrackComparison, table: Table) -> Iterator[MetricComparison]:
    """Yield the metrics that any record has; a row of `table` parts the headline from the rest."""
    lead = track.lead
    if lead is not None and _records(lead):
        yield lead
    others = [metric for metric in track.metrics if metric is not lead and _records(metric)]
    if others and len(others) < len(track.metrics):
        table.add_row(Text(_DIAGNOSTICS, style="dim"))
    yield from others


def _test_columns(narrow: bool) -> tuple[str, ...]:
    return ("95 % interval", "p", *(() if narrow else ("MDE",)), "n")


def _test_cells(contrast: Contrast, narrow: bool) -> tuple[str, ...]:
    """Return the cells of a difference: value, interval, p, what is detectable, n."""
    estimate = contrast.difference.estimate
    cells = [signed(estimate.value), interval(estimate), p_value(contrast.p)]
    if not narrow:
        cells.append(number(contrast.difference.detectable))
    return (*cells, str(estimate.n))


def _discordant(track: TrackComparison) -> Iterator[Text]:
    for metric in track.metrics:
        contrast = metric.contrasts[0]
        if (test := contrast.mcnemar) is None or not (test.first_only or test.second_only):
            continue
        counts = f"{test.first_only} only in {contrast.first}"
        counts += f", {test.second_only} only in {contrast.second}"
        # Of records that belong together its p is none.
        exact = f"; exact McNemar p {p_value(test.p)}" if contrast.exact else ""
        if metric.metric.inference.sign_test and not contrast.exact:
            exact = f"; exact sign test of single records, uncorrected: p {p_value(test.p)}"
        yield Text(visible(f"{metric.metric.title.strip()}: {counts}{exact}."))


def _ranks(title: str, sides: Sequence[Side], track: TrackComparison) -> Iterator[Table]:
    """Lay out the headline of every run, the best first, then every metric with its ties."""
    lead = track.lead
    assert lead is not None
    table = figures_table(title, "", "", lead.metric.title.strip(), "95 % interval", "ties")
    # A model's name may be longer than the table is wide: folded, the figures keep their place.
    models = table.columns[1]
    models.justify, models.overflow, models.no_wrap = "left", "fold", False
    model_of = {side.letter: side.model for side in sides}
    for one in lead.ranked:
        row = (number(one.estimate.value), interval(one.estimate), " ".join(one.letters))
        table.add_row(one.name, Text(visible(model_of[one.name])), *row)
    yield table
    letters = list(model_of)
    for start in range(0, len(letters), _RUNS_A_TABLE):
        yield _ties(letters[start : start + _RUNS_A_TABLE], track)


def _ties(letters: Sequence[str], track: TrackComparison) -> Table:
    table = figures_table("Every metric, with the letters of its ties", "", *letters, "n")
    for metric in _headline_first(track, table):
        cells = {}
        for one in metric.ranked:
            cells[one.name] = f"{number(one.estimate.value)} {' '.join(one.letters)}"
        shown = map(cells.__getitem__, letters)
        table.add_row(_title(metric.metric), *shown, str(_records(metric)))
    return table


def _pairs(lead: MetricComparison, *, narrow: bool) -> Table:
    title = f"{lead.metric.title.strip()}: every pair"
    table = figures_table(title, "", "difference", *_test_columns(narrow))
    for contrast in lead.contrasts:
        pair = f"{contrast.first} – {contrast.second}"
        table.add_row(pair, *_test_cells(contrast, narrow), style=_style(contrast))
    return table


def _records(metric: MetricComparison) -> int:
    """Return on how many records all runs have a metric."""
    if metric.ranked:
        return metric.ranked[0].estimate.n
    return metric.contrasts[0].difference.estimate.n


def _account(sides: Sequence[Side], track: TrackComparison) -> str:
    """Say of each run how many of its records are not among the shared ones."""
    if not any(count.left_out or count.asked > count.scored for count in track.counts):
        return "All records are shared."
    parts = []
    for side, count in zip(sides, track.counts, strict=True):
        part = f"{count.left_out:,} of {side.letter}'s {count.scored:,} scored"
        if count.asked > count.scored:
            part += f", {count.asked - count.scored:,} unscored"
        parts.append(part)
    return f"Left out: {'; '.join(parts)}."


def _explanations(comparison: Comparison, *, narrow: bool) -> Iterator[str]:
    contrasts = contrasts_of(comparison.tracks)
    estimates = [contrast.difference.estimate for contrast in contrasts]
    for reason in dict.fromkeys(one.reason for one in estimates if one.value is not None):
        if reason:
            yield f"No interval: {reason}."
    if any(contrast.difference.estimate.method for contrast in contrasts):
        yield f"Intervals where few sessions hold many records: {RESAMPLED}."
    if any(
        metric.metric.inference.sign_test for track in comparison.tracks for metric in track.metrics
    ):
        yield "The sign test takes records of one session for independent; the table's p does not."
    if any(track.fronts for track in comparison.tracks):
        yield EXPLANATION
    if not comparison.family:
        return
    yield "p: of one test by itself, made as its interval: below .05 where that leaves out 0."
    if len(comparison.sides) > 2:
        yield "bold: at most .05 by Holm's method over all pairs of runs."
    if comparison.diagnostics:
        tests = counted(comparison.diagnostics, "test")
        yield f"{_DIAGNOSTICS}: one family of {tests}; bold: at most .05 by Holm's method over it."
    if any(contrast.exact for contrast in contrasts):
        yield "McNemar's test: where scores are 0 or 1 and every record stands alone."
    yield from _doubts(comparison)
    if not narrow:
        yield "MDE: minimum detectable effect (80 % power) of one test."
    if any(map(_has_errors, comparison.tracks)):
        yield f"{_LOWER.strip()}: lower is better."
    if any(track.lead is not None and track.lead.ranked for track in comparison.tracks):
        yield "ties: runs that share a letter are not significantly different (p ≥ .05, Holm)."


def _doubts(comparison: Comparison) -> Iterator[str]:
    """Say why differences of judged scores may be no differences of what answers say."""
    contrasts = contrasts_of((*comparison.tracks, *comparison.audited))
    if any(contrast.doubted for contrast in contrasts):
        yield "No p is bold under a judge that failed its calibration, or has none."
    metrics = [metric for track in comparison.tracks for metric in track.metrics]
    judged = any(metric.metric.judged for metric in metrics)
    if judged and any(side.judge == LexicalJudge.name for side in comparison.sides):
        yield "Under lexical, another style of writing may make a difference by itself."


def _has_errors(track: TrackComparison) -> bool:
    return any(metric.metric.lower_is_better for metric in track.metrics)


def _title(metric: Metric) -> Text:
    return Text(visible(metric.title) + (_LOWER if metric.lower_is_better else ""))


def _style(contrast: Contrast) -> str:
    return "bold" if contrast.significant else ""
