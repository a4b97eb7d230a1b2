"""Names of tasks and metrics, as people read them in tables: with sizes and conditions."""

from alps.rows import TrackSummary
from alps.tasks import Metric
from alps.tasks.registry import track_title


def task_title(track: str, found: TrackSummary) -> str:
    """Return the name of a track's task: `extraction`, `retrieval@100`, `PersonaMem 32k`."""
    size = (found.model_extra or {}).get("size")
    return track_title(track, size)


def metric_title(metric: Metric) -> str:
    """Return the short name of a metric: `F1`, `joint score`."""
    return metric.title.strip().partition(",")[0]


def task_and_metric(track: str, found: TrackSummary, metric: Metric) -> str:
    """Return both names, or one where it says both: `extraction, F1`, `persona awareness`."""
    task, title = task_title(track, found), metric_title(metric)
    return title if title.startswith(task) else f"{task}, {title}"


def conditions(track: TrackSummary, *, sized: bool = True) -> str:
    """Return the conditions of a track as titles show them: ` (memory bm25)`, or nothing.

    Unless it is `sized`, the size of its data is left to the name of the task.
    """
    parts = [str(value) for value in (track.condition, track.scoring) if value is not None]
    if track.memory is not None:
        parts.append(f"memory {track.memory}")
    # Runs of older versions call it a window.
    most = track.max_context_tokens or track.window
    if most is not None:
        parts.append(f"context {most:,}")
    if track.prompt is not None:
        parts.append(f"prompt {track.prompt}")
    for name, value in (track.model_extra or {}).items():
        if sized or name != "size":
            parts.append(f"{name} {value}")
    return f" ({', '.join(parts)})" if parts else ""
