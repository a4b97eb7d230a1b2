"""Comparison of runs on the records that all of them scored: differences, tests and ties.

Only runs on the same data under the same judge are compared. Records are paired by track and id,
repeats averaged; what belongs to one session is resampled together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.report.formatting import letter_of
from alps.report.shared_records import (
    SharedRecords,
    Values,
    judged_alike,
    metric_values,
    open_finished,
    record_values,
    refuse_other_data,
    refuse_other_scoring,
    sessions_of,
    shared_tracks,
)
from alps.rows import Score
from alps.run.opened import Run
from alps.stats.bootstrap import Estimate
from alps.stats.paired import (
    Difference,
    McNemar,
    Ranked,
    holm,
    paired_mcnemar,
    shared_letters,
)
from alps.tasks import Metric

SIGNIFICANT = 0.05
"""The highest p that is bold, and tells two runs apart."""
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Side:
    """One of the runs, under the letter by which tables name it."""

    letter: str
    folder: Path
    model: str
    judge: str


@dataclass(frozen=True)
class Counts:
    """Records of one run on one track; `left_out` are scored in it, but not in all the others."""

    asked: int
    scored: int
    left_out: int


@dataclass(frozen=True)
class Contrast:
    """One metric of two runs, on the records for which both have it.

    Attributes:
        first: The letter of the one run.
        second: The letter of the other.
        scores: The means of both.
        difference: First less second; a `detectable` of a sample without any spread is None.
        mcnemar: Where every score is 0 or 1.
        p: Exact (McNemar) where every score is 0 or 1 and every record stands alone; else that of
            `difference`. None with fewer than two sessions.
        exact: Whether `p` is exact.
        corrected: `p` by Holm's method over everything tested between any two of the runs, on all
            tracks.
        clusters: How many sessions the records come from.
    """

    first: str
    second: str
    scores: tuple[Estimate, Estimate]
    difference: Difference
    mcnemar: McNemar | None
    p: float | None
    exact: bool
    clusters: int
    corrected: float | None = None


@dataclass(frozen=True)
class MetricComparison:
    """One metric: every pair of runs.

    Of more than two also their ranks, with the letters of ties, best first.
    """

    metric: Metric
    contrasts: tuple[Contrast, ...]
    ranked: tuple[Ranked, ...]


@dataclass(frozen=True)
class TrackComparison:
    """One track that all runs have.

    `clusters` is the number of sessions among the `shared` records, None where the sessions are not
    known. `counts` is in the order of the runs; `notes` say what was not compared, and why.
    """

    track: str
    shared: int
    clusters: int | None
    counts: tuple[Counts, ...]
    metrics: tuple[MetricComparison, ...]
    notes: tuple[str, ...]

    @property
    def lead(self) -> MetricComparison | None:
        """The headline, or what could be compared in its place."""
        headlines = (metric for metric in self.metrics if metric.metric.headline)
        return next(headlines, next(iter(self.metrics), None))


@dataclass(frozen=True)
class Comparison:
    """What `compare_runs` found."""

    sides: tuple[Side, ...]
    tracks: tuple[TrackComparison, ...]
    notes: tuple[str, ...]
    seed: int

    def tests(self, first: str, second: str) -> int:
        """Return how many tests there are between two runs."""
        return sum(
            c.corrected is not None
            for c in self._contrasts()
            if (c.first, c.second) == (first, second)
        )

    @property
    def family(self) -> int:
        """Over how many tests every p is corrected: all that are shown."""
        return sum(contrast.corrected is not None for contrast in self._contrasts())

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        runs: dict[str, Any] = {}
        for side in self.sides:
            row = {"folder": str(side.folder), "model": side.model, "judge": side.judge}
            runs[side.letter] = row
        tests = {}
        for first, second in combinations(runs, 2):
            tests[f"{first}-{second}"] = self.tests(first, second)
        return {
            "seed": self.seed,
            "level": 0.95,
            "power": 0.8,
            "runs": runs,
            "tests": tests,
            "family": self.family,
            "tracks": {track.track: _track_json(track, list(runs)) for track in self.tracks},
            "notes": list(self.notes),
        }

    def _contrasts(self) -> list[Contrast]:
        return _contrasts_of(self.tracks)

    def _repr_html_(self) -> str:
        from alps.report.compare_table import print_comparison
        from alps.report.terminal import as_html

        return as_html(lambda console: print_comparison(self, console))


def compare_runs(folders: Sequence[Path], *, seed: int = 0) -> Comparison:
    """Compare finished runs on the records that all of them scored.

    Args:
        folders: At least two run folders; differences are of an earlier one less a later one.
        seed: Of older commands; nothing is drawn.

    Raises:
        UsageError: If there are fewer than two runs, one is named twice or not finished, or they
            have no track in common, or differ there in their data, judge or scoring; names what
            differs.
        RunFolderError: If a file of a run can't be read.
    """
    runs = open_finished(folders)
    by_letter = {letter_of(position): run for position, run in enumerate(runs)}
    sides = []
    for letter, run in by_letter.items():
        sides.append(Side(letter, run.folder, run.model, run.judge))
    shared, untold = _told_tracks(by_letter)
    for track in shared:
        refuse_other_data(by_letter, track)
        refuse_other_scoring(by_letter, track)
    values = {letter: record_values(run) for letter, run in by_letter.items()}
    tracks = [_compare_track(by_letter, track, values) for track in shared]
    if not any(track.shared for track in tracks):
        raise UsageError("no record is scored in all of these runs")
    notes = (*_notes(by_letter, [*shared, *untold]), *untold.values())
    return Comparison(tuple(sides), _corrected(tracks), notes, seed)


def _told_tracks(runs: Mapping[str, Run]) -> tuple[list[str], dict[str, str]]:
    """Return the tracks on which every run has a score, and why the others are left out.

    Raises:
        UsageError: If there is none of which every run has one.
    """
    shared = shared_tracks(runs)
    reasons: dict[str, str] = {}
    for track in shared:
        for run in runs.values():
            scores = list(run.summary_of(track).scores.values())
            if scores and all(score.unscored is not None for score in scores):
                reasons.setdefault(track, str(scores[0].unscored))
    if len(reasons) == len(shared):
        each = "; ".join(dict.fromkeys(reasons.values()))
        raise UsageError(
            f"nothing to compare: {each}; alps score RUN judge=… judges a run with another judge"
        )
    untold = {track: f"Left out, {track}: {reason}" for track, reason in reasons.items()}
    return [track for track in shared if track not in untold], untold


def _notes(runs: Mapping[str, Run], shared: Sequence[str]) -> list[str]:
    notes = []
    versions: dict[str, str] = {}
    for letter, run in runs.items():
        versions[letter] = run.manifest.alps
        if alone := [track for track in run.scored_tracks if track not in shared]:
            notes.append(f"Not in all runs, left out of {letter}: {', '.join(alone)}")
    if len(set(versions.values())) > 1:
        each = ", ".join(f"{letter} {version}" for letter, version in versions.items())
        notes.append(
            f"Made by different versions of alps, whose scores may not mean the same: {each}"
        )
    return notes


def _compare_track(
    runs: Mapping[str, Run],
    track: str,
    values: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]],
) -> TrackComparison:
    records = {letter: values[letter].get(track, {}) for letter in runs}
    first, *others = records.values()
    ids = [name for name in first if all(name in other for other in others)]
    counts = []
    for letter, run in runs.items():
        scored = len(records[letter])
        counts.append(Counts(run.tracks[track].n, scored, scored - len(ids)))
    known = sessions_of(list(runs.values()), track, ids)
    chosen, notes = _choose(runs, track)
    if known is None:
        notes.append(
            "The data was not found again, or has changed: each record stands alone in intervals"
            " and tests"
        )
    sessions = known or {name: name for name in ids}
    metrics = []
    for metric in chosen:
        columns = {letter: metric_values(rows, metric) for letter, rows in records.items()}
        metrics.append(_compare_metric(metric, columns, ids, sessions))
    clusters = None if known is None else len(set(known.values()))
    return TrackComparison(track, len(ids), clusters, tuple(counts), tuple(metrics), tuple(notes))


def _choose(runs: Mapping[str, Run], track: str) -> tuple[list[Metric], list[str]]:
    """Return the metrics that can be compared, and why others can't."""
    scores = {letter: run.summary_of(track).scores for letter, run in runs.items()}
    chosen: list[Metric] = []
    left_out: dict[str, list[str]] = {}
    for metric in next(iter(runs.values())).tasks[track].metrics:
        if all(metric.name not in own for own in scores.values()):
            continue
        reason = _why_not(metric, scores, alike=judged_alike(runs, track))
        if reason is None:
            chosen.append(metric)
        else:
            left_out.setdefault(reason, []).append(metric.title.strip())
    notes = [f"Left out ({reason}): {', '.join(titles)}" for reason, titles in left_out.items()]
    first, *others = (run.tasks[track].conditions for run in runs.values())
    if any(other != first for other in others):
        each = ", ".join(f"{letter} {_conditions(run, track)}" for letter, run in runs.items())
        notes.append(f"Run under different conditions: {each}")
    return chosen, notes


def _why_not(
    metric: Metric, scores: Mapping[str, Mapping[str, Score]], *, alike: bool
) -> str | None:
    """Return why runs with these scores can't be compared on a metric; None if they can."""
    if metric.numerator is not None:
        return "a ratio of sums, which single records don't have"
    missing = [letter for letter, own in scores.items() if metric.name not in own]
    if missing:
        return f"not measured in {', '.join(missing)}"
    for own in scores.values():
        if own[metric.name].unscored is not None:
            return own[metric.name].unscored
    return "rated by different judges" if metric.rates and not alike else None


def _conditions(run: Run, track: str) -> str:
    conditions = run.tasks[track].conditions.items()
    return " ".join(f"{name}={value}" for name, value in conditions) or "as usual"


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
    if len(columns) == 2:
        return MetricComparison(metric, tuple(contrasts), ())
    records = SharedRecords.of(metric, ids, columns.values(), sessions)
    means = {letter: records.mean(column) for letter, column in columns.items()}
    sign = 1.0 if metric.lower_is_better else -1.0
    order = sorted(means, key=lambda letter: (sign * (means[letter].value or 0.0), letter))
    ranked = tuple(Ranked(letter, means[letter], ()) for letter in order)
    return MetricComparison(metric, tuple(contrasts), ranked)


def _contrast(pair: Mapping[str, Values], records: SharedRecords) -> Contrast:
    (first, one), (second, other) = pair.items()
    difference = records.difference(one, other)
    if difference.detectable is not None and difference.detectable <= _ROUNDING:
        # No spread was seen: that does not mean that any difference would be detected.
        difference = replace(difference, detectable=None)
    columns = [(records.column(values) == 1).tolist() for values in (one, other)]
    mcnemar = paired_mcnemar(*columns) if _is_binary(records, one, other) else None
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
    if not records.ids:
        return False
    values: set[float] = set()
    for column in columns:
        values.update(records.column(column).tolist())
    return values <= {0.0, 1.0}


def _contrasts_of(tracks: Sequence[TrackComparison]) -> list[Contrast]:
    return [
        contrast for track in tracks for metric in track.metrics for contrast in metric.contrasts
    ]


def _corrected(tracks: Sequence[TrackComparison]) -> tuple[TrackComparison, ...]:
    """Correct every p for everything that is tested: all pairs of runs, all metrics, all tracks.

    Letters of ties follow from the same p.
    """
    # One family, since a reader looks for any bold p: with a family for each pair of three equal
    # runs, one of the three would be bold in up to 15 % of tables.
    tested = [contrast.p for contrast in _contrasts_of(tracks) if contrast.p is not None]
    corrected = iter(holm(tested))
    results = []
    for track in tracks:
        metrics = []
        for metric in track.metrics:
            contrasts = []
            for contrast in metric.contrasts:
                p = None if contrast.p is None else next(corrected)
                contrasts.append(replace(contrast, corrected=p))
            ranked = _with_letters(metric.ranked, contrasts)
            metrics.append(replace(metric, contrasts=tuple(contrasts), ranked=ranked))
        results.append(replace(track, metrics=tuple(metrics)))
    return tuple(results)


def _with_letters(ranked: Sequence[Ranked], contrasts: Sequence[Contrast]) -> tuple[Ranked, ...]:
    """Give runs the letters of their ties: those share one that do not differ significantly."""
    if not ranked:
        return ()
    positions = {one.name: position for position, one in enumerate(ranked)}
    different = []
    for contrast in contrasts:
        if contrast.corrected is not None and contrast.corrected <= SIGNIFICANT:
            different.append((positions[contrast.first], positions[contrast.second]))
    letters = shared_letters(len(ranked), different)
    return tuple(replace(one, letters=own) for one, own in zip(ranked, letters, strict=True))


def _track_json(track: TrackComparison, letters: Sequence[str]) -> dict[str, Any]:
    counts = map(asdict, track.counts)
    return {
        "shared": track.shared,
        "clusters": track.clusters,
        "counts": dict(zip(letters, counts, strict=True)),
        "metrics": {metric.metric.name: _metric_json(metric) for metric in track.metrics},
        "notes": list(track.notes),
    }


def _metric_json(metric: MetricComparison) -> dict[str, Any]:
    row: dict[str, Any] = {
        "lower_is_better": metric.metric.lower_is_better,
        "differences": [_contrast_json(contrast) for contrast in metric.contrasts],
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
        "scores": [score.row for score in contrast.scores],
        "difference": contrast.difference.estimate.row,
        "clusters": contrast.clusters,
        "test": "mcnemar" if contrast.exact else "clustered_t",
        "p": contrast.p,
        "p_holm": contrast.corrected,
        "detectable": contrast.difference.detectable,
        "mcnemar": None if contrast.mcnemar is None else asdict(contrast.mcnemar),
    }
