"""Which calibration corrects which score, and what stands in the summary of a run for it.

A calibration corrects the metrics that are means of the marks of one rubric, or of several
together. Of several that fit, the one whose items were drawn from the very answers that are scored
comes first, then the newest.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from alps.errors import AlpsError, UsageError
from alps.jsonl import Row, scan
from alps.judges.asking import DIMENSION_OF
from alps.judges.base import Judge
from alps.judges.binding import Calibration, calibration_files, differing_part, read_calibration
from alps.judges.rubric import EMOTIONAL
from alps.run.asked import Asked, asked_in, population_hash
from alps.run.corrected_score import Answers, Corrected, by_labels, by_rates
from alps.run.source import Data, TrackData
from alps.tasks import Metric

OFF = "off"
OTHER_ENDPOINT = "calibrated at another judge_api_base"
"""The one note that does not follow from what a submission publishes: addresses are left out of it.
"""


@dataclass(frozen=True)
class Chosen:
    """The calibrations that may be used for a judge, by rubric, and why others of the same judge
    may not.
    """

    by_rubric: Mapping[str, Sequence[Calibration]]
    refused: tuple[str, ...] = ()
    api_base: str | None = None


@dataclass(frozen=True)
class _Population:
    """What was asked about the answers of one track under the rubrics of one metric."""

    metric: Metric
    track: str
    asked: Sequence[Asked]
    scores: Mapping[tuple[str, int], Mapping[str, float]]
    sessions: Mapping[str, str]
    hash: str


def choose(
    given: str | None, judge: Judge, data: Data, *, today: date, api_base: str | None = None
) -> Chosen:
    """Find the calibrations of `judge` for the rubrics that the metrics of `data` are means of.

    Args:
        given: A calibration that must fit, `off`, or None for those that are known.
        judge: Whose verdicts are to be corrected.
        data: What is scored.
        today: What expiry is held against.
        api_base: The endpoint of the judge.

    Raises:
        UsageError: If the given one fits none of the rubrics: names the part that differs.
        DataError: If the given one can't be read.
    """
    rubrics = sorted(
        {name for task in data.tasks for metric in task.metrics for name in metric.rubrics}
    )
    if given == OFF or (given is None and not rubrics):
        return Chosen({})
    refused: dict[str, None] = {}
    candidates = _known(refused) if given is None else [read_calibration(Path(given).expanduser())]
    chosen: dict[str, list[Calibration]] = {}
    for name in rubrics:
        for calibration in candidates:
            why = differing_part(calibration, judge, name, today=today)
            if why is None:
                chosen.setdefault(name, []).append(calibration)
            elif calibration.judge == judge.name and name in calibration.rubrics:
                refused[f"{_name(calibration)}: {why}"] = None
    if given is not None and not chosen:
        if not rubrics:
            raise UsageError(
                f"calibration={given}: no score of these tracks is a mean of marks; leave it out"
            )
        held = next((name for name in rubrics if name in candidates[0].rubrics), rubrics[0])
        why = differing_part(candidates[0], judge, held, today=today)
        raise UsageError(
            f"calibration={given}: not for this judge and these tracks: {why}; calibrate again"
        )
    return Chosen(chosen, tuple(refused), api_base)


def _known(unreadable: dict[str, None]) -> list[Calibration]:
    """Return the calibrations that lie where they are looked for; a broken one must not stop a run."""
    found = []
    for path in calibration_files():
        try:
            found.append(read_calibration(path))
        except (AlpsError, OSError) as error:
            unreadable[str(error)] = None
    return found


def add_corrections(summary: dict[str, Any], run: Path, data: Data, chosen: Chosen) -> None:
    """Put corrected scores beside the raw ones in a summary.

    `not_calibrated` says what was found and not used.

    Raises:
        RunFolderError: If a prediction of the run can't be read.
        DataError: If the data can't be read.
    """
    for track, metrics in corrected_scores(run, data, chosen).items():
        for name, row in metrics.items():
            if name in summary["tracks"][track]["scores"]:
                summary["tracks"][track]["scores"][name]["corrected"] = row
    if chosen.refused:
        summary["not_calibrated"] = list(chosen.refused)
    if changes := _served_otherwise(summary, chosen):
        summary["calibrated_otherwise"] = changes


def _served_otherwise(summary: Mapping[str, Any], chosen: Chosen) -> list[str]:
    """Say where the verdicts of a run are of another model than those of the calibration that
    corrects it.
    """
    now = sorted(
        {row["model"] for row in summary.get("served", {}).get("judge", ()) if row["model"]}
    )
    used = {
        calibration.path: calibration
        for of_rubric in chosen.by_rubric.values()
        for calibration in of_rubric
    }
    changes = []
    for path, calibration in sorted(used.items()):
        then = sorted({row.model for row in calibration.row.served.get("judge", ()) if row.model})
        if then and now and then != now:
            told = (
                f"{summary['judge']} was {', '.join(then)} in {path}, and is {', '.join(now)} now"
            )
            changes.append(told)
    return changes


def corrected_scores(run: Path, data: Data, chosen: Chosen) -> dict[str, dict[str, Row]]:
    """Return, by track and metric, the corrected scores of a finished run.

    A row holds `method` (`ppi` or `rogan_gladen`), `status`, `value`, `low`, `high`, `labelled`
    (how many labels it stands on), `judged` and `n` (answers that were judged, and all that are
    scored), `outside` (whether a figure leaves the scale, as it is), `impossible` (whether the
    value itself does), `calibration`, `notes` on what is doubtful, and `reason`, where there is no
    value.

    Raises:
        RunFolderError: If a prediction of the run can't be read.
        DataError: If the data can't be read.
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
            if not metric.rubrics or not all(
                rubric in chosen.by_rubric for rubric in metric.rubrics
            ):
                continue
            population = _population(metric, track, asked.get(name, ()), scores.get(name, {}))
            if (row := _corrected(population, chosen)) is not None:
                found.setdefault(name, {})[metric.name] = row
    return found


def _scores(path: Path) -> dict[str, dict[tuple[str, int], Mapping[str, float]]]:
    found: dict[str, dict[tuple[str, int], Mapping[str, float]]] = {}
    for _, _, row in scan(path):
        if row is not None:
            found.setdefault(row["track"], {})[row["benchmark_id"], row.get("repeat", 0)] = row[
                "scores"
            ]
    return found


def _population(
    metric: Metric,
    track: TrackData,
    asked: Sequence[Asked],
    scores: Mapping[tuple[str, int], Mapping[str, float]],
) -> _Population:
    rubrics = {EMOTIONAL if name in DIMENSION_OF else name for name in metric.rubrics}
    mine = [question for question in asked if question.rubric in rubrics]
    sessions = {sample.benchmark_id: sample.session_id for sample in track.samples()}
    whole = population_hash(question.about for question in mine)
    return _Population(metric, track.task.track, mine, scores, sessions, whole)


def _corrected(population: _Population, chosen: Chosen) -> Row | None:
    metric = population.metric
    sampled = {
        rubric: _sampled(population, rubric, chosen.by_rubric[rubric]) for rubric in metric.rubrics
    }
    answers = _answers(population)
    if not answers.names:
        return None
    if all(found is not None for found in sampled.values()):
        used = {rubric: found for rubric, found in sampled.items() if found is not None}
        return _row(
            by_labels(metric, {name: c.rubrics[name] for name, c in used.items()}, answers),
            used,
            chosen,
        )
    newest = {
        rubric: max(
            chosen.by_rubric[rubric],
            key=lambda c: (c.row.made or "", len(c.rubrics[rubric].labelled)),
        )
        for rubric in metric.rubrics
    }
    return _row(
        by_rates(metric, {name: c.rubrics[name] for name, c in newest.items()}, answers),
        newest,
        chosen,
    )


def _sampled(
    population: _Population, rubric: str, calibrations: Sequence[Calibration]
) -> Calibration | None:
    """Return the calibration whose items were drawn at random from these very answers.

    The newest of several.
    """
    found = []
    for calibration in calibrations:
        sample = calibration.rubrics[rubric].sample
        drawn = sample.of(population.track) if sample is not None else None
        if drawn is not None and drawn.predictions == population.hash:
            found.append(calibration)
    return max(found, key=lambda calibration: calibration.row.made or "", default=None)


def _answers(population: _Population) -> Answers:
    """Lay out the answers whose marks make up the metric.

    A mark is None where the judgement failed.
    """
    name = population.metric.name
    marks = [
        population.scores.get((question.about.benchmark_id, question.about.repeat), {}).get(name)
        for question in population.asked
    ]
    asked = {(question.about.benchmark_id, question.about.repeat) for question in population.asked}
    failed = [
        place for place, row in population.scores.items() if name in row and place not in asked
    ]
    if name.startswith(
        f"{EMOTIONAL}_"
    ):  # one of its two languages: the answers in the other one are no part of it
        kept = [n for n, mark in enumerate(marks) if mark is not None]
    else:
        kept = list(range(len(marks)))
    return Answers(
        track=population.track,
        names=[population.asked[n].name for n in kept],
        marks=[marks[n] for n in kept],
        clusters=[population.asked[n].cluster for n in kept],
        failed=[population.sessions.get(benchmark_id, benchmark_id) for benchmark_id, _ in failed],
    )


def _row(found: Corrected, calibrations: Mapping[str, Calibration], chosen: Chosen) -> Row:
    correction = found.correction
    row: Row = {
        "method": correction.method,
        "status": "not_correctable" if found.value is None else "corrected",
    }
    row |= {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "labelled": correction.labelled,
    }
    row |= {
        "judged": found.judged,
        "n": found.n,
        "outside": found.outside,
        "impossible": found.impossible,
    }
    row["calibration"] = {
        _name(calibration): _hash(calibration) for calibration in calibrations.values()
    }
    row["notes"] = list(
        dict.fromkeys([*found.notes, *_doubts(calibrations, chosen, correction.method)])
    )
    if correction.youden is not None:
        row["youden"] = asdict(correction.youden)
    return {**row, "reason": found.reason} if found.reason else row


def _doubts(calibrations: Mapping[str, Calibration], chosen: Chosen, method: str) -> list[str]:
    """Say what makes a correction doubtful without forbidding it."""
    notes = []
    for rubric, calibration in calibrations.items():
        if calibration.rubrics[rubric].verdict == "fail":
            notes.append(f"the judge failed its calibration under {rubric}")
        if method == "rogan_gladen" and calibration.rubrics[rubric].uneven:
            notes.append(f"under {rubric} the judge is not equally good on every system")
        if calibration.row.api_base != chosen.api_base:
            notes.append(OTHER_ENDPOINT)
    return notes


def _name(calibration: Calibration) -> str:
    """Return the name of a calibration: of its folder, or of its file where that has a name of its
    own.
    """
    path = calibration.path.resolve()
    name = path.parent.name if path.name == "calibration.json" else path.stem
    return "".join(character if character.isprintable() else "?" for character in name)


def _hash(calibration: Calibration) -> str:
    return hashlib.sha256(calibration.path.read_bytes()).hexdigest()
