"""Sensitivity of scores and rankings to the wording of a judge's rubrics.

Everything is on the records that were scored under every wording, repeats averaged, so that no
figure differs because its records do. What belongs to one session is resampled together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from math import isnan
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from rich.console import Console

from alps.ext.judging.judging_runs import OURS, JudgedCells, RubricWording, track_and_metric
from alps.judges.rubric import rubric
from alps.rows import Calls
from alps.run.opened import RunFolder
from alps.show.formatting import counted, number, spent, visible
from alps.show.shared_records import (
    SharedRecords,
    Values,
    metric_values,
    record_values,
    sessions_of,
)
from alps.show.short_form import run_legend
from alps.show.table import (
    BLANK,
    WIDTH,
    Cell,
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
    ungrouped,
    with_interval,
)
from alps.stats.bootstrap import Estimate, Floats
from alps.tasks import Metric
from alps.tasks.registry import track_title

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
    wordings: tuple[RubricWording, ...]
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


def find_sensitivity(done: JudgedCells) -> Sensitivity:
    """Compare the scores of the runs under every wording.

    Raises:
        RunFolderError: If a file of a run can't be read.
    """
    plan = done.plan
    runs, sources = done.opened()
    first = next(iter(runs.values()))[OURS]
    seed = int(first.manifest.settings.get("seed") or 0)
    tracks, notes = _compare_tracks(plan.wordings, runs)
    return Sensitivity(
        plan.judges[0],
        sources,
        plan.wordings,
        tuple(tracks),
        (*plan.notes, *notes),
        done.calls,
        seed,
    )


def _compare_tracks(
    wordings: Sequence[RubricWording], runs: Mapping[str, Mapping[str, RunFolder]]
) -> tuple[list[TrackSensitivity], list[str]]:
    """Return the tracks that wordings can move, and what was left out."""
    tracks: list[TrackSensitivity] = []
    notes: list[str] = []
    left_out: dict[str, list[str]] = {}
    names_of_tracks: dict[str, None] = {}
    for row in runs.values():
        names_of_tracks |= dict.fromkeys(row[OURS].tracks)
    for track in names_of_tracks:
        having = {letter: row for letter, row in runs.items() if track in row[OURS].tracks}
        one = next(iter(having.values()))[OURS]
        metric = judged_metric(one, track)
        names = [wording.name for wording in wordings if rewords(wording, one, track)]
        if metric is None:
            left_out.setdefault("scored without a judge", []).append(track_title(track))
        elif not names:
            left_out.setdefault("no prompt variant for their rubrics", []).append(
                track_title(track)
            )
        else:
            # A wording that says nothing else here would add a row of zeros to every table.
            same = [wording.name for wording in wordings[1:] if wording.name not in names]
            if same:
                notes.append(
                    f"Left out on {track_title(track)} (identical to the built-in prompt): "
                    f"{', '.join(same)}"
                )
            tracks.append(_on_track(track, metric, having, [OURS, *names]))
    for reason, left in left_out.items():
        notes.append(f"Left out ({reason}): {', '.join(left)}")
    return tracks, notes


def judged_metric(run: RunFolder, track: str) -> Metric | None:
    """Return the headline of a track, or what its judge decides where that needs none."""
    # Retrieval is right or wrong without a judge, who only rates the answers given along with it.
    if run.tasks[track].judged:
        return run.lead(track)
    scores = run.summary_of(track).scores
    for metric in run.tasks[track].metrics:
        if metric.needs.rating and metric.name in scores:
            return metric
    return None


def rewords(wording: RubricWording, run: RunFolder, track: str) -> bool:
    """Tell whether a wording says any rubric of a track otherwise."""
    return any(rubric(name) in run.tasks[track].rubrics for name in wording.rubrics)


def _on_track(
    track: str, metric: Metric, runs: Mapping[str, Mapping[str, RunFolder]], names: Sequence[str]
) -> TrackSensitivity:
    values: dict[str, dict[str, Values]] = {}
    ids: dict[str, None] = {}
    for letter, row in runs.items():
        values[letter] = {}
        for name in names:
            values[letter][name] = metric_values(record_values(row[name]).get(track, {}), metric)
            # Of all wordings: a record that one of them leaves unscored has a session all the same.
            ids |= dict.fromkeys(values[letter][name])
    known = sessions_of([next(iter(runs.values()))[OURS]], track, ids)
    sessions = known or dict(zip(ids, ids, strict=True))
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
    name: str, run: RunFolder, track: str, records: SharedRecords, columns: Mapping[str, Values]
) -> UnderWording:
    column, ours = columns[name], columns[OURS]
    summary = run.summary_of(track)
    errors: list[str] = []
    for kind, text in summary.errors.items():
        # How an answer failed is the same under every wording.
        if kind.startswith("judge "):
            errors.append(text)
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
        error=errors[0] if errors else None,
    )


def _spread(
    letter: str, clusters: int | None, under: Sequence[UnderWording], columns: Sequence[Floats]
) -> Spread:
    scores: list[float] = []
    halves: list[float] = []
    for one in under:
        if one.score.value is not None:
            scores.append(one.score.value)
        if one.score.low is not None and one.score.high is not None:
            halves.append((one.score.high - one.score.low) / 2)
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
    columns: list[Values] = []
    for row in values.values():
        columns += row.values()
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
    ours = goodness[OURS]
    return Ranking(
        n=len(records.ids),
        orders={name: _order(row) for name, row in goodness.items()},
        scores=scores,
        tau={name: _tau(ours, row) for name, row in goodness.items() if name != OURS},
        flips=tuple(_flips(records, values, goodness)),
    )


def _flips(
    records: SharedRecords,
    values: Mapping[str, Mapping[str, Values]],
    goodness: Mapping[str, Mapping[str, float]],
) -> Iterator[Flip]:
    """Yield the pairs of runs that change places between wordings."""
    for one, other in combinations(values, 2):
        ahead = [row[one] - row[other] for row in goodness.values()]
        # Tied under one wording and ahead under another is no change of places.
        if min(ahead) < 0 < max(ahead):
            differences = {}
            for name, column in values[one].items():
                differences[name] = records.difference(column, values[other][name]).estimate
            yield Flip(one, other, differences)


def _order(goodness: Mapping[str, float]) -> tuple[tuple[str, ...], ...]:
    """Return the letters from the best score to the worst; those with one score together."""
    sharing: dict[float, tuple[str, ...]] = {}
    for letter, score in goodness.items():
        sharing[score] = (*sharing.get(score, ()), letter)
    return tuple(map(sharing.__getitem__, sorted(sharing, reverse=True)))


def _tau(ours: Mapping[str, float], other: Mapping[str, float]) -> float | None:
    # Imported here: scipy is slow to load, and one run alone needs no rank correlation.
    from scipy.stats import kendalltau

    others = list(map(other.__getitem__, ours))
    tau = float(kendalltau(list(ours.values()), others).statistic)
    # Where all runs tie there is no order that another could agree with.
    return None if isnan(tau) else tau


def _apart(one: Floats, other: Floats) -> Any:
    # Means of repeats differ in their last digits when they are added in another order.
    return np.abs(one - other) > _ROUNDING


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
            "order": list(map(list, order)),
            "scores": dict(ranking.scores[name]),
            "tau": ranking.tau.get(name),
        }
    return {"n": ranking.n, "wordings": wordings, "flips": list(map(asdict, ranking.flips))}


def print_sensitivity(sensitivity: Sensitivity, console: Console) -> None:
    """Print for every track and run the scores by wording, and of several runs the rankings."""
    runs = [(letter, folder, model) for letter, (folder, model) in sensitivity.runs.items()]
    variants = counted(len(sensitivity.wordings), "prompt variant")
    judged = f"{sensitivity.judge} judged the answers with {variants}."
    parts: list[Part] = [run_legend(runs), Line(judged)]
    for track in sensitivity.tracks:
        for spread in track.spreads:
            parts += [BLANK, *_spread_parts(track, spread)]
        if track.ranking is not None:
            parts += [BLANK, *_ranking_parts(track, track.ranking)]
        elif len(track.spreads) > 1:
            unranked = (
                f"{track_title(track.track)}: alps does not rank the runs, because no record has a "
                "score in every run under every variant."
            )
            parts += [BLANK, Line(unranked)]
    lines = [*(f"{note}." for note in sensitivity.notes), *_explanations(sensitivity)]
    print_parts(console, parts, map(dim, lines))


def _spread_parts(track: TrackSensitivity, spread: Spread) -> Iterator[Part]:
    title = f"{spread.letter} on {track_and_metric(track.track, track.metric)}"
    if spread.n:
        where = "" if spread.clusters is None else f" from {counted(spread.clusters, 'session')}"
        yield _spread_table(f"{title}: {counted(spread.n, 'record')}{where}", spread)
    else:
        yield Line(f"{title}: no record has a score under every variant.", "bold")
    yield from map(Line, _noise(spread))
    if lost := [_unscored(one) for one in spread.under if one.unscored]:
        yield dim(f"Records left out because they have no score: {', '.join(lost)}.")
    for one in spread.under:
        if one.error is not None:
            # One line an error: a provider may answer with a page of HTML.
            yield dim(visible(f"  {one.wording}: {one.error}")[: WIDTH - 2])


def _spread_table(title: str, spread: Spread) -> Table:
    rows = []
    for one in spread.under:
        moved: tuple[str | Cell, ...] = ("", "", "")
        style = ""
        if one.difference is not None:
            low, high = one.difference.low, one.difference.high
            # The same records under both prompts: the interval of the difference tells, not those
            # of scores.
            if low is not None and high is not None and (low > 0 or high < 0):
                style = "bold"
            moved = (*change(one.difference), Cell(_percent(one.changed), one.changed))
        cells = *with_interval(one.score), *moved, ungrouped(one.score.n)
        rows.append(row_of(one.wording, *cells, style=style))
    columns = ("score", "95 % interval", "Δ ours", "95 % interval", "changed", "n")
    return Table(title, [_VARIANT, *figures(*columns)], rows)


_VARIANT = named("variant", "fold")
"""The names of variants are folded: the user chose them."""


def _unscored(one: UnderWording) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in one.failures.items())
    return f"{one.unscored:,} under {one.wording}{f' ({kinds})' if kinds else ''}"


def _noise(spread: Spread) -> Iterator[str]:
    """Say how far the scores lie apart, and whether that is more than sampling does."""
    if spread.deviation is None:
        return
    records = counted(spread.n, "record")
    share = f"{spread.changed:,} of {records} ({_percent(spread.changed / spread.n)})"
    score = f"The highest score minus the lowest is {number(spread.spread)}"
    yield f"{score}; {share} get different scores under different variants."
    sampling = spread.sampling_error
    if sampling is None:
        deviation = f"Standard deviation between variants: {number(spread.deviation)}"
        yield f"{deviation}; sampling noise is unknown."
        return
    deviation = f"standard deviation {number(spread.deviation)}"
    yield f"Noise between prompt variants: {deviation}."
    half = f"the mean half-width of the intervals is {number(spread.half_width)}"
    yield f"Noise from the choice of records: standard error {number(sampling)} ({half})."
    if spread.deviation != sampling:
        wider = "The choice of records adds more noise than the choice of prompt does."
        if spread.deviation > sampling:
            wider = "The choice of prompt adds more noise than the choice of records does."
        yield wider


def _ranking_parts(track: TrackSensitivity, ranking: Ranking) -> Iterator[Part]:
    rows = []
    for name, order in ranking.orders.items():
        tau = ranking.tau.get(name)
        agreed = Cell(number(tau), tau) if name in ranking.tau else ""
        rows.append(row_of(name, " > ".join(map(" = ".join, order)), agreed))
    records = counted(ranking.n, "record")
    title = (
        f"Ranking on {track_title(track.track)}, {records} scored in all runs under every variant"
    )
    yield Table(title, [_VARIANT, named("order"), *figures("tau")], rows)
    if not ranking.flips:
        yield Line("No two runs swap ranks.")
    else:
        yield BLANK
        yield _flips_table(ranking.flips)


def _flips_table(flips: Sequence[Flip]) -> Table:
    """Lay out the pairs of runs that change places, wording by wording."""
    rows: list[Row] = []
    for flip in flips:
        pair = f"{flip.first} – {flip.second}"
        for name, difference in flip.differences.items():
            # Rounded as in the ranking: a tie there is no lead here.
            value = round(difference.value or 0.0, 9)
            ahead = "tied" if value == 0 else flip.first if value > 0 else flip.second
            rows.append(row_of(name, pair, *change(difference), ahead))
        rows[-1] = rows[-1]._replace(ends=True)
    columns = [_VARIANT, *figures("pair", "difference", "95 % interval", "ahead")]
    return Table("Runs that swap ranks", columns, rows)


def _explanations(sensitivity: Sensitivity) -> Iterator[str]:
    spreads: list[Spread] = []
    for track in sensitivity.tracks:
        spreads += track.spreads
    if sensitivity.tracks:
        yield "changed: share of records whose score differs from the score under the built-in"
        yield "prompt (ours)."
        yield "bold: the interval excludes 0. The standard error is the mean half-width of the"
        yield f"intervals divided by {LEVEL_WIDTH}."
    if any(spread.clusters is None for spread in spreads):
        yield (
            "alps did not find the sessions in the run's data set, so the intervals treat records "
            "as independent."
        )
    if any(track.ranking for track in sensitivity.tracks):
        yield (
            "tau: Kendall's tau-b between the order under the variant and the order under the "
            "built-in prompt (1: same, -1: reversed)."
        )
    yield spent(sensitivity.calls)
    if spreads:
        yield f"Run folders: {spreads[0].under[0].folder.parent.parent}/RUN/VARIANT"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"
