"""Scores corrected for what the judge is known to get wrong, beside the raw ones.

A calibration corrects the metrics that are means of the marks of one rubric. Where its labelled items are a random
sample of the very answers that are scored, people's labels carry the estimate, and the judge's marks of the others make
it sharper (PPI++). Else the error rates of the judge are carried over from the labelled items (Rogan and Gladen).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from alps.errors import DataError, UsageError
from alps.jsonl import Row, scan
from alps.judges.asking import DIMENSION_OF
from alps.judges.base import Judge
from alps.judges.binding import Calibration, calibration_files, differing_part, read_calibration
from alps.judges.rubric import EMOTIONAL
from alps.run.draw import Asked, asked_in, population_hash
from alps.run.source import Data
from alps.stats.bootstrap import Floats
from alps.stats.corrections import Correction, clustered_rogan_gladen, ppi
from alps.tasks import Metric

OFF = "off"
Rubrics = Mapping[str, Mapping[str, Any]]
"""What calibrations hold of the rubrics of a metric."""


@dataclass(frozen=True)
class Chosen:
    """The calibrations that may be used for a judge, by rubric, and why others of the same judge may not."""

    by_rubric: Mapping[str, Calibration]
    refused: tuple[str, ...] = ()


def choose(given: str | None, judge: Judge, data: Data, *, today: date) -> Chosen:
    """Find the calibrations of `judge` for the rubrics that the metrics of `data` are means of.

    Args:
        given: A calibration that must fit, `off`, or None for those that are known.
        judge: Whose verdicts are to be corrected.
        data: What is scored.
        today: What expiry is held against.

    Raises:
        UsageError: If the given one fits none of the rubrics: names the part that differs.
        DataError: If the given one can't be read.
    """
    rubrics = sorted({name for task in data.tasks for metric in task.metrics for name in metric.rubrics})
    if given == OFF or (given is None and not rubrics):
        return Chosen({})
    refused: dict[str, None] = {}
    candidates = _known(refused) if given is None else [read_calibration(Path(given).expanduser())]
    chosen: dict[str, Calibration] = {}
    for name in rubrics:
        for calibration in candidates:
            why = differing_part(calibration, judge, name, today=today)
            if why is None:
                chosen.setdefault(name, calibration)
            elif calibration.judge == judge.name and name in calibration.rubrics:
                refused[f"{_name(calibration)}: {why}"] = None
    if given is not None and not chosen:
        if not rubrics:
            raise UsageError(f"calibration={given}: no score of these tracks is a mean of marks; leave it out")
        why = differing_part(candidates[0], judge, rubrics[0], today=today)
        raise UsageError(f"calibration={given}: not for this judge and these tracks: {why}; calibrate again")
    return Chosen(chosen, tuple(refused))


def _known(unreadable: dict[str, None]) -> list[Calibration]:
    """Return the calibrations that lie where they are looked for; a broken one must not stop a run."""
    found = []
    for path in calibration_files():
        try:
            found.append(read_calibration(path))
        except DataError as error:
            unreadable[f"{path.name}: {error}"] = None
    return found


def add_corrections(summary: dict[str, Any], run: Path, data: Data, chosen: Chosen) -> None:
    """Put corrected scores beside the raw ones in a summary; `not_calibrated` says what was found and not used."""
    for track, metrics in corrected_scores(run, data, chosen).items():
        for name, row in metrics.items():
            if name in summary["tracks"][track]["scores"]:
                summary["tracks"][track]["scores"][name]["corrected"] = row
    if chosen.refused:
        summary["not_calibrated"] = list(chosen.refused)


def corrected_scores(run: Path, data: Data, chosen: Chosen) -> dict[str, dict[str, Row]]:
    """Return, by track and metric, the corrected scores of a finished run.

    A row holds `method` (`ppi` or `rogan_gladen`), `status`, `value`, `low`, `high`, `labelled` (how many labels it
    stands on), `judged`, `outside` (whether a figure leaves the scale, as it is) and `reason`, where there is no value.
    """
    if not chosen.by_rubric:
        return {}
    asked: dict[str, list[Asked]] = {}
    for question in asked_in(run, data):
        asked.setdefault(question.track, []).append(question)
    scores = _scores(run / "scores.jsonl")
    found: dict[str, dict[str, Row]] = {}
    for track in data.tracks:
        name = track.task.track
        for metric in track.task.metrics:
            calibrations = {rubric: chosen.by_rubric.get(rubric) for rubric in metric.rubrics}
            known = {rubric: calibration for rubric, calibration in calibrations.items() if calibration is not None}
            if known and len(known) == len(metric.rubrics):
                row = _corrected(metric, known, asked.get(name, ()), scores.get(name, {}))
                found.setdefault(name, {}).update({metric.name: row} if row is not None else {})
    return found


def _scores(path: Path) -> dict[str, dict[tuple[str, int], Mapping[str, float]]]:
    found: dict[str, dict[tuple[str, int], Mapping[str, float]]] = {}
    for _, _, row in scan(path):
        if row is not None:
            found.setdefault(row["track"], {})[row["benchmark_id"], row.get("repeat", 0)] = row["scores"]
    return found


@dataclass(frozen=True)
class _Judged:
    """The answers whose marks make up a metric, in columns, and how many answers failed and count as the worst."""

    names: Sequence[str]
    values: Floats
    clusters: Sequence[str]
    failed: int


def _corrected(
    metric: Metric,
    calibrations: Mapping[str, Calibration],
    asked: Iterable[Asked],
    scores: Mapping[tuple[str, int], Mapping[str, float]],
) -> Row | None:
    rubrics = {EMOTIONAL if name in DIMENSION_OF else name for name in metric.rubrics}
    population = [question for question in asked if question.rubric in rubrics]
    marked = [
        (question, value) for question in population if (value := _score_of(question, metric, scores)) is not None
    ]
    total = sum(metric.name in row for row in scores.values())
    if not marked:
        return None
    judged = _Judged(
        names=[question.name for question, _ in marked],
        values=np.array([value for _, value in marked], dtype=np.float64),
        clusters=[question.cluster for question, _ in marked],
        failed=total - len(marked),
    )
    found = {name: calibration.rubrics[name] for name, calibration in calibrations.items()}
    if _is_sample(found, population):
        correction = _by_labels(metric, found, judged)
    else:
        correction = _by_rates(metric, found, judged)
    return _row(correction, judged, metric, calibrations)


def _score_of(question: Asked, metric: Metric, scores: Mapping[tuple[str, int], Mapping[str, float]]) -> float | None:
    return scores.get((question.about.benchmark_id, question.about.repeat), {}).get(metric.name)


def _is_sample(found: Rubrics, population: Sequence[Asked]) -> bool:
    """Tell whether the labelled items of every rubric were drawn at random from these very answers."""
    hashes = {
        question.track: population_hash(other.about for other in population if other.track == question.track)
        for question in population
    }
    samples = [row.get("sample") or {} for row in found.values()]
    return all(s.get("random") is True and s.get("predictions") == hashes.get(str(s.get("track"))) for s in samples)


def _by_labels(metric: Metric, found: Rubrics, judged: _Judged) -> Correction:
    labels = [_labels(name, row) for name, row in found.items()]
    known = [n for n, name in enumerate(judged.names) if all(name in of_one for of_one in labels)]
    people = np.array([np.mean([of_one[judged.names[n]] for of_one in labels]) for n in known], dtype=np.float64)
    others = [n for n in range(len(judged.names)) if n not in set(known)]
    clusters = ([judged.clusters[n] for n in known], [judged.clusters[n] for n in others])
    return ppi(
        people,
        judged.values[known],
        judged.values[others],
        clusters,
        interval="score" if set(people) <= {0.0, 1.0} else "normal",
        bounds=(metric.lowest, metric.highest),
    )


def _labels(name: str, row: Mapping[str, Any]) -> dict[str, float]:
    """Return the means of people's labels by the names of the answers; on a scale of two values, from 0 to 1."""
    suffix = f":{DIMENSION_OF[name]}" if name in DIMENSION_OF else ""
    return {
        item.removesuffix(suffix): float(mean) for item, _, _, _, mean in row.get("labelled", ()) if mean is not None
    }


def _by_rates(metric: Metric, found: Rubrics, judged: _Judged) -> Correction:
    row = next(iter(found.values()))
    values = row["scale"]["values"]
    if len(found) > 1 or len(values) != 2:
        reason = "error rates carry over on scales of two values only: label a random sample of this run"
        raw = ppi(judged.values, judged.values, judged.values[:0]).raw
        return Correction("rogan_gladen", raw, None, None, None, 0, reason=reason)
    pairs = [
        (truth == values[-1], verdict == values[-1], cluster or item)
        for item, cluster, truth, verdict, _ in row.get("labelled", ())
        if truth is not None and verdict is not None
    ]
    return clustered_rogan_gladen(
        [bool(value == metric.highest) for value in judged.values],
        judged.clusters,
        [truth for truth, _, _ in pairs],
        [verdict for _, verdict, _ in pairs],
        [f"label {cluster}" for _, _, cluster in pairs],
    )


def _row(correction: Correction, judged: _Judged, metric: Metric, calibrations: Mapping[str, Calibration]) -> Row:
    """Return a correction as it stands in the summary: of all answers, of which failed ones are known to be worst."""
    total = len(judged.names) + judged.failed
    figures = {
        name: None
        if (figure := getattr(correction, name)) is None
        else (figure * len(judged.names) + metric.lowest * judged.failed) / total
        for name in ("value", "low", "high")
    }
    sources = {_name(calibration): _hash(calibration) for calibration in calibrations.values()}
    row = {"method": correction.method, "status": correction.status, **figures, "labelled": correction.labelled}
    row |= {"judged": len(judged.names), "n": total, "outside": correction.outside, "calibration": sources}
    if correction.youden is not None:
        row["youden"] = asdict(correction.youden)
    return {**row, "reason": correction.reason} if correction.reason else row


def _name(calibration: Calibration) -> str:
    """Return the name of a calibration: of its folder, or of its file where that has a name of its own."""
    path = calibration.path.resolve()
    return path.parent.name if path.name == "calibration.json" else path.stem


def _hash(calibration: Calibration) -> str:
    return hashlib.sha256(calibration.path.read_bytes()).hexdigest()
