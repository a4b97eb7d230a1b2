"""One score corrected, from the marks of its answers and the labels of a calibration.

Where the labelled items are a random sample of the very answers, people's labels carry the
estimate, and the judge's marks of the others make it sharper (PPI++). Else the judge's error rates
are carried over (Rogan and Gladen).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot, sqrt
from statistics import fmean

import numpy as np

from alps.judges.asking import DIMENSION_OF
from alps.judges.calibration_file import RubricRow
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
            return f"{drawn - labelled} of {drawn} drawn answers have no label under {name}, and may differ: label them"
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
    """Add the answers that failed: they are known to be worst, but how many fail is a matter of
    chance, too.
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
