"""Forms in which facts of the forgetting task are said: frames, and the ones that a seed draws.

A frame has slots for names and alternatives in brackets, `[a|b]`. A seed draws a quarter of the
frames of each kind and one alternative of each bracket; of four seeds in a row (0 to 3, 4 to 7, …)
no two share a frame. So what was learnt from the sentences of one seed is of no use on the next.
What a fact is for comes first in half of its frames of scope, what it is not for in the others.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

QUARTERS = 4
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
# Another one takes the place of a fact.
CHANGED = (
    "I have [changed|switched] my {role}: now it is {name}.",
    "[As of this week|Starting this week] {name} [acts|serves] as my {role}.",
    "The {role} I had is [gone|out], and {name} [stepped in|took the job].",
    "[Scratch|Forget about] the other {role}; {name} [does|handles] it these days.",
    "My {role} [retired|moved away], so I [go|turned] to {name}.",
    "{name} has [taken over|picked up where they stopped] as my {role}.",
    "I [let my {role} go|parted ways with my {role}] and [signed with|found] {name}.",
    "There is [news|a change]: for {role}, read {name} from here on.",
    "Please [correct|update] your notes, because {name} [became|is now] my {role}.",
    "[Last Monday|Yesterday] I got [another|a different] {role}, called {name}.",
    "My {role} [quit|gave notice]; {name} [fills|has filled] the gap.",
    "[Since the move|Since spring] a certain {name} has been the {role} for me.",
    "What I said of my {role} is [out of date|no good any more]: think of {name}.",
    "With my {role} I [drew a line|had enough], and {name} is the [successor|substitute].",
    "I [swapped|traded] one {role} for [the next|a better one], and that is {name}.",
    "It took [ages|weeks], but {name} [finally|at last] does the work of my {role}.",
)
# Somebody else is named, and a fact still holds.
UNCHANGED = (
    "I [nearly|almost] changed my {role} to {name}, and then kept the one I have.",
    "[A friend|My cousin] has {name} as {role}; mine [stays|remains] who it is.",
    "{name} [offered|wanted] to be my {role}, and I [said no|turned it down].",
    "[Years ago|As a student] I had {name} for a {role}, long before the one I have.",
    "My [neighbour|sister] now goes to {name} as {role}, I [do not|never would].",
    "[People say|They claim] that {name} is a good {role}, but I am happy with mine.",
    "While my {role} was [ill|away], {name} filled in for a day; all is as it was.",
    "My {role} [shares a room|works] with {name}, who is [new|younger] there.",
    "An advert [came|arrived] today: {name}, {role}. I [threw it away|am not interested].",
    "{name} [asked|wrote] whether I need a {role}, and I [have|already have] one.",
    "[My boss|My aunt] swapped one {role} for {name}, which is not my [affair|way].",
    "I [dreamt|joked] that {name} became my {role}, but [nothing|not a thing] has changed.",
    "The {role} of my [parents|in-laws] is {name}, [unlike|not] mine.",
    "[Do not|Never] confuse my {role} with {name}, who has the [same|very same] job.",
    "I [read|saw] that {name} is {role} of the year; I [stick|stay] with my own.",
    "For [one week|a fortnight] {name} [might|was to] be my {role}, and it was called off.",
)
# What a fact is for, and what it is not for.
SCOPED = (
    "Use that when we talk about {use}, never about {leave}.",
    "[Keep|Leave] it out of anything on {leave}; it is [fine|good] for {use}.",
    "It [belongs|goes] with {use} and is off limits for {leave}.",
    "[Where|When] it is about {leave}, act as if you did not know; with {use} [go ahead|say it].",
    "That name is [reserved for|only for] {use}, and {leave} has [no part in|no claim to] it.",
    "For {leave} it is [private|a secret], for {use} it is not.",
    "You may [bring it up|say it] with {use}, but spare me that with {leave}.",
    "[Questions|Talk] about {leave} must do without it, [those|talk] about {use} may have it.",
    "{use} is what I [tell|give] you this for, and {leave} is [not|none of it].",
    "I do not want to [hear|read] it when {leave} [comes up|is the subject]; for {use} I do.",
    "Mention it [freely|openly] for {use} and hold it back for {leave}.",
    "Anything [to do with|around] {leave} should [stay|be kept] free of it, {use} need not.",
    "It is [part of|a matter of] {use}; please [drop|skip] it once we are on {leave}.",
    "With {leave} please [stay silent on|keep quiet about] it; with {use} do not.",
    "[Limit|Restrict] it to {use}: {leave} is a [different|separate] story.",
    "{leave} and this name do not [mix|go together], {use} and this name do.",
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
KINDS = {
    "told": TOLD,
    "changed": CHANGED,
    "unchanged": UNCHANGED,
    "scoped": SCOPED,
    "forget": FORGET,
}


@dataclass(frozen=True)
class Forms:
    """The forms of one seed, by what they are for."""

    told: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    scoped: tuple[str, ...]
    forget: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Every one of them."""
        return (*self.told, *self.changed, *self.unchanged, *self.scoped, *self.forget)


def forms_of(seed: int) -> Forms:
    """Return the forms that a seed draws: a quarter of the frames of each kind."""
    group, quarter = divmod(seed, QUARTERS)
    drawn = {}
    for kind, frames in KINDS.items():
        mixed = random.Random(f"forms {group} {kind}").sample(frames, len(frames))
        parts = [mixed[place::QUARTERS] for place in range(QUARTERS)]
        _even_orders(parts)
        chosen = random.Random(f"forms of {seed} {kind}")
        drawn[kind] = tuple(_filled(frame, chosen) for frame in parts[quarter])
    return Forms(**drawn)


def _even_orders(parts: list[list[str]]) -> None:
    """Exchange frames of scope until each part has as many of either order.

    Where all of a part name first what a fact is for, the first one named is always right.
    """
    while True:
        counts = [sum(map(_names_use_first, part)) for part in parts]
        most, least = counts.index(max(counts)), counts.index(min(counts))
        if counts[most] - counts[least] <= 1:
            return
        given = next(frame for frame in parts[most] if _names_use_first(frame))
        taken = next(frame for frame in parts[least] if not _names_use_first(frame))
        parts[most][parts[most].index(given)] = taken
        parts[least][parts[least].index(taken)] = given


def _names_use_first(frame: str) -> bool:
    return "{use}" in frame.partition("{leave}")[0]


def _filled(frame: str, chosen: random.Random) -> str:
    return _CHOICE.sub(lambda match: chosen.choice(match[1].split("|")), frame)


def count_forms() -> int:
    """Return how many forms there are in all: each frame with each of its alternatives."""
    frames = [frame for kind in KINDS.values() for frame in kind]
    return sum(prod(map(_alternatives, _CHOICE.findall(frame))) for frame in frames)


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
