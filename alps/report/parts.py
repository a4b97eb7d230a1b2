"""What a record is shown as, whatever its task: a few kinds of parts that the terminal and the page
both draw.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from alps.report.evidence import Evidence
from alps.schema import Turn
from alps.similarity import features

FIRST_TURNS = 2
CLOSEST_TURNS = 3


@dataclass(frozen=True)
class Side:
    """A memory as it is shown; `value` is None where its text is not at hand."""

    id: str
    value: str | None
    detail: str = ""


@dataclass(frozen=True)
class Pairing:
    """One row of gold beside prediction.

    `kind` is `matched`, `missed` (gold alone), `extra` (prediction alone), `kept` (a prediction
    that keeps an old memory which should be gone), `repeated` (a near copy of another prediction),
    or `unjudged`. `remarks` tell what else the judge said of the memories in it.
    """

    kind: str
    gold: Side | None = None
    predicted: Side | None = None
    relation: str = ""
    reason: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dialogue:
    """A dialogue with the places that gold quotes.

    `telling` are the turns that matter most, in order. Of a `folded` dialogue the terminal shows
    only them; the page never shows more.
    """

    title: str
    turns: tuple[Turn, ...]
    evidence: Evidence
    telling: tuple[int, ...]
    folded: bool = False


@dataclass(frozen=True)
class Listed:
    """Some memories, one below the other."""

    title: str
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class Paired:
    """Gold beside prediction."""

    pairings: tuple[Pairing, ...]


@dataclass(frozen=True)
class Said:
    """A text that somebody wrote: a query, or an answer."""

    title: str
    text: str


@dataclass(frozen=True)
class Facts:
    """Named facts, one a line."""

    title: str
    rows: tuple[tuple[str, str], ...]


Part = Dialogue | Listed | Paired | Said | Facts


def dialogue_part(
    title: str, turns: Sequence[Turn], evidence: Evidence, *, folded: bool = False
) -> Dialogue:
    """Return a dialogue of which the turns that gold points to tell most, or else the first ones."""
    first = () if folded else range(min(FIRST_TURNS, len(turns)))
    return Dialogue(
        title, tuple(turns), evidence, tuple(sorted(evidence.pointed)) or tuple(first), folded
    )


def dialogue_about(memory: str, turns: Sequence[Turn]) -> Dialogue:
    """Return a folded dialogue of which the user's turns that share most words with `memory` tell
    most.
    """
    wanted = features(memory).content
    shared: dict[int, float] = {}
    for place, turn in enumerate(turns):
        said = features(turn.text).content if turn.role == "user" else {}
        shared[place] = sum(weight for piece, weight in wanted.items() if piece in said)
    closest = sorted(
        (place for place in shared if shared[place]), key=lambda place: -shared[place]
    )[:CLOSEST_TURNS]
    if closest:
        title = "Dialogue, the turns nearest in words to the target memory"
        return Dialogue(title, tuple(turns), Evidence(), tuple(sorted(closest)), folded=True)
    first = tuple(range(min(FIRST_TURNS, len(turns))))
    return Dialogue("Dialogue, its first turns", tuple(turns), Evidence(), first, folded=True)
