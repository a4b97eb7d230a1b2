"""Tables of a comparison of runs: differences, tests, ties, and what the words mean."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from alps.judges.embedded import LexicalJudge
from alps.show.compare import (
    Comparison,
    Contrast,
    MetricComparison,
    Side,
    TrackComparison,
    contrasts_of,
)
from alps.show.formatting import counted, number, p_value
from alps.show.parts import CorrectedComparison
from alps.show.run_tables import run_legend
from alps.show.table import (
    BLANK,
    Cell,
    Cells,
    Column,
    Line,
    Part,
    Row,
    Table,
    change,
    dim,
    figures,
    named,
    print_parts,
    row_of,
    scored,
    ungrouped,
    with_interval,
)
from alps.stats.bootstrap import RESAMPLED
from alps.tasks import Metric

_RUNS_A_TABLE = 5
_NARROW = 76
_LOWER = " ↓"
_DIAGNOSTICS = "diagnostics"


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print a comparison: every metric of two runs, or the ties and pairs of more."""
    narrow = console.width < _NARROW
    notes = [dim(f"{note}.") for note in (*comparison.notes, *comparison.known)]
    explanations = map(dim, _explanations(comparison, narrow=narrow))
    print_parts(console, comparison_parts(comparison), [*notes, *explanations])


def comparison_parts(comparison: Comparison) -> Iterator[Part]:
    """Yield the tables of a comparison."""
    sides = comparison.sides
    yield run_legend(
        (side.letter, side.folder, f"{side.model} · judged by {side.marked}") for side in sides
    )
    for track in comparison.tracks:
        yield BLANK
        yield from _track_parts(sides, track)
    for corrected in comparison.corrected:
        for track in corrected.tracks:
            yield BLANK
            yield from _corrected_parts(sides, corrected, track)


def _track_parts(sides: Sequence[Side], track: TrackComparison) -> Iterator[Part]:
    where = "" if track.clusters is None else f" from {counted(track.clusters, 'session')}"
    title = f"{track.track}: {counted(track.shared, 'shared record')}{where}"
    if not track.metrics or not track.shared:
        yield Line(title, "bold")
    else:
        yield from _tables(title, sides, track)
    yield Line(_account(sides, track))
    bare = [metric.metric.title.strip() for metric in track.metrics if not _records(metric)]
    notes = [f"Left out (no record has it in all runs): {', '.join(bare)}"] if bare else []
    for note in (*notes, *track.notes):
        yield dim(f"{note}.")
    for more in track.more:
        yield from more.parts


def _tables(title: str, sides: Sequence[Side], track: TrackComparison) -> Iterator[Part]:
    if len(sides) == 2:
        yield _differences(title, sides, track)
        yield from _discordant(track)
        return
    yield from _ranks(title, sides, track)
    if track.lead is not None:
        yield _pairs(track.lead)


def _corrected_parts(
    sides: Sequence[Side], corrected: CorrectedComparison, track: TrackComparison
) -> Iterator[Part]:
    """Yield the tables of a track by corrected scores; its tests are a family of their own."""
    clusters = counted(track.metrics[0].contrasts[0].clusters, corrected.unit)
    shared = counted(track.shared, "shared record")
    yield from _tables(f"{track.track}, {corrected.by}: {shared}, {clusters}", sides, track)
    if any(contrast.p is None for contrast in contrasts_of([track])):
        yield dim(corrected.untested)
    for more in track.more:
        yield from more.parts
    yield Line(corrected.method)
    for note in track.notes:
        yield dim(f"{note}.")


def _differences(title: str, sides: Sequence[Side], track: TrackComparison) -> Table:
    """Lay out every metric of two runs; a narrow terminal gets no scores, only differences."""
    # With the scores the table needs 76 columns: of what is cut, the difference would go first.
    first, second = sides[0].letter, sides[1].letter
    scores = figures(first, second, from_width=_NARROW)
    rows = []
    for metric in _headline_first(track):
        if metric is None:
            rows.append(_DIVIDER)
            continue
        contrast = metric.contrasts[0]
        cells = *map(scored, contrast.scores), *_test_cells(contrast)
        rows.append(row_of(_title(metric.metric), *cells, style=_style(contrast)))
    columns = [named(), *scores, *figures(f"{first} – {second}"), *_test_columns()]
    return Table(title, columns, rows)


_DIVIDER = Row([Cell(_DIAGNOSTICS, style="dim")])


def _headline_first(track: TrackComparison) -> Iterator[MetricComparison | None]:
    """Yield the metrics that any record has; None parts the headline from the rest."""
    lead = track.lead
    if lead is not None and _records(lead):
        yield lead
    others = [metric for metric in track.metrics if metric is not lead and _records(metric)]
    if others and len(others) < len(track.metrics):
        yield None
    yield from others


def _test_columns() -> list[Column]:
    detectable = figures("MDE", from_width=_NARROW)
    return [*figures("95 % interval", "p"), *detectable, *figures("n")]


def _test_cells(contrast: Contrast) -> Iterator[Cells]:
    """Yield the cells of a difference: value, interval, p, what is detectable, n."""
    yield from change(contrast.difference.estimate)
    yield Cell(p_value(contrast.p), contrast.p)
    detectable = contrast.difference.detectable
    yield Cell(number(detectable), detectable)
    yield ungrouped(contrast.difference.estimate.n)


def _discordant(track: TrackComparison) -> Iterator[Line]:
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
        yield Line(f"{metric.metric.title.strip()}: {counts}{exact}.")


def _ranks(title: str, sides: Sequence[Side], track: TrackComparison) -> Iterator[Table]:
    """Lay out the headline of every run, the best first, then every metric with its ties."""
    lead = track.lead
    assert lead is not None
    # A model's name may be longer than the table is wide: folded, the figures keep their place.
    columns = [named(), named(wraps="fold")]
    columns += figures(lead.metric.title.strip(), "95 % interval", "ties")
    model_of = {side.letter: side.model for side in sides}
    rows = []
    for one in lead.ranked:
        ties = " ".join(one.letters)
        rows.append(row_of(one.name, model_of[one.name], *with_interval(one.estimate), ties))
    yield Table(title, columns, rows)
    letters = list(model_of)
    for start in range(0, len(letters), _RUNS_A_TABLE):
        yield _ties(letters[start : start + _RUNS_A_TABLE], track)


def _ties(letters: Sequence[str], track: TrackComparison) -> Table:
    rows = []
    for metric in _headline_first(track):
        if metric is None:
            rows.append(_DIVIDER)
            continue
        cells = {}
        for one in metric.ranked:
            text = f"{number(one.estimate.value)} {' '.join(one.letters)}"
            cells[one.name] = Cell(text, one.estimate.value)
        shown = map(cells.__getitem__, letters)
        rows.append(row_of(_title(metric.metric), *shown, ungrouped(_records(metric))))
    columns = [named(), *figures(*letters, "n")]
    return Table("Every metric, with the letters of its ties", columns, rows)


def _pairs(lead: MetricComparison) -> Table:
    rows = []
    for contrast in lead.contrasts:
        pair = f"{contrast.first} – {contrast.second}"
        rows.append(row_of(pair, *_test_cells(contrast), style=_style(contrast)))
    columns = [named(), *figures("difference"), *_test_columns()]
    return Table(f"{lead.metric.title.strip()}: every pair", columns, rows)


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
    more = [one.explanation for track in comparison.tracks for one in track.more]
    yield from dict.fromkeys(filter(None, more))
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
    contrasts = contrasts_of(comparison.tracks)
    for corrected in comparison.corrected:
        contrasts += contrasts_of(corrected.tracks)
    if any(contrast.doubted for contrast in contrasts):
        yield "No p is bold under a judge that failed its calibration, or has none."
    metrics = [metric for track in comparison.tracks for metric in track.metrics]
    judged = any(metric.metric.judged for metric in metrics)
    if judged and any(side.judge == LexicalJudge.name for side in comparison.sides):
        yield "Under lexical, another style of writing may make a difference by itself."


def _has_errors(track: TrackComparison) -> bool:
    return any(metric.metric.lower_is_better for metric in track.metrics)


def _title(metric: Metric) -> str:
    return metric.title + (_LOWER if metric.lower_is_better else "")


def _style(contrast: Contrast) -> str:
    return "bold" if contrast.significant else ""
