"""Timelines of invented people, what an engine writes about them, and the histories that tell them.

An engine, be it templates or a model, gives texts alone: lists of entries that can stand for one
another (`Material`), how the user tells each event (`Telling`), and how a question and its options
are worded (`QuestionWording`). The seed decides which entries become true, so that no engine knows
the right answer when it writes the options. Templates are deterministic, embedded, in English and
Chinese. A history has sessions in the order of their dates, with unrelated chats between.
"""

import random
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

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
class QuestionWording:
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
        before, after = rng.sample(material.reasons, 2)
        year = rng.randint(2019, 2022)
        dates = tuple((year + step, rng.randint(1, 12)) for step in range(4))
        likes = first, second, third
        interests.append(Interest(topic.name, likes, (before, after), tried, helper, dates))
    return Persona(number, material.biography, tuple(interests))


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
        raise ValueError(f"entries of {lengths}: make their lengths more similar")
    return tuple(entries[place] for place in sorted(best))


def _ratio(entries: Sequence[str], window: Sequence[int]) -> float:
    return len(entries[window[-1]]) / max(1, len(entries[window[0]]))


Language = Literal["en", "zh"]
_FRAMES = {"begin": "like", "helper": "fact", "change": "change", "latest": "change"}
Words = dict[str, Any]
Chat = tuple[str, str]
"""An unrelated question, and the assistant's answer."""


@cache
def words_of(language: Language) -> Words:
    """Read the words and phrases of a language."""
    file = files("alps.tasks.personamem") / "words" / f"{language}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def outline(words: Words, rng: random.Random) -> Outline:
    """Draw who a persona is, and the topics."""
    name, age = rng.choice(words["names"]), rng.randint(24, 67)
    job, town = rng.choice(words["jobs"]), rng.choice(words["towns"])
    names = rng.sample(sorted(words["topics"]), TOPICS_OF_ONE)
    helpers = rng.sample(words["people"]["first"], TOPICS_OF_ONE)
    topics = {}
    for topic, entry in sorted(words["topics"].items()):
        topics[topic] = Topic(topic, entry["title"], tuple(entry["items"]))
    own = tuple(topics.pop(topic) for topic in names)
    elsewhere = tuple(topic.title for topic in topics.values())
    return Outline(name, age, job, town, own, tuple(helpers), elsewhere)


def material(words: Words, rng: random.Random) -> Material:
    """Draw an outline, and say it in the language; reasons and items are those of the language."""
    drawn = outline(words, rng)
    biography = words["biography"].format(
        name=drawn.name, age=drawn.age, job=drawn.job, town=drawn.town
    )
    reasons = tuple(Reason(reason["why"], reason["trait"]) for reason in words["reasons"])
    return Material(biography, drawn.topics, reasons, drawn.helpers, drawn.elsewhere)


def tellings(persona: Persona, words: Words, rng: random.Random) -> dict[tuple[str, str], Telling]:
    """Say each event of a persona in a phrase of the language, by topic and event."""
    told = {}
    for interest in persona.interests:
        title = words["topics"][interest.topic]["title"]
        for event in EVENTS:
            frame = rng.choice(words["frames"][_FRAMES.get(event, event)])
            text = frame.format(**_slots(interest, event, words))
            told[interest.topic, event] = Telling(f"{title[:1].upper()}{title[1:]}: {text}")
    return told


def _slots(interest: Interest, event: str, words: Words) -> dict[str, str]:
    """Return what the phrases of an event may name."""
    slots = {"date": date_in(words, interest.date(event))}
    old, between, new = interest.likes
    if event == "change":
        return slots | {"old": old, "new": between, "why": interest.reasons[0].why}
    if event == "latest":
        return slots | {"old": between, "new": new, "why": interest.reasons[1].why}
    item = interest.tried if event == "tried" else old
    return slots | {"item": item, "person": interest.helper}


def wordings(topic: Topic, words: Words) -> dict[str, QuestionWording]:
    """Return how each type of question asks about a topic."""
    worded = {}
    for kind in EVIDENCE:
        question = words["ask"][kind].replace("{topic}", topic.title)
        worded[kind] = QuestionWording(question, words["answer"][kind])
    return worded


def date_in(words: Words, date: tuple[int, int]) -> str:
    """Write a year and a month as the language does."""
    year, month = date
    return str(words["date"]).format(year=year, month=words["months"][month - 1])


def chats(budget: int, sessions: int, words: Words, rng: random.Random) -> list[list[Chat]]:
    """Make unrelated chats of about `budget` bytes in all, spread evenly over the sessions."""
    chat, of_session = words["chat"], []
    for _ in range(sessions):
        left, made = budget // sessions, []
        while left > 0:
            thing = rng.choice(chat["things"])
            sentences = rng.choices(chat["sentences"], k=rng.randint(4, 12))
            answer = " ".join(
                sentence.format(thing=thing, n=rng.randint(2, 60)) for sentence in sentences
            )
            question = rng.choice(chat["ask"]).format(thing=thing)
            made.append((question, answer))
            left -= len(question.encode()) + len(answer.encode())
        of_session.append(made)
    return of_session


BYTES_A_TOKEN = 4
_TOKENS = {"32k": 32_000, "128k": 128_000, "1M": 1_000_000}
_FILLED = 0.9
"""The share of the size that histories fill, as in the published sets."""
_SESSIONS = {"32k": 10, "128k": 20, "1M": 60}
"""Sessions of a history, as in the published sets."""


@dataclass(frozen=True)
class PersonaMessages:
    """The messages of one persona.

    Attributes:
        evidence: The message of each event, by topic and event.
        irrelevant: The messages of unrelated chats.
    """

    messages: list[dict[str, str]]
    evidence: dict[tuple[str, str], int]
    irrelevant: list[int]


def tell(
    persona: Persona,
    told: Mapping[tuple[str, str], Telling],
    size: str,
    words: Words,
    rng: random.Random,
) -> PersonaMessages:
    """Tell a timeline in sessions, and fill them up to the size."""
    order = _in_order(persona)
    sessions = _SESSIONS[size]
    budget = int(_TOKENS[size] * _FILLED * BYTES_A_TOKEN)
    spent = sum(len(told[key].text.encode()) + len(told[key].reply.encode()) for key in order)
    biographies = len(persona.biography.encode()) * sessions
    unrelated = chats(budget - spent - biographies, sessions, words, rng)
    history, frames = PersonaMessages([], {}, []), words["frames"]
    for number in range(sessions):
        history.messages.append({"role": "system", "content": persona.biography})
        _say(history, words, rng.choice(frames["smalltalk"]), rng.choice(frames["smallreply"]))
        first, last = (len(order) * number // sessions, len(order) * (number + 1) // sessions)
        for key in order[first:last]:
            history.evidence[key] = len(history.messages)
            reply = told[key].reply or rng.choice(frames["reply"])
            _say(history, words, told[key].text, reply)
        for question, answer in unrelated[number]:
            history.irrelevant.extend((len(history.messages), len(history.messages) + 1))
            _say(history, words, question, answer)
    return history


def _in_order(persona: Persona) -> list[tuple[str, str]]:
    """Return the events by their dates; within a month by topic, in the order of a timeline."""
    dated = []
    for interest in persona.interests:
        for place, event in enumerate(EVENTS):
            year, month = interest.date(event)
            dated.append((year, month, f"{interest.topic} {place}", (interest.topic, event)))
    return [key for *_, key in sorted(dated)]


def _say(history: PersonaMessages, words: Words, text: str, reply: str) -> None:
    history.messages.append({"role": "user", "content": words["label_user"] + text})
    history.messages.append({"role": "assistant", "content": words["label_assistant"] + reply})
