"""Contradictions between a submission and a maintainer's review of it."""

from dataclasses import dataclass

from alps.leaderboard.submission import REFUTED, Review, Submission
from alps.tasks import Metric, all_tracks

# The share of a scale up to which two judgements of the same answers may differ, as judges do from
# day to day; and where no interval says how far the records let the score vary.
APART, WITHOUT_INTERVAL = 0.02, 0.05


@dataclass(frozen=True)
class Contradiction:
    """A submitted score that a maintainer did not reproduce under the same judge."""

    track: str
    metric: str
    submitted: float
    again: float

    def __str__(self) -> str:
        scores = f"submitted {self.submitted:.3f}, judged again {self.again:.3f}"
        return f"{self.track} {self.metric}: {scores}"


def same_judge(card: Submission, review: Review | None, track: str, metric: str) -> bool:
    """Tell whether a review has the track under the same judge, or the metric needs none."""
    if review is None or review.status not in ("re-scored", "reproduced", REFUTED):
        return False
    if track not in review.tracks or track not in card.tracks:
        return False
    fingerprint = review.tracks[track].judge_fingerprint
    unjudged = metric in all_tracks()[track].unjudged
    return unjudged or fingerprint == card.tracks[track].judge_fingerprint


def contradictions(card: Submission, review: Review | None) -> list[Contradiction]:
    """Return the headline scores that a review refutes.

    One is refuted where it lies outside the 95 % interval of the maintainer's, and more than
    `APART` of the scale away.
    """
    if review is None:
        return []
    refuted = []
    for name in review.tracks:
        for metric in all_tracks()[name].metrics:
            if metric.headline and same_judge(card, review, name, metric.name):
                refuted.append(_contradiction(card, review, name, metric))
    return list(filter(None, refuted))


def _contradiction(
    card: Submission, review: Review, name: str, metric: Metric
) -> Contradiction | None:
    submitted = card.tracks[name].scores.get(metric.name)
    again = review.tracks[name].scores.get(metric.name)
    if submitted is None or submitted.value is None or again is None or again.value is None:
        return None
    distance, scale = abs(submitted.value - again.value), metric.highest - metric.lowest
    apart = distance > WITHOUT_INTERVAL * scale
    if again.low is not None and again.high is not None:
        apart = distance > APART * scale and not again.low <= submitted.value <= again.high
    return Contradiction(name, metric.name, submitted.value, again.value) if apart else None
