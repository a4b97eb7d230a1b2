"""Tables of a comparison of runs: differences, tests, ties, and what the words mean."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.console import Console

from alps.judges.embedded import LexicalJudge
from alps.show.compare import (
    ComparedRun,
    Comparison,
    Contrast,
    MetricComparison,
    TrackComparison,
    contrasts_of,
)
from alps.show.formatting import counted, metric_title, number, p_value, signed
from alps.show.parts import CorrectedComparison
from alps.show.short_form import run_legend
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
    row_of,
    scored,
    show_parts,
    ungrouped,
    with_interval,
)
from alps.stats.bootstrap import RESAMPLED
from alps.stats.paired import SIGNIFICANT
from alps.tasks import Metric

_RUNS_A_TABLE = 5
_NARROW = 76
_LOWER = " ↓"
_DIAGNOSTICS = "diagnostics"
_ALL_SHARED = "All records are shared."
_NOT_CALIBRATED = ", but the judge is not validated"


def print_comparison(comparison: Comparison, console: Console, *, whole: bool = False) -> None:
    """Print which run is better and the headlines; as a `whole`, every metric and pair of runs."""
    notes = [dim(f"{note}.") for note in comparison.shown]
    parts: list[Part] = [*answers(comparison), _legend(comparison.sides)]
    if whole:
        notes += [dim(f"{note}.") for note in comparison.known]
        parts += comparison_parts(comparison)
    else:
        parts += _headlines(comparison)
    show_parts(console, [*parts, *notes, *map(dim, _explanations(comparison, whole=whole))])


def answers(comparison: Comparison) -> Iterator[Line]:
    """Yield a sentence a track: which run is better, by how much, and whether that is sure."""
    names = _names(comparison.sides)
    compared = [track for track in comparison.tracks if track.lead is not None and track.shared]
    if len(names) == 2 and len(compared) > 1:
        yield Line(_of_many(compared, names), "bold")
        return
    for track in comparison.tracks:
        if track.lead is None or not track.shared:
            yield Line(f"{track.title}: no shared record to compare", "bold")
        elif len(names) == 2:
            yield Line(f"{track.title}: {_of_two(track, track.lead, names)}", "bold")
        else:
            yield Line(f"{track.title}: {_of_several(track.lead, names)}", "bold")


def _names(sides: Sequence[ComparedRun]) -> dict[str, str]:
    """Return what runs are called, by their letters: their models, or folders where those agree."""
    models = [side.model for side in sides]
    apart = len(set(models)) == len(models)
    return {side.letter: side.model if apart else side.folder.name for side in sides}


def _of_two(track: TrackComparison, lead: MetricComparison, names: Mapping[str, str]) -> str:
    contrast, title = lead.contrasts[0], metric_title(lead.metric)
    difference = contrast.difference.estimate
    if difference.value is None:
        return f"{title} not compared: {difference.reason or 'no record has both scores'}"
    shown = signed(abs(difference.value))
    if not shown.startswith("+"):
        return f"{' and '.join(names.values())} score the same ({title})"
    first, second = names.values()
    if (difference.value < 0) != lead.metric.lower_is_better:
        first, second = second, first
    by = f"{'-' if lead.metric.lower_is_better else '+'}{shown[1:]}"
    by += "" if title.startswith(track.title) else f" {title}"
    return f"{first} {by} over {second}, {_certainty(contrast)}"


def _of_many(tracks: Sequence[TrackComparison], names: Mapping[str, str]) -> str:
    better = dict.fromkeys(names, 0)
    doubted = False
    for track in tracks:
        assert track.lead is not None
        contrast = track.lead.contrasts[0]
        value = contrast.difference.estimate.value or 0.0
        if contrast.corrected is not None and contrast.corrected <= SIGNIFICANT:
            ahead = (value > 0) != track.lead.metric.lower_is_better
            better[contrast.first if ahead else contrast.second] += 1
            doubted = doubted or contrast.doubted
    said = [f"{names[letter]} on {count}" for letter, count in better.items()]
    doubt = _NOT_CALIBRATED if doubted else ""
    return f"Significantly better: {', '.join(said)} of {len(tracks)} tasks{doubt}"


def _certainty(contrast: Contrast) -> str:
    if contrast.p is None:
        return "not tested"
    p = p_value(contrast.p)
    p = f"p {p}" if p.startswith("<") else f"p = {p}"
    if contrast.corrected is None or contrast.corrected > SIGNIFICANT:
        return f"not significant ({p})"
    return f"{p}{_NOT_CALIBRATED}" if contrast.doubted else f"significant ({p})"


def _of_several(lead: MetricComparison, names: Mapping[str, str]) -> str:
    best, *others = lead.ranked
    tied = [names[one.name] for one in others if set(one.letters) & set(best.letters)]
    said = f"{names[best.name]} is best, {metric_title(lead.metric)} {number(best.estimate.value)}"
    doubt = _NOT_CALIBRATED if any(c.doubted for c in lead.contrasts) else ""
    if tied:
        return f"{said}, but not significantly better than {', '.join(tied)}"
    return f"{said}, significantly better than the {len(others)} others{doubt}"


def _legend(sides: Sequence[ComparedRun]) -> Table:
    return run_legend(
        (side.letter, side.folder, f"{side.model} · judged by {side.marked}") for side in sides
    )


def _headlines(comparison: Comparison) -> Iterator[Part]:
    """Yield the headlines of all tracks: of two runs in one table, of more their ranks."""
    together = list(_titled(comparison))
    if len(comparison.sides) > 2:
        for track, title in together:
            if track.lead is not None and track.shared:
                yield BLANK
                yield _ranks(_records_of(title, track), comparison.sides, track)
    else:
        yield _of_tracks(comparison.sides, together)
    for track, _ in together:
        if track.shared and len(together) == 1:
            yield from map(Line, _power(track))
        yield from _lost(comparison.sides, track)
    yield from map(Line, _track_notes(track for track, _ in together))
    if others := comparison.diagnostics:
        yield Line(f"To see {counted(others, 'test')} (Holm) of other metrics, add metrics=all.")


def _lost(sides: Sequence[ComparedRun], track: TrackComparison) -> Iterator[Line]:
    if (account := _account(sides, track)) != _ALL_SHARED:
        yield Line(f"{track.title}: {account}")


def _titled(comparison: Comparison) -> Iterator[tuple[TrackComparison, str]]:
    for track in comparison.tracks:
        yield track, track.title
    for one in comparison.corrected:
        yield from ((track, f"{track.title}, {one.by}") for track in one.tracks)


def _track_notes(tracks: Iterable[TrackComparison]) -> Iterator[str]:
    """Yield each note once, with the tracks that it is about where there are several."""
    about: dict[str, list[str]] = {}
    titles = []
    for track in tracks:
        titles.append(track.title)
        for note in track.of_all if track.lead is not None else track.notes:
            about.setdefault(note, []).append(track.title)
    for note, those in about.items():
        several = len(set(titles)) > 1
        yield f"{', '.join(dict.fromkeys(those))}: {note}." if several else f"{note}."


def _of_tracks(
    sides: Sequence[ComparedRun], together: Sequence[tuple[TrackComparison, str]]
) -> Table:
    rows = []
    for track, title in together:
        if track.lead is not None and track.shared:
            contrast, metric = track.lead.contrasts[0], metric_title(track.lead.metric)
            mark = _LOWER if track.lead.metric.lower_is_better else ""
            name = f"{metric if metric.startswith(title) else f'{title}, {metric}'}{mark}"
            rows.append(_both_scored(name, contrast))
    return _of_both("", sides, rows)


def _both_scored(name: str, contrast: Contrast) -> Row:
    cells = *map(scored, contrast.scores), *_test_cells(contrast)
    return row_of(name, *cells, style=_style(contrast))


def _of_both(title: str, sides: Sequence[ComparedRun], rows: Sequence[Row]) -> Table:
    """Lay out figures of two runs; a narrow terminal gets no scores, only differences."""
    # With the scores the table needs 76 columns: of what is cut, the difference would go first.
    first, second = sides[0].letter, sides[1].letter
    scores = figures(first, second, from_width=_NARROW)
    columns = [named(), *scores, *figures(f"{first} – {second}"), *_test_columns()]
    return Table(title, columns, rows)


def _power(track: TrackComparison) -> Iterator[str]:
    """Say what difference these records can show, and how many would show the one found."""
    if track.lead is None or len(track.lead.contrasts) > 1:
        return
    contrast = track.lead.contrasts[0]
    value, detectable = contrast.difference.estimate.value, contrast.difference.detectable
    if detectable is None or contrast.significant or not value or abs(value) >= detectable:
        return
    needed = contrast.difference.estimate.n * (detectable / value) ** 2
    shown = f"{float(f'{needed:.2g}'):,.0f}"
    more = f"a true Δ of {number(abs(value))} needs about {shown} records"
    yield f"Detectable at 80 % power (MDE): {number(detectable)}; {more}."


def comparison_parts(comparison: Comparison) -> Iterator[Part]:
    """Yield the tables of a comparison."""
    sides = comparison.sides
    for track in comparison.tracks:
        yield BLANK
        yield from _track_parts(sides, track)
    for corrected in comparison.corrected:
        for track in corrected.tracks:
            yield BLANK
            yield from _corrected_parts(sides, corrected, track)


def _track_parts(sides: Sequence[ComparedRun], track: TrackComparison) -> Iterator[Part]:
    title = _records_of(track.title, track)
    if not track.metrics or not track.shared:
        yield Line(title, "bold")
    else:
        yield from _tables(title, sides, track)
    yield Line(_account(sides, track))
    bare = [metric.metric.title.strip() for metric in track.metrics if not _records(metric)]
    notes = (
        [f"Left out, because no record has a value in all runs: {', '.join(bare)}"] if bare else []
    )
    for note in (*notes, *track.notes):
        yield dim(f"{note}.")
    for more in track.more:
        yield from more.parts


def _records_of(title: str, track: TrackComparison) -> str:
    where = "" if track.clusters is None else f" from {counted(track.clusters, 'session')}"
    return f"{title}: {counted(track.shared, 'shared record')}{where}"


def _tables(title: str, sides: Sequence[ComparedRun], track: TrackComparison) -> Iterator[Part]:
    if len(sides) == 2:
        rows = _by_metric(track, lambda one: _both_scored(_title(one.metric), one.contrasts[0]))
        yield _of_both(title, sides, rows)
        yield from _discordant(track)
        return
    yield _ranks(title, sides, track)
    letters = [side.letter for side in sides]
    for start in range(0, len(letters), _RUNS_A_TABLE):
        yield _ties(letters[start : start + _RUNS_A_TABLE], track)
    if track.lead is not None:
        yield _pairs(track.lead)


def _corrected_parts(
    sides: Sequence[ComparedRun], corrected: CorrectedComparison, track: TrackComparison
) -> Iterator[Part]:
    """Yield the tables of a track by corrected scores; its tests are a family of their own."""
    clusters = counted(track.metrics[0].contrasts[0].clusters, corrected.unit)
    shared = counted(track.shared, "shared record")
    yield from _tables(f"{track.title}, {corrected.by}: {shared}, {clusters}", sides, track)
    if any(contrast.p is None for contrast in contrasts_of([track])):
        yield dim(corrected.untested)
    for more in track.more:
        yield from more.parts
    yield Line(corrected.method)
    for note in track.notes:
        yield dim(f"{note}.")


def _by_metric(track: TrackComparison, row: Callable[[MetricComparison], Row]) -> list[Row]:
    """Return a row of each metric that any record has, the headline parted from the rest."""
    lead = track.lead
    rows = [row(lead)] if lead is not None and _records(lead) else []
    others = [metric for metric in track.metrics if metric is not lead and _records(metric)]
    if others:
        rows.append(Row([Cell(_DIAGNOSTICS, style="dim")]))
    return [*rows, *map(row, others)]


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
        counts = counted(test.first_only, "record scores", "records score")
        counts += f" 1 only in {contrast.first}, {test.second_only:,} only in {contrast.second}"
        # Of records that belong together its p is none.
        exact = f"; exact McNemar p {p_value(test.p)}" if contrast.exact else ""
        if metric.metric.inference.sign_test and not contrast.exact:
            exact = f"; exact sign test of single records (uncorrected): p {p_value(test.p)}"
        yield Line(f"{metric.metric.title.strip()}: {counts}{exact}.")


def _ranks(title: str, sides: Sequence[ComparedRun], track: TrackComparison) -> Table:
    """Lay out the headline of every run, the best first."""
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
    return Table(title, columns, rows)


def _ties(letters: Sequence[str], track: TrackComparison) -> Table:
    def row(metric: MetricComparison) -> Row:
        cells = {}
        for one in metric.ranked:
            text = f"{number(one.estimate.value)} {' '.join(one.letters)}"
            cells[one.name] = Cell(text, one.estimate.value)
        shown = map(cells.__getitem__, letters)
        return row_of(_title(metric.metric), *shown, ungrouped(_records(metric)))

    columns = [named(), *figures(*letters, "n")]
    return Table("Every metric, with the letters of its ties", columns, _by_metric(track, row))


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


def _account(sides: Sequence[ComparedRun], track: TrackComparison) -> str:
    """Say of each run how many of its records are not among the shared ones."""
    if not any(count.left_out or count.asked > count.scored for count in track.counts):
        return _ALL_SHARED
    parts = []
    for side, count in zip(sides, track.counts, strict=True):
        part = f"{count.left_out:,} of {side.letter}'s {counted(count.scored, 'scored record')}"
        if count.asked > count.scored:
            part += f" and {counted(count.asked - count.scored, 'unscored record')}"
        parts.append(part)
    return f"Left out: {'; '.join(parts)}."


def _explanations(comparison: Comparison, *, whole: bool) -> Iterator[str]:
    metrics = [metric for track in comparison.tracks for metric in track.metrics]
    leads = [track.lead for track in comparison.tracks if track.lead is not None]
    yield from _missing_intervals(metrics if whole else leads)
    if whole:
        yield from _of_methods(comparison)
    yield from _of_scores(comparison.sides, metrics, whole=whole)
    if any(lead.ranked for lead in leads):
        yield "ties: runs that share a letter are not significantly different (p > .05, Holm)."
    if comparison.family:
        yield "p, MDE, bold: explained in docs/calibration.md#comparing-runs"


def _missing_intervals(metrics: Sequence[MetricComparison]) -> Iterator[str]:
    contrasts = [contrast for metric in metrics for contrast in metric.contrasts]
    estimates = [contrast.difference.estimate for contrast in contrasts]
    for reason in dict.fromkeys(one.reason for one in estimates if one.value is not None):
        if reason:
            yield f"No interval: {reason}."


def _of_methods(comparison: Comparison) -> Iterator[str]:
    if any(one.difference.estimate.method for one in contrasts_of(comparison.tracks)):
        yield f"Intervals from few large sessions use this method: {RESAMPLED}."
    more = [one.explanation for track in comparison.tracks for one in track.more]
    yield from dict.fromkeys(filter(None, more))
    if others := comparison.diagnostics:
        many = counted(others, "test")
        yield f"Holm's method treats the {many} of other metrics as one family."


def _of_scores(
    sides: Sequence[ComparedRun], metrics: Sequence[MetricComparison], *, whole: bool
) -> Iterator[str]:
    by_lexical = any(side.judge == LexicalJudge.name for side in sides)
    if by_lexical and any(one.metric.judged for one in metrics):
        yield "Judge lexical: for debugging; style alone can change its scores (docs/judges.md)"
    if any(one.metric.lower_is_better for one in metrics if whole or one.metric.headline):
        yield f"{_LOWER.strip()}: lower is better."


def _title(metric: Metric) -> str:
    return metric.title + (_LOWER if metric.lower_is_better else "")


def _style(contrast: Contrast) -> str:
    return "bold" if contrast.significant else ""
