"""The instructive records of a run as they stand on the page."""

from collections.abc import Mapping
from dataclasses import dataclass

from alps.jsonl import Row
from alps.report.evidence import Piece, excerpt
from alps.report.found import Samples, read_wanted
from alps.report.instructive import choose
from alps.report.parts import Dialogue, Part
from alps.report.record import RecordView, build_view
from alps.report.runs import Key, Run

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
        parts = [_shown(part) for part in view.parts]
        return RecordCard(view, parts, all(isinstance(part, Dialogue) for part in view.parts))

    return [(group.title, [card(key) for key in keys]) for group, keys in chosen], samples


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
