"""Comparison of runs on the records that all of them scored: differences, tests and ties.

Only runs on the same data under the same judge are compared. Records are paired by track and id,
repeats averaged; what belongs to one session is resampled together.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from alps.errors import RunFolderError, UsageError
from alps.report.runs import Run, letter_of, open_run, read_wanted
from alps.stats.bootstrap import Estimate, Floats, clustered_mean
from alps.stats.paired import (
    Difference,
    McNemar,
    Ranked,
    holm,
    paired_difference,
    paired_mcnemar,
    shared_letters,
)
from alps.tasks import Metric

Values = Mapping[str, Mapping[str, float]]
"""By benchmark_id: the value of each metric that is defined for the record."""

SIGNIFICANT = 0.05
"""The highest p that is bold, and tells two runs apart."""
_ROUNDING = 1e-12


class CompareSettings(BaseModel):
    """What `alps compare` can be told beside the runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: Annotated[int, Field(ge=0, description="taken from older commands; nothing is drawn")] = 0
    format: Annotated[Literal["table", "json"], Field(description="table or json")] = "table"


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
        return next(
            (found for found in self.metrics if found.metric.headline),
            next(iter(self.metrics), None),
        )


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
        return {
            "seed": self.seed,
            "level": 0.95,
            "power": 0.8,
            "runs": {
                side.letter: {"folder": str(side.folder), "model": side.model, "judge": side.judge}
                for side in self.sides
            },
            "tests": {
                f"{one.letter}-{other.letter}": self.tests(one.letter, other.letter)
                for one, other in combinations(self.sides, 2)
            },
            "family": self.family,
            "tracks": {found.track: self._track_json(found) for found in self.tracks},
            "notes": list(self.notes),
        }

    def _contrasts(self) -> list[Contrast]:
        return _contrasts_of(self.tracks)

    def _track_json(self, found: TrackComparison) -> dict[str, Any]:
        return {
            "shared": found.shared,
            "clusters": found.clusters,
            "counts": {
                side.letter: asdict(count)
                for side, count in zip(self.sides, found.counts, strict=True)
            },
            "metrics": {metric.metric.name: _metric_json(metric) for metric in found.metrics},
            "notes": list(found.notes),
        }


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
    sides = tuple(
        Side(letter_of(place), run.folder, run.model, run.judge) for place, run in enumerate(runs)
    )
    by_letter = {side.letter: run for side, run in zip(sides, runs, strict=True)}
    shared, untold = _told_tracks(by_letter)
    for track in shared:
        refuse_other_data(by_letter, track)
        refuse_other_scoring(by_letter, track)
    values = {letter: record_values(run) for letter, run in by_letter.items()}
    tracks = [_compare_track(by_letter, track, values) for track in shared]
    if not any(track.shared for track in tracks):
        raise UsageError("no record is scored in all of these runs")
    return Comparison(
        sides, _corrected(tracks), (*_notes(by_letter, [*shared, *untold]), *untold.values()), seed
    )


def _told_tracks(runs: Mapping[str, Run]) -> tuple[list[str], dict[str, str]]:
    """Return the tracks on which every run has a score, and why the others are left out.

    Raises:
        UsageError: If there is none of which every run has one.
    """
    shared = shared_tracks(runs)
    reasons: dict[str, str] = {}
    for track in shared:
        for run in runs.values():
            scores = run.summary_of(track)["scores"].values()
            if scores and all("unscored" in score for score in scores):
                reasons.setdefault(track, str(next(iter(scores))["unscored"]))
    if len(reasons) == len(shared):
        said = "; ".join(dict.fromkeys(reasons.values()))
        raise UsageError(
            f"nothing to compare: {said}; alps score RUN judge=… judges a run with another judge"
        )
    untold = {track: f"Left out, {track}: {reason}" for track, reason in reasons.items()}
    return [track for track in shared if track not in untold], untold


def _notes(runs: Mapping[str, Run], shared: Sequence[str]) -> list[str]:
    notes = []
    for letter, run in runs.items():
        if alone := [track for track in run.scored_tracks if track not in shared]:
            notes.append(f"Not in all runs, left out of {letter}: {', '.join(alone)}")
    versions = {letter: str(run.manifest.get("alps", "?")) for letter, run in runs.items()}
    if len(set(versions.values())) > 1:
        said = ", ".join(f"{letter} {version}" for letter, version in versions.items())
        notes.append(
            f"Made by different versions of alps, whose scores may not mean the same: {said}"
        )
    return notes


def record_values(run: Run) -> dict[str, dict[str, dict[str, float]]]:
    """Return by track and id the value of every metric, the mean of the repeats that have one."""
    repeats: dict[str, dict[str, dict[str, list[float]]]] = {}
    for key, row in run.rows("scores").items():
        if not (scores := row.get("scores")):
            continue
        record = repeats.setdefault(key.track, {}).setdefault(key.id, {})
        for name, value in scores.items():
            if isinstance(value, int | float) and isfinite(value):
                record.setdefault(name, []).append(float(value))
    means: dict[str, dict[str, dict[str, float]]] = {}
    for track, records in repeats.items():
        for name, record in records.items():
            mean = {metric: fmean(values) for metric, values in record.items()}
            means.setdefault(track, {})[name] = mean
    return means


def _compare_track(
    runs: Mapping[str, Run], track: str, values: Mapping[str, Mapping[str, Values]]
) -> TrackComparison:
    own = {letter: values[letter].get(track, {}) for letter in runs}
    first, *others = own.values()
    ids = [name for name in first if all(name in other for other in others)]
    counts = tuple(
        Counts(int(run.tracks[track]["n"]), len(own[letter]), len(own[letter]) - len(ids))
        for letter, run in runs.items()
    )
    sessions = sessions_of(list(runs.values()), track, ids)
    metrics, notes = _choose(runs, track)
    if sessions is None:
        notes.append(
            "The data was not found again, or has changed: each record stands alone in intervals"
            " and tests"
        )
    clusters = sessions or {name: name for name in ids}
    found = tuple(_compare_metric(metric, own, ids, clusters) for metric in metrics)
    known = None if sessions is None else len(set(sessions.values()))
    return TrackComparison(track, len(ids), known, counts, found, tuple(notes))


def sessions_of(runs: Sequence[Run], track: str, ids: Collection[str]) -> dict[str, str] | None:
    """Return the session of each record; None where no run's data are there any more."""
    tried: list[Any] = []
    for run in runs:
        if (data := run.manifest["settings"].get("data")) in tried:
            continue
        tried.append(data)
        samples = read_wanted(run, track, set(ids)).by_id
        if all(name in samples for name in ids):
            return {name: str(samples[name].session_id) for name in ids}
    return None


def _choose(runs: Mapping[str, Run], track: str) -> tuple[list[Metric], list[str]]:
    """Return the metrics that can be compared, and why others can't."""
    scores = {letter: run.summary_of(track)["scores"] for letter, run in runs.items()}
    alike = judged_alike(runs, track)
    chosen: list[Metric] = []
    why: dict[str, list[str]] = {}
    for metric in next(iter(runs.values())).tasks[track].metrics:
        title = metric.title.strip()
        missing = [letter for letter in runs if metric.name not in scores[letter]]
        unscored = [
            row["unscored"]
            for row in (scores[n].get(metric.name, {}) for n in runs)
            if "unscored" in row
        ]
        if len(missing) == len(runs):
            continue
        if metric.numerator is not None:
            why.setdefault("a ratio of sums, which single records don't have", []).append(title)
        elif missing:
            why.setdefault(f"not measured in {', '.join(missing)}", []).append(title)
        elif unscored:
            why.setdefault(str(unscored[0]), []).append(title)
        elif metric.rates and not alike:
            why.setdefault("rated by different judges", []).append(title)
        else:
            chosen.append(metric)
    notes = [f"Left out ({reason}): {', '.join(titles)}" for reason, titles in why.items()]
    first, *others = (run.tasks[track].conditions for run in runs.values())
    if any(other != first for other in others):
        said = ", ".join(f"{letter} {_conditions(run, track)}" for letter, run in runs.items())
        notes.append(f"Run under different conditions: {said}")
    return chosen, notes


def _conditions(run: Run, track: str) -> str:
    return (
        " ".join(f"{name}={value}" for name, value in run.tasks[track].conditions.items())
        or "as usual"
    )


def _compare_metric(
    metric: Metric, values: Mapping[str, Values], ids: Sequence[str], clusters: Mapping[str, str]
) -> MetricComparison:
    pairs = combinations(values, 2)
    contrasts = tuple(_contrast(metric, pair, values, ids, clusters) for pair in pairs)
    ranked: tuple[Ranked, ...] = ()
    if len(values) > 2:
        shared = [name for name in ids if all(metric.name in own[name] for own in values.values())]
        groups = [clusters[name] for name in shared]
        means = {
            letter: clustered_mean(
                _column(own, shared, metric.name), groups, bounds=(metric.lowest, metric.highest)
            )
            for letter, own in values.items()
        }
        sign = 1.0 if metric.lower_is_better else -1.0
        order = sorted(means, key=lambda letter: (sign * (means[letter].value or 0.0), letter))
        ranked = tuple(Ranked(letter, means[letter], ()) for letter in order)
    return MetricComparison(metric, contrasts, ranked)


def _column(values: Values, ids: Sequence[str], metric: str) -> Floats:
    return np.array([values[name][metric] for name in ids], dtype=np.float64)


def _contrast(
    metric: Metric,
    pair: tuple[str, str],
    values: Mapping[str, Values],
    ids: Sequence[str],
    clusters: Mapping[str, str],
) -> Contrast:
    both = [name for name in ids if all(metric.name in values[letter][name] for letter in pair)]
    first, second = (_column(values[letter], both, metric.name) for letter in pair)
    groups, bounds = [clusters[name] for name in both], (metric.lowest, metric.highest)
    difference = paired_difference(first, second, groups, bounds=bounds)
    if difference.detectable is not None and difference.detectable <= _ROUNDING:
        difference = replace(
            difference, detectable=None
        )  # no spread was seen: not that anything would be found
    binary = bool(both) and {*first.tolist(), *second.tolist()} <= {0.0, 1.0}
    mcnemar = paired_mcnemar([x == 1 for x in first], [x == 1 for x in second]) if binary else None
    # Records of one session are not independent, which the exact test takes for granted.
    exact = mcnemar if len(set(groups)) == len(groups) > 1 else None
    return Contrast(
        *pair,
        scores=(
            clustered_mean(first, groups, bounds=bounds),
            clustered_mean(second, groups, bounds=bounds),
        ),
        difference=difference,
        mcnemar=mcnemar,
        p=difference.p if exact is None else exact.p,
        exact=exact is not None,
        clusters=len(set(groups)),
    )


def _contrasts_of(tracks: Sequence[TrackComparison]) -> list[Contrast]:
    return [
        contrast for track in tracks for metric in track.metrics for contrast in metric.contrasts
    ]


def _corrected(tracks: Sequence[TrackComparison]) -> tuple[TrackComparison, ...]:
    """Correct every p for everything that is tested: all pairs of runs, all metrics, all tracks.

    One family, since a reader looks for any bold p: with a family for each pair of three equal
    runs, one of the three would be bold in up to 15 % of tables. Letters of ties follow from the
    same p.
    """
    corrected = iter(
        holm([contrast.p for contrast in _contrasts_of(tracks) if contrast.p is not None])
    )

    def of(contrast: Contrast) -> Contrast:
        return contrast if contrast.p is None else replace(contrast, corrected=next(corrected))

    def told_apart(metric: MetricComparison) -> MetricComparison:
        contrasts = tuple(of(contrast) for contrast in metric.contrasts)
        return replace(metric, contrasts=contrasts, ranked=_with_letters(metric.ranked, contrasts))

    return tuple(
        replace(track, metrics=tuple(told_apart(m) for m in track.metrics)) for track in tracks
    )


def _with_letters(ranked: Sequence[Ranked], contrasts: Sequence[Contrast]) -> tuple[Ranked, ...]:
    """Give runs the letters of their ties: those share one that are not told apart."""
    places = {one.name: place for place, one in enumerate(ranked)}
    apart = [
        (c.first, c.second)
        for c in contrasts
        if c.corrected is not None and c.corrected <= SIGNIFICANT
    ]
    different = [(places[first], places[second]) for first, second in apart] if ranked else []
    letters = shared_letters(len(ranked), different)
    return tuple(replace(one, letters=own) for one, own in zip(ranked, letters, strict=True))


def _metric_json(found: MetricComparison) -> dict[str, Any]:
    ranked = [
        {"run": one.name, **one.estimate.row, "ties": list(one.letters)} for one in found.ranked
    ]
    return {
        "lower_is_better": found.metric.lower_is_better,
        "differences": [_contrast_json(contrast) for contrast in found.contrasts],
        **({"ranked": ranked} if ranked else {}),
    }


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


def open_finished(folders: Sequence[Path]) -> list[Run]:
    """Open at least two runs.

    Raises:
        UsageError: If there are fewer, one is named twice, or one is not finished.
        RunFolderError: If a file of a run can't be read.
    """
    if len(folders) < 2:
        raise UsageError(f"compare takes at least two runs, got {len(folders)}")
    runs: list[Run] = []
    for folder in folders:
        run = open_run(folder)
        if any(run.folder.resolve() == other.folder.resolve() for other in runs):
            raise UsageError(f"{folder}: named twice; a run is compared with others")
        if run.summary is None:
            raise UsageError(f"{folder}: not finished; the same alps run again goes on with it")
        try:
            for track, found in run.summary["tracks"].items():
                _ = (
                    run.tasks[track],
                    int(run.tracks[track]["n"]),
                    run.tracks[track]["sha256"],
                    dict(found["scores"]),
                )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RunFolderError(f"{folder}: not a run of this alps ({error!r})") from error
        runs.append(run)
    return runs


def shared_tracks(runs: Mapping[str, Run]) -> list[str]:
    """Return the tracks that all `runs`, by their letters, have, in the order of the first.

    Raises:
        UsageError: If there is none.
    """
    first, *others = runs.values()
    shared = [
        track for track in first.scored_tracks if all(track in run.scored_tracks for run in others)
    ]
    if not shared:
        said = "; ".join(
            f"{run.folder} has {', '.join(run.scored_tracks) or 'none'}" for run in runs.values()
        )
        raise UsageError(f"no track is in all of these runs: {said}")
    return shared


def judged_alike(runs: Mapping[str, Run], track: str) -> bool:
    """Tell whether all runs had the same judge on `track`."""
    return len({run.judge_fingerprint(track) for run in runs.values()}) == 1


def refuse_other_data(runs: Mapping[str, Run], track: str) -> None:
    """Refuse runs whose data on `track` are not the same.

    Raises:
        UsageError: If they differ; names both hashes, and the settings behind them.
    """
    first, *others = runs.values()
    for other in others:
        here, there = (run.tracks[track] for run in (first, other))
        if here["sha256"] == there["sha256"]:
            continue
        hashes = " and ".join(
            f"{run.tracks[track]['sha256'][:12]} ({run.folder})" for run in (first, other)
        )
        settings = [
            _part(first, other, f"settings.{name}") for name in ("data", "split", "limit", "seed")
        ]
        parts = "; ".join(part for part in (*settings, _part(first, other, "data.split")) if part)
        raise UsageError(
            f"not on the same data: {track} has sha256 {hashes}{f'; {parts}' if parts else ''}"
        )


def refuse_other_scoring(runs: Mapping[str, Run], track: str) -> None:
    """Refuse runs whose scores on `track` are not the same measurement.

    Recall of a memory needs no judge.

    Raises:
        UsageError: If their scoring or their judge differs; names what is different.
    """
    first, *others = runs.values()
    for other in others:
        here, there = (run.tasks[track].conditions.get("scoring", "alps") for run in (first, other))
        if here != there:
            ways = f"scoring={here} in {first.folder}, {there} in {other.folder}"
            raise UsageError(f"not scored alike: {track} has {ways}")
        ids = [run.judge_fingerprint(track) for run in (first, other)]
        if ids[0] == ids[1] or first.tasks[track].name == "retrieval":
            continue
        names = {*first.manifest["judge"], *other.manifest["judge"]} - {"id"}
        parts = []
        for name in sorted(names, key=lambda name: (name != "judge", name)):
            parts += [part] if (part := _part(first, other, f"judge.{name}")) else []
        judges = f"{ids[0]} ({first.folder}) and {ids[1]} ({other.folder})"
        raise UsageError(
            f"not under the same judge: {track} has fingerprint {judges}; "
            f"{'; '.join(parts[:3]) or 'its rubrics differ'}; alps score judges a run again"
        )


def _part(first: Run, other: Run, place: str) -> str:
    """Say how two manifests differ at a dotted place.

    Nothing where they don't, and no values that are long.
    """
    section, _, name = place.partition(".")
    here, there = (run.manifest[section].get(name) for run in (first, other))
    if here == there:
        return ""
    said = [str(value) if not isinstance(value, dict) else "{…}" for value in (here, there)]
    return (
        f"{place} is {_short(said[0])} and {_short(said[1])}"
        if said[0] != said[1]
        else f"{place} differs"
    )


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:12]}…"
