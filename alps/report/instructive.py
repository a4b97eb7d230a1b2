"""The records of a run that teach most about it, chosen by a rule that is printed beside them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from alps.jsonl import Row
from alps.report.record import state_of
from alps.report.runs import Key
from alps.schema import FAILURES

LIMIT = 20
Rank = tuple[float, ...] | None
"""Where an answer stands in a group: the larger, the earlier; None where it does not belong."""


@dataclass(frozen=True)
class Answer:
    """What the choice goes by: what became of an answer, and its counts."""

    key: Key
    state: str
    score: Row

    def count(self, name: str) -> int:
        """Return one of the counts of its score."""
        return int(self.score.get("counts", {}).get(name, 0))


@dataclass(frozen=True)
class Group:
    """One kind of instructive record.

    Attributes:
        title: What they are.
        quota: How many of them at most, before places that other groups leave empty are given out.
        rank: Where an answer stands in it.
    """

    title: str
    quota: int
    rank: Callable[[Answer], Rank]


def _failed(answer: Answer) -> Rank:
    return () if answer.state in FAILURES else None


def _judgement_failed(answer: Answer) -> Rank:
    return () if answer.state.startswith("judge:") and answer.state != "judge:no_gold" else None


def _nothing_found(answer: Answer) -> Rank:
    gold, matched = answer.count("gold"), answer.count("matched")
    return (gold,) if answer.state in ("ok", "mended") and gold and not matched else None


def _extras(answer: Answer) -> Rank:
    extras = answer.count("predicted") - answer.count("matched")
    return (extras,) if answer.state in ("ok", "mended") and extras > 0 else None


def _mended(answer: Answer) -> Rank:
    return () if answer.state == "mended" else None


def _best(answer: Answer) -> Rank:
    gold, predicted, matched = (answer.count(name) for name in ("gold", "predicted", "matched"))
    if not matched or answer.state not in ("ok", "mended"):
        return None
    return 2 * matched / (gold + predicted), gold


GROUPS = (
    Group("heard, and failed", 5, _failed),
    Group("the judgement failed", 2, _judgement_failed),
    Group("the most gold memories, and none of them found", 5, _nothing_found),
    Group("the most predictions beyond the gold", 3, _extras),
    Group("mended before they could be read", 3, _mended),
    Group("the best answers", 2, _best),
)


def rule() -> str:
    """Return the rule in words."""
    quotas = "; ".join(f"{group.title} (up to {group.quota})" for group in GROUPS)
    return (
        f"At most {LIMIT}, each under one heading, in this order: {quotas}. Places that stay empty are given out again "
        "in the same order; ties go by the order of the data."
    )


def choose(scores: Mapping[Key, Row], predictions: Mapping[Key, Row]) -> list[tuple[Group, list[Key]]]:
    """Choose the instructive records of a run by `GROUPS`; groups without any are left out."""
    answers = [Answer(key, state_of(row, predictions.get(key)), row) for key, row in scores.items()]
    ranked = [_ranked(answers, group) for group in GROUPS]
    taken: dict[Key, int] = {}
    for fill_up in (False, True):
        for position, (group, keys) in enumerate(zip(GROUPS, ranked, strict=True)):
            waiting = [key for key in keys if key not in taken]
            room = LIMIT - len(taken)
            for key in waiting[: room if fill_up else min(room, group.quota)]:
                taken[key] = position
    chosen = [
        (group, [key for key in keys if taken.get(key) == position])
        for position, (group, keys) in enumerate(zip(GROUPS, ranked, strict=True))
    ]
    return [(group, keys) for group, keys in chosen if keys]


def _ranked(answers: Sequence[Answer], group: Group) -> list[Key]:
    """Return the answers that belong to a group, the most telling first; ties keep the order of the data."""
    belonging = [(rank, answer.key) for answer in answers if (rank := group.rank(answer)) is not None]
    return [key for _, key in sorted(belonging, key=lambda pair: pair[0], reverse=True)]
