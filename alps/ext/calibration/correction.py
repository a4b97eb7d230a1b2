"""Scores corrected for a judge's errors by a calibration, and which calibration corrects which.

A calibration corrects the metrics that are means of the marks of one rubric, or of several
together. Of several that fit, the one whose items were drawn from the very answers that are scored
comes first, then the newest.

Where the labelled items are a random sample of the very answers, people's labels carry the
estimate, and the judge's marks of the others make it sharper (PPI++). Else the judge's error rates
are carried over (Rogan and Gladen).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from math import hypot, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from alps.errors import AlpsError, UsageError
from alps.ext.audits.corrections import Correction, Method, clustered_rogan_gladen, ppi
from alps.ext.audits.intervals import Z
from alps.ext.calibration import OFF
from alps.ext.calibration.calibration_file import (
    Calibration,
    RubricRow,
    calibration_files,
    differing_part,
    read_calibration,
)
from alps.ext.calibration.judge_of_run import JudgeCall, asked_in, hash_of, population_hash
from alps.folders import typed_path
from alps.judges.base import Identified
from alps.judges.rubric import MATCHING, Rubric, labelled_as
from alps.rows import Corrected, Summary
from alps.run.opened import read_rows
from alps.run.source import RunData, TrackData
from alps.show.formatting import counted
from alps.stats.bootstrap import Estimate, clustered_variance
from alps.tasks import Metric
from alps.tasks.base import rubrics_of

# The one note that does not follow from what a submission publishes: addresses are left out of it.
OTHER_ENDPOINT = "calibrated at another judge_api_base"
# Labels under which a sample is not corrected by: intervals of fewer cover less often than they
# say.
LEAST = 10
# How much of a sample must be labelled: what people leave out is not what they would leave out at
# random.
WHOLE = 0.95

Rows = Mapping[str, RubricRow]
# The scores of the answers of a track, by record and repeat.
Scores = Mapping[tuple[str, int], Mapping[str, float]]


@dataclass(frozen=True)
class Chosen:
    """The calibrations that may be used for a judge, by rubric, and why others of it may not."""

    by_rubric: Mapping[str, Sequence[Calibration]]
    refused: tuple[str, ...] = ()
    api_base: str | None = None


@dataclass(frozen=True)
class JudgedAnswers:
    """The answers of one track that a judge was asked about, in columns.

    Attributes:
        names: As the items drawn from them are called.
        marks: In units of the score; None where judging failed.
        clusters: The session of each.
        failed: The sessions of the answers that failed, and count as the worst without being
            judged.
    """

    track: str
    names: Sequence[str]
    marks: Sequence[float | None]
    clusters: Sequence[str]
    failed: Sequence[str]


def choose(
    given: str | None, judge: Identified, data: RunData, *, today: date, api_base: str | None = None
) -> Chosen:
    """Find the calibrations of `judge` for the rubrics that the metrics of `data` are means of.

    Args:
        given: A calibration that must fit, `off`, or None for those that are known.
        judge: Whose verdicts are to be corrected.
        data: What is scored.
        today: The day on which a calibration must not have expired.
        api_base: The endpoint of the judge.

    Raises:
        UsageError: If the given one fits none of the rubrics: names the part that differs.
        DataError: If the given one can't be read.
    """
    used: set[str] = set()
    for task in data.tasks:
        used.update(*(metric.rubrics for metric in task.metrics))
    rubrics = sorted(used)
    if given == OFF or (given is None and not rubrics):
        return Chosen({})
    own = rubrics_of(data.tasks)
    refused: dict[str, None] = {}
    candidates = _known(refused) if given is None else [read_calibration(typed_path(given))]
    chosen: dict[str, list[Calibration]] = {}
    for name in rubrics:
        for calibration in candidates:
            why = differing_part(calibration, judge, name, today=today, own=own)
            if why is None:
                chosen.setdefault(name, []).append(calibration)
            elif calibration.judge == judge.name and name in calibration.rubrics:
                refused[f"{_name(calibration)}: {why}"] = None
    if given is not None and not chosen:
        raise _no_fit(candidates[0], judge, rubrics, given=given, today=today, own=own)
    return Chosen(chosen, tuple(refused), api_base)


def _no_fit(
    calibration: Calibration,
    judge: Identified,
    rubrics: Sequence[str],
    *,
    given: str,
    today: date,
    own: Iterable[Rubric],
) -> UsageError:
    if not rubrics:
        what = "F1" if any(one.name == MATCHING for one in own) else "scores of these tasks"
        message = f"a calibration cannot correct {what}; use audit_labels=DIR or audit_judge=MODEL"
        return UsageError(f"calibration={given}: {message}")
    rubric = next((name for name in rubrics if name in calibration.rubrics), rubrics[0])
    why = differing_part(calibration, judge, rubric, today=today, own=own)
    # Such as where `out=` has a run judged again, by the default judge.
    other = f"set judge={calibration.judge}, or " if calibration.judge != judge.name else ""
    return UsageError(
        f"calibration={given} does not apply to this judge and these tasks: {why}; "
        f"{other}calibrate again"
    )


def _known(unreadable: dict[str, None]) -> list[Calibration]:
    """Return the calibrations of the known folders; a broken one must not stop a run."""
    known = []
    for path in calibration_files():
        try:
            known.append(read_calibration(path))
        except (AlpsError, OSError) as error:
            unreadable[str(error)] = None
    return known


def with_corrections(summary: Summary, run: Path, data: RunData, chosen: Chosen) -> Summary:
    """Return a summary with corrected scores next to the raw ones.

    `not_calibrated` names the calibrations that could not be used, and why.

    Raises:
        RunFolderError: If a prediction of the run can't be read.
        DataError: If the data can't be read.
    """
    tracks = dict(summary.tracks)
    for name, metrics in corrected_scores(run, data, chosen).items():
        scores = dict(tracks[name].scores)
        for metric, corrected in metrics.items():
            if metric in scores and scores[metric].unscored is None:
                scores[metric] = scores[metric].model_copy(update={"corrected": corrected})
        tracks[name] = tracks[name].model_copy(update={"scores": scores})
    own: dict[str, Any] = {"tracks": tracks}
    if chosen.refused:
        own["not_calibrated"] = list(chosen.refused)
    if changes := _served_otherwise(summary, chosen):
        own["calibrated_otherwise"] = changes
    return summary.model_copy(update=own)


def _served_otherwise(summary: Summary, chosen: Chosen) -> list[str]:
    """Return where another model gave the verdicts than in the calibration that corrects them."""
    now = sorted({one.model for one in summary.served.get("judge", ()) if one.model})
    used: dict[Path, Calibration] = {}
    for calibrations in chosen.by_rubric.values():
        used |= {calibration.path: calibration for calibration in calibrations}
    changes = []
    for path, calibration in sorted(used.items()):
        then = sorted({row.model for row in calibration.served.get("judge", ()) if row.model})
        # A fingerprint has the name that was asked for; an alias may lead to another model by now.
        if then and now and then != now:
            models = f"was {', '.join(then)} in {path} and is now {', '.join(now)}"
            changes.append(f"{summary.judge} {models}")
    return changes


def corrected_scores(run: Path, data: RunData, chosen: Chosen) -> dict[str, dict[str, Corrected]]:
    """Return, by track and metric, the corrected scores of a finished run.

    Raises:
        RunFolderError: If a prediction of the run can't be read.
        DataError: If the data can't be read.
    """
    if not chosen.by_rubric:
        return {}
    asked: dict[str, list[JudgeCall]] = {}
    for question in asked_in(run, data):
        asked.setdefault(question.track, []).append(question)
    scores: dict[str, dict[tuple[str, int], Mapping[str, float]]] = {}
    for key, row in read_rows(run / "scores.jsonl").items():
        scores.setdefault(key.track, {})[key.id, key.repeat] = row["scores"]
    corrected: dict[str, dict[str, Corrected]] = {}
    for track in data.tracks:
        name = track.task.track
        for metric in track.task.metrics:
            if not metric.rubrics or not chosen.by_rubric.keys() >= set(metric.rubrics):
                continue
            corrected_metric = _corrected(
                metric, track, asked.get(name, ()), scores.get(name, {}), chosen
            )
            if corrected_metric is not None:
                corrected.setdefault(name, {})[metric.name] = corrected_metric
    return corrected


def _corrected(
    metric: Metric, track: TrackData, asked: Sequence[JudgeCall], scores: Scores, chosen: Chosen
) -> Corrected | None:
    """Correct a metric by labels on its very answers, where there are any, else by error rates."""
    labelled = set(metric.rubrics)
    asked = [question for question in asked if not labelled.isdisjoint(question.by.labels)]
    population = population_hash(question.about for question in asked)
    answers = _answers(metric, track, asked, scores)
    if not answers.names:
        return None
    drawn_from: dict[str, Calibration] = {}
    newest: dict[str, Calibration] = {}
    for rubric in metric.rubrics:
        calibrations = chosen.by_rubric[rubric]
        sampled = _sampled(track.task.track, population, rubric, calibrations)
        if sampled is not None:
            drawn_from[rubric] = sampled
        newest[rubric] = max(calibrations, key=partial(_newness, rubric=rubric))
    # All rubrics or none: the labels that make up a mean have to be on the same answers.
    used, correct = newest, by_rates
    if len(drawn_from) == len(newest):
        used, correct = drawn_from, by_labels
    rows = {rubric: one.rubrics[rubric] for rubric, one in used.items()}
    return _row(metric, correct(metric, rows, answers), answers.failed, used, chosen)


def _sampled(
    track: str, population: str, rubric: str, calibrations: Sequence[Calibration]
) -> Calibration | None:
    """Return the newest calibration whose items were drawn at random from these very answers."""
    fitting = []
    for calibration in calibrations:
        sample = calibration.rubrics[rubric].sample
        drawn = sample.of(track) if sample is not None else None
        # By the hash of the answers: ids alone would also fit other answers to the same questions.
        if drawn is not None and drawn.predictions == population:
            fitting.append(calibration)
    return max(fitting, key=partial(_newness, rubric=rubric), default=None)


def _newness(calibration: Calibration, rubric: str) -> tuple[str, int]:
    """Return the day, and how many items have labels: of one day the one with most comes last."""
    labelled = [item for item in calibration.rubrics[rubric].labelled if item.mean is not None]
    return calibration.made or "", len(labelled)


def _answers(
    metric: Metric, track: TrackData, asked: Sequence[JudgeCall], scores: Scores
) -> JudgedAnswers:
    """Lay out the answers whose marks make up the metric."""
    # Of a rubric in one language: the answers in the other one are no part of it.
    of_language = any(metric.name.startswith(f"{question.rubric}_") for question in asked)
    sessions = {sample.benchmark_id: sample.session_id for sample in track.samples()}
    names: list[str] = []
    marks: list[float | None] = []
    clusters: list[str] = []
    judged: set[tuple[str, int]] = set()
    for question in asked:
        place = question.about.benchmark_id, question.about.repeat
        judged.add(place)
        mark = scores.get(place, {}).get(metric.name)
        if mark is not None or not of_language:
            names.append(question.name)
            marks.append(mark)
            clusters.append(question.cluster)
    failed: list[str] = []
    for place, row in scores.items():
        if metric.name in row and place not in judged:
            failed.append(sessions.get(place[0], place[0]))
    return JudgedAnswers(track.task.track, names, marks, clusters, failed)


def _row(
    metric: Metric,
    corrected: tuple[Correction, Sequence[str]],
    failed: Sequence[str],
    calibrations: Mapping[str, Calibration],
    chosen: Chosen,
) -> Corrected:
    correction, clusters = corrected
    whole = _whole(metric, correction, clusters, failed)
    notes = []
    if whole.value is not None and whole.low is None:
        notes.append("all labels agree, so the error of the score is unknown")
    notes += _doubts(calibrations, chosen, correction.method)
    # What only some corrections have is set in those alone: the files of others lack it.
    own: dict[str, Any] = {}
    if correction.youden is not None:
        own["youden"] = asdict(correction.youden)
    if correction.reason:
        own["reason"] = correction.reason
    off_scale = []
    for figure in (whole.value, whole.low, whole.high):
        off_scale.append(figure is not None and not metric.lowest <= figure <= metric.highest)
    return Corrected(
        method=correction.method,
        status="not_correctable" if whole.value is None else "corrected",
        value=whole.value,
        low=whole.low,
        high=whole.high,
        labelled=correction.labelled,
        judged=len(clusters),
        n=whole.n,
        outside=any(off_scale),
        impossible=off_scale[0],
        calibration={_name(one): hash_of(one.path) for one in calibrations.values()},
        notes=list(dict.fromkeys(notes)),
        **own,
    )


def _doubts(calibrations: Mapping[str, Calibration], chosen: Chosen, method: str) -> list[str]:
    """Return what makes a correction doubtful without forbidding it."""
    notes = []
    for rubric, calibration in calibrations.items():
        if calibration.rubrics[rubric].verdict == "fail":
            notes.append(f"the judge failed its calibration under {rubric}")
        people = calibration.rubrics[rubric].people_kappa
        if people is not None and people.value is not None and people.value <= 0:
            notes.append(f"under {rubric}, people agree with each other no better than by chance")
        if method == "rogan_gladen" and calibration.rubrics[rubric].uneven:
            # Only rates that are carried over assume the judge to be as good on every system.
            notes.append(f"under {rubric}, the judge is not equally good on every system")
        if calibration.api_base != chosen.api_base:
            notes.append(OTHER_ENDPOINT)
    return notes


def _name(calibration: Calibration) -> str:
    """Return the name of the folder of a calibration, or of a file that has a name of its own."""
    path = calibration.path.resolve()
    name = path.parent.name if path.name == "calibration.json" else path.stem
    return "".join(character if character.isprintable() else "?" for character in name)


def by_labels(
    metric: Metric, rows: Rows, answers: JudgedAnswers
) -> tuple[Correction, Sequence[str]]:
    """Correct a score by people's labels on a random sample of its answers.

    The second is what each of the corrected answers belongs to.

    An answer whose judgement failed is in the population as well: in the place of its mark is the
    mean of all others, which biases nothing.
    """
    labels = [_labels(name, row) for name, row in rows.items()]
    known = []
    for n, name in enumerate(answers.names):
        if all(name in of_one for of_one in labels):
            known.append(n)
    if reason := _why_no_sample(metric, rows, answers, known):
        return _not_correctable("ppi", reason, labelled=len(known)), answers.clusters
    judged = [mark for mark in answers.marks if mark is not None]
    mean = fmean(judged or [metric.lowest])  # a constant that people's labels make up for
    marks = np.array([mean if mark is None else mark for mark in answers.marks])
    others = sorted(set(range(len(marks))) - set(known))
    means = [fmean(of_one[answers.names[n]] for of_one in labels) for n in known]
    people = np.array(means, dtype=np.float64)
    bounds = (metric.lowest, metric.highest)
    of_known = [answers.clusters[n] for n in known]
    of_others = [answers.clusters[n] for n in others]
    correction = ppi(
        people,
        marks[known],
        marks[others],
        (of_known, of_others),
        # On other scales 1 is a mark like any other: labels of nothing else make no share.
        interval="score" if bounds == (0.0, 1.0) and set(people) <= {0.0, 1.0} else "normal",
        bounds=bounds,
    )
    return correction, answers.clusters


def by_rates(
    metric: Metric, rows: Rows, answers: JudgedAnswers
) -> tuple[Correction, Sequence[str]]:
    """Correct a score by error rates from elsewhere; returns what `by_labels` does.

    Answers whose judgement failed are left out of it.
    """
    row, *more = rows.values()
    judged = [n for n, mark in enumerate(answers.marks) if mark is not None]
    clusters = [answers.clusters[n] for n in judged]
    if more or row.scale is None or len(row.scale.values) != 2:
        reason = "error rates need a two-value scale; label a random sample of this run instead"
        return _not_correctable("rogan_gladen", reason), clusters
    positive = row.scale.values[-1]
    people, verdicts, label_clusters = [], [], []
    for item in row.labelled:
        if item.mean is not None and item.verdict is not None:
            people.append(item.mean)
            verdicts.append(item.verdict == positive)
            # Other people than those of the run, even where their names are the same.
            label_clusters.append(f"label {item.cluster or item.item_id}")
    correction = clustered_rogan_gladen(
        [answers.marks[n] == metric.highest for n in judged],
        clusters,
        people,
        verdicts,
        label_clusters,
    )
    return correction, clusters


def _labels(name: str, row: RubricRow) -> dict[str, float]:
    """Return the means of people's labels of a rubric by the names of the answers."""
    by = labelled_as(name)
    suffix = by.part(name) if by is not None else ""
    labels = {}
    for item in row.labelled:
        if item.mean is not None:
            labels[item.item_id.removesuffix(suffix)] = item.mean
    return labels


def _why_no_sample(
    metric: Metric, rows: Rows, answers: JudgedAnswers, known: Sequence[int]
) -> str | None:
    """Return why labels on a sample of the answers can't carry a score; None if they can."""
    for name, row in rows.items():
        # People may have rated on a scale of their own, from 0 to 100 say.
        if row.ends != (metric.lowest, metric.highest):
            return f"the labels under {name} and the score have different scales"
        labelled, drawn = len(_labels(name, row)), _drawn(row, answers.track)
        if labelled < WHOLE * drawn:
            missing = f"{drawn - labelled} of {drawn} drawn answers have no label under {name}"
            return f"{missing}, and such answers may differ from the others; label them"
    if not known:
        under = f" under all of {', '.join(rows)}" if len(rows) > 1 else ""
        return f"no answer is labelled{under}"
    if len(known) < LEAST:
        return f"only {counted(len(known), 'labelled answer')}; label at least {LEAST}"
    return None


def _drawn(row: RubricRow, track: str) -> int:
    drawn = row.sample.of(track) if row.sample is not None else None
    if drawn is None or row.sample is None:
        return 0
    # Labels of all tracks are in one list.
    return row.sample.drawn if row.sample.tracks else drawn.drawn


def _not_correctable(method: Method, reason: str, *, labelled: int = 0) -> Correction:
    nothing = Estimate(None, None, None, 0)
    return Correction(method, nothing, None, None, None, labelled, reason=reason)


def _whole(
    metric: Metric, correction: Correction, clusters: Sequence[str], failed: Sequence[str]
) -> Estimate:
    """Add the answers that failed: known to be worst, though how many fail is chance, too."""
    judged = len(clusters)
    n = judged + len(failed)
    mean, low, high = correction.value, correction.low, correction.high
    if mean is None:
        return Estimate(None, None, None, n)
    share = judged / n
    value = share * mean + (1 - share) * metric.lowest
    if low is None or high is None or (low == high and correction.labelled < judged):
        return Estimate(value, None, None, n)
    extra = Z * abs(mean - metric.lowest) * sqrt(_variance_of_share(clusters, failed))
    lowest = value - hypot(share * (mean - low), extra)
    highest = value + hypot(share * (high - mean), extra)
    return Estimate(value, lowest, highest, n)


def _variance_of_share(clusters: Sequence[str], failed: Sequence[str]) -> float:
    """Return the clustered variance of the share of answers that did not fail."""
    if not failed:
        return 0.0
    judged = np.array([1.0] * len(clusters) + [0.0] * len(failed))
    share, n = float(judged.mean()), len(judged)
    variance = clustered_variance((judged - share) / n, [*clusters, *failed])
    return share * (1 - share) / n if variance is None else variance
