"""Names of tasks and metrics, as people read them; the only place that makes them."""

from alps.rows import TrackSummary
from alps.tasks import Metric, known_track


def task_title(track: str, found: TrackSummary) -> str:
    """Return the name of a track's task: `extraction`, `retrieval@100`, `PersonaMem 32k`."""
    size = (found.model_extra or {}).get("size")
    return f"{track_title(track)} {size or ''}".rstrip()


def metric_title(metric: Metric) -> str:
    """Return the short name of a metric: `F1`, `joint score`."""
    title = metric.title.strip().replace(" (macro)", "").partition(",")[0]
    return title.replace("changed memories", "changes")


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


def track_title(track: str) -> str:
    """Return the name of a track's task, without the size of its data."""
    # A task of the user's own is known by the name of its track alone.
    if (known := known_track(track)) is None:
        return track
    heading, _, detail = known.heading.partition(", ")
    if heading[1:].islower():
        heading = heading.lower()
    return f"{heading}@{detail.partition(' ')[0].replace(',', '')}" if detail else heading
