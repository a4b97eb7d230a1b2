"""Reviews by maintainers: the scores they refute, and the submissions they join to one history."""

from collections.abc import Mapping
from dataclasses import dataclass

from alps.leaderboard.submission import REFUTED, Review, Score, Submission
from alps.tasks import all_tracks

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
    refuted: list[Contradiction] = []
    for name, reviewed in review.tracks.items() if review is not None else ():
        if name not in card.tracks:
            continue
        for metric in all_tracks()[name].metrics:
            if not metric.headline or not same_judge(card, review, name, metric.name):
                continue
            submitted = card.tracks[name].scores.get(metric.name)
            again = reviewed.scores.get(metric.name)
            if submitted is None or submitted.value is None or again is None or again.value is None:
                continue
            if _apart(submitted.value, again.value, again, metric.highest - metric.lowest):
                refuted.append(Contradiction(name, metric.name, submitted.value, again.value))
    return refuted


def _apart(submitted: float, value: float, again: Score, scale: float) -> bool:
    distance = abs(submitted - value)
    if again.low is None or again.high is None:
        return distance > WITHOUT_INTERVAL * scale
    return distance > APART * scale and not again.low <= submitted <= again.high


def histories(links: Mapping[str, str | None]) -> dict[str, frozenset[str]]:
    """Return the submissions of the same history by the slug of each.

    A name and an organisation are free for all to take, and so is a folder; a review is not.

    Args:
        links: By slug, the earlier submission that its review says it continues.
    """
    joined = {slug: frozenset({slug}) for slug in links}
    for slug, earlier in links.items():
        if earlier in joined:
            together = joined[slug] | joined[earlier]
            joined |= dict.fromkeys(together, together)
    return joined
