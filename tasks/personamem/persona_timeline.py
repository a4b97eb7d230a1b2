"""Timelines of invented people, and what an engine writes about them.

An engine, be it templates or a model, gives texts alone: lists of entries that can stand for one
another (`Material`), how the user tells each event (`Telling`), and how a question and its options
are worded (`Wording`). The seed decides which entries become true, so that no engine knows the
right answer when it writes the options.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

TOPICS_OF_ONE = 5
"""Topics of one persona: with seven types each, 35 questions."""
TRACK, FACT = "track_full_preference_evolution", "recalling_facts_mentioned_by_the_user"
NEW_IDEAS, REASONS = "suggest_new_ideas", "recalling_the_reasons_behind_previous_updates"
SCENARIOS = "generalizing_to_new_scenarios"
EVIDENCE = {
    "recall_user_shared_facts": "latest",
    FACT: "helper",
    TRACK: "latest",
    REASONS: "latest",
    NEW_IDEAS: "tried",
    SCENARIOS: "latest",
    "provide_preference_aligned_recommendations": "latest",
}
"""The event that each type of question is about."""
EVENTS = ("begin", "helper", "change", "latest", "tried")
"""The events of one topic: two of the beginning, two changes, and something tried once."""
LENGTHS = 1.7
"""How much longer the longest entry of a list may be than the shortest."""
_WHEN = {"begin": 0, "helper": 0, "change": 1, "latest": 2, "tried": 3}
ITEM, ELSEWHERE = "{item}", "{elsewhere}"
STEPS = ("{a}", "{b}", "{c}")
"""The slots of a wording: an entry, a topic that is new to the user, and three steps in order."""


@dataclass(frozen=True)
class Topic:
    """A topic and what can be liked in it; the items are alike in kind and length.

    Attributes:
        name: What figures by topic call it.
        title: What sentences call it.
    """

    name: str
    title: str
    items: tuple[str, ...]


@dataclass(frozen=True)
class Reason:
    """Why a preference changed: as the user says it, and what it makes the user look for."""

    why: str
    trait: str


@dataclass(frozen=True)
class Outline:
    """What the seed draws of a persona before anything is written.

    Attributes:
        elsewhere: Titles of topics that are not the persona's.
    """

    name: str
    age: int
    job: str
    town: str
    topics: tuple[Topic, ...]
    helpers: tuple[str, ...]
    elsewhere: tuple[str, ...]


@dataclass(frozen=True)
class Material:
    """What a persona's timeline is drawn from; `elsewhere` is that of the outline."""

    biography: str
    topics: tuple[Topic, ...]
    reasons: tuple[Reason, ...]
    helpers: tuple[str, ...]
    elsewhere: tuple[str, ...]

    def items(self, topic: str) -> tuple[str, ...]:
        """Return the items of a topic by its name."""
        return next(each.items for each in self.topics if each.name == topic)


@dataclass(frozen=True)
class Telling:
    """One event as the user tells it, and the assistant's reply; empty: a phrase of ours."""

    text: str
    reply: str = ""


@dataclass(frozen=True)
class Wording:
    """A question and the sentence of its options, with slots where entries go."""

    question: str
    option: str


@dataclass(frozen=True)
class Interest:
    """What one persona's timeline says of one topic.

    Attributes:
        likes: Three preferences, each given up for the next.
        reasons: Those of the two changes.
        tried: What was tried once and not liked.
        helper: Who helped when it began.
        dates: When each preference began, and when the last was tried: (year, month) each.
    """

    topic: str
    likes: tuple[str, str, str]
    reasons: tuple[Reason, Reason]
    tried: str
    helper: str
    dates: tuple[tuple[int, int], ...]

    def date(self, event: str) -> tuple[int, int]:
        """Return the year and the month of an event."""
        return self.dates[_WHEN[event]]


@dataclass(frozen=True)
class Persona:
    """One invented user: a biography and a timeline."""

    id: int
    biography: str
    interests: tuple[Interest, ...]


def draw_persona(number: int, material: Material, rng: random.Random) -> Persona:
    """Draw what becomes true of a persona; the same generator state gives the same."""
    interests = []
    for topic, helper in zip(material.topics, material.helpers, strict=True):
        first, second, third, tried = rng.sample(topic.items, 4)
        before, after = _two(material.reasons, rng)
        year = rng.randint(2019, 2022)
        dates = tuple((year + step, rng.randint(1, 12)) for step in range(4))
        likes = first, second, third
        interests.append(Interest(topic.name, likes, (before, after), tried, helper, dates))
    return Persona(number, material.biography, tuple(interests))


def _two(reasons: Sequence[Reason], rng: random.Random) -> tuple[Reason, Reason]:
    before, after = rng.sample(reasons, 2)
    return before, after


def alike(entries: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the `count` entries that are nearest in length, in the order given.

    Raises:
        ValueError: If there are fewer, or the longest of them is more than `LENGTHS` times as long
            as the shortest.
    """
    if len(entries) < count:
        raise ValueError(f"{len(entries)} entries; expected at least {count}")
    places = sorted(range(len(entries)), key=lambda place: len(entries[place]))
    windows = [places[start : start + count] for start in range(len(entries) - count + 1)]
    best = min(windows, key=lambda window: _ratio(entries, window))
    if _ratio(entries, best) > LENGTHS:
        lengths = f"{len(entries[best[0]])} and {len(entries[best[-1]])} characters"
        raise ValueError(f"entries of {lengths}: make them more alike in length")
    return tuple(entries[place] for place in sorted(best))


def _ratio(entries: Sequence[str], window: Sequence[int]) -> float:
    return len(entries[window[-1]]) / max(1, len(entries[window[0]]))
