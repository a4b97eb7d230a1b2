"""Groups of instructive records: what a reader of a run should look at first.

A task lists its own groups, and ranks answers by their counts and scores.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from alps.schema import FAILURES

Rank = tuple[float, ...] | None
"""Where an answer stands in a group: the larger, the earlier; None where it does not belong."""


@dataclass(frozen=True)
class ScoredAnswer:
    """One answer of a run: its outcome in a word, and the row of its score."""

    state: str
    score: Mapping[str, Any]

    def count(self, name: str) -> int:
        """Return one of the counts of its score."""
        return int(self.score.get("counts", {}).get(name, 0))

    def value(self, metric: str) -> float | None:
        """Return one of its scores, None where it is not defined for it."""
        value: float | None = self.score.get("scores", {}).get(metric)
        return value

    @property
    def judged(self) -> bool:
        """Whether it was answered and judged."""
        return self.state in ("ok", "repaired")


@dataclass(frozen=True)
class Highlight:
    """One group of instructive records.

    Attributes:
        title: What they are.
        quota: How many of them at most, before places that other groups leave empty are given out.
        rank: Where an answer stands in it.
    """

    title: str
    quota: int
    rank: Callable[[ScoredAnswer], Rank]


def _failed(answer: ScoredAnswer) -> Rank:
    return () if answer.state in FAILURES else None


def _judgement_failed(answer: ScoredAnswer) -> Rank:
    return () if answer.state.startswith("judge:") and answer.state != "judge:no_gold" else None


def _repaired(answer: ScoredAnswer) -> Rank:
    return () if answer.state == "repaired" else None


FAILED = Highlight("invalid responses", 5, _failed)
JUDGEMENT_FAILED = Highlight("the judgement failed", 2, _judgement_failed)
REPAIRED = Highlight("repaired before they could be read", 3, _repaired)
OF_ANY_TASK = (
    Highlight(FAILED.title, 10, _failed),
    Highlight(JUDGEMENT_FAILED.title, 5, _judgement_failed),
    Highlight(REPAIRED.title, 5, _repaired),
)
