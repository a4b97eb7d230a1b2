"""Sensitivity of scores and rankings to the wording of a judge's rubrics.

Everything is on the records that were scored under every wording, repeats averaged, so that no
figure differs because its records do. What belongs to one session is resampled together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import isnan
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from alps.judges.rubric import rubric
from alps.report.compare import record_values, sessions_of
from alps.report.runs import Run, letter_of, open_run
from alps.run.sensitivity import OURS, Reworded, Wording
from alps.stats.bootstrap import Estimate, Floats, clustered_mean
from alps.stats.paired import paired_difference
from alps.tasks import Metric

LEVEL_WIDTH = 1.96
"""Half a 95 % interval in standard errors."""

_ROUNDING = 1e-9
_Values = Mapping[str, float]
"""The value of one metric by the ids of the records that have it."""


@dataclass(frozen=True)
class UnderWording:
    """One run under one wording.

    Attributes:
        folder: Its run folder.
        score: The mean over the shared records.
        difference: Of this wording less ours, on the same records; None for ours.
        changed: The share of the records that ours scores otherwise; None for ours, or without
            records.
        unscored: Answers that have no score under it.
        failures: By kind, why judgements of it failed.
        error: What was said of one of them.
    """

    wording: str
    folder: Path
    score: Estimate
    difference: Estimate | None
    changed: float | None
    unscored: int
    failures: Mapping[str, int]
    error: str | None


@dataclass(frozen=True)
class Spread:
    """One run on one track under every wording, ours first.

    Attributes:
        letter: The letter of the run.
        n: How many records are shared.
        clusters: How many sessions they come from; None where the sessions are not known.
        spread: The highest score less the lowest.
        deviation: The standard deviation of the scores between wordings.
        half_width: The mean over the wordings of half the sampling interval; None with fewer than
            two sessions.
        changed: Records that some two wordings score otherwise.
    """

    letter: str
    n: int
    clusters: int | None
    under: tuple[UnderWording, ...]
    spread: float | None
    deviation: float | None
    half_width: float | None
    changed: int

    @property
    def sampling_error(self) -> float | None:
        """The standard error behind `half_width`, to be compared with `deviation`."""
        return None if self.half_width is None else self.half_width / LEVEL_WIDTH


@dataclass(frozen=True)
class Flip:
    """Two runs whose order depends on the wording.

    `differences` are of the first less the second, by wording.
    """

    first: str
    second: str
    differences: Mapping[str, Estimate]


@dataclass(frozen=True)
class Ranking:
    """Several runs under every wording, on the records that all of them have scored under all.

    Attributes:
        n: How many these are.
        orders: By wording, the letters from the best to the worst; those with one score share a
            place.
        scores: By wording and letter.
        tau: By wording other than ours, Kendall's tau-b with the order under ours; None where one
            has only ties.
        flips: The pairs of runs whose order is not the same under any two wordings.
    """

    n: int
    orders: Mapping[str, tuple[tuple[str, ...], ...]]
    scores: Mapping[str, Mapping[str, float]]
    tau: Mapping[str, float | None]
    flips: tuple[Flip, ...]


@dataclass(frozen=True)
class TrackSensitivity:
    """One track: its figure for every run that has it, and the ranking where several have."""

    track: str
    metric: Metric
    spreads: tuple[Spread, ...]
    ranking: Ranking | None


@dataclass(frozen=True)
class Sensitivity:
    """What `find_sensitivity` found; `runs` are the folders and models by their letters."""

    judge: str
    runs: Mapping[str, tuple[Path, str]]
    wordings: tuple[Wording, ...]
    tracks: tuple[TrackSensitivity, ...]
    notes: tuple[str, ...]
    calls: Mapping[str, Any]
    seed: int

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "judge": self.judge,
            "seed": self.seed,
            "level": 0.95,
            "runs": {
                letter: {"folder": str(folder), "model": model}
                for letter, (folder, model) in self.runs.items()
            },
            "wordings": {
                wording.name: {
                    name: {"id": p.id, "sha256": p.sha256} for name, p in wording.rubrics.items()
                }
                for wording in self.wordings
            },
            "tracks": {found.track: _track_json(found) for found in self.tracks},
            "notes": list(self.notes),
            "calls": dict(self.calls),
        }


def find_sensitivity(done: Reworded) -> Sensitivity:
    """Hold the scores of every wording against each other.

    Raises:
        RunFolderError: If a file of a run can't be read.
    """
    runs = {
        letter_of(place): {name: open_run(one.folder) for name, one in row.items()}
        for place, row in enumerate(done.finished)
    }
    first = next(iter(runs.values()))[OURS]
    seed = int(first.manifest["settings"].get("seed") or 0)
    tracks, notes = [], list(done.plan.notes)
    left_out: dict[str, list[str]] = {}
    for track in dict.fromkeys(track for row in runs.values() for track in row[OURS].tracks):
        having = {letter: row for letter, row in runs.items() if track in row[OURS].tracks}
        one = next(iter(having.values()))[OURS]
        metric = _figure(one, track)
        names = [wording.name for wording in done.plan.wordings if _rewords(wording, one, track)]
        if metric is None or not names:
            why = (
                "no judge decides their scores"
                if metric is None
                else "no wording says their rubrics otherwise"
            )
            left_out.setdefault(why, []).append(track)
            continue
        if same := [
            wording.name for wording in done.plan.wordings[1:] if wording.name not in names
        ]:
            notes.append(f"On {track} as ours, and left out there: {', '.join(same)}")
        tracks.append(_on_track(track, metric, having, [OURS, *names]))
    notes += [f"Left out ({why}): {', '.join(names)}" for why, names in left_out.items()]
    folders = {letter_of(place): source for place, source in enumerate(done.plan.sources)}
    named = {letter: (folder, runs[letter][OURS].model) for letter, folder in folders.items()}
    return Sensitivity(
        done.plan.judge, named, done.plan.wordings, tuple(tracks), tuple(notes), _calls(done), seed
    )


def _figure(run: Run, track: str) -> Metric | None:
    """Return the headline of a track, or of retrieval what its judge decides."""
    if run.tasks[track].name != "retrieval":
        return run.lead(track)
    scores = run.summary_of(track)["scores"]
    return next(
        (metric for metric in run.tasks[track].metrics if metric.rates and metric.name in scores),
        None,
    )


def _rewords(wording: Wording, run: Run, track: str) -> bool:
    """Tell whether a wording says any rubric of a track otherwise."""
    return any(rubric(name) in run.tasks[track].rubrics for name in wording.rubrics)


def _on_track(
    track: str, metric: Metric, runs: Mapping[str, Mapping[str, Run]], names: Sequence[str]
) -> TrackSensitivity:
    values = {
        letter: {name: _values(row[name], track, metric.name) for name in names}
        for letter, row in runs.items()
    }
    ids = dict.fromkeys(i for own in values.values() for value in own.values() for i in value)
    sessions = sessions_of([next(iter(runs.values()))[OURS]], track, ids)
    clusters = sessions or {name: name for name in ids}
    spreads = []
    for letter, own in values.items():
        rows = {name: runs[letter][name] for name in names}
        found = _under(track, own, rows, clusters, bounds=(metric.lowest, metric.highest))
        spreads.append(
            _spread(letter, list(own.values()), found, None if sessions is None else clusters)
        )
    ranking = _rank(metric, values, names, clusters) if len(runs) > 1 else None
    return TrackSensitivity(track, metric, tuple(spreads), ranking)


def _values(run: Run, track: str, metric: str) -> dict[str, float]:
    """Return the metric of each record that has one, the mean of its repeats."""
    records = record_values(run).get(track, {})
    return {name: scores[metric] for name, scores in records.items() if metric in scores}


def _under(
    track: str,
    values: Mapping[str, _Values],
    runs: Mapping[str, Run],
    clusters: Mapping[str, str],
    *,
    bounds: tuple[float, float],
) -> list[UnderWording]:
    ids = _shared(list(values.values()))
    groups = [clusters[name] for name in ids]
    ours = _column(values[OURS], ids)
    under = []
    for name, run in runs.items():
        column, other = _column(values[name], ids), name != OURS
        said = run.summary_of(track)
        under.append(
            UnderWording(
                name,
                run.folder,
                score=clustered_mean(column, groups, bounds=bounds),
                difference=paired_difference(column, ours, groups, bounds=bounds).estimate
                if other
                else None,
                changed=float(np.mean(_apart(column, ours))) if other and ids else None,
                unscored=int(said["unscored"]),
                failures=dict(said["failed_judgements"]),
                error=next(
                    (
                        str(text)
                        for kind, text in said["errors"].items()
                        if kind.startswith("judge ")
                    ),
                    None,
                ),
            )
        )
    return under


def _spread(
    letter: str,
    values: Sequence[_Values],
    under: Sequence[UnderWording],
    clusters: Mapping[str, str] | None,
) -> Spread:
    ids = _shared(values)
    scores = [one.score.value for one in under if one.score.value is not None]
    halves = [half for one in under if (half := _half(one.score)) is not None]
    table = np.array([_column(own, ids) for own in values])
    return Spread(
        letter,
        n=len(ids),
        clusters=None if clusters is None else len({clusters[name] for name in ids}),
        under=tuple(under),
        spread=max(scores) - min(scores) if scores else None,
        deviation=stdev(scores) if len(scores) > 1 else None,
        half_width=fmean(halves) if halves else None,
        changed=int(_apart(table.max(axis=0), table.min(axis=0)).sum()),
    )


def _rank(
    metric: Metric,
    values: Mapping[str, Mapping[str, _Values]],
    names: Sequence[str],
    clusters: Mapping[str, str],
) -> Ranking | None:
    """Rank runs under each wording; None where they have no record in common."""
    ids = _shared([own for row in values.values() for own in row.values()])
    if not ids:
        return None
    groups = [clusters[name] for name in ids]
    sign = -1 if metric.lower_is_better else 1
    columns = {
        name: {letter: _column(row[name], ids) for letter, row in values.items()} for name in names
    }
    scores = {
        name: {letter: float(c.mean()) for letter, c in row.items()}
        for name, row in columns.items()
    }
    goodness = {
        name: {letter: sign * round(x, 9) for letter, x in row.items()}
        for name, row in scores.items()
    }
    flips = []
    for one, other in combinations(values, 2):
        ahead = [row[one] - row[other] for row in goodness.values()]
        if min(ahead) < 0 < max(ahead):
            differences = {
                name: paired_difference(
                    row[one], row[other], groups, bounds=(metric.lowest, metric.highest)
                ).estimate
                for name, row in columns.items()
            }
            flips.append(Flip(one, other, differences))
    return Ranking(
        n=len(ids),
        orders={name: _order(row) for name, row in goodness.items()},
        scores=scores,
        tau={name: _tau(goodness[OURS], goodness[name]) for name in names if name != OURS},
        flips=tuple(flips),
    )


def _order(goodness: Mapping[str, float]) -> tuple[tuple[str, ...], ...]:
    places = sorted(set(goodness.values()), reverse=True)
    return tuple(
        tuple(letter for letter, own in goodness.items() if own == place) for place in places
    )


def _tau(ours: Mapping[str, float], other: Mapping[str, float]) -> float | None:
    from scipy.stats import kendalltau

    tau = float(
        kendalltau([ours[letter] for letter in ours], [other[letter] for letter in ours]).statistic
    )
    return None if isnan(tau) else tau


def _shared(columns: Sequence[_Values]) -> list[str]:
    first, *others = columns
    return [name for name in first if all(name in other for other in others)]


def _column(values: _Values, ids: Sequence[str]) -> Floats:
    return np.array([values[name] for name in ids], dtype=np.float64)


def _apart(one: Floats, other: Floats) -> Any:
    return np.abs(one - other) > _ROUNDING


def _half(score: Estimate) -> float | None:
    return None if score.low is None or score.high is None else (score.high - score.low) / 2


def _calls(done: Reworded) -> dict[str, Any]:
    """Add up what was asked under all wordings; a cost of which some is not known is None."""
    rows = [one.summary["calls"] for row in done.finished for one in row.values()]
    counted = ("http", "cached", "prompt_tokens", "completion_tokens")
    costs = [row["cost"] for row in rows]
    return {
        **{name: sum(row[name] for row in rows) for name in counted},
        "cost": None if None in costs else sum(costs),
    }


def _track_json(found: TrackSensitivity) -> dict[str, Any]:
    ranking = {} if found.ranking is None else {"ranking": _ranking_json(found.ranking)}
    return {
        "metric": found.metric.name,
        "lower_is_better": found.metric.lower_is_better,
        "runs": {spread.letter: _spread_json(spread) for spread in found.spreads},
        **ranking,
    }


def _spread_json(spread: Spread) -> dict[str, Any]:
    figures = {
        name: value for name, value in asdict(spread).items() if name not in ("letter", "under")
    }
    return {
        **figures,
        "sampling_error": spread.sampling_error,
        "changed_share": spread.changed / spread.n if spread.n else None,
        "wordings": {
            one.wording: {**asdict(one), "folder": str(one.folder)} for one in spread.under
        },
    }


def _ranking_json(ranking: Ranking) -> dict[str, Any]:
    return {
        "n": ranking.n,
        "wordings": {
            name: {
                "order": [list(place) for place in order],
                "scores": dict(ranking.scores[name]),
                "tau": ranking.tau.get(name),
            }
            for name, order in ranking.orders.items()
        },
        "flips": [
            {
                "first": flip.first,
                "second": flip.second,
                "differences": {
                    name: asdict(estimate) for name, estimate in flip.differences.items()
                },
            }
            for flip in ranking.flips
        ],
    }
