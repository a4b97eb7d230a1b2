"""Comparison of runs on the records that all of them scored: differences, tests and ties.

Only runs on the same data under the same judge are compared. Records are paired by track and id,
repeats averaged; what belongs to one session is resampled together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.judges.agreement import people_agree, people_say
from alps.run.opened import Run
from alps.show.contrasts import (
    Contrast,
    Counts,
    MetricComparison,
    TrackComparison,
    contrasts_of,
    corrected_together,
    diagnostics_of,
    doubted,
)
from alps.show.formatting import (
    letter_of,
)
from alps.show.judge_check import judge_of
from alps.show.parts import CorrectedComparison, Pair, ShownPart, shown_parts
from alps.show.shared_records import (
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
from alps.show.terminal import as_html
from alps.stats.paired import (
    Ranked,
    paired_mcnemar,
)
from alps.tasks import Metric

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Side:
    """One of the runs, under the letter by which tables name it.

    `marked` is the judge with its share of known items.
    """

    letter: str
    folder: Path
    model: str
    judge: str
    marked: str


@dataclass(frozen=True)
class Comparison:
    """What `compare_runs` found.

    `corrected` are the same comparisons by scores that extensions correct. `known` is what
    calibrations say of the judge of all runs.
    """

    sides: tuple[Side, ...]
    tracks: tuple[TrackComparison, ...]
    notes: tuple[str, ...]
    seed: int
    corrected: tuple[CorrectedComparison, ...] = ()
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
        """How many tests are shown."""
        return sum(self._tests.values())

    @property
    def diagnostics(self) -> int:
        """How many of them are of other metrics than the headlines: one family."""
        return len(diagnostics_of(self.tracks))

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
            "diagnostics": self.diagnostics,
            "tracks": {track.track: _track_json(track, list(runs)) for track in self.tracks},
            "notes": list(self.notes),
            **self._corrected_json(list(runs)),
        }

    def _corrected_json(self, letters: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for one in self.corrected:
            rows = {track.track: _track_json(track, letters) for track in one.tracks}
            found |= {one.key: rows} if rows else {}
        return found

    def _repr_html_(self) -> str:
        from alps.show.compare_table import print_comparison

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
        sides.append(Side(letter, run.folder, run.model, run.judge, judge_of(run)))
    shared, untold = told_tracks(by_letter)
    for track in shared:
        refuse_other_data(by_letter, track)
        refuse_other_scoring(by_letter, track)
    values = {letter: record_values(run) for letter, run in by_letter.items()}
    parts = shown_parts(*(run.finished for run in by_letter.values()))
    tracks = [_compare_track(by_letter, track, values, headlines, parts) for track in shared]
    # Every record may have failed in one run or another, though all have the track.
    if not any(track.shared for track in tracks):
        raise UsageError("no record is scored in all of these runs")
    again = (part.corrected(by_letter, shared) for part in parts)
    corrected = tuple(one for one in again if one is not None)
    notes = [*_notes(by_letter, [*shared, *untold]), *untold.values()]
    for one in corrected:
        notes += one.notes
    known = tuple(_known(next(iter(by_letter.values()))))
    own = doubted(corrected_together(tracks), partial(_trusted, by_letter))
    return Comparison(tuple(sides), own, tuple(notes), seed, corrected, known)


def _trusted(runs: Mapping[str, Run], track: str, metric: Metric) -> bool:
    """Tell whether people agree with the judge of all runs on a metric."""
    judges = {run.judge_fingerprint(track) for run in runs.values()}
    return all(people_agree(one, metric.rubrics) for one in judges)


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
    parts: Sequence[ShownPart],
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
    withheld: dict[Pair, str] = {}
    for part in parts:
        withheld |= part.withheld(runs, track)
    for pair, reason in withheld.items():
        notes.append(f"No difference between {' and '.join(pair)}: {reason}")
    metrics = []
    for metric in chosen:
        columns = {letter: metric_values(rows, metric) for letter, rows in records.items()}
        metrics.append(_compare_metric(metric, columns, ids, sessions, withheld))
    clusters = None if known is None else len(set(known.values()))
    compared = TrackComparison(
        track, len(ids), clusters, tuple(counts), tuple(metrics), tuple(notes)
    )
    if compared.lead is None:
        return compared
    of_records = compared.lead.metric, {name: sessions[name] for name in ids}
    more = (part.more(runs, track, *of_records) for part in parts)
    return replace(compared, more=tuple(one for one in more if one is not None))


def _compare_metric(
    metric: Metric,
    columns: Mapping[str, Values],
    ids: Sequence[str],
    sessions: Mapping[str, str],
    withheld: Mapping[tuple[str, str], str],
) -> MetricComparison:
    contrasts = []
    for first, second in combinations(columns, 2):
        pair = {first: columns[first], second: columns[second]}
        contrast = _contrast(pair, SharedRecords.of(metric, ids, pair.values(), sessions))
        reason = withheld.get((first, second))
        contrasts.append(contrast if reason is None else contrast.withheld(reason))
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
    exact = mcnemar is not None and clusters == len(records.ids) > 1
    # Made as the interval, so that both say the same of 0.
    p = difference.p if difference.estimate.p is None else difference.estimate.p
    return Contrast(
        first,
        second,
        scores=(records.mean(one), records.mean(other)),
        difference=difference,
        mcnemar=mcnemar,
        p=p,
        exact=exact,
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
    for more in track.more:
        row |= more.row
    return row


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
        "test": "clustered_t" if contrast.difference.estimate.p is None else "interval",
        "p": contrast.p,
        "p_holm": contrast.corrected,
        "detectable": contrast.difference.detectable,
        "mcnemar": None if contrast.mcnemar is None else asdict(contrast.mcnemar),
    }
