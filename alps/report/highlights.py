"""Records of a run that teach most about it, chosen by a rule that is printed beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from alps.jsonl import Row
from alps.report.dialogue import DialogueView, Piece, excerpt
from alps.report.record import RecordView, ShownPart, build_view, state_of
from alps.run.opened import Key, Run, Samples, read_wanted
from alps.tasks.record_parts import AnsweredRecord, Highlight, ScoredAnswer

LIMIT = 20
FOLDED_TURN = 280


def rule(groups: Sequence[Highlight]) -> str:
    """Return the rule by which records of some groups are chosen, in words."""
    quotas = "; ".join(f"{group.title} (up to {group.quota})" for group in groups)
    return (
        f"At most {LIMIT}, each under one heading, in this order: {quotas}. Places that stay empty "
        "are given out again in the same order; ties go by the order of the data."
    )


def choose(
    groups: Sequence[Highlight], scores: Mapping[Key, Row], predictions: Mapping[Key, Row]
) -> list[tuple[Highlight, list[Key]]]:
    """Choose the instructive records of a track.

    Groups without any are left out.
    """
    answers = {
        key: ScoredAnswer(state_of(row, predictions.get(key)), row) for key, row in scores.items()
    }
    ranked = [_ranked(answers, group) for group in groups]
    group_of: dict[Key, Highlight] = {}
    for fill_up in (False, True):
        for group, keys in zip(groups, ranked, strict=True):
            waiting = [key for key in keys if key not in group_of]
            room = LIMIT - len(group_of)
            for key in waiting[: room if fill_up else min(room, group.quota)]:
                group_of[key] = group
    chosen = []
    for group, keys in zip(groups, ranked, strict=True):
        if members := [key for key in keys if group_of.get(key) is group]:
            chosen.append((group, members))
    return chosen


def _ranked(answers: Mapping[Key, ScoredAnswer], group: Highlight) -> list[Key]:
    """Return the answers that belong to a group, the most telling first.

    Ties keep the order of the data.
    """
    ranks = {}
    for key, answer in answers.items():
        if (rank := group.rank(answer)) is not None:
            ranks[key] = rank
    return sorted(ranks, key=ranks.__getitem__, reverse=True)


@dataclass(frozen=True)
class TurnView:
    """A turn of an excerpt; `skipped` turns before it are not shown."""

    place: int
    role: str
    pieces: list[Piece]
    skipped: int


@dataclass(frozen=True)
class PartCard:
    """A part of a record on a page.

    Of a dialogue, the turns that are shown, and how many more there are at its end.
    """

    kind: str
    part: ShownPart
    turns: list[TurnView]
    skipped_after: int


@dataclass(frozen=True)
class RecordCard:
    """A record as it stands on a page.

    `bare` is one of which nothing but a dialogue can be shown.
    """

    view: RecordView
    parts: list[PartCard]
    bare: bool


def cards(
    run: Run, track: str, scores: Mapping[Key, Row], predictions: Mapping[Key, Row]
) -> tuple[list[tuple[str, list[RecordCard]]], Samples]:
    """Choose the instructive records of a track, and find their samples again."""
    task = run.tasks[track]
    chosen = choose(task.highlights, scores, predictions)
    wanted = {key.id for _, keys in chosen for key in keys}
    samples, verdicts = read_wanted(run, track, wanted), run.rows("verdicts")
    groups = []
    for group, keys in chosen:
        members = []
        for key in keys:
            sample, prediction = samples.by_id.get(key.id), predictions.get(key)
            record = AnsweredRecord(sample, prediction, verdicts.get(key), scores[key])
            members.append(record_card(build_view(key, task, record)))
        groups.append((group.title, members))
    return groups, samples


def record_card(view: RecordView) -> RecordCard:
    """Return a record as pages draw it, by the macro `record` of `record_view.html`."""
    bare = all(isinstance(part, DialogueView) for part in view.parts)
    return RecordCard(view, [_part_card(part) for part in view.parts], bare)


def _part_card(part: ShownPart) -> PartCard:
    """Keep the turns of a dialogue that tell most."""
    if not isinstance(part, DialogueView):
        return PartCard(type(part).__name__.lower(), part, [], 0)
    turns: list[TurnView] = []
    shown = 0
    for place in part.telling:
        turn, spans = part.turns[place], part.evidence.spans.get(place, ())
        pieces = excerpt(turn.text, spans, limit=FOLDED_TURN, context=100)
        turns.append(TurnView(place, turn.role, pieces, place - shown))
        shown = place + 1
    return PartCard("dialogue", part, turns, len(part.turns) - shown)
