"""What a maintainer's second judgement says of the submitted scores: it stands for them, or refutes
them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from alps.leaderboard.samples import tasks
from alps.leaderboard.submission import NO_JUDGE, REFUTED, Review, Score, Submission

APART = 0.02
"""The share of a scale up to which two judgements of the same answers may differ, as judges do from
day to day.
"""
WITHOUT_INTERVAL = 0.05
"""The same where no interval says how far the records let the score vary."""
JUDGED = ("re-scored", "reproduced", REFUTED)
"""Statuses of a review that holds scores."""


@dataclass(frozen=True)
class Contradiction:
    """A submitted score that a maintainer did not find under the same judge."""

    track: str
    metric: str
    submitted: float
    again: float

    def __str__(self) -> str:
        return f"{self.track} {self.metric}: submitted {self.submitted:.3f}, judged again {self.again:.3f}"


def same_judge(card: Submission, review: Review | None, track: str, metric: str) -> bool:
    """Tell whether a review judged a track under the submission's own judge, or the metric needs
    none.
    """
    if (
        review is None
        or review.status not in JUDGED
        or track not in review.tracks
        or track not in card.tracks
    ):
        return False
    found = review.tracks[track].judge_fingerprint
    return metric in NO_JUDGE or found == card.tracks[track].judge_fingerprint


def contradictions(card: Submission, review: Review | None) -> list[Contradiction]:
    """Return the headline scores that a review refutes.

    One is refuted where it lies outside the 95 % interval of the maintainer's, and more than
    `APART` of the scale away.
    """
    return list(_contradictions(card, review)) if review is not None else []


def _contradictions(card: Submission, review: Review) -> Iterator[Contradiction]:
    for name, seen in review.tracks.items():
        if name not in card.tracks:
            continue
        for metric in tasks()[name].metrics:
            submitted, again = (
                card.tracks[name].scores.get(metric.name),
                seen.scores.get(metric.name),
            )
            if not metric.headline or submitted is None or again is None or submitted.value is None:
                continue
            scale = metric.highest - metric.lowest
            if same_judge(card, review, name, metric.name) and _apart(
                submitted.value, again, scale
            ):
                assert again.value is not None
                yield Contradiction(name, metric.name, submitted.value, again.value)


def _apart(submitted: float, again: Score, scale: float) -> bool:
    if again.value is None:
        return False
    distance = abs(submitted - again.value)
    if again.low is None or again.high is None:
        return distance > WITHOUT_INTERVAL * scale
    return distance > APART * scale and not again.low <= submitted <= again.high
