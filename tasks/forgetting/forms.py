"""Forms in which facts of the forgetting task are said: frames, and the ones that a seed draws.

A frame has slots for names and alternatives in brackets, `[a|b]`. What is told and what is asked to
be deleted is drawn from a quarter of the frames. What decides a score has a pair of forms of each
frame: a change and its opposite differ in one cue, and a scope is said in both orders. So nothing
but the cue tells them apart, whatever a reader learnt of order, length or other words. Of 25 seeds
(0 to 24, 25 to 49, …) no two share more than one of their five such frames; of 125 none share more
than two. Five in a row (0 to 4, 5 to 9, …) share none, and the first ten no cue.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

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
