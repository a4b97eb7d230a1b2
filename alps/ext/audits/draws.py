"""Draws of the sessions that are audited, by their names and a seed.

The seed follows from the answers and their scores (`answer_seed`): nobody chooses it. Who writes
the answers can still search for one, a word more here or there: what is published as confirmed is
of a draw that a maintainer gave (`alps.ext.audits.board`). A larger share holds the smaller one,
and the same command draws the same ones. With `audit_seed` runs on the same data share their
audits. What people audit was drawn when their items were, and is in the `sample.json` of their
label folder.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from alps.errors import UsageError, closest
from alps.ext.audits import SAMPLE
from alps.ext.audits.settings import AuditKeys
from alps.jsonl import parse_json
from alps.run.opened import read_rows
from alps.run.source import RunData, TrackData
from alps.settings import RunSettings
from alps.tasks import Task
from alps.tasks.base import texts_of
from alps.tasks.registry import track_title
from alps.text import fold_loosely, letters, prototypes

LEAST = 20
"""Records of a track below which nothing is corrected: intervals of fewer cover less often."""

_DIGITS = 9
"""Hexadecimal digits of a seed: a JSON number that every reader keeps whole."""

Rows = Mapping[tuple[str, int], Mapping[str, Any]]


@dataclass(frozen=True)
class Draw:
    """The sessions of a track that are audited, and how many of its records with gold they hold.

    `sessions` are in the order in which they were drawn, by `seed`.
    """

    sessions: tuple[str, ...]
    records: int
    n: int
    seed: int


@dataclass(frozen=True)
class Draws:
    """What is audited of a run, by track, and the share of the drawing."""

    share: float
    tracks: Mapping[str, Draw]


class Labelled(BaseModel):
    """The sessions that people labelled whole, in the order of the drawing: `audit` of a sample."""

    model_config = ConfigDict(frozen=True)

    share: float = Field(ge=0, le=1)
    seed: int
    seeds: dict[str, int] = {}
    tracks: dict[str, tuple[str, ...]]


def draw_tracks(
    data: RunData, settings: RunSettings, run: Path | None = None, *, setting: str = "audit"
) -> Draws:
    """Draw the sessions of every track that a judge has a part in; see `draw_sessions`.

    Args:
        data: Of the run.
        settings: Of the run.
        run: Its folder; before there are answers another draw of the same size is returned.
        setting: What the user calls the share.

    Raises:
        UsageError: If one of them is too small, or none is judged.
        DataError: If a label folder can't be read.
    """
    keys = AuditKeys.of(settings)
    # Without a judge in its score a task has nothing that another judge could correct.
    judged = [track for track in data.tracks if track.task.judged]
    if not judged:
        key = "audit_judge" if keys.audit_labels is None else "audit_labels"
        raise UsageError(f"{key}=: no judge affects the scores of these tasks; leave it out")
    if keys.audit_labels is not None:
        return _labelled(judged, Path(keys.audit_labels))
    share = keys.audit or 0.0
    tracks = {}
    for track in judged:
        seed = keys.audit_seed
        if seed is None and run is not None:
            seed = run_seed(run, track.task, str(track.description["sha256"]))
        tracks[track.task.track] = draw_sessions(track, share, seed, setting)
    return Draws(share, tracks)


def draw_sessions(track: TrackData, share: float, seed: int | None, setting: str = "audit") -> Draw:
    """Draw a share of the sessions of a track, and more until they hold `LEAST` records.

    Args:
        track: The track.
        share: Of its sessions.
        seed: Of the drawing; None where it is not known yet, and only the share is checked.
        setting: What the user calls the share.

    Raises:
        UsageError: If so many hold fewer than `LEAST` records on average; names the share that is
            needed.
    """
    counts = _records_by_session(track)
    # Strata by the cheap score would shorten the intervals of PPI++ by 1 % at most (measured on
    # answers of seven models), and two runs would not be audited on the same records.
    order = sorted(counts, key=lambda session: place_of(session, seed or 0))
    # Whole sessions: their records err together, and the interval is one between sessions.
    sessions, n = ceil(share * len(order)), sum(counts.values())
    if sessions * n < LEAST * len(order):
        raise UsageError(_too_few(track.task.track, len(order), n, share, setting))
    # Sessions differ in size: the first ones may be small though the average is not.
    while sum(counts[session] for session in order[:sessions]) < LEAST:
        sessions += 1
    records = sum(counts[session] for session in order[:sessions])
    return Draw(tuple(order[:sessions]), records, n, seed or 0)


def place_of(session: str, seed: int) -> bytes:
    """Return the place of a session in the order in which sessions are drawn."""
    # A hash a session: its place hangs on no other, so runs on parts of the data draw alike.
    return hashlib.sha256(f"{seed}\x00{session}".encode(errors="surrogatepass")).digest()


def _records_by_session(track: TrackData) -> dict[str, int]:
    counts: dict[str, int] = {}
    for sample in track.samples():
        # Records without gold have no score that could be audited.
        if track.task.has_gold(sample):
            counts[sample.session_id] = counts.get(sample.session_id, 0) + 1
    return counts


def _too_few(track: str, sessions: int, n: int, share: float, setting: str) -> str:
    records = ceil(share * sessions) * n // max(1, sessions)
    said = f"{setting}={100 * share:g}% draws {records} of {n} records of {track_title(track)}"
    if n < LEAST:
        return f"{said}; at least {LEAST} are needed, so leave the task out"
    return f"{said}; at least {LEAST} are needed: set {setting}={_needed(sessions, n)}%"


def least_share(track: TrackData) -> int | None:
    """Return the smallest share of a track's sessions that can correct it, in percent.

    None where the whole track has too few records.
    """
    counts = _records_by_session(track)
    n = sum(counts.values())
    return _needed(len(counts), n) if n >= LEAST else None


def _needed(sessions: int, n: int) -> int:
    """Return the percentage of sessions that hold enough records on average."""
    return ceil(100 * ceil(LEAST * sessions / n) / sessions)


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
        # Labels may be of a run on more of the data.
        sessions = tuple(session for session in sample.tracks[name] if session in counts)
        records, n = sum(counts[session] for session in sessions), sum(counts.values())
        if records < LEAST:
            said = f"audit_labels={folder}: {records} of {n} records of {track_title(name)} "
            said += "are labelled"
            raise UsageError(f"{said}; at least {LEAST} are needed: label {LEAST - records} more")
        draws[name] = Draw(sessions, records, n, sample.seeds.get(name, sample.seed))
    if not draws:
        why = "the labels belong to no task of this run; use labels drawn from this run"
        raise UsageError(f"audit_labels={folder}: {why}")
    return Draws(sample.share, draws)


def _read_sample(folder: Path) -> Labelled:
    path = folder / SAMPLE
    if not folder.is_dir():
        beside = [one.name for one in folder.parent.glob("*/")]
        raise UsageError(f"audit_labels={folder}: no such folder{closest(folder.name, beside)}")
    try:
        row = parse_json(path.read_bytes())
        return Labelled.model_validate(row["audit"] if isinstance(row, dict) else row)
    except (OSError, ValueError, LookupError) as error:
        drawn = "draw them with alps annotate FOLDER job=… from=RUN audit=20%"
        raise UsageError(
            f"audit_labels={folder}: the folder has no labels of whole sessions; {drawn}"
        ) from error


def answer_seed(task: Task, data: str, predictions: Rows, scores: Rows) -> int:
    """Return the seed that the answers and scores of a track give.

    Only what a score can depend on counts: the letters and digits of answers as they look, in any
    order of the answer's parts, and what the judge's verdicts were worth. Spaces, signs, accents,
    case, letters that look alike, what nobody sees, ids and explanations don't, so that another
    draw costs another answer or verdict.

    Args:
        task: The task of the track.
        data: The hash of its data.
        predictions: The rows of answers, by record and repeat.
        scores: The rows of scores.
    """
    lines = [data]
    for key in sorted(predictions):
        answer = predictions[key].get("prediction")
        texts = () if answer is None else texts_of(task, answer)
        worth = (scores.get(key) or {}).get("scores") or {}
        figures = sorted((name, round(float(value), 6)) for name, value in worth.items())
        # Sorted: the order of a list of memories is free, and each order would be a new draw.
        lines.append(json.dumps([*key, sorted(map(_looks, texts)), figures]))
    text = "\n".join(lines).encode(errors="surrogatepass")
    return int(hashlib.sha256(text).hexdigest()[:_DIGITS], 16)


def run_seed(run: Path, task: Task, data: str) -> int:
    """Return the seed of a track of a run, from the files in its folder.

    Raises:
        RunFolderError: If one can't be read.
    """
    sides = []
    for name in ("predictions.jsonl", "scores.jsonl"):
        rows = {}
        for key, row in read_rows(run / name).items():
            if key.track == task.track:
                rows[key.id, key.repeat] = row
        sides.append(rows)
    return answer_seed(task, data, *sides)


def _looks(text: str) -> str:
    return letters(fold_loosely(text))[0].translate(_alike())


@cache
def _alike() -> dict[int, str]:
    """Return one letter for each of those that are one by case or by look.

    A Greek Ν is an N to the eye, and by case a ν, which is a v: all of them are one.
    """
    first: dict[str, str] = {}

    def found(letter: str) -> str:
        while letter in first:
            letter = first[letter]
        return letter

    for character in prototypes():
        by_case, by_look = map(found, letters(character))
        if by_case != by_look and len(by_case) == len(by_look) == 1:
            first[max(by_case, by_look)] = min(by_case, by_look)
    return {ord(letter): found(letter) for letter in first}
