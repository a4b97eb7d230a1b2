"""Samples of forgetting: facts that are planted into real sessions, and what is done to a user.

A fact is said in frames with slots for names and alternatives in brackets, `[a|b]`. What is told
and what is asked to be deleted is drawn from a quarter of the frames. What decides a score has a
pair of forms of each frame: a change and its opposite differ in one cue, and a scope is said in
both orders. So nothing but the cue tells them apart, whatever a reader learnt of order, length or
other words. Of 25 seeds (0 to 24, 25 to 49, …) no two share more than one of their five such
frames; of 125 none share more than two. Five in a row (0 to 4, 5 to 9, …) share none, and the first
ten no cue.

Names are drawn by the seed and the id of the session, so that the same data give the same samples;
a surname stands nowhere in the session, and so the text of a hit decides whether it gives the fact
away. Of two facts told alike the draw says which has to go and which has to stay: what treats both
alike can't be right more often than the wrong way round.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from alps.schema import Turn
from alps.tasks.by_memory import Forget, Ingest, Reopen, Search, Step
from alps.text import fold

QUARTERS, DRAWN = 4, 5
Paired = tuple[str, str, str]
USE_FIRST = {"first": "{use}", "second": "{leave}"}
LEAVE_FIRST = {"first": "{leave}", "second": "{use}"}
_CHOICE = re.compile(r"\[([^\]]*)\]")

# A fact, as a user says it.
TOLD = (
    "[By the way|Incidentally|Side note], my {role} is [called|named] {name}.",
    "{name} is [my {role}|the name of my {role}], [in case it matters|just so you know].",
    "I [have|employ] a {role}, and [their name is|the name is] {name}.",
    "The [person|one] I have as {role} [goes by|answers to] {name}.",
    "[When I say|If I mention] my {role}, I [mean|am talking about] {name}.",
    "My {role}? [That would be|You can put down] {name}.",
    "[Say hello to|Meet] {name}, who is my {role}.",
    "[For years|For a while now] {name} has [worked for|looked after] me as {role}.",
    "[On the sign|On the invoice] of my {role} [it says|you read] {name}.",
    "I [rely on|trust] {name}, my {role}, [a great deal|completely].",
    "As {role} I [chose|picked|hired] {name}.",
    "[My phone lists|I saved] the number of my {role} under {name}.",
    "If you [write to|call] my {role}, [address it to|ask for] {name}.",
    "[Everyone|The whole street] knows my {role}, {name}.",
    "I [met|saw] {name} today, you know, my {role}.",
    "{name}: [write that down as|that is] the name of my {role}.",
)
# Another one takes the place of a fact, or somebody else is named and the fact still holds: a
# frame, and the cues of the one and of the other. No word of a cue stands in another frame.
CHANGES = (
    ("I * changed my {role} to {name}.", "finally|actually", "nearly|almost"),
    ("{name} * the job of my {role}.", "took|inherited", "wanted|admired"),
    ("My {role} *, so {name} fills the gap.", "retired|emigrated", "overslept|sneezed"),
    ("As {role} to me {name} * in May.", "started|began", "stopped|ceased"),
    ("For {role}, read {name} in * letters of mine.", "coming|future", "misprinted|ancient"),
    ("{name} now * my {role}.", "supplants|displaces", "assists|visits"),
    ("I * my {role} for {name}.", "left|ditched", "mistook|misread"),
    ("The {role} of my * is {name} these days.", "choice|household", "cousin|boss"),
    ("My {role} * to {name}.", "yielded|surrendered", "waved|apologised"),
    ("In my book {name} is * as {role}.", "confirmed|entered", "erased|voided"),
    ("An offer came by {name}, {role}, which I *.", "accepted|signed", "declined|shredded"),
    ("It is * that {name} became my {role}.", "official|true", "untrue|gossip"),
    ("I * that {name} is the {role} I have now.", "announce|declare", "dreamt|doubt"),
    ("{name} as my {role}? That is *.", "settled|fixed", "nonsense|fiction"),
    ("{name} has been * as my {role}.", "appointed|engaged", "suggested|rejected"),
    ("My {role} lost the * to {name}.", "post|contract", "match|bet"),
    ("I shall * {name} as {role}, starting today.", "address|pay", "avoid|ignore"),
    ("{name} had a trial as my {role} and *.", "passed|convinced", "failed|flopped"),
    ("The keys of my {role} are with {name} *.", "permanently|forever", "tonight|briefly"),
    ("Whoever asks for my {role} is sent to {name} by *.", "design|decree", "error|accident"),
    (
        "I * the hint to exchange my {role} for {name}.",
        "heeded|obeyed",
        "missed|mocked",
    ),
    ("My {role} is * since {name} came along.", "history|redundant", "happier|busier"),
    ("{name} is my {role} in *.", "reality|practice", "theory|jest"),
    ("I told my {role} that {name} is *.", "hired|incoming", "tiresome|expensive"),
    ("My search for another {role} * {name}.", "selected|produced", "excluded|skipped"),
)
# What a fact is for, and what it is not for: a frame of two contexts, and the cues of both.
SCOPES = (
    ("It is * for {first} and * for {second}.", "fine|good", "wrong|bad"),
    ("With {first} it is *, with {second} it is *.", "welcome|wanted", "taboo|unwanted"),
    ("For that name {first} is *, {second} is *.", "permitted|allowed", "forbidden|banned"),
    ("* it in talk of {first}, * it in talk of {second}.", "mention|quote", "omit|suppress"),
    ("{first} should * it, {second} should * it.", "include|carry", "exclude|lack"),
    ("As to {first}, be * on it; as to {second}, be * on it.", "open|frank", "silent|mute"),
    ("Under {first} * the name, under {second} * the name.", "print|list", "blacken|hide"),
    ("For {first} it is of *, for {second} it is of *.", "value|help", "harm|nuisance"),
    ("{first} is a * place for it, {second} is a * place for it.", "right|proper", "poor|dire"),
    ("It * with {first}, it * with {second}.", "belongs|fits", "clashes|collides"),
    ("My plan for {first} is to * it, for {second} to * it.", "share|tell", "withhold|conceal"),
    ("Take {first} as * to it, take {second} as * to it.", "linked|tied", "closed|sealed"),
    ("In matters of {first} it is *, in matters of {second} *.", "public|common", "private|secret"),
    ("The * of it is {first}, the * of it is {second}.", "home|purpose", "exception|limit"),
    ("On {first} I * hearing it, on {second} I * hearing it.", "enjoy|love", "hate|resent"),
    ("{first} * this name, {second} * this name.", "needs|requires", "spurns|refuses"),
    ("Let it be * in {first}, let it be * in {second}.", "heard|seen", "unheard|unseen"),
    ("I * you to say it on {first}, I * you to say it on {second}.", "urge|beg", "forbid|prohibit"),
    ("{first} gets it *, {second} gets it *.", "always|daily", "never|nowhere"),
    ("Its * is {first}, its * is {second}.", "domain|territory", "enemy|opposite"),
    ("When {first} comes up, *; when {second} comes up, *.", "proceed|continue", "stop|halt"),
    ("Consider {first} * and {second} * for it.", "cleared|approved", "blocked|barred"),
    ("It * {first}, it * {second}.", "serves|supports", "spoils|ruins"),
    ("File it * {first}, file it * {second}.", "within|alongside", "outside|beyond"),
    (
        "Talk on {first} is * by it, talk on {second} is * by it.",
        "improved|aided",
        "damaged|marred",
    ),
)
# A user asks to have a fact deleted.
FORGET = (
    "Please forget [what|how] my {role} is called, for good.",
    "[Delete|Erase] the name of my {role} [from your memory|from all you keep].",
    "I [do not want|no longer want] you to know who my {role} is.",
    "[Wipe|Strike] whatever you have on my {role}.",
    "The name of my {role} must [go|disappear], [please|thank you].",
    "You should [not remember|lose] who works as my {role}.",
    "Take my {role} [off your records|out of your notes].",
    "My {role} [asked not to be kept|wants no trace] in your files; [see to it|remove it].",
    "[Drop|Discard] everything about my {role}.",
    "What I told you of my {role} [was a mistake|was not for you]: have it removed.",
    "[Act|Behave] as though I had never named my {role}.",
    "Clear the [entry|line] about my {role} [now|today].",
    "I [take back|withdraw] the name of my {role}.",
    "[Be so kind and|Would you] unlearn the name of my {role}.",
    "No [record|note] of my {role} may remain.",
    "My {role} is [none of your business|off the table] from now on, so purge the name.",
)


@dataclass(frozen=True)
class Forms:
    """The forms of one seed, by what they are for.

    `changed` and `unchanged` are of the same frames, in their order; `scoped` has two of each
    frame after each other: the use first, and what the fact is not for first.
    """

    told: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    scoped: tuple[str, ...]
    forget: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Every one of them."""
        return (*self.told, *self.changed, *self.unchanged, *self.scoped, *self.forget)

    @property
    def changes(self) -> tuple[tuple[str, str], ...]:
        """A change and its opposite, of each frame."""
        return tuple(zip(self.changed, self.unchanged, strict=True))

    @property
    def scopes(self) -> tuple[tuple[str, str], ...]:
        """A scope in both orders, of each frame."""
        return tuple(zip(self.scoped[::2], self.scoped[1::2], strict=True))


def forms_of(seed: int) -> Forms:
    """Return the forms that a seed draws."""
    changed, unchanged, scoped = [], [], []
    for frame, cues in _paired(seed, "changes", CHANGES):
        changed.append(frame.replace("*", cues[0]))
        unchanged.append(frame.replace("*", cues[1]))
    for frame, (use, leave) in _paired(seed, "scopes", SCOPES):
        for cues, contexts in (((use, leave), USE_FIRST), ((leave, use), LEAVE_FIRST)):
            filled = frame.replace("*", cues[0], 1).replace("*", cues[1], 1)
            scoped.append(filled.format_map(contexts))
    return Forms(
        told=_quarter(seed, "told", TOLD),
        changed=tuple(changed),
        unchanged=tuple(unchanged),
        scoped=tuple(scoped),
        forget=_quarter(seed, "forget", FORGET),
    )


def _quarter(seed: int, kind: str, frames: Sequence[str]) -> tuple[str, ...]:
    group, quarter = divmod(seed, QUARTERS)
    mixed = random.Random(f"forms {group} {kind}").sample(frames, len(frames))
    chosen = random.Random(f"forms of {seed} {kind}")
    return tuple(_filled(frame, chosen) for frame in mixed[quarter::QUARTERS])


def _filled(frame: str, chosen: random.Random) -> str:
    return _CHOICE.sub(lambda match: chosen.choice(match[1].split("|")), frame)


def _paired(
    seed: int, kind: str, frames: Sequence[Paired]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the frames that a seed draws, and the cue of each side.

    The frames lie in five columns of five. A seed draws those on a curve of the second degree at
    most, and two of those that bend alike share one point or none, others two at most.
    """
    group, place = divmod(seed, DRAWN**3)
    place, start = divmod(place, DRAWN)
    bend, slope = divmod(place, DRAWN)
    mixed = random.Random(f"forms {group} {kind}").sample(frames, len(frames))
    chosen = random.Random(f"forms of {seed} {kind}")
    for column in range(DRAWN):
        row = (bend * column**2 + slope * column + start) % DRAWN
        frame, *sides = mixed[DRAWN * column + row]
        cues = [side.split("|") for side in sides]
        # Frames that seeds 0 to 9 share have other cues in each.
        picks = [slope if slope < 2 else chosen.randrange(2) for _ in cues]
        yield frame, (cues[0][picks[0]], cues[1][picks[1]])


def count_forms() -> int:
    """Return how many forms there are in all: each frame with each of its alternatives and cues."""
    count = sum(prod(map(_alternatives, _CHOICE.findall(frame))) for frame in (*TOLD, *FORGET))
    count += sum(_alternatives(one) + _alternatives(other) for _, one, other in CHANGES)
    return count + sum(2 * _alternatives(use) * _alternatives(leave) for _, use, leave in SCOPES)


def _alternatives(choice: str) -> int:
    return choice.count("|") + 1


_BEFORE = re.compile(
    r"\b(?:formerly|previous(?:ly)?|once|ex|former|old|past|was|replac(?:es|ed|ing)"
    r"|succeed(?:s|ed|ing)|instead of|rather than|no longer|not|used to|over from|from|after"
    r"|before)\b"
)
_BY = re.compile(r"\b(?:was |were |has been |is |got )?(?:replaced|succeeded|followed) by\b")
_AFTER = re.compile(
    r"^(?:(?:was |has been |is |got )?(?:replaced|succeeded|followed) by|until|is no longer|→|->)"
)
_WORD = re.compile(r"[a-z]+|→|->")
_NEAR, _FAR = 4, 12
"""Words in which the word that speaks of the change and the new name have to be."""


def tells_of_change(statement: str, old: str, new: Sequence[str]) -> bool:
    """Tell whether a statement calls `old` past, every time, and one of `new` what holds.

    Args:
        statement: A sentence or what was returned as one, folded.
        old: A name that does not hold any more, folded.
        new: Names that took its place, folded.
    """
    words = _WORD.findall(statement)
    places = [place for place, word in enumerate(words) if word == old]
    names = {old, *new}
    valid = []
    for place, word in enumerate(words):
        if word in new and not _called_past(words, place, names):
            valid.append(place)
    if len(places) != statement.count(old):
        return False
    for place in places:
        near = any(abs(place - other) <= _FAR for other in valid)
        if not near or not _called_past(words, place, names):
            return False
    return True


def _called_past(words: Sequence[str], place: int, names: set[str]) -> bool:
    """Tell whether the few words around a name call it past, back to the name before it."""
    before: list[str] = []
    for word in reversed(words[max(0, place - _NEAR) : place]):
        if word in names:
            break
        before.insert(0, word)
    after = " ".join(words[place + 1 : place + 1 + _NEAR])
    return bool(_BEFORE.search(_BY.sub("", " ".join(before))) or _AFTER.search(after))


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
        """All ingested turns of every user."""
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
        """Return a sentence about the fact, in a form of `alps.tasks.forgetting.samples`."""
        name = f"{self.first_name} {self.surname}"
        text = form.format(role=self.role, name=name, **slots)
        return text[0].upper() + text[1:]

    @property
    def query(self) -> str:
        """What is searched for it."""
        return f"What is the name of my {self.role}?"


class _SampleFacts:
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


def _deleted(parts: Sequence[tuple[Turn, ...]], draw: _SampleFacts) -> Made:
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


def _superseded(parts: Sequence[tuple[Turn, ...]], draw: _SampleFacts) -> Made:
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


def _context(parts: Sequence[tuple[Turn, ...]], draw: _SampleFacts) -> Made:
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


def _other_user(parts: Sequence[tuple[Turn, ...]], draw: _SampleFacts) -> Made:
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


KINDS: dict[str, Callable[[Sequence[tuple[Turn, ...]], _SampleFacts], Made]] = {
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
        steps, gold = make(parts, _SampleFacts(f"{seed} {name}", dialogue, forms))
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
