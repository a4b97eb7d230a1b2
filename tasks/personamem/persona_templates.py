"""Texts of invented people from templates: deterministic, embedded, in English and Chinese."""

import random
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from alps.tasks.personamem.persona_timeline import (
    EVENTS,
    EVIDENCE,
    TOPICS_OF_ONE,
    Interest,
    Material,
    Outline,
    Persona,
    Reason,
    Telling,
    Topic,
    Wording,
)

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
_FRAMES = {"begin": "like", "helper": "fact", "change": "change", "latest": "change"}
Words = dict[str, Any]
Chat = tuple[str, str]
"""An unrelated question, and the assistant's answer."""


@cache
def words_of(language: Language) -> Words:
    """Read the words and phrases of a language."""
    text = (files("alps.tasks.personamem") / "words" / f"{language}.toml").read_text(
        encoding="utf-8"
    )
    return tomllib.loads(text)


def outline(words: Words, rng: random.Random) -> Outline:
    """Draw who a persona is, and the topics."""
    name, age = rng.choice(words["names"]), rng.randint(24, 67)
    job, town = rng.choice(words["jobs"]), rng.choice(words["towns"])
    names = rng.sample(sorted(words["topics"]), TOPICS_OF_ONE)
    helpers = rng.sample(words["people"]["first"], TOPICS_OF_ONE)
    topics, elsewhere = [], []
    for topic in names:
        entry = words["topics"][topic]
        topics.append(Topic(topic, entry["title"], tuple(entry["items"])))
    for topic in sorted(words["topics"]):
        if topic not in names:
            elsewhere.append(words["topics"][topic]["title"])
    return Outline(name, age, job, town, tuple(topics), tuple(helpers), tuple(elsewhere))


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


def wordings(topic: Topic, words: Words) -> dict[str, Wording]:
    """Return how each type of question asks about a topic."""
    worded = {}
    for kind in EVIDENCE:
        question = words["ask"][kind].replace("{topic}", topic.title)
        worded[kind] = Wording(question, words["answer"][kind])
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
