"""Histories of invented people: sessions in the order of their dates, unrelated chats between."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from alps.tasks.personamem.persona_templates import Words, chats
from alps.tasks.personamem.persona_timeline import EVENTS, Persona, Telling

BYTES_A_TOKEN = 4
_TOKENS = {"32k": 32_000, "128k": 128_000, "1M": 1_000_000}
_FILLED = 0.9
"""The share of the size that histories fill, as in the published sets."""
_SESSIONS = {"32k": 10, "128k": 20, "1M": 60}
"""Sessions of a history, as in the published sets."""


@dataclass(frozen=True)
class History:
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
) -> History:
    """Tell a timeline in sessions, and fill them up to the size."""
    order = _in_order(persona)
    sessions = _SESSIONS[size]
    budget = int(_TOKENS[size] * _FILLED * BYTES_A_TOKEN)
    spent = sum(len(told[key].text.encode()) + len(told[key].reply.encode()) for key in order)
    biographies = len(persona.biography.encode()) * sessions
    unrelated = chats(budget - spent - biographies, sessions, words, rng)
    history, frames = History([], {}, []), words["frames"]
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


def _say(history: History, words: Words, text: str, reply: str) -> None:
    history.messages.append({"role": "user", "content": words["label_user"] + text})
    history.messages.append({"role": "assistant", "content": words["label_assistant"] + reply})
