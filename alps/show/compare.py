"""Comparison of runs on the records that all of them scored: differences, tests and ties.

Only runs on the same data under the same judge are compared. Records are paired by track and id,
repeats averaged; what belongs to one session is resampled together.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alps.errors import UsageError
from alps.judges.base import people_agree, people_say
from alps.run.opened import RunFolder
from alps.show.formatting import judge_of, letter_of, task_title
from alps.show.parts import CorrectedComparison, Pair, ShownPart, shown_parts
from alps.show.shared_records import (
    SharedRecords,
    Values,
    choose_metrics,
    different_conditions,
    metric_values,
    open_finished,
    record_values,
    refuse_other_data,
    refuse_other_scoring,
    sessions_of,
    told_tracks,
)
from alps.show.table import as_html
from alps.stats.bootstrap import Estimate
from alps.stats.paired import (
    SIGNIFICANT,
    Difference,
    McNemar,
    Ranked,
    holm,
    mcnemar,
    shared_letters,
)
from alps.tasks import Metric
from alps.tasks.registry import NO_PROMPT

if TYPE_CHECKING:
    from alps.show.parts import More


_MOST_NAMES = 4


@dataclass(frozen=True)
class RecordCounts:
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
        p: Of this test alone, made as the interval of `difference`: below .05 where that leaves out
            0. Where there is no interval that of `difference`; None with fewer than two sessions.
        exact: Whether `mcnemar` holds: every record is independent.
        corrected: `p` by Holm's method over its family: the headline of a track between any two of
            the runs, or all other metrics of all tracks.
        clusters: How many sessions the records come from.
        doubted: Whether nobody showed that the judge agrees with people: its p is never bold.
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
    doubted: bool = False

    @property
    def significant(self) -> bool:
        """Whether the difference is significant, under a judge that agrees with people."""
        return not self.doubted and self.corrected is not None and self.corrected <= SIGNIFICANT

    def withheld(self, reason: str) -> "Contrast":
        """Return it without a difference and a test, and why."""
        none = Estimate(None, None, None, self.difference.estimate.n, reason)
        return replace(
            self, difference=Difference(none, None, None), mcnemar=None, p=None, exact=False
        )


@dataclass(frozen=True)
class MetricComparison:
    """One metric: every pair of runs; of more than two also their ranks with ties, best first."""

    metric: Metric
    contrasts: tuple[Contrast, ...]
    ranked: tuple[Ranked, ...]


@dataclass(frozen=True)
class TrackComparison:
    """One track that all runs have.

    `clusters` is the number of sessions among the `shared` records, None where the sessions are not
    known. `counts` is in the order of the runs; `notes` say what was not compared, and why;
    `more` is what extensions add; `title` is the name of the task; `of_all` are the notes that are
    on no single metric.
    """

    track: str
    shared: int
    clusters: int | None
    counts: tuple[RecordCounts, ...]
    metrics: tuple[MetricComparison, ...]
    notes: tuple[str, ...]
    more: "tuple[More, ...]" = ()
    title: str = ""
    of_all: tuple[str, ...] = ()

    @property
    def lead(self) -> MetricComparison | None:
        """The headline, or what could be compared in its place."""
        for metric in self.metrics:
            if metric.metric.headline:
                return metric
        return self.metrics[0] if self.metrics else None


def contrasts_of(tracks: Sequence[TrackComparison]) -> list[Contrast]:
    """Return every contrast, in the order of the tables."""
    contrasts: list[Contrast] = []
    for track in tracks:
        for metric in track.metrics:
            contrasts += metric.contrasts
    return contrasts


def diagnostics_of(tracks: Sequence[TrackComparison]) -> list[Contrast]:
    """Return the tested contrasts of all metrics but the headlines."""
    contrasts: list[Contrast] = []
    for track in tracks:
        for metric in track.metrics:
            contrasts += metric.contrasts if metric is not track.lead else ()
    return [contrast for contrast in contrasts if contrast.p is not None]


def corrected_together(tracks: Sequence[TrackComparison]) -> tuple[TrackComparison, ...]:
    """Correct every p within its family; letters of ties follow from the same p.

    The headline of a track is what a comparison is made for: it is a family of its own, of all
    pairs of runs. All other metrics are diagnostics, and one family, since a reader looks through
    them for any bold p.
    """
    diagnostics = _by_holm(diagnostics_of(tracks))

    def corrected(track: TrackComparison, metric: MetricComparison) -> MetricComparison:
        family = _by_holm(metric.contrasts) if metric is track.lead else diagnostics
        contrasts = tuple(replace(one, corrected=family.get(id(one))) for one in metric.contrasts)
        return MetricComparison(metric.metric, contrasts, _with_letters(metric.ranked, contrasts))

    return _each_metric(tracks, corrected)


def _each_metric(
    tracks: Sequence[TrackComparison],
    change: Callable[[TrackComparison, MetricComparison], MetricComparison],
) -> tuple[TrackComparison, ...]:
    results = []
    for track in tracks:
        metrics = tuple(change(track, metric) for metric in track.metrics)
        results.append(replace(track, metrics=metrics))
    return tuple(results)


def _by_holm(contrasts: Sequence[Contrast]) -> dict[int, float]:
    """Return the corrected p of each tested contrast of a family, by its identity."""
    tested = [contrast for contrast in contrasts if contrast.p is not None]
    corrected = holm([contrast.p for contrast in tested if contrast.p is not None])
    return {id(one): p for one, p in zip(tested, corrected, strict=True)}


def doubted(
    tracks: Sequence[TrackComparison], trusted: Callable[[Metric], bool]
) -> tuple[TrackComparison, ...]:
    """Mark the differences of judged metrics whose judge is not `trusted`."""

    def marked(_: TrackComparison, metric: MetricComparison) -> MetricComparison:
        doubt = metric.metric.judged and not trusted(metric.metric)
        contrasts = tuple(replace(one, doubted=doubt) for one in metric.contrasts)
        return replace(metric, contrasts=contrasts)

    return _each_metric(tracks, marked)


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


_ROUNDING = 1e-12


@dataclass(frozen=True)
class ComparedRun:
    """One of the runs, by its letter; `marked` is the judge with its share of known items."""

    letter: str
    folder: Path
    model: str
    judge: str
    marked: str


@dataclass(frozen=True)
class Comparison:
    """What `compare_runs` found.

    `corrected` are the same comparisons by scores that extensions correct. `known` is what
    calibrations say of the judge of all runs. `shown` are the notes with the names of tasks.
    """

    sides: tuple[ComparedRun, ...]
    tracks: tuple[TrackComparison, ...]
    notes: tuple[str, ...]
    seed: int
    corrected: tuple[CorrectedComparison, ...] = ()
    known: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        from alps.show.compare_table import answers

        return f"<Comparison {'; '.join(line.text for line in answers(self))}>"

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
            "tracks": _tracks_json(self.tracks, runs),
            "notes": list(self.notes),
            **{one.key: _tracks_json(one.tracks, runs) for one in self.corrected if one.tracks},
        }

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
    by_letter: dict[str, RunFolder] = {}
    sides: list[ComparedRun] = []
    for position, run in enumerate(open_finished(folders)):
        letter = letter_of(position)
        by_letter[letter] = run
        sides.append(ComparedRun(letter, run.folder, run.model, run.judge, judge_of(run)))
    shared, left_out = told_tracks(by_letter)
    for track in shared:
        refuse_other_data(by_letter, track)
        refuse_other_scoring(by_letter, track)
    values = {letter: record_values(run) for letter, run in by_letter.items()}
    parts = shown_parts(*(run.finished for run in by_letter.values()))
    tracks = [_compare_track(by_letter, track, values, headlines, parts) for track in shared]
    # Every record may have failed in one run or another, though all have the track.
    if not any(track.shared for track in tracks):
        raise UsageError("no record has a score in all of these runs")
    again = (part.corrected(by_letter, shared) for part in parts)
    corrected = tuple(one for one in again if one is not None)
    more = [note for one in corrected for note in one.notes]
    notes = [*_notes(by_letter, shared, left_out), *more]
    shown = [*_notes(by_letter, shared, left_out, named=True), *more]
    known = tuple(_known(next(iter(by_letter.values()))))
    judges = [run.manifest.judge for run in by_letter.values()]
    own = doubted(
        corrected_together(tracks),
        lambda metric: all(people_agree(judge, metric.rubrics) for judge in judges),
    )
    return Comparison(tuple(sides), own, tuple(notes), seed, corrected, known, tuple(shown))


def _notes(
    runs: Mapping[str, RunFolder],
    shared: Sequence[str],
    left_out: Mapping[str, str],
    *,
    named: bool = False,
) -> Iterator[str]:
    """Yield what is not compared, and why; tracks by their keys, or `named` as people read them."""

    def names(tracks: Sequence[str]) -> str:
        if not named:
            return ", ".join(tracks)
        if len(tracks) > _MOST_NAMES:
            return f"{len(tracks)} tasks"
        return ", ".join(task_title(track, run.summary_of(track)) for track in tracks)

    versions: dict[str, str] = {}
    for letter, run in runs.items():
        versions[letter] = run.manifest.alps
        alone = [name for name in run.scored_tracks if name not in {*shared, *left_out}]
        if alone:
            yield f"Left out of {letter} (not in all runs): {names(alone)}"
    # A note and no refusal: a new version may be the very thing that is compared.
    if len(set(versions.values())) > 1:
        each = ", ".join(f"{letter} {version}" for letter, version in versions.items())
        yield f"Scores may not be comparable, because the runs used different alps versions: {each}"
    reasons: dict[str, list[str]] = {}
    for track, reason in left_out.items():
        reasons.setdefault(reason if named else f"{track} {reason}", []).append(track)
    for tracks in reasons.values():
        yield f"Left out: {names(tracks)} ({left_out[tracks[0]]})"


def _known(run: RunFolder) -> Iterator[str]:
    for told in people_say(run.judge, run.finished.judge_fingerprint):
        yield f"Calibration of judge {run.judge}: {told}"


def _compare_track(
    runs: Mapping[str, RunFolder],
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
        counts.append(RecordCounts(run.tracks[track].n, scored, scored - len(ids)))
    # Records of one session are alike: as if alone, they would give intervals that are too narrow.
    first = next(iter(runs.values()))
    known = sessions_of(list(runs.values()), track, ids)
    chosen, left_out = choose_metrics(runs, track)
    notes = different_conditions(runs, track)
    if headlines:
        chosen = [metric for metric in chosen if metric.headline] or chosen[:1]
    if known is None:
        notes.append(
            "The data was not found or has changed, so intervals and tests treat records "
            "as independent"
        )
    elif first.tasks[track].prompt is NO_PROMPT:
        own = "to use those of the task, add task=python:MODULE"
        notes.append(f"Sessions are those that the data name, as no task was imported; {own}")
    sessions = known or dict(zip(ids, ids, strict=True))
    withheld: dict[Pair, str] = {}
    for part in parts:
        withheld |= part.withheld(runs, track)
    for pair, reason in withheld.items():
        notes.append(f"{' and '.join(pair)} are not compared: {reason}")
    metrics = []
    for metric in chosen:
        columns = {letter: metric_values(rows, metric) for letter, rows in records.items()}
        metrics.append(_compare_metric(metric, columns, ids, sessions, withheld))
    clusters = None if known is None else len(set(known.values()))
    title = task_title(track, first.summary_of(track))
    compared = TrackComparison(
        *(track, len(ids), clusters, tuple(counts), tuple(metrics)),
        *((*left_out, *notes), (), title, tuple(notes)),
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
    return MetricComparison(metric, tuple(contrasts), ranked_by(metric, means))


def ranked_by(metric: Metric, means: Mapping[str, Estimate]) -> tuple[Ranked, ...]:
    """Rank runs by their scores, the best first, without letters of ties."""
    sign = 1.0 if metric.lower_is_better else -1.0
    # Runs of one score go by their letters, so that the same command prints the same table.
    order = sorted(means, key=lambda letter: (sign * (means[letter].value or 0.0), letter))
    return tuple(Ranked(letter, means[letter], ()) for letter in order)


def _contrast(pair: Mapping[str, Values], records: SharedRecords) -> Contrast:
    (first, one), (second, other) = pair.items()
    difference = records.difference(one, other)
    if difference.detectable is not None and difference.detectable <= _ROUNDING:
        # No spread was seen: that does not mean that any difference would be detected.
        difference = replace(difference, detectable=None)
    found = None
    if _is_binary(records, one, other):
        ahead = records.column(one) - records.column(other)
        found = mcnemar(int((ahead > 0).sum()), int((ahead < 0).sum()))
    # Records of one session are not independent, which the exact test takes for granted.
    clusters = len(set(records.sessions))
    exact = found is not None and clusters == len(records.ids) > 1
    # Made as the interval, so that both say the same of 0.
    p = difference.p if difference.estimate.p is None else difference.estimate.p
    return Contrast(
        first,
        second,
        scores=(records.mean(one), records.mean(other)),
        difference=difference,
        mcnemar=found,
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


def _tracks_json(tracks: Sequence[TrackComparison], letters: Iterable[str]) -> dict[str, Any]:
    return {track.track: _track_json(track, letters) for track in tracks}


def _track_json(track: TrackComparison, letters: Iterable[str]) -> dict[str, Any]:
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
