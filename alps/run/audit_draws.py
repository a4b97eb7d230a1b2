"""Draws of the sessions that are audited, by their names and a seed alone.

So runs on the same data share their audits, a larger share holds the smaller one, and a run that
goes on draws the same ones. What people audit was drawn when their items were, and stands in the
`sample.json` of their label folder.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from alps.errors import UsageError
from alps.jsonl import parse_json
from alps.judges.labels import SAMPLE
from alps.run.source import Data, TrackData
from alps.settings import RunSettings

LEAST = 20
"""Records of a track below which nothing is corrected: intervals of fewer cover less often."""


@dataclass(frozen=True)
class Draw:
    """The sessions of a track that are audited, and how many of its records with gold they hold.

    `sessions` are in the order in which they were drawn.
    """

    sessions: tuple[str, ...]
    records: int
    n: int


@dataclass(frozen=True)
class Draws:
    """What is audited of a run, by track, and the share and the seed of the drawing."""

    share: float
    seed: int
    tracks: Mapping[str, Draw]


class Labelled(BaseModel):
    """The sessions that people labelled whole, in the order of the drawing: `audit` of a sample."""

    model_config = ConfigDict(frozen=True)

    share: float = Field(ge=0, le=1)
    seed: int
    tracks: dict[str, tuple[str, ...]]


def draw_tracks(data: Data, settings: RunSettings, *, setting: str = "audit") -> Draws:
    """Draw the sessions of every track that a judge has a part in; see `draw_sessions`.

    `setting` is what the user calls the share.

    Raises:
        UsageError: If one of them is too small, or none is judged.
        DataError: If a label folder can't be read.
    """
    judged = [track for track in data.tracks if track.task.judged]
    if not judged:
        key = "audit_judge" if settings.audit_labels is None else "audit_labels"
        raise UsageError(f"{key}=: no judge has a part in the scores of these tracks")
    if settings.audit_labels is not None:
        return _labelled(judged, Path(settings.audit_labels))
    share = settings.audit or 0.0
    tracks = {}
    for track in judged:
        tracks[track.task.track] = draw_sessions(track, share, settings.seed, setting)
    return Draws(share, settings.seed, tracks)


def draw_sessions(track: TrackData, share: float, seed: int, setting: str = "audit") -> Draw:
    """Draw a share of the sessions of a track; `setting` is what the user calls it.

    Raises:
        UsageError: If they hold fewer than `LEAST` records; names the share that is needed.
    """
    counts = _records_by_session(track)
    # Strata by the cheap score would shorten the intervals of PPI++ by 1 % at most (measured on
    # answers of seven models), and two runs would not be audited on the same records.
    order = sorted(counts, key=lambda session: place_of(session, seed))
    taken = order[: ceil(share * len(order))]
    records, n = sum(counts[session] for session in taken), sum(counts.values())
    if records < LEAST:
        sizes = [counts[one] for one in order]
        raise UsageError(_too_few(track.task.track, sizes, share, records, setting))
    return Draw(tuple(taken), records, n)


def place_of(session: str, seed: int) -> bytes:
    """Return the place of a session in the order in which sessions are drawn."""
    return hashlib.sha256(f"{seed}\x00{session}".encode(errors="surrogatepass")).digest()


def _records_by_session(track: TrackData) -> dict[str, int]:
    counts: dict[str, int] = {}
    for sample in track.samples():
        if track.task.has_gold(sample):
            counts[sample.session_id] = counts.get(sample.session_id, 0) + 1
    return counts


def _too_few(track: str, sizes: Sequence[int], share: float, records: int, setting: str) -> str:
    said = f"{setting}={100 * share:g}%: {records} of {sum(sizes)} records of {track}"
    if sum(sizes) < LEAST:
        return f"{said}; at least {LEAST} are needed, and it has fewer: leave the track out"
    held = sessions = 0
    while held < LEAST:
        held += sizes[sessions]
        sessions += 1
    return f"{said}; at least {LEAST} are needed: {setting}={ceil(100 * sessions / len(sizes))}%"


def _labelled(judged: Sequence[TrackData], folder: Path) -> Draws:
    """Return the sessions that people labelled.

    Raises:
        UsageError: If none were drawn whole, or too few records are labelled.
        DataError: If the sample can't be read.
    """
    sample = _read_sample(folder)
    draws = {}
    for track in judged:
        name = track.task.track
        if name not in sample.tracks:
            continue
        counts = _records_by_session(track)
        sessions = tuple(session for session in sample.tracks[name] if session in counts)
        records, n = sum(counts[session] for session in sessions), sum(counts.values())
        if records < LEAST:
            said = f"audit_labels={folder}: {records} of {n} records of {name} are labelled"
            raise UsageError(f"{said}; at least {LEAST} are needed, {LEAST - records} more")
        draws[name] = Draw(sessions, records, n)
    if not draws:
        raise UsageError(f"audit_labels={folder}: its labels are of no track of this run")
    return Draws(sample.share, sample.seed, draws)


def _read_sample(folder: Path) -> Labelled:
    path = folder / SAMPLE
    try:
        row = parse_json(path.read_bytes())
        return Labelled.model_validate(row["audit"] if isinstance(row, dict) else row)
    except (OSError, ValueError, LookupError) as error:
        drawn = "alps annotate FOLDER job=… from=RUN audit=20% draws such"
        raise UsageError(
            f"audit_labels={folder}: holds no labels of whole sessions; {drawn}"
        ) from error
