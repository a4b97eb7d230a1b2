"""The part of sizes in a run: the reader is asked again with less of the same history.

The smaller sizes have the same hits, cut shorter. A run at several sizes is a run at the largest of
them, in its folder; what the reader answered at each of the others lies in `contexts/SIZE`, in
journals of the same kind.

The curve of a mean metric over the sizes has an area under it, with an interval of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import reduce
from pathlib import Path
from statistics import fmean

import numpy as np

from alps.ext.memory import ANSWERS
from alps.ext.memory.journal import AnswerLog, question_of
from alps.ext.memory.reader import Reader
from alps.ext.memory.settings import MemoryKeys
from alps.ext.sizes import FOLDER, smaller_sizes
from alps.rows import Curve, CurvePoint, Interval, Summary
from alps.run.collector import Journals, Outcome, RunPlan, run_tracks
from alps.run.engine import TrackPlan
from alps.run.folder import write_whole
from alps.run.opened import PREDICTIONS
from alps.run.parts import Course, RunPart
from alps.run.progress import Advance
from alps.run.scores import RecordScores
from alps.run.source import RunData
from alps.run.summary import leading_metric
from alps.settings import RunSettings
from alps.stats.bootstrap import UNIT, Clusters, Estimate, Floats, cluster_index, clustered_mean
from alps.stats.bounded import LEVEL
from alps.systems import System
from alps.tasks import Metric, Task

ROUNDING = 1e-9
# The `unseen` of `clustered_ratio`: a record that differs at few sizes hides how far others may.
UNSEEN = 3.0

AtSizes = Mapping[int, Mapping[str, Outcome]]
"""What came out of each track at each size, by its name."""


class SizesRunPart(RunPart):
    """The smaller sizes of one run."""

    def __init__(self, settings: RunSettings) -> None:
        super().__init__(settings)
        self._sizes: Sequence[int] = smaller_sizes(settings)
        self._outcomes: Mapping[int, Mapping[str, Outcome]] = {}

    def place(self, source: Path, folder: Path) -> None:
        """Bring the predictions at smaller sizes; what was submitted has only the largest."""
        self._sizes = [
            size for size in self._sizes if (folder_of(source, size) / PREDICTIONS).is_file()
        ]
        for size in self._sizes:
            folder_of(folder, size).mkdir(parents=True, exist_ok=True)
            lines = (folder_of(source, size) / PREDICTIONS).read_bytes()
            write_whole(folder_of(folder, size) / PREDICTIONS, lines)

    def more_records(self, data: RunData) -> int:
        """Return how many answers are asked for at smaller sizes."""
        return len(self._sizes) * sum(track.n for track in data.tracks if _has_sizes(track.task))

    async def more(self, course: Course, progress: Advance) -> None:
        """Ask and judge the tracks at smaller sizes."""
        folder = course.session.folder
        self._outcomes = await _run_sizes(course.plan, self._sizes, folder, progress=progress)

    def summarise(self, summary: Summary, course: Course) -> Summary:
        """Add the curve of each track that was asked at several sizes."""
        if not self._sizes:
            return summary
        largest = MemoryKeys.of(self.settings).most_context, course.outcomes
        return _with_curves(summary, course.plan, largest, self._outcomes, course.session.folder)

    def rounds(self, plans: Sequence[TrackPlan]) -> Iterator[tuple[str, Sequence[TrackPlan]]]:
        """Yield what is evaluated at each smaller size."""
        for size in self._sizes:
            yield str(folder_of(Path(), size)), _shown_less(plans, size)


def folder_of(folder: Path, size: int) -> Path:
    """Return where a run in `folder` keeps what it was answered at a smaller size."""
    return folder / FOLDER / str(size)


def _has_sizes(task: Task) -> bool:
    """Tell whether a reader is shown part of a history: other tasks are asked once."""
    return task.by_memory.recall is not None and task.by_memory.answers is None


def _shown_less(
    tracks: Sequence[TrackPlan], size: int, log: AnswerLog | None = None
) -> tuple[TrackPlan, ...]:
    """Return the tracks that are asked at a size, with their systems as they are asked there."""
    plans = []
    for track in tracks:
        if _has_sizes(track.task):
            systems = tuple(_at(system, size, log) for system in track.systems)
            # What no history is shown to, a trivial baseline, scores the same at every size.
            plans.append(replace(track, systems=systems, floor_systems={}))
    return tuple(plans)


def _at(system: System, size: int, log: AnswerLog | None) -> System:
    # Nobody answers any more where finished answers are judged again.
    return system.at(size, log) if isinstance(system, Reader) else system


async def _run_sizes(
    plan: RunPlan, sizes: Sequence[int], folder: Path, *, progress: Advance
) -> dict[int, dict[str, Outcome]]:
    """Ask and judge the tracks of a run at smaller sizes; return what came out at each."""
    outcomes: dict[int, dict[str, Outcome]] = {}
    for size in sizes:
        inside = folder_of(folder, size)
        inside.mkdir(parents=True, exist_ok=True)
        log = AnswerLog(inside / ANSWERS)
        with closing(log), closing(Journals.open(inside)) as journals:
            less = replace(plan, tracks=_shown_less(plan.tracks, size, log), journals=journals)
            outcomes[size] = await run_tracks(less, progress=progress)
    return outcomes


def _with_curves(
    summary: Summary,
    plan: RunPlan,
    largest: tuple[int | None, Mapping[str, Outcome]],
    less: AtSizes,
    folder: Path,
) -> Summary:
    """Return the summary of a run with the curve of each track that was asked at several sizes."""
    size, outcomes = largest
    tracks = dict(summary.tracks)
    if size is None or not less:
        return summary
    for track in plan.tracks:
        name = track.task.track
        if _has_sizes(track.task):
            # The largest size is the run itself, and the last point of the curve.
            by_size = {one: less[one][name] for one in sorted(less)} | {size: outcomes[name]}
            curve = _curve(by_size, leading_metric(track.task, plan.judge))
            curve = _with_costs(curve, folder, name)
            tracks[name] = tracks[name].model_copy(update={"curve": curve})
    return summary.model_copy(update={"tracks": tracks})


def _with_costs(curve: Curve | None, folder: Path, track: str) -> Curve | None:
    if curve is None:
        return None
    points = []
    for point in curve.points:
        inside = folder
        if point is not curve.points[-1]:
            inside = folder_of(folder, point.max_context_tokens)
        # Searches are noted in the run's own folder: the smaller sizes have the same hits, cut
        # shorter.
        taken = question_of(folder, inside, track)
        new = {"seconds": taken.seconds, "cost": taken.cost}
        points.append(point.model_copy(update=new))
    return curve.model_copy(update={"points": points})


def _curve(by_size: Mapping[int, Outcome], lead: Metric | None) -> Curve | None:
    """Return the curve of a headline and its area; None where the judge can't score any."""
    if lead is None:
        return None
    points = [_point(size, outcome, lead) for size, outcome in by_size.items()]
    boards = [outcome.board for outcome in by_size.values()]
    # All sizes at once: a record is resampled with its scores at every size, which are not
    # independent.
    area = area_of(boards, tuple(by_size), lead)
    return Curve(metric=lead.name, points=points, area=Interval(**area.row))


def _point(size: int, outcome: Outcome, metric: Metric) -> CurvePoint:
    board = outcome.board
    return CurvePoint(
        max_context_tokens=size,
        score=Interval(**board.estimate(metric).row),
        # What was shown, and not the bound: a short history fills no large context.
        tokens=fmean(outcome.shown) if outcome.shown else None,
        n=board.scored + board.unscored,
        failed_predictions=dict(sorted(board.failed_predictions.items())),
        failed_judgements=dict(sorted(board.failed_judgements.items())),
        errors={kind: error for kind, (_, error) in sorted(outcome.errors.items())},
    )


def area_of(boards: Sequence[RecordScores], sizes: Sequence[int], metric: Metric) -> Estimate:
    """Return the area under the curve of a mean metric, over the records of all boards.

    Args:
        boards: What followed at each size.
        sizes: Of the boards, rising.
        metric: What the curve is of; what is no mean has no area.
    """
    if not metric.is_mean:
        reason = "the area is defined only for a mean over records"
        return Estimate(None, None, None, boards[0].scored, reason)
    places, _, clusters = boards[0].by_place(metric.name)
    rows = [board.by_place(metric.name)[:2] for board in boards]
    shared = reduce(np.intersect1d, [at for at, _ in rows])
    columns = [values[np.isin(at, shared)] for at, values in rows]
    names = clusters[np.isin(places, shared)]
    return area_under(np.stack(columns, axis=1), sizes, names, bounds=metric.bounds)


def area_weights(sizes: Sequence[float]) -> Floats:
    """Return what each point counts in the area under a curve over log2 of its size.

    The area is that of trapezoids, and the axis runs from 0 at the smallest size to 1 at the
    largest: a curve that is level at .6 has an area of .6. The weights sum to 1.

    Args:
        sizes: At least two, above 0 and rising; shape (points,).
    """
    places = np.log2(np.asarray(sizes, dtype=np.float64))
    widths = np.diff(places) / (places[-1] - places[0])
    weights = np.zeros(len(places))
    weights[:-1] += widths / 2
    weights[1:] += widths / 2
    return weights


def rare_bound(away: Floats, confidence: float) -> float:
    """Return an upper bound of the mean of values in [0, 1], almost all 0.

    Values between 0 and 1 say less of the rate than ones do, and the variance between a few of them
    says almost nothing of those that were not seen: each is counted at what it adds to Clopper and
    Pearson's bound (Stringer).

    Source: Bickel, International Statistical Review 60 (1992) 197.

    Args:
        away: At least one.
        confidence: Of the bound, one-sided.
    """
    from scipy.stats import beta

    above = np.sort(away[away > 0])[::-1]
    seen = np.arange(len(above) + 1)
    # Where all values are above 0 there is none left to be seen.
    bounds = np.where(
        seen < len(away), beta.ppf(confidence, seen + 1, np.maximum(len(away) - seen, 1)), 1.0
    )
    return float(bounds[0] + np.diff(bounds) @ above)


def area_under(
    values: Floats,
    sizes: Sequence[float],
    clusters: Clusters,
    *,
    bounds: tuple[float, float] | None = UNIT,
) -> Estimate:
    """Estimate the area under the curve of mean values; see `area_weights`.

    Each record has an area of its own, within the bounds of its values: the interval is that of
    their mean, with more room for what was not seen. Percentiles of resampled clusters cover too
    seldom near an end of the scale. Where almost all areas are at one end, `rare_bound` of the
    means of clusters is the least that the other bound is away from it.

    Args:
        values: Shape (records, sizes).
        sizes: Shape (sizes,).
        clusters: Shape (records,).
        bounds: Of the values; None where they have none.
    """
    areas = values @ area_weights(sizes) if len(values) else np.zeros(0)
    mean = clustered_mean(areas, clusters, bounds=bounds, unseen=UNSEEN)
    if bounds is None or mean.low is None or mean.high is None:
        return mean
    names = cluster_index(clusters)
    positions = (areas - bounds[0]) / (bounds[1] - bounds[0])
    means = np.bincount(names, weights=positions) / np.bincount(names)
    low, high = mean.low, mean.high
    for away, lowest in ((means, True), (1 - means, False)):
        if (away > ROUNDING).sum() < len(away) / 2:
            most = rare_bound(np.where(away > ROUNDING, away, 0.0), (1 + LEVEL) / 2)
            span = most * (bounds[1] - bounds[0])
            if lowest:
                high = max(high, bounds[0] + span)
            else:
                low = min(low, bounds[1] - span)
    return replace(mean, low=low, high=high)
