"""Which calibration corrects which score, and what stands in the summary of a run for it.

A calibration corrects the metrics that are means of the marks of one rubric, or of several
together. Of several that fit, the one whose items were drawn from the very answers that are scored
comes first, then the newest.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from math import hypot, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from alps.errors import AlpsError, UsageError
from alps.jsonl import Row, scan
from alps.judges.base import Judge
from alps.judges.calibration_file import (
    DIMENSION_OF,
    Calibration,
    RubricRow,
    calibration_files,
    differing_part,
    read_calibration,
)
from alps.judges.rubric import EMOTIONAL
from alps.run.judge_questions import Asked, asked_in, population_hash
from alps.run.source import Data, TrackData
from alps.stats.bootstrap import Estimate
from alps.stats.corrections import Correction, clustered_rogan_gladen, ppi
from alps.stats.intervals import clustered_variance, quantile
from alps.tasks import Metric

LEAST = 10
"""Labels under which a sample is not corrected by: intervals of fewer cover less often than they
say.
"""
WHOLE = 0.95
"""How much of a sample must be labelled: what people leave out is not what they would leave out at
random.
"""

Rows = Mapping[str, RubricRow]


@dataclass(frozen=True)
class Answers:
    """The answers of one track that a judge was asked about, in columns.

    Attributes:
        names: As the items drawn from them are called.
        marks: In units of the score; None where the judgement failed.
        clusters: The session of each.
        failed: The sessions of the answers that failed, and count as the worst without being
            judged.
    """

    track: str
    names: Sequence[str]
    marks: Sequence[float | None]
    clusters: Sequence[str]
    failed: Sequence[str]


@dataclass(frozen=True)
class Corrected:
    """A corrected score over all answers, those that failed among them.

    `correction` is of the judged ones alone.
    """

    correction: Correction
    value: float | None
    low: float | None
    high: float | None
    judged: int
    n: int
    bounds: tuple[float, float]
    reason: str | None
    notes: tuple[str, ...] = field(default=())

    @property
    def impossible(self) -> bool:
        """Whether the value is off the scale."""
        return self.value is not None and not self.bounds[0] <= self.value <= self.bounds[1]

    @property
    def outside(self) -> bool:
        """Whether the value or a bound is off the scale."""
        figures = (self.value, self.low, self.high)
        return any(
            figure is not None and not self.bounds[0] <= figure <= self.bounds[1]
            for figure in figures
        )


def by_labels(metric: Metric, rows: Rows, answers: Answers) -> Corrected:
    """Correct a score by people's labels on a random sample of its answers.

    An answer whose judgement failed is in the population as well: in the place of its mark stands
    the mean of all others, which biases nothing.
    """
    labels = [_labels(name, row) for name, row in rows.items()]
    known = [n for n, name in enumerate(answers.names) if all(name in of_one for of_one in labels)]
    heard = [mark for mark in answers.marks if mark is not None]
    marks = np.array(
        [fmean(heard or [metric.lowest]) if mark is None else mark for mark in answers.marks]
    )
    others = [n for n in range(len(marks)) if n not in set(known)]
    people = np.array(
        [fmean(of_one[answers.names[n]] for of_one in labels) for n in known], dtype=np.float64
    )
    if reason := _why_no_sample(metric, rows, answers, known):
        return _whole(
            metric, _no_correction("ppi", len(known), reason), answers.clusters, answers.failed
        )
    bounds = (metric.lowest, metric.highest)
    correction = ppi(
        people,
        marks[known],
        marks[others],
        ([answers.clusters[n] for n in known], [answers.clusters[n] for n in others]),
        # On other scales 1 is a mark like any other: labels of nothing else make no share.
        interval="score" if bounds == (0.0, 1.0) and set(people) <= {0.0, 1.0} else "normal",
        bounds=bounds,
    )
    return _whole(metric, correction, answers.clusters, answers.failed)


def by_rates(metric: Metric, rows: Rows, answers: Answers) -> Corrected:
    """Correct a score by error rates from elsewhere.

    Answers whose judgement failed are left out of it.
    """
    row, *more = rows.values()
    judged = [
        (mark, cluster)
        for mark, cluster in zip(answers.marks, answers.clusters, strict=True)
        if mark is not None
    ]
    clusters = [cluster for _, cluster in judged]
    if more or row.scale is None or len(row.scale.values) != 2:
        reason = (
            "error rates carry over on scales of two values only: label a random sample of this run"
        )
        return _whole(metric, _no_correction("rogan_gladen", 0, reason), clusters, answers.failed)
    positive = row.scale.values[-1]
    pairs = [
        (item.mean, item.verdict == positive, item.cluster or item.item_id)
        for item in row.labelled
        if item.mean is not None and item.verdict is not None
    ]
    correction = clustered_rogan_gladen(
        [mark == metric.highest for mark, _ in judged],
        clusters,
        [mean for mean, _, _ in pairs],
        [verdict for _, verdict, _ in pairs],
        [f"label {cluster}" for _, _, cluster in pairs],
    )
    return _whole(metric, correction, clusters, answers.failed)


def _labels(name: str, row: RubricRow) -> dict[str, float]:
    """Return the means of people's labels of a rubric by the names of the answers."""
    suffix = f":{DIMENSION_OF[name]}" if name in DIMENSION_OF else ""
    return {
        item.item_id.removesuffix(suffix): item.mean
        for item in row.labelled
        if item.mean is not None
    }


def _why_no_sample(
    metric: Metric, rows: Rows, answers: Answers, known: Sequence[int]
) -> str | None:
    """Say what keeps labels on a sample of the answers from carrying a score.

    None where nothing does.
    """
    for name, row in rows.items():
        values = row.scale.values if row.scale is not None else ()
        numbers = [value for value in values if not isinstance(value, str)]
        ends = (
            (0.0, 1.0)
            if len(values) == 2
            else (min(numbers, default=0.0), max(numbers, default=0.0))
        )
        if ends != (metric.lowest, metric.highest):
            return f"the scale of the labels under {name} is not that of the score"
        labelled, drawn = len(_labels(name, row)), _drawn(row, answers.track)
        if labelled < WHOLE * drawn:
            return (
                f"{drawn - labelled} of {drawn} drawn answers have no label under {name}, and may "
                "differ: label them"
            )
    if not known:
        return "no answer has a label" + (
            f" under each of {', '.join(rows)}" if len(rows) > 1 else ""
        )
    return (
        f"labels on {len(known)} answers, fewer than {LEAST}: label more"
        if len(known) < LEAST
        else None
    )


def _drawn(row: RubricRow, track: str) -> int:
    found = row.sample.of(track) if row.sample is not None else None
    if found is None or row.sample is None:
        return 0
    # Labels of all tracks stand in one list.
    return row.sample.drawn if row.sample.tracks else found.drawn


def _no_correction(method: str, labelled: int, reason: str) -> Correction:
    nothing = Estimate(None, None, None, 0)
    known = "ppi" if method == "ppi" else "rogan_gladen"
    return Correction(known, nothing, None, None, None, labelled, reason=reason)  # type: ignore[arg-type]


def _whole(
    metric: Metric, correction: Correction, clusters: Sequence[str], failed: Sequence[str]
) -> Corrected:
    """Add the answers that failed.

    They are known to be worst, but how many fail is a matter of chance, too.
    """
    judged, bounds = len(clusters), (metric.lowest, metric.highest)
    n = judged + len(failed)
    mean, low, high = correction.value, correction.low, correction.high
    if mean is None:
        return Corrected(correction, None, None, None, judged, n, bounds, correction.reason)
    share = judged / n
    value = share * mean + (1 - share) * metric.lowest
    if low is None or high is None or (low == high and correction.labelled < judged):
        notes = ("all labels are alike: how far the score is from that can't be told",)
        return Corrected(correction, value, None, None, judged, n, bounds, None, notes)
    extra = quantile(0.95) * abs(mean - metric.lowest) * sqrt(_variance_of_share(clusters, failed))
    down, up = share * (mean - low), share * (high - mean)
    return Corrected(
        correction,
        value,
        value - hypot(down, extra),
        value + hypot(up, extra),
        judged,
        n,
        bounds,
        None,
    )


def _variance_of_share(clusters: Sequence[str], failed: Sequence[str]) -> float:
    """Return the clustered variance of the share of answers that did not fail."""
    if not failed:
        return 0.0
    heard = np.array([1.0] * len(clusters) + [0.0] * len(failed))
    share, n = float(heard.mean()), len(heard)
    found = clustered_variance((heard - share) / n, [*clusters, *failed])
    return share * (1 - share) / n if found is None else found


OFF = "off"
OTHER_ENDPOINT = "calibrated at another judge_api_base"
"""The one note that does not follow from what a submission publishes: addresses are left out of it.
"""


@dataclass(frozen=True)
class Chosen:
    """The calibrations that may be used for a judge, by rubric.

    For others of the same judge it holds why they may not.
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
    """Return the calibrations in the usual places; a broken one must not stop a run."""
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
    """Say where the verdicts of a run are of another model than its calibration."""
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
    """Return the name of a calibration.

    Of its folder, or of its file where that has a name of its own.
    """
    path = calibration.path.resolve()
    name = path.parent.name if path.name == "calibration.json" else path.stem
    return "".join(character if character.isprintable() else "?" for character in name)


def _hash(calibration: Calibration) -> str:
    return hashlib.sha256(calibration.path.read_bytes()).hexdigest()
