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
from alps.report.formatting import letter_of
from alps.report.shared_records import (
    SharedRecords,
    Values,
    metric_values,
    record_values,
    sessions_of,
)
from alps.rows import Calls
from alps.run.opened import Run, open_run
from alps.run.sensitivity import OURS, Reworded, Wording
from alps.stats.bootstrap import Estimate, Floats
from alps.tasks import Metric

LEVEL_WIDTH = 1.96
"""Half a 95 % interval in standard errors."""

_ROUNDING = 1e-9


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
    calls: Calls
    seed: int

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        runs = {}
        for letter, (folder, model) in self.runs.items():
            runs[letter] = {"folder": str(folder), "model": model}
        wordings: dict[str, dict[str, dict[str, str]]] = {}
        for wording in self.wordings:
            rubrics = wordings.setdefault(wording.name, {})
            for name, prompt in wording.rubrics.items():
                rubrics[name] = {"id": prompt.id, "sha256": prompt.sha256}
        return {
            "judge": self.judge,
            "seed": self.seed,
            "level": 0.95,
            "runs": runs,
            "wordings": wordings,
            "tracks": {track.track: _track_json(track) for track in self.tracks},
            "notes": list(self.notes),
            "calls": self.calls.row(),
        }


def find_sensitivity(done: Reworded) -> Sensitivity:
    """Compare the scores of the runs under every wording.

    Raises:
        RunFolderError: If a file of a run can't be read.
    """
    plan = done.plan
    runs: dict[str, dict[str, Run]] = {}
    folders: dict[str, tuple[Path, str]] = {}
    for position, (row, source) in enumerate(zip(done.finished, plan.sources, strict=True)):
        letter = letter_of(position)
        runs[letter] = {name: open_run(one.folder) for name, one in row.items()}
        folders[letter] = (source, runs[letter][OURS].model)
    first = next(iter(runs.values()))[OURS]
    seed = int(first.manifest.settings.get("seed") or 0)
    tracks, notes = [], list(plan.notes)
    left_out: dict[str, list[str]] = {}
    for track in dict.fromkeys(track for row in runs.values() for track in row[OURS].tracks):
        having = {letter: row for letter, row in runs.items() if track in row[OURS].tracks}
        one = next(iter(having.values()))[OURS]
        metric = _judged_metric(one, track)
        names = [wording.name for wording in plan.wordings if _rewords(wording, one, track)]
        if metric is None:
            left_out.setdefault("no judge decides their scores", []).append(track)
        elif not names:
            left_out.setdefault("no wording says their rubrics otherwise", []).append(track)
        else:
            if same := [other.name for other in plan.wordings[1:] if other.name not in names]:
                notes.append(f"On {track} as ours, and left out there: {', '.join(same)}")
            tracks.append(_on_track(track, metric, having, [OURS, *names]))
    notes += [f"Left out ({reason}): {', '.join(names)}" for reason, names in left_out.items()]
    return Sensitivity(
        plan.judge, folders, plan.wordings, tuple(tracks), tuple(notes), _calls(done), seed
    )


def _judged_metric(run: Run, track: str) -> Metric | None:
    """Return the headline of a track, or what its judge decides where that needs none."""
    if run.tasks[track].judged:
        return run.lead(track)
    scores = run.summary_of(track).scores
    rated = (metric for metric in run.tasks[track].metrics if metric.rates)
    return next((metric for metric in rated if metric.name in scores), None)


def _rewords(wording: Wording, run: Run, track: str) -> bool:
    """Tell whether a wording says any rubric of a track otherwise."""
    return any(rubric(name) in run.tasks[track].rubrics for name in wording.rubrics)


def _on_track(
    track: str, metric: Metric, runs: Mapping[str, Mapping[str, Run]], names: Sequence[str]
) -> TrackSensitivity:
    values: dict[str, dict[str, Values]] = {}
    ids: dict[str, None] = {}
    for letter, row in runs.items():
        values[letter] = {}
        for name in names:
            values[letter][name] = metric_values(record_values(row[name]).get(track, {}), metric)
            ids |= dict.fromkeys(values[letter][name])
    known = sessions_of([next(iter(runs.values()))[OURS]], track, ids)
    sessions = known or {name: name for name in ids}
    spreads = []
    for letter, columns in values.items():
        records = SharedRecords.of(metric, columns[OURS], columns.values(), sessions)
        under = []
        for name in columns:
            run = runs[letter][name]
            under.append(_under(name, run, track, records, columns))
        clusters = None if known is None else len(set(records.sessions))
        spreads.append(_spread(letter, clusters, under, [*map(records.column, columns.values())]))
    ranking = _rank(metric, values, sessions) if len(runs) > 1 else None
    return TrackSensitivity(track, metric, tuple(spreads), ranking)


def _under(
    name: str, run: Run, track: str, records: SharedRecords, columns: Mapping[str, Values]
) -> UnderWording:
    column, ours = columns[name], columns[OURS]
    summary = run.summary_of(track)
    errors = [text for kind, text in summary.errors.items() if kind.startswith("judge ")]
    difference = changed = None
    if name != OURS:
        difference = records.difference(column, ours).estimate
    if name != OURS and records.ids:
        changed = float(np.mean(_apart(records.column(column), records.column(ours))))
    return UnderWording(
        name,
        run.folder,
        score=records.mean(column),
        difference=difference,
        changed=changed,
        unscored=summary.unscored,
        failures=dict(summary.failed_judgements),
        error=str(errors[0]) if errors else None,
    )


def _spread(
    letter: str, clusters: int | None, under: Sequence[UnderWording], columns: Sequence[Floats]
) -> Spread:
    scores = [one.score.value for one in under if one.score.value is not None]
    halves = [half for one in under if (half := _half(one.score)) is not None]
    table = np.array(columns)
    return Spread(
        letter,
        n=table.shape[1],
        clusters=clusters,
        under=tuple(under),
        spread=max(scores) - min(scores) if scores else None,
        deviation=stdev(scores) if len(scores) > 1 else None,
        half_width=fmean(halves) if halves else None,
        changed=int(_apart(table.max(axis=0), table.min(axis=0)).sum()),
    )


def _rank(
    metric: Metric, values: Mapping[str, Mapping[str, Values]], sessions: Mapping[str, str]
) -> Ranking | None:
    """Rank runs under each wording; None where they have no record in common."""
    columns = [column for row in values.values() for column in row.values()]
    records = SharedRecords.of(metric, columns[0], columns, sessions)
    if not records.ids:
        return None
    sign = -1 if metric.lower_is_better else 1
    scores: dict[str, dict[str, float]] = {}
    goodness: dict[str, dict[str, float]] = {}
    for letter, row in values.items():
        for name, column in row.items():
            score = float(records.column(column).mean())
            scores.setdefault(name, {})[letter] = score
            # Rounded, so that noise of the floating point does not break ties.
            goodness.setdefault(name, {})[letter] = sign * round(score, 9)
    flips = []
    for one, other in combinations(values, 2):
        ahead = [row[one] - row[other] for row in goodness.values()]
        if min(ahead) < 0 < max(ahead):
            differences = {}
            for name, column in values[one].items():
                differences[name] = records.difference(column, values[other][name]).estimate
            flips.append(Flip(one, other, differences))
    ours = goodness[OURS]
    return Ranking(
        n=len(records.ids),
        orders={name: _order(row) for name, row in goodness.items()},
        scores=scores,
        tau={name: _tau(ours, row) for name, row in goodness.items() if name != OURS},
        flips=tuple(flips),
    )


def _order(goodness: Mapping[str, float]) -> tuple[tuple[str, ...], ...]:
    """Return the letters from the best score to the worst; those with one score together."""
    sharing: dict[float, tuple[str, ...]] = {}
    for letter, score in goodness.items():
        sharing[score] = (*sharing.get(score, ()), letter)
    return tuple(sharing[score] for score in sorted(sharing, reverse=True))


def _tau(ours: Mapping[str, float], other: Mapping[str, float]) -> float | None:
    # Imported here: scipy is slow to load, and one run alone needs no rank correlation.
    from scipy.stats import kendalltau

    tau = float(kendalltau(list(ours.values()), [other[letter] for letter in ours]).statistic)
    return None if isnan(tau) else tau


def _apart(one: Floats, other: Floats) -> Any:
    return np.abs(one - other) > _ROUNDING


def _half(score: Estimate) -> float | None:
    return None if score.low is None or score.high is None else (score.high - score.low) / 2


def _calls(done: Reworded) -> Calls:
    """Add up what was asked under all wordings; a cost of which some is not known is None."""
    counts = dict.fromkeys(("http", "cached", "prompt_tokens", "completion_tokens"), 0)
    cost: float | None = 0.0
    for finished in done.finished:
        for one in finished.values():
            calls = one.summary.calls
            for name in counts:
                counts[name] += getattr(calls, name)
            cost = None if cost is None or calls.cost is None else cost + calls.cost
    return Calls.model_validate({**counts, "cost": cost})


def _track_json(track: TrackSensitivity) -> dict[str, Any]:
    row: dict[str, Any] = {
        "metric": track.metric.name,
        "lower_is_better": track.metric.lower_is_better,
        "runs": {spread.letter: _spread_json(spread) for spread in track.spreads},
    }
    if track.ranking is not None:
        row["ranking"] = _ranking_json(track.ranking)
    return row


def _spread_json(spread: Spread) -> dict[str, Any]:
    row = asdict(spread)
    del row["letter"], row["under"]
    row["sampling_error"] = spread.sampling_error
    row["changed_share"] = spread.changed / spread.n if spread.n else None
    row["wordings"] = {}
    for one in spread.under:
        row["wordings"][one.wording] = {**asdict(one), "folder": str(one.folder)}
    return row


def _ranking_json(ranking: Ranking) -> dict[str, Any]:
    wordings = {}
    for name, order in ranking.orders.items():
        wordings[name] = {
            "order": [list(letters) for letters in order],
            "scores": dict(ranking.scores[name]),
            "tau": ranking.tau.get(name),
        }
    return {
        "n": ranking.n,
        "wordings": wordings,
        "flips": [asdict(flip) for flip in ranking.flips],
    }
