"""Comparison of runs on the records that all of them scored: differences, tests and ties.

Only runs on the same data under the same judge are compared. Records are paired by track and id,
repeats averaged; what belongs to one session is resampled together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from alps.errors import UsageError
from alps.judges.agreement import people_say
from alps.report.compare_audits import compare_audits
from alps.report.contrasts import (
    SIGNIFICANT,
    Contrast,
    Counts,
    MetricComparison,
    SliceContrast,
    TrackComparison,
    contrasts_of,
    corrected_together,
)
from alps.report.corrected import bent_part, slices_part
from alps.report.formatting import (
    counted,
    interval,
    letter_of,
    number,
    p_value,
    signed,
    visible,
)
from alps.report.pareto import EXPLANATION, front_tables, fronts
from alps.report.shared_records import (
    SharedRecords,
    Values,
    choose_metrics,
    metric_values,
    open_finished,
    record_values,
    refuse_other_data,
    refuse_other_scoring,
    sessions_of,
    told_tracks,
)
from alps.report.tables import print_parts, run_legend
from alps.report.terminal import as_html, figures_table
from alps.run.opened import Run
from alps.stats.bootstrap import RESAMPLED
from alps.stats.paired import (
    Ranked,
    paired_mcnemar,
)
from alps.tasks import Metric

_ROUNDING = 1e-12
_RUNS_A_TABLE = 5
_NARROW = 76
_LOWER = " ↓"


@dataclass(frozen=True)
class Side:
    """One of the runs, under the letter by which tables name it."""

    letter: str
    folder: Path
    model: str
    judge: str


@dataclass(frozen=True)
class Comparison:
    """What `compare_runs` found.

    `audited` are the same comparisons by the audits that all runs share; their tests are a family
    of their own. `known` is what calibrations say of the judge of all runs.
    """

    sides: tuple[Side, ...]
    tracks: tuple[TrackComparison, ...]
    notes: tuple[str, ...]
    seed: int
    audited: tuple[TrackComparison, ...] = ()
    known: tuple[str, ...] = ()

    def tests(self, first: str, second: str) -> int:
        """Return how many tests there are between two runs."""
        return self._tests[f"{first}-{second}"]

    @property
    def _tests(self) -> Mapping[str, int]:
        letters = [side.letter for side in self.sides]
        counts = {f"{first}-{second}": 0 for first, second in combinations(letters, 2)}
        for contrast in contrasts_of(self.tracks):
            counts[f"{contrast.first}-{contrast.second}"] += contrast.corrected is not None
        return counts

    @property
    def family(self) -> int:
        """Over how many tests every p is corrected: all that are shown."""
        return sum(self._tests.values())

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        runs: dict[str, Any] = {}
        for side in self.sides:
            row = {"folder": str(side.folder), "model": side.model, "judge": side.judge}
            runs[side.letter] = row
        return {
            "seed": self.seed,
            "level": 0.95,
            "power": 0.8,
            "runs": runs,
            "tests": self._tests,
            "family": self.family,
            "tracks": {track.track: _track_json(track, list(runs)) for track in self.tracks},
            "notes": list(self.notes),
            **self._audits_json(list(runs)),
        }

    def _audits_json(self, letters: Sequence[str]) -> dict[str, Any]:
        rows = {track.track: _track_json(track, letters) for track in self.audited}
        return {"corrected_by_audits": rows} if rows else {}

    def _repr_html_(self) -> str:
        return as_html(lambda console: print_comparison(self, console))


def compare_runs(folders: Sequence[Path], *, seed: int = 0, headlines: bool = False) -> Comparison:
    """Compare finished runs on the records that all of them scored.

    Args:
        folders: At least two run folders; differences are of an earlier one less a later one.
        seed: Of older commands; nothing is drawn.
        headlines: Whether one metric a track is compared and tested, the headline.

    Raises:
        UsageError: If there are fewer than two runs, one is named twice or not finished, or they
            have no track in common, or differ there in their data, judge or scoring; names what
            differs.
        RunFolderError: If a file of a run can't be read.
    """
    by_letter: dict[str, Run] = {}
    sides: list[Side] = []
    for position, run in enumerate(open_finished(folders)):
        letter = letter_of(position)
        by_letter[letter] = run
        sides.append(Side(letter, run.folder, run.model, run.judge))
    shared, untold = told_tracks(by_letter)
    for track in shared:
        refuse_other_data(by_letter, track)
        refuse_other_scoring(by_letter, track)
    values = {letter: record_values(run) for letter, run in by_letter.items()}
    tracks = [_compare_track(by_letter, track, values, headlines) for track in shared]
    # Every record may have failed in one run or another, though all have the track.
    if not any(track.shared for track in tracks):
        raise UsageError("no record is scored in all of these runs")
    audited, uncorrected = compare_audits(by_letter, shared)
    notes = (*_notes(by_letter, [*shared, *untold]), *untold.values(), *uncorrected)
    corrected = corrected_together(audited)
    known = tuple(_known(next(iter(by_letter.values()))))
    return Comparison(tuple(sides), corrected_together(tracks), notes, seed, corrected, known)


def _notes(runs: Mapping[str, Run], shared: Sequence[str]) -> list[str]:
    notes = []
    versions: dict[str, str] = {}
    for letter, run in runs.items():
        versions[letter] = run.manifest.alps
        if alone := [track for track in run.scored_tracks if track not in shared]:
            notes.append(f"Not in all runs, left out of {letter}: {', '.join(alone)}")
    # A note and no refusal: a new version may be the very thing that is compared.
    if len(set(versions.values())) > 1:
        each = ", ".join(f"{letter} {version}" for letter, version in versions.items())
        notes.append(
            f"Made by different versions of alps, whose scores may not mean the same: {each}"
        )
    return notes


def _known(run: Run) -> Iterator[str]:
    for told in people_say(run.judge, run.finished.judge_fingerprint):
        yield f"Judge {run.judge}, by a calibration: {told}"


def _compare_track(
    runs: Mapping[str, Run],
    track: str,
    values: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]],
    headlines: bool,
) -> TrackComparison:
    records = {letter: values[letter].get(track, {}) for letter in runs}
    ids = list(next(iter(records.values())))
    for scored_records in records.values():
        ids = [name for name in ids if name in scored_records]
    counts = []
    for letter, run in runs.items():
        scored = len(records[letter])
        counts.append(Counts(run.tracks[track].n, scored, scored - len(ids)))
    # Records of one session are alike: as if alone, they would give intervals that are too narrow.
    known = sessions_of(list(runs.values()), track, ids)
    chosen, notes = choose_metrics(runs, track)
    if headlines:
        chosen = [metric for metric in chosen if metric.headline] or chosen[:1]
    if known is None:
        notes.append(
            "The data was not found again, or has changed: each record stands alone in intervals"
            " and tests"
        )
    sessions = known or dict(zip(ids, ids, strict=True))
    metrics = []
    for metric in chosen:
        columns = {letter: metric_values(rows, metric) for letter, rows in records.items()}
        metrics.append(_compare_metric(metric, columns, ids, sessions))
    clusters = None if known is None else len(set(known.values()))
    compared = TrackComparison(
        track, len(ids), clusters, tuple(counts), tuple(metrics), tuple(notes)
    )
    if compared.lead is None:
        return compared
    found = fronts(runs, track, compared.lead.metric, {name: sessions[name] for name in ids})
    return replace(compared, fronts=tuple(found))


def _compare_metric(
    metric: Metric,
    columns: Mapping[str, Values],
    ids: Sequence[str],
    sessions: Mapping[str, str],
) -> MetricComparison:
    contrasts = []
    for first, second in combinations(columns, 2):
        pair = {first: columns[first], second: columns[second]}
        contrasts.append(_contrast(pair, SharedRecords.of(metric, ids, pair.values(), sessions)))
    # Of two runs the one difference says all that ranks and letters could.
    if len(columns) == 2:
        return MetricComparison(metric, tuple(contrasts), ())
    records = SharedRecords.of(metric, ids, columns.values(), sessions)
    means = {letter: records.mean(column) for letter, column in columns.items()}
    sign = 1.0 if metric.lower_is_better else -1.0
    # Runs of one score go by their letters, so that the same command prints the same table.
    order = sorted(means, key=lambda letter: (sign * (means[letter].value or 0.0), letter))
    ranked = tuple(Ranked(letter, means[letter], ()) for letter in order)
    return MetricComparison(metric, tuple(contrasts), ranked)


def _contrast(pair: Mapping[str, Values], records: SharedRecords) -> Contrast:
    (first, one), (second, other) = pair.items()
    difference = records.difference(one, other)
    if difference.detectable is not None and difference.detectable <= _ROUNDING:
        # No spread was seen: that does not mean that any difference would be detected.
        difference = replace(difference, detectable=None)
    mcnemar = None
    if _is_binary(records, one, other):
        ones = records.column(one) == 1, records.column(other) == 1
        mcnemar = paired_mcnemar(ones[0].tolist(), ones[1].tolist())
    # Records of one session are not independent, which the exact test takes for granted.
    clusters = len(set(records.sessions))
    exact = mcnemar if clusters == len(records.ids) > 1 else None
    return Contrast(
        first,
        second,
        scores=(records.mean(one), records.mean(other)),
        difference=difference,
        mcnemar=mcnemar,
        p=difference.p if exact is None else exact.p,
        exact=exact is not None,
        clusters=clusters,
    )


def _is_binary(records: SharedRecords, *columns: Values) -> bool:
    # Of no records every test would be exact, and there is nothing to test.
    if not records.ids:
        return False
    values: set[float] = set()
    for column in columns:
        values.update(records.column(column).tolist())
    return values <= {0.0, 1.0}


def _track_json(track: TrackComparison, letters: Sequence[str]) -> dict[str, Any]:
    counts = map(asdict, track.counts)
    row: dict[str, Any] = {
        "shared": track.shared,
        "clusters": track.clusters,
        "counts": dict(zip(letters, counts, strict=True)),
        "metrics": {metric.metric.name: _metric_json(metric) for metric in track.metrics},
        "notes": list(track.notes),
    }
    if track.bent:
        row["bent"] = [bent.row() for bent in track.bent]
    if track.slices:
        row["slices"] = list(map(_slice_json, track.slices))
    if track.fronts:
        row["pareto"] = [front.as_json() for front in track.fronts]
    return row


def _slice_json(one: SliceContrast) -> dict[str, Any]:
    about = {"by": one.by, "slice": one.name, "first": one.pair[0], "second": one.pair[1]}
    row: dict[str, Any] = {**about, "audited": one.audited, "n": one.n}
    if one.difference is None:
        return {**row, "difference": None, "reason": one.reason}
    row |= {"difference": one.difference.estimate.row, "p": one.difference.p}
    return {**row, "p_holm": one.corrected, "detectable": one.difference.detectable}


def _metric_json(metric: MetricComparison) -> dict[str, Any]:
    row: dict[str, Any] = {
        "lower_is_better": metric.metric.lower_is_better,
        "differences": list(map(_contrast_json, metric.contrasts)),
    }
    if metric.ranked:
        row["ranked"] = []
    for one in metric.ranked:
        row["ranked"].append({"run": one.name, **one.estimate.row, "ties": list(one.letters)})
    return row


def _contrast_json(contrast: Contrast) -> dict[str, Any]:
    return {
        "first": contrast.first,
        "second": contrast.second,
        "scores": [contrast.scores[0].row, contrast.scores[1].row],
        "difference": contrast.difference.estimate.row,
        "clusters": contrast.clusters,
        "test": "mcnemar" if contrast.exact else "clustered_t",
        "p": contrast.p,
        "p_holm": contrast.corrected,
        "detectable": contrast.difference.detectable,
        "mcnemar": None if contrast.mcnemar is None else asdict(contrast.mcnemar),
    }


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print a comparison: every metric of two runs, or the ties and pairs of more."""
    narrow = console.width < _NARROW
    names = []
    for side in comparison.sides:
        names.append((side.letter, side.folder, f"{side.model} · judged by {side.judge}"))
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
    tests = counted(len(contrasts_of([track])), "test")
    if track.lead is not None:
        yield from slices_part(track.slices, track.lead.metric)
        yield from bent_part(track.bent, track.lead.metric)
    yield Text(f"PPI++ on the differences of records; p: Holm-corrected for these {tests}.")
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
    for metric in track.metrics:
        contrast = metric.contrasts[0]
        if _records(metric):
            scores = () if narrow else tuple(number(score.value) for score in contrast.scores)
            cells = (*scores, *_test_cells(contrast, narrow))
            table.add_row(_title(metric.metric), *cells, style=_style(contrast))
    return table


def _test_columns(narrow: bool) -> tuple[str, ...]:
    return ("95 % interval", "p", *(() if narrow else ("MDE",)), "n")


def _test_cells(contrast: Contrast, narrow: bool) -> tuple[str, ...]:
    """Return the cells of a difference: value, interval, corrected p, what is detectable, n."""
    estimate = contrast.difference.estimate
    cells = [signed(estimate.value), interval(estimate), p_value(contrast.corrected)]
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
        # Of records that belong together its p is none, and another than the table's would be a
        # test of its own.
        exact = f"; exact McNemar p {p_value(contrast.corrected)}" if contrast.exact else ""
        if metric.metric.sign_test and not contrast.exact:
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
    for metric in track.metrics:
        if not _records(metric):
            continue
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
    for reason in dict.fromkeys(contrast.difference.estimate.reason for contrast in contrasts):
        if reason:
            yield f"No interval: {reason}."
    if any(contrast.difference.estimate.method for contrast in contrasts):
        yield f"Intervals where few sessions hold many records: {RESAMPLED}."
    if any(metric.metric.sign_test for track in comparison.tracks for metric in track.metrics):
        yield "The sign test takes records of one session for independent; the table's p does not."
    if any(track.fronts for track in comparison.tracks):
        yield EXPLANATION
    if not comparison.family:
        return
    tests = counted(comparison.family, "test")
    shown = "under the runs' own judge" if comparison.audited else "all that are shown"
    yield f"p: Holm-corrected for {tests}, {shown}; bold: at most .05."
    if any(contrast.exact for contrast in contrasts):
        yield "  McNemar's exact test where scores are 0 or 1 and every record stands alone."
    if not narrow:
        yield "MDE: minimum detectable effect (80 % power) of one test."
    if any(map(_has_errors, comparison.tracks)):
        yield f"{_LOWER.strip()}: lower is better."
    if len(comparison.sides) > 2:
        yield "ties: runs that share a letter are not significantly different (p ≥ .05, Holm)."


def _has_errors(track: TrackComparison) -> bool:
    return any(metric.metric.lower_is_better for metric in track.metrics)


def _title(metric: Metric) -> Text:
    return Text(visible(metric.title) + (_LOWER if metric.lower_is_better else ""))


def _style(contrast: Contrast) -> str:
    return "bold" if contrast.corrected is not None and contrast.corrected <= SIGNIFICANT else ""
