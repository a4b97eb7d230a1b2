"""Context sizes below the largest: the same hits, cut shorter, for another reader call.

A run at several sizes is a run at the largest of them, in its folder; what the reader answered at
each of the others lies in `contexts/SIZE`, in journals of the same kind.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from alps.ext.memory import ANSWERS
from alps.ext.memory.journal import AnswerLog
from alps.ext.memory.phases import question_of
from alps.ext.memory.reader import Reader
from alps.ext.sizes import FOLDER
from alps.rows import Curve, CurvePoint, Interval, Summary
from alps.run.collector import Journals, Outcome, RunPlan, run_tracks
from alps.run.engine import TrackPlan
from alps.run.progress import Advance
from alps.run.summary import leading_metric
from alps.systems import System
from alps.tasks import Metric, Task

AtSizes = Mapping[int, Mapping[str, Outcome]]
"""What came out of each track at each size, by its name."""


def folder_of(folder: Path, size: int) -> Path:
    """Return where a run in `folder` keeps what it was answered at a smaller size."""
    return folder / FOLDER / str(size)


def has_sizes(task: Task) -> bool:
    """Tell whether a reader is shown part of a history: other tasks are asked once."""
    return task.by_memory.recall is not None and task.by_memory.answers is None


def shown_less(
    tracks: Sequence[TrackPlan], size: int, log: AnswerLog | None = None
) -> tuple[TrackPlan, ...]:
    """Return the tracks that are asked at a size, with their systems as they are asked there."""
    plans = []
    for track in tracks:
        if has_sizes(track.task):
            systems = tuple(_at(system, size, log) for system in track.systems)
            # What no history is shown to, a trivial baseline, scores the same at every size.
            plans.append(replace(track, systems=systems, floor_systems={}))
    return tuple(plans)


def _at(system: System, size: int, log: AnswerLog | None) -> System:
    # Nobody answers any more where finished answers are judged again.
    return system.at(size, log) if isinstance(system, Reader) else system


async def run_sizes(
    plan: RunPlan, sizes: Sequence[int], folder: Path, *, progress: Advance
) -> dict[int, dict[str, Outcome]]:
    """Ask and judge the tracks of a run at smaller sizes; return what came out at each."""
    outcomes: dict[int, dict[str, Outcome]] = {}
    for size in sizes:
        inside = folder_of(folder, size)
        inside.mkdir(parents=True, exist_ok=True)
        log = AnswerLog(inside / ANSWERS)
        with closing(log), closing(Journals.open(inside)) as journals:
            less = replace(plan, tracks=shown_less(plan.tracks, size, log), journals=journals)
            outcomes[size] = await run_tracks(less, progress=progress)
    return outcomes


def with_curves(
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
        if has_sizes(track.task):
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
        taken = question_of(folder, inside, track)
        new = {"seconds": taken.seconds, "cost": taken.cost}
        points.append(point.model_copy(update=new))
    return curve.model_copy(update={"points": points})


def _curve(by_size: Mapping[int, Outcome], lead: Metric | None) -> Curve | None:
    """Return the curve of a headline and its area; None where the judge can't score any."""
    if lead is None:
        return None
    points = [_point(size, outcome, lead) for size, outcome in by_size.items()]
    first, *others = [outcome.board for outcome in by_size.values()]
    area = first.area(others, tuple(by_size), lead)
    return Curve(metric=lead.name, points=points, area=Interval(**area.row))


def _point(size: int, outcome: Outcome, metric: Metric) -> CurvePoint:
    board = outcome.board
    return CurvePoint(
        max_context_tokens=size,
        score=Interval(**board.estimate(metric).row),
        tokens=fmean(outcome.shown) if outcome.shown else None,
        n=board.scored + board.unscored,
        failed_predictions=dict(sorted(board.failed_predictions.items())),
        failed_judgements=dict(sorted(board.failed_judgements.items())),
        errors={kind: error for kind, (_, error) in sorted(outcome.errors.items())},
    )
