"""The records of a run that teach most about it, chosen by a rule that is printed beside them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from alps.jsonl import Row
from alps.report.dialogue import Dialogue, Piece, excerpt
from alps.report.record import RecordView, build_view, state_of
from alps.report.record_parts import Part
from alps.report.runs import Key, Run, Samples, read_wanted
from alps.schema import FAILURES

LIMIT = 20


_LOW = 0.5


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

    def figure(self, name: str) -> float | None:
        """Return one of its scores, None where it is not defined for it."""
        found: float | None = self.score.get("scores", {}).get(name)
        return found

    @property
    def judged(self) -> bool:
        """Whether it was answered and judged."""
        return self.state in ("ok", "repaired")

    @property
    def rating(self) -> float | None:
        """What a rubric gave it as a share of its scale, in [0, 1]; None where nothing rated it."""
        scores = self.score.get("scores", {})
        if "ei" in scores:
            return (float(scores["ei"]) - 1) / 4
        return self.figure(str(self.score.get("rubric")))

    @property
    def named(self) -> float:
        """How much of the target memory's words stand in it, in [0, 1]."""
        return float(self.score.get("grounding") or 0.0)


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
    return (gold,) if answer.judged and gold and not matched else None


def _extras(answer: Answer) -> Rank:
    extras = answer.count("predicted") - answer.count("matched")
    return (extras,) if answer.judged and extras > 0 else None


def _repaired(answer: Answer) -> Rank:
    return () if answer.state == "repaired" else None


def _best(answer: Answer) -> Rank:
    gold, predicted, matched = (answer.count(name) for name in ("gold", "predicted", "matched"))
    if not matched or not answer.judged:
        return None
    return 2 * matched / (gold + predicted), gold


def _kept(answer: Answer) -> Rank:
    kept = answer.count("kept_gone")
    return (kept,) if answer.judged and kept else None


def _no_change_found(answer: Answer) -> Rank:
    changed = answer.count("gold_add") + answer.count("gold_modify")
    return (changed,) if answer.judged and changed and not answer.figure("f1_changed") else None


def _damaged(answer: Answer) -> Rank:
    damaged = answer.count("lost") + answer.count("rewritten")
    return (damaged,) if answer.judged and damaged else None


def _best_changed(answer: Answer) -> Rank:
    found = answer.figure("f1_changed")
    return (found, answer.count("gold")) if answer.judged and found else None


def _wrong_choice(answer: Answer) -> Rank:
    wrong = answer.judged and answer.figure("recall_at_1") == 0
    return (-(answer.figure("mrr") or 0.0), answer.count("candidates")) if wrong else None


def _unused(answer: Answer) -> Rank:
    right = answer.judged and answer.figure("recall_at_1") == 1
    return () if right and answer.figure("memory_used") == 0 else None


def _right_choice(answer: Answer) -> Rank:
    right = answer.judged and answer.figure("recall_at_1") == 1
    return (answer.figure("memory_used") or 0.0,) if right else None


def _overruled(answer: Answer) -> Rank:
    return () if answer.judged and answer.count("enforced") else None


def _grounded_and_low(answer: Answer) -> Rank:
    low = answer.judged and answer.rating == 0
    return (answer.named,) if low and answer.named else None


def _low(answer: Answer) -> Rank:
    rating = answer.rating
    if not answer.judged or rating is None or rating > _LOW:
        return None
    return -rating, -answer.named


def _high(answer: Answer) -> Rank:
    if not answer.judged or answer.rating is None or answer.rating <= _LOW:
        return None
    return answer.rating, answer.named


def _unrated(answer: Answer) -> Rank:
    return () if answer.state == "unrated" else None


_FAILED = Group("invalid responses", 5, _failed)


_UNJUDGED = Group("the judgement failed", 2, _judgement_failed)


GROUPS: Mapping[str, tuple[Group, ...]] = {
    "extraction": (
        _FAILED,
        _UNJUDGED,
        Group("the most gold memories, and none of them found", 5, _nothing_found),
        Group("the most predictions beyond the gold", 3, _extras),
        Group("repaired before they could be read", 3, _repaired),
        Group("the best answers", 2, _best),
    ),
    "update": (
        _FAILED,
        _UNJUDGED,
        Group("the most old memories kept that should be gone", 4, _kept),
        Group("the most changes, and none of them found", 4, _no_change_found),
        Group("the most retained memories lost or rewritten", 3, _damaged),
        Group("the best answers, by what changed", 2, _best_changed),
    ),
    "retrieval": (
        _FAILED,
        _UNJUDGED,
        Group("the wrong memory, the gold lowest in the ranking", 7, _wrong_choice),
        Group("the right memory, not used in the answer", 4, _unused),
        Group("the right memory", 2, _right_choice),
    ),
    "utilization": (
        _FAILED,
        _UNJUDGED,
        Group("overruled by a hard rule", 3, _overruled),
        Group("the worst mark, though the words of the memory are there", 3, _grounded_and_low),
        Group("the lowest marks", 3, _low),
        Group("the best answers", 2, _high),
        Group("not rated", 2, _unrated),
    ),
}


"""The groups of each task, in the order of the page."""


_OF_ANY_TASK = (
    Group("invalid responses", 10, _failed),
    Group("the judgement failed", 5, _judgement_failed),
    Group("repaired before they could be read", 5, _repaired),
)


def rule(task: str) -> str:
    """Return the rule of a task in words."""
    quotas = "; ".join(
        f"{group.title} (up to {group.quota})" for group in GROUPS.get(task, _OF_ANY_TASK)
    )
    return (
        f"At most {LIMIT}, each under one heading, in this order: {quotas}. Places that stay empty "
        "are given out again in the same order; ties go by the order of the data."
    )


def choose(
    task: str, scores: Mapping[Key, Row], predictions: Mapping[Key, Row]
) -> list[tuple[Group, list[Key]]]:
    """Choose the instructive records of a track of `task` by `GROUPS`.

    Groups without any are left out.
    """
    groups = GROUPS.get(task, _OF_ANY_TASK)
    answers = [Answer(key, state_of(row, predictions.get(key)), row) for key, row in scores.items()]
    ranked = [_ranked(answers, group) for group in groups]
    taken: dict[Key, int] = {}
    for fill_up in (False, True):
        for position, (group, keys) in enumerate(zip(groups, ranked, strict=True)):
            waiting = [key for key in keys if key not in taken]
            room = LIMIT - len(taken)
            for key in waiting[: room if fill_up else min(room, group.quota)]:
                taken[key] = position
    chosen = [
        (group, [key for key in keys if taken.get(key) == position])
        for position, (group, keys) in enumerate(zip(groups, ranked, strict=True))
    ]
    return [(group, keys) for group, keys in chosen if keys]


def _ranked(answers: Sequence[Answer], group: Group) -> list[Key]:
    """Return the answers that belong to a group, the most telling first.

    Ties keep the order of the data.
    """
    belonging = [
        (rank, answer.key) for answer in answers if (rank := group.rank(answer)) is not None
    ]
    return [key for _, key in sorted(belonging, key=lambda pair: pair[0], reverse=True)]


FOLDED_TURN = 280


@dataclass(frozen=True)
class TurnView:
    """A turn of an excerpt; `skipped` turns before it are not shown."""

    place: int
    role: str
    pieces: list[Piece]
    skipped: int


@dataclass(frozen=True)
class ShownPart:
    """A part of a record.

    Of a dialogue, the turns that are shown, and how many more there are at its end.
    """

    kind: str
    part: Part
    turns: list[TurnView]
    skipped_after: int


@dataclass(frozen=True)
class RecordCard:
    """A record as it stands on the page.

    `bare` is one of which nothing but a dialogue can be shown.
    """

    view: RecordView
    parts: list[ShownPart]
    bare: bool


def cards(
    run: Run, track: str, scores: Mapping[Key, Row], predictions: Mapping[Key, Row]
) -> tuple[list[tuple[str, list[RecordCard]]], Samples]:
    """Choose the instructive records of a track, and find their samples again."""
    task = run.tasks[track].name
    chosen = choose(task, scores, predictions)
    samples = read_wanted(run, track, {key.id for _, keys in chosen for key in keys})
    verdicts = run.rows("verdicts")

    def card(key: Key) -> RecordCard:
        view = build_view(
            key,
            task=task,
            sample=samples.by_id.get(key.id),
            prediction=predictions.get(key),
            verdict=verdicts.get(key),
            score=scores[key],
        )
        return record_card(view)

    return [(group.title, [card(key) for key in keys]) for group, keys in chosen], samples


def record_card(view: RecordView) -> RecordCard:
    """Return a record as pages draw it, by the macro `record` of `record_view.html`."""
    bare = all(isinstance(part, Dialogue) for part in view.parts)
    return RecordCard(view, [_shown(part) for part in view.parts], bare)


def _shown(part: Part) -> ShownPart:
    """Keep the turns of a dialogue that tell most."""
    if not isinstance(part, Dialogue):
        return ShownPart(type(part).__name__.lower(), part, [], 0)
    turns: list[TurnView] = []
    shown = 0
    for place in part.telling:
        turn = part.turns[place]
        pieces = excerpt(
            turn.text, part.evidence.spans.get(place, ()), limit=FOLDED_TURN, context=100
        )
        turns.append(TurnView(place, turn.role, pieces, place - shown))
        shown = place + 1
    return ShownPart("dialogue", part, turns, len(part.turns) - shown)
