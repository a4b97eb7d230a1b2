"""Samples of forgetting: facts that are planted into real sessions, and what is done to a user.

A person's name is told in one of the forms that a seed draws (`alps.tasks.forgetting.forms`). Names
are drawn by the seed and the id of the session, so that the same data give the same samples; a
surname stands nowhere in the session, and so the text of a hit decides whether it gives the fact
away. Of two facts told alike the draw says which has to go and which has to stay: what treats both
alike can't be right more often than the wrong way round.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from alps.schema import Turn
from alps.tasks.forgetting.forms import Forms, forms_of, tells_of_change
from alps.tasks.recall import Forget, Ingest, Reopen, Search, Step
from alps.text import fold

ROLES = (
    "landlord",
    "piano teacher",
    "accountant",
    "driving instructor",
    "hairdresser",
    "upstairs neighbour",
    "yoga teacher",
    "plumber",
    "swimming coach",
    "bank adviser",
    "cleaning lady",
    "choir leader",
)
_FIRST_NAMES = """
Alina Bruno Celia Dario Edda Fabio Greta Hugo Ilse Jonas Karla Leo Mira Nils Olga Pavel Rosa
Sven Tilda Ugo Vera Wim Yara Zeno
"""
FIRST_NAMES = tuple(_FIRST_NAMES.split())
_SURNAMES = """
Abernethy Bottomley Castleberry Drinkwater Eikenberry Featherstone Grimsditch Hollingbery
Inkersole Jellicoe Kirkbride Lillywhite Micklethwait Nethercott Ottaway Pennyfather Quillfeather
Ravenscroft Shufflebotham Tattersall Umfreville Venables Wigglesworth Yarborough Zouchington
"""
SURNAMES = tuple(_SURNAMES.split())
CONTEXTS = ("my taxes", "my holidays", "my health", "my garden", "my birthday party", "my new car")
DELETED, SUPERSEDED, CONTEXT, OTHER_USER = "deleted", "superseded", "context", "other_user"
PARTS = 3
"""Sessions that a dialogue is parted into: what is told, what changes it, and what comes later."""
_STATEMENT = re.compile(r"(?<=[.!?。！？])\s+|[\n;•|{}\[\]]+|\\n")


@dataclass(frozen=True)
class Expected:
    """What one search has to return, and what it must not; surnames, each a fact.

    `instead` took the place of what is gone, where something did; `others` are named later of the
    same role as what has to be found, or were named earlier.
    """

    found: tuple[str, ...]
    gone: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class ForgettingSample:
    """What is done to a user and searched for, and what each search should return.

    Attributes:
        kind: Why a fact must not be returned.
        told: Everything that is said to the system, of all users, in its order.
        gold: One for each search.
    """

    benchmark_id: str
    session_id: str
    kind: str
    steps: tuple[Step, ...]
    gold: tuple[Expected, ...] | None

    @property
    def searches(self) -> tuple[Search, ...]:
        """What is searched for, in its order."""
        return tuple(step for step in self.steps if isinstance(step, Search))

    @property
    def told(self) -> tuple[Turn, ...]:
        """All turns that users are told to have said or heard, of every user."""
        told: list[Turn] = []
        for step in self.steps:
            if isinstance(step, Ingest | Forget):
                told += step.turns
        return tuple(told)


@dataclass(frozen=True)
class Fact:
    """That the user's `role` is called so; the surname is what a hit is looked at for."""

    role: str
    first_name: str
    surname: str

    def said(self, form: str, **slots: str) -> str:
        """Return a sentence about the fact, in a form of `alps.tasks.forgetting.forms`."""
        name = f"{self.first_name} {self.surname}"
        text = form.format(role=self.role, name=name, **slots)
        return text[0].upper() + text[1:]

    @property
    def query(self) -> str:
        """What is searched for it."""
        return f"What is the name of my {self.role}?"


class _Draw:
    """The facts of one sample: no role, first name or surname is drawn twice."""

    def __init__(self, name: str, dialogue: Sequence[Turn], forms: Forms) -> None:
        self.random = random.Random(name)
        self.forms = forms
        said = fold(" ".join(turn.text for turn in dialogue))
        self._roles = self.random.sample(ROLES, len(ROLES))
        self._names = self.random.sample(FIRST_NAMES, len(FIRST_NAMES))
        unsaid = [surname for surname in SURNAMES if fold(surname) not in said]
        self._surnames = self.random.sample(unsaid, len(unsaid))

    def fact(self, role: str | None = None) -> Fact:
        return Fact(role or self._roles.pop(), self._names.pop(), self._surnames.pop())

    def told(self, fact: Fact) -> str:
        """Return a fact as the user tells it."""
        return fact.said(self.random.choice(self.forms.told))

    def planted(self, part: Sequence[Turn], texts: Sequence[str]) -> tuple[Turn, ...]:
        """Return a part of a dialogue with texts of the user before some of the user's turns."""
        begun = [place for place, turn in enumerate(part) if turn.role == "user"]
        places = sorted(self.random.choices([*begun, len(part)], k=len(texts)), reverse=True)
        turns = list(part)
        for place, text in zip(places, self.random.sample(texts, len(texts)), strict=True):
            turns[place:place] = _said(text)
        return tuple(turns)


def _said(text: str) -> tuple[Turn, Turn]:
    return Turn(role="user", text=text), Turn(role="assistant", text="All right.")


def parted(dialogue: Sequence[Turn]) -> list[tuple[Turn, ...]]:
    """Part a dialogue at turns of the user, into parts of about as many of them; some are empty."""
    begun = [place for place, turn in enumerate(dialogue) if turn.role == "user"]
    cuts = [0]
    for number in range(1, PARTS):
        place = len(begun) * number // PARTS
        cuts.append(begun[place] if place and begun else cuts[-1])
    return [
        tuple(dialogue[cut:end]) for cut, end in zip(cuts, [*cuts[1:], len(dialogue)], strict=True)
    ]


Made = tuple[list[Step], tuple[Expected, ...]]


def _deleted(parts: Sequence[tuple[Turn, ...]], draw: _Draw) -> Made:
    """One of two facts is deleted; sessions that come later or again don't bring it back.

    The session that it was told in is not sent again: who sends it tells it anew.
    """
    gone, kept = draw.fact(), draw.fact()
    steps: list[Step] = [
        Ingest(1, draw.planted(parts[0], (draw.told(gone), draw.told(kept)))),
        Ingest(2, parts[1]),
        Forget(3, gone.surname, _said(gone.said(draw.random.choice(draw.forms.forget)))),
        Ingest(4, parts[2]),
        Ingest(2, parts[1]),
        Reopen(),
        Search(gone.query),
        Search(kept.query),
    ]
    return steps, (Expected((), (gone.surname,)), Expected((kept.surname,)))


def _superseded(parts: Sequence[tuple[Turn, ...]], draw: _Draw) -> Made:
    """One of two facts is replaced by another, and the other one still holds.

    Later a name is said of both roles, in two sentences that differ in a cue alone: what takes the
    latest one for the fact treats both alike, and so does what learnt other cues.
    """
    old, kept = draw.fact(), draw.fact()
    new, other = draw.fact(old.role), draw.fact(kept.role)
    replaced, named = draw.random.choice(draw.forms.changes)
    later = new.said(replaced), other.said(named)
    steps: list[Step] = [
        Ingest(1, draw.planted(parts[0], (draw.told(old), draw.told(kept)))),
        Ingest(2, draw.planted(parts[1], later)),
        Ingest(3, parts[2]),
        Search(old.query),
        Search(kept.query),
    ]
    # A statement that calls a name past gives it for neither role: «now B, formerly A» of both
    # would else be right twice.
    changed = Expected((new.surname,), (old.surname,), (new.surname,), (old.surname,))
    return steps, (changed, Expected((kept.surname,), others=(other.surname,)))


def _context(parts: Sequence[tuple[Turn, ...]], draw: _Draw) -> Made:
    """Each of two facts is told for one context and not for another; one context is asked in.

    Both are told in one frame, and name the contexts in one order: only its cues tell them apart.
    """
    gone, kept = draw.fact(), draw.fact()
    here, elsewhere = draw.random.sample(CONTEXTS, 2)
    told = []
    forms = draw.random.sample(draw.random.choice(draw.forms.scopes), 2)
    of_both = ((gone, elsewhere, here), (kept, here, elsewhere))
    for form, (fact, use, leave) in zip(forms, of_both, strict=True):
        scope = fact.said(form, use=use, leave=leave)
        told.append(f"{draw.told(fact)} {scope}")
    query = f"This is about {here}. What are the names of {{}} and {{}}?"
    roles = draw.random.sample((f"my {gone.role}", f"my {kept.role}"), 2)
    steps: list[Step] = [
        Ingest(1, draw.planted(parts[0], told)),
        Ingest(2, parts[1]),
        Ingest(3, parts[2]),
        Search(query.format(*roles)),
    ]
    return steps, (Expected((kept.surname,), (gone.surname,)),)


def _other_user(parts: Sequence[tuple[Turn, ...]], draw: _Draw) -> Made:
    """Two users have the same sessions, but for the name that each tells."""
    own = draw.fact()
    foreign = draw.fact(own.role)
    steps: list[Step] = []
    for user, fact in draw.random.sample(((0, own), (1, foreign)), 2):
        steps += [
            Ingest(1, draw.planted(parts[0], (draw.told(fact),)), user),
            Ingest(2, parts[1], user),
            Ingest(3, parts[2], user),
        ]
    steps.append(Search(own.query))
    return steps, (Expected((own.surname,), (foreign.surname,)),)


KINDS: dict[str, Callable[[Sequence[tuple[Turn, ...]], _Draw], Made]] = {
    DELETED: _deleted,
    SUPERSEDED: _superseded,
    CONTEXT: _context,
    OTHER_USER: _other_user,
}


def samples_of(
    benchmark_id: str, session_id: str, dialogue: Sequence[Turn], seed: int = 0
) -> Iterator[ForgettingSample]:
    """Yield one sample of each kind, made from a dialogue."""
    parts, forms = parted(dialogue), forms_of(seed)
    for kind, make in KINDS.items():
        name = f"{benchmark_id}:{kind}"
        steps, gold = make(parts, _Draw(f"{seed} {name}", dialogue, forms))
        # A part of a short dialogue may be empty: no session has no turns.
        done = tuple(step for step in steps if not isinstance(step, Ingest) or step.turns)
        yield ForgettingSample(name, session_id, kind, done, gold)


def gives(text: str, surname: str, instead: Sequence[str] = ()) -> bool:
    """Tell whether a text gives a fact: as one that holds.

    Args:
        text: What was returned.
        surname: The fact.
        instead: Other names of the role: a statement that calls the fact past and names one of
            them as what holds does not give the fact.
    """
    name, new = fold(surname), [fold(one) for one in instead]
    for statement in map(fold, _STATEMENT.split(text)):
        if name in statement and not (new and tells_of_change(statement, name, new)):
            return True
    return False
