"""The same answers under several judges and prompts: agreement, sources of the spread, ranks.

Everything is on the records that all runs have scored in all cells. What belongs to one session is
resampled together. Trivial judges stand in the tables, and never count as judges.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from alps.ext.judging.judging_runs import OURS, TRIVIAL_JUDGES, JudgedCells, JudgingCell
from alps.ext.judging.sensitivity import judged_metric, rewords
from alps.judges.base import people_say
from alps.judges.embedded import is_embedded_judge
from alps.rows import Calls
from alps.run.opened import RunFolder
from alps.show.formatting import counted
from alps.show.shared_records import SharedRecords, Values, metric_values, record_values
from alps.show.shared_records import sessions_of as sessions_of_records
from alps.stats.bootstrap import (
    Estimate,
    Floats,
    cluster_sums,
    name_estimates,
    ratio,
    resampled_figures,
    resampled_statistic,
    resampled_sums,
)
from alps.tasks import Metric
from alps.tasks.registry import track_title

JUDGE, PROMPT, BOTH, NOISE = "judge", "prompt", "judge × prompt", "noise"


# A variance below this is that of floats, not of scores.
_NOTHING = 1e-15


@dataclass(frozen=True)
class Component:
    """One source of the spread of a score.

    Attributes:
        deviation: Its standard deviation, in points of the score.
        share: Of the variance of all sources.
    """

    deviation: float
    share: Estimate


def variance_components(
    values: Floats, clusters: Sequence[Hashable]
) -> tuple[dict[str, Component], float | None]:
    """Split the spread of a score into judge, prompt, judge × prompt and noise.

    A factor with one level has no component. Intervals are those of `resampled_figure`: other
    records for the same judges and prompts.

    Args:
        values: Shape (records, judges, prompts, draws).
        clusters: Shape (records,).

    Returns:
        The components, and the standard deviation that repeated verdicts makes: None with one draw.
        No components with fewer than two clusters or two scores.
    """
    judges, prompts, draws = values.shape[1:]
    flat = values.reshape(len(values), -1)
    if len(set(clusters)) < 2 or flat.shape[1] < 2:
        return {}, None
    design = _Design.of(judges, prompts, draws)
    counts = np.ones((len(flat), 1))
    sums = cluster_sums(np.concatenate([counts, flat], axis=1), clusters)
    moments = _Moments(sums[:, 0], sums[:, 1:], design)
    found = moments.components(np.ones(len(sums)))
    total = float(sum(map(float, found.values())))
    shares = resampled_figures(partial(_shares, moments=moments), range(len(sums)))
    components = {}
    for (name, variance), share in zip(found.items(), shares, strict=True):
        # Scores that are all equal spread by rounding alone, of which nothing has a share.
        kept = replace(share, n=len(flat))
        if total <= _NOTHING:
            kept = Estimate(None, None, None, len(flat))
        components[name] = Component(float(variance) ** 0.5, kept)
    return components, moments.of_draws()


def _shares(times: Floats, *, moments: "_Moments") -> list[Floats]:
    variances = list(moments.components(times).values())
    total = np.sum(variances, axis=0)
    return [ratio(variance, total) for variance in variances]


def _square(left: Floats, projection: Floats, right: Floats) -> Floats:
    """Return leftᵀ Π right of each row; shape (…)."""
    return np.asarray(((left @ projection) * right).sum(axis=-1))


@dataclass(frozen=True)
class _Design:
    """Projections of the scores, flat over judges × prompts × draws, and their sizes."""

    sizes: tuple[int, int, int]
    projections: Mapping[str, Floats]
    freedom: Mapping[str, int]

    @classmethod
    def of(cls, judges: int, prompts: int, draws: int) -> "_Design":
        """Return those of a crossed design; factors with one level have no projection."""
        centred = [np.eye(size) - 1 / size for size in (judges, prompts)]
        means = [np.full((size, size), 1 / size) for size in (judges, prompts, draws)]
        count = judges * prompts * draws
        projections = {NOISE: np.eye(count) - 1 / count}
        freedom = {NOISE: count - 1}
        crossed = {
            JUDGE: (centred[0], means[1], judges - 1),
            PROMPT: (means[0], centred[1], prompts - 1),
            BOTH: (centred[0], centred[1], (judges - 1) * (prompts - 1)),
        }
        for name, (over_judges, over_prompts, degrees) in crossed.items():
            if degrees:
                projections[name] = np.kron(np.kron(over_judges, over_prompts), means[2])
                freedom[name] = degrees
        return cls((judges, prompts, draws), projections, freedom)


class _Moments:
    """Mean squares of scores under any weights of the clusters.

    Args:
        counts: Shape (clusters,): how many records each has.
        sums: Shape (clusters, scores).
        design: The projections.
    """

    def __init__(self, counts: Floats, sums: Floats, design: _Design) -> None:
        self._counts, self._sums, self._design = counts, sums, design
        # Of each cluster its own square under each projection: what is resampled is added up.
        self._squares = {}
        for name, projection in design.projections.items():
            self._squares[name] = _square(sums, projection, sums)
        ones = np.ones(len(counts))
        self._noise = {name: float(self._noise_of(name, ones)) for name in design.projections}

    def components(self, times: Floats) -> dict[str, Floats]:
        """Return the variance of each component where clusters count `times` often; shape (…)."""
        judges, prompts, draws = self._design.sizes
        excess = {}
        for name in self._design.projections:
            if name != NOISE:
                excess[name] = self._excess(name, times)
        both = excess.get(BOTH, np.zeros(times.shape[:-1]))
        within = {JUDGE: prompts * draws, PROMPT: judges * draws, BOTH: draws}
        variances = {}
        for name, above in excess.items():
            rest = above if name == BOTH else above - both
            # Estimates from mean squares may fall below 0 where a source adds nothing.
            variances[name] = np.maximum(rest / within[name], 0.0)
        return {**variances, NOISE: self._noise_of(NOISE, times)}

    def of_draws(self) -> float | None:
        """Return the standard deviation between draws of one judge with one prompt."""
        judges, prompts, draws = self._design.sizes
        if draws < 2:
            return None
        within = np.eye(draws) - 1 / draws
        between = np.asarray(np.kron(np.eye(judges * prompts), within), dtype=np.float64)
        residuals = self._sums - np.outer(self._counts, self._means(np.ones(len(self._counts))))
        squares = float(_square(residuals, between, residuals).sum())
        clusters, total = len(self._counts), self._counts.sum()
        variance = squares / total**2 * clusters / (clusters - 1) / (judges * prompts * (draws - 1))
        return float(variance**0.5)

    def _excess(self, name: str, times: Floats) -> Floats:
        """Return a mean square less what noise adds to it."""
        means = self._means(times)
        projection, degrees = self._design.projections[name], self._design.freedom[name]
        square = _square(means, projection, means) / degrees
        excess = square - self._noise_of(name, times)
        # A resample has the noise of the records, and once more that of drawing among them.
        return np.asarray(excess if times.ndim == 1 else excess - self._noise[name])

    def _noise_of(self, name: str, times: Floats) -> Floats:
        """Return tr(ΠV) / df, of V between clusters."""
        means, clusters = self._means(times), len(self._counts)
        projection = self._design.projections[name]
        crossed = times @ (self._counts[:, None] * self._sums)
        squared = times @ self._counts**2
        total = times @ self._squares[name]
        total = total - 2 * _square(means, projection, crossed)
        total = total + squared * _square(means, projection, means)
        scale = clusters / (clusters - 1) / (times @ self._counts) ** 2
        return np.asarray(np.maximum(total * scale, 0.0) / self._design.freedom[name])

    def _means(self, times: Floats) -> Floats:
        return np.asarray((times @ self._sums) / (times @ self._counts)[..., None])


FIGURES = {"kappa": "Cohen's kappa", "spearman": "Spearman's correlation"}
_ROUNDING = 9
"""Digits by which scores tie: later ones are noise of the floating point."""


@dataclass(frozen=True)
class Judged:
    """One judge with one prompt.

    Attributes:
        counts: Whether it is one of the crossed design; else it stands beside.
        scores: Of the runs by their letters, the mean of its draws.
    """

    judge: str
    prompt: str
    counts: bool
    scores: Mapping[str, float]


@dataclass(frozen=True)
class Agreement:
    """How far two of `TrackJudges.judged`, by their places, agree on the records of all runs."""

    first: int
    second: int
    estimate: Estimate


@dataclass(frozen=True)
class Sources:
    """Where the spread of a run's score comes from; see `variance_components`."""

    letter: str
    components: Mapping[str, Component]
    draws: float | None


@dataclass(frozen=True)
class Swap:
    """Two runs over the cells.

    Attributes:
        ahead: The share of the cells in which the first is ahead.
        behind: The share in which it is behind.
        swapped: The share of pairs of cells that order them otherwise; None with a single cell.
    """

    first: str
    second: str
    ahead: float
    behind: float
    swapped: float | None


@dataclass(frozen=True)
class TrackJudges:
    """One track under every judge and prompt.

    Attributes:
        figure: `kappa` where every score is 0 or 1, else `spearman`.
        n: Records that all runs have scored in all cells.
        clusters: The sessions that they come from; None where the sessions are not known.
        winner: By letter, how often a run is the best: of a cell drawn at random, on sessions drawn
            at random. None with one run.
    """

    track: str
    metric: Metric
    figure: str
    n: int
    clusters: int | None
    judged: tuple[Judged, ...]
    agreements: tuple[Agreement, ...]
    sources: tuple[Sources, ...]
    swaps: tuple[Swap, ...]
    winner: Mapping[str, float] | None


@dataclass(frozen=True)
class Observatory:
    """What `observe` found; `runs` are the folders and models by their letters."""

    runs: Mapping[str, tuple[Path, str]]
    tracks: tuple[TrackJudges, ...]
    notes: tuple[str, ...]
    calls: Calls

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        runs = {}
        for letter, (folder, model) in self.runs.items():
            runs[letter] = {"folder": str(folder), "model": model}
        tracks = {}
        for track in self.tracks:
            row = asdict(replace(track, metric=None))  # type: ignore[arg-type]
            tracks[track.track] = {**row, "metric": track.metric.name}
        return {
            "level": 0.95,
            "runs": runs,
            "tracks": tracks,
            "notes": list(self.notes),
            "calls": self.calls.row(),
        }


def observe(done: JudgedCells) -> Observatory:
    """Compare the scores of the runs in every cell.

    Raises:
        RunFolderError: If a file of a run can't be read.
    """
    runs, sources = done.opened()
    cells = {cell.name: cell for cell in done.plan.cells}
    tracks: list[TrackJudges] = []
    notes = list(done.plan.notes)
    for track in dict.fromkeys(name for row in runs.values() for name in _any(row).tracks):
        having = {letter: row for letter, row in runs.items() if track in _any(row).tracks}
        one = _any(next(iter(having.values())))
        metric = judged_metric(one, track)
        if metric is None:
            notes.append(f"Left out (no judge scores this task): {track_title(track)}")
            continue
        own = {}
        for name, cell in cells.items():
            # A prompt variant of another task's rubric would count our own prompt twice here.
            if cell.wording.name == OURS or rewords(cell.wording, one, track):
                own[name] = cell
        found, left_out = _on_track(track, metric, having, own)
        tracks.append(found)
        notes += left_out
    notes += _known_of(next(iter(runs.values())), cells)
    return Observatory(sources, tuple(tracks), tuple(notes), done.calls)


def _known_of(row: Mapping[str, RunFolder], cells: Mapping[str, JudgingCell]) -> list[str]:
    """Say what calibrations tell of the embedded judges."""
    said = []
    for name, cell in cells.items():
        fingerprint = row[name].finished.judge_fingerprint
        said += [
            f"calibration of {cell.judge}: {told}" for told in people_say(cell.judge, fingerprint)
        ]
    return said


def _any(row: Mapping[str, RunFolder]) -> RunFolder:
    return next(iter(row.values()))


def _on_track(
    track: str,
    metric: Metric,
    runs: Mapping[str, Mapping[str, RunFolder]],
    cells: Mapping[str, JudgingCell],
) -> tuple[TrackJudges, list[str]]:
    columns: dict[tuple[str, str], Values] = {}
    for letter, row in runs.items():
        for name in cells:
            scored = record_values(row[name]).get(track, {})
            columns[letter, name] = metric_values(scored, metric)
    # A judge that scores nothing here would leave no record that all cells share.
    lacking = [name for name in cells if not any(columns[letter, name] for letter in runs)]
    cells = {name: cell for name, cell in cells.items() if name not in lacking}
    columns = {key: column for key, column in columns.items() if key[1] in cells}
    ids = dict.fromkeys(name for column in columns.values() for name in column)
    first = [_any(next(iter(runs.values())))]
    known = sessions_of_records(first, track, ids)
    sessions = known or dict(zip(ids, ids, strict=True))
    records = SharedRecords.of(metric, ids, list(columns.values()), sessions)
    notes = list(_left_out(track, lacking, len(records.ids), columns))
    pairs: dict[tuple[str, str], list[str]] = {}
    for name, cell in cells.items():
        pairs.setdefault((cell.judge, cell.wording.name), []).append(name)
    values = _table_of(records, columns, list(runs), pairs)
    counts = _counting(pairs)
    judged = []
    for place, (judge, prompt) in enumerate(pairs):
        scores = dict(zip(runs, _means(values[place]), strict=True))
        judged.append(Judged(judge, prompt, counts[place], scores))
    binary = bool(np.isin(values, (0, 1)).all())
    sign = -1 if metric.lower_is_better else 1
    # Draws are averaged: which run is ahead is asked of judges and prompts.
    design = sign * values[np.array(counts, dtype=bool)].mean(axis=2)
    several = len(runs) > 1 and len(records.ids) > 0 and any(counts)
    found = TrackJudges(
        track,
        metric,
        figure="kappa" if binary else "spearman",
        n=len(records.ids),
        clusters=None if known is None else len(set(records.sessions)),
        judged=tuple(judged),
        agreements=_agreements(values, records.sessions, binary=binary),
        sources=_sources(values, judged, list(runs), records.sessions),
        swaps=_swaps(design, list(runs)) if several else (),
        winner=_winner(design, list(runs), records.sessions) if several else None,
    )
    return found, notes


def _left_out(
    track: str, lacking: Sequence[str], shared: int, columns: Mapping[tuple[str, str], Values]
) -> Iterator[str]:
    """Say which cells score nothing, how many records are left out, and which cells lack them."""
    if lacking:
        yield f"Left out (no score on {track_title(track)}): {', '.join(lacking)}"
    ids = {name for column in columns.values() for name in column}
    lost: dict[str, set[str]] = {}
    for (_, name), column in columns.items():
        lost.setdefault(name, set()).update(ids - column.keys())
    if len(ids) > shared:
        cells = ", ".join(f"{name} {len(missing):,}" for name, missing in lost.items() if missing)
        of = f"{len(ids) - shared:,} of {counted(len(ids), 'record')}"
        yield f"Left out (not scored by every judge on {track_title(track)}): {of} ({cells})"


def _counting(pairs: Mapping[tuple[str, str], Sequence[str]]) -> list[bool]:
    """Tell of each judge with a prompt whether it belongs to the crossed design."""
    named = [judge for judge, _ in pairs if judge not in TRIVIAL_JUDGES]
    asked = [judge for judge in named if not is_embedded_judge(judge)]
    # An embedded judge has no prompts and no draws: beside those that have it breaks the design.
    crossed = asked if asked else named
    if len(asked) == len(set(asked)) and all(len(names) == 1 for names in pairs.values()):
        crossed = named
    return [judge in crossed for judge, _ in pairs]


def _table_of(
    records: SharedRecords,
    columns: Mapping[tuple[str, str], Values],
    letters: Sequence[str],
    pairs: Mapping[tuple[str, str], Sequence[str]],
) -> Floats:
    """Return values of shape (judge and prompt, run, draw, record); missing draws are repeated."""
    draws = max(map(len, pairs.values()), default=1)
    table = np.empty((len(pairs), len(letters), draws, len(records.ids)))
    for place, names in enumerate(pairs.values()):
        for row, letter in enumerate(letters):
            for draw in range(draws):
                name = names[min(draw, len(names) - 1)]
                table[place, row, draw] = records.column(columns[letter, name])
    return table


def _means(values: Floats) -> list[float]:
    return [float(one.mean()) if one.size else float("nan") for one in values]


def _agreements(values: Floats, sessions: Sequence[str], *, binary: bool) -> tuple[Agreement, ...]:
    """Compare the first draws of each two, on the records of all runs together."""
    _, runs, _, records = values.shape
    clusters = list(sessions) * runs
    # The first draws alone: a mean of draws agrees better than a verdict of a run does.
    flat = values[:, :, 0].reshape(len(values), runs * records)
    found = []
    for one, other in combinations(range(len(values)), 2):
        if binary:
            names = [list(map(str, flat[place].astype(int).tolist())) for place in (one, other)]
            estimate = name_estimates(names[0], names[1], clusters)["kappa"]
        else:
            estimate = fixed_rank_correlation(flat[one].tolist(), flat[other].tolist(), clusters)
        found.append(Agreement(one, other, estimate))
    return tuple(found)


def _sources(
    values: Floats, judged: Sequence[Judged], letters: Sequence[str], sessions: Sequence[str]
) -> tuple[Sources, ...]:
    counting = [place for place, one in enumerate(judged) if one.counts]
    judges = len({judged[place].judge for place in counting})
    if not judges or not len(sessions):
        return ()
    found = []
    for row, letter in enumerate(letters):
        own = values[counting, row].reshape(judges, -1, *values.shape[2:])
        components, draws = variance_components(np.moveaxis(own, -1, 0), sessions)
        if components:
            found.append(Sources(letter, components, draws))
    return tuple(found)


def _swaps(design: Floats, letters: Sequence[str]) -> tuple[Swap, ...]:
    """Compare each two runs over the cells; `design` has the shape (cells, runs, records)."""
    scores = design.mean(axis=-1).round(_ROUNDING)
    cells = len(scores)
    swaps = []
    for one, other in combinations(range(len(letters)), 2):
        apart = scores[:, one] - scores[:, other]
        ahead, behind = int((apart > 0).sum()), int((apart < 0).sum())
        # Of all pairs of cells those with one on each side; a tie is on neither.
        swapped = 2 * ahead * behind / (cells * (cells - 1)) if cells > 1 else None
        shares = ahead / cells, behind / cells
        swaps.append(Swap(letters[one], letters[other], *shares, swapped))
    return tuple(swaps)


def _winner(design: Floats, letters: Sequence[str], sessions: Sequence[str]) -> dict[str, float]:
    """Return how often each run is the best; runs that tie share it."""
    cells, runs, records = design.shape
    sums = cluster_sums(design.reshape(cells * runs, records).T, sessions)
    drawn = resampled_sums(sums).reshape(-1, cells, runs).round(_ROUNDING)
    # All runs have the same resamples: a hard session is drawn for all of them or for none.
    best = drawn == drawn.max(axis=-1, keepdims=True)
    shares = (best / best.sum(axis=-1, keepdims=True)).mean(axis=(0, 1))
    return dict(zip(letters, map(float, shares), strict=True))


def fixed_rank_correlation(
    first: Sequence[float], second: Sequence[float], clusters: Sequence[Hashable]
) -> Estimate:
    """Estimate Spearman's correlation where resamples keep the ranks of all numbers.

    Quicker than `rank_correlation` by orders of magnitude, and of the same value.

    Raises:
        ValueError: If lengths differ.
    """
    from scipy.stats import rankdata

    if not len(first) == len(second) == len(clusters):
        raise ValueError(f"lengths differ: {len(first)}, {len(second)}, {len(clusters)}")
    if not len(first):
        return Estimate(None, None, None, 0)
    # Centred, as differences of large sums of squares lose their digits.
    one, other = (rankdata(side) - (len(side) + 1) / 2 for side in (first, second))
    features = np.stack([np.ones(len(one)), one, other, one**2, other**2, one * other], axis=1)
    return resampled_statistic(features, clusters, _pearson)


def _pearson(sums: Floats) -> Floats:
    count, one, other, squared, squared_other, product = np.moveaxis(sums, -1, 0)
    spread = (squared * count - one**2) * (squared_other * count - other**2)
    return ratio(product * count - one * other, np.sqrt(np.maximum(spread, 0)))
