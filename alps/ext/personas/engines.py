"""Engines that write an invented person's texts: templates, or any litellm model.

Both give the same three things: what a timeline is drawn from, how its events are told, and how
the questions are worded. What becomes true, balance and positions are the plan's, in `alps.data`.
"""

import asyncio
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from alps.errors import AlpsError
from alps.ext.personas.replies import (
    material_answer,
    must_say,
    slots_of,
    tellings_answer,
    wordings_answer,
)
from alps.llm.client import Client
from alps.llm.types import AnswerType, Request, Structured
from alps.prompts import Prompt, load_prompt
from alps.tasks.personamem.persona_timeline import (
    EVENTS,
    EVIDENCE,
    Interest,
    Material,
    Persona,
    QuestionWording,
    Telling,
    Topic,
    Words,
    date_in,
    material,
    outline,
    tellings,
    wordings,
)

T = TypeVar("T")
MATERIAL, TELLINGS, WORDINGS = (
    load_prompt("alps.ext.personas", "prompts", name)
    for name in ("material", "tellings", "wordings")
)
DRAWS = 3
"""Independent draws of a text that fails its checks; each is re-asked, too."""
_LANGUAGES = {"en": "English", "zh": "Chinese"}
_ASKS = (
    "suggests an afternoon of the topic; the option names what the user likes now: {item}",
    "asks for the name of the person who helped at the beginning; {item} is a first name",
    "asks how the taste went over time; the option holds {a}, then {b}, then {c}",
    "asks why the taste changed the last time; {item} is a clause such as 'I missed the sea'",
    "asks for something in the topic that was not talked about yet; the option proposes {item}",
    "will begin with {elsewhere}, and asks what should count there, by the last change of taste "
    "in the topic; the option names a quality: {item}",
    "asks what a friend could give as a present within the topic; the option names {item}",
)
"""What each type of question asks, in the order of `EVIDENCE`."""
_WHAT = {
    "begin": "the user took to something",
    "helper": "somebody helped the user at that time",
    "change": "the user gave up the first for the second, for the reason",
    "latest": "the user gave up the first for the second, for the reason",
    "tried": "the user tried something once, and did not like it much",
}


class UnwrittenError(AlpsError):
    """A model's text failed its checks however often it was asked for.

    Or no answer came at all: `outcome` says which.
    """

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class Engine(Protocol):
    """Gives the texts of a persona; the same generator state gives the same ones."""

    async def material(self, number: int, rng: random.Random) -> Material:
        """Return what the timeline is drawn from."""
        ...

    async def tellings(
        self, persona: Persona, drawn: Material, rng: random.Random
    ) -> dict[tuple[str, str], Telling]:
        """Return how the user tells each event, by topic and event."""
        ...

    async def wordings(
        self, persona: Persona, drawn: Material
    ) -> dict[str, dict[str, QuestionWording]]:
        """Return how each type of question asks about each topic."""
        ...


@dataclass(frozen=True)
class Templates:
    """The embedded engine: phrases of one language."""

    words: Words

    async def material(self, number: int, rng: random.Random) -> Material:
        """Draw from the lists of the language."""
        return material(self.words, rng)

    async def tellings(
        self, persona: Persona, drawn: Material, rng: random.Random
    ) -> dict[tuple[str, str], Telling]:
        """Say each event in a phrase of the language."""
        return tellings(persona, self.words, rng)

    async def wordings(
        self, persona: Persona, drawn: Material
    ) -> dict[str, dict[str, QuestionWording]]:
        """Use the sentences of the language."""
        return {topic.name: wordings(topic, self.words) for topic in drawn.topics}


@dataclass(frozen=True)
class Model:
    """A model that writes everything but names, towns and topics, which the seed draws.

    Attributes:
        sampling: Its decoding, as far as it was given.
        extra: What else the provider is sent.
    """

    name: str
    client: Client
    words: Words
    language: str
    api_base: str | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    structured: Structured | None = None

    async def material(self, number: int, rng: random.Random) -> Material:
        """Have a biography and lists of entries written, for topics that the seed draws."""
        drawn = outline(self.words, rng)
        who = {
            "name": drawn.name,
            "age": drawn.age,
            "job": drawn.job,
            "town": drawn.town,
            "topics": [topic.title for topic in drawn.topics],
        }
        answer = material_answer(drawn)
        return await self._written(MATERIAL, who, answer, about=f"persona {number}")

    async def tellings(
        self, persona: Persona, drawn: Material, rng: random.Random
    ) -> dict[tuple[str, str], Telling]:
        """Have the model write the events of each topic, with the timeline's words where needed."""
        interests = persona.interests
        replies = await asyncio.gather(
            *(self._told(persona, interest, drawn) for interest in interests)
        )
        told = {}
        for interest, reply in zip(interests, replies, strict=True):
            for event in EVENTS:
                told[interest.topic, event] = reply[event]
        return told

    async def _told(
        self, persona: Persona, interest: Interest, drawn: Material
    ) -> dict[str, Telling]:
        dates = {event: date_in(self.words, interest.date(event)) for event in EVENTS}
        events = []
        for event in EVENTS:
            say = list(must_say(interest, event, dates[event]))
            events.append({"what": _WHAT[event], "say": say})
        title = next(topic.title for topic in drawn.topics if topic.name == interest.topic)
        asked = {"biography": persona.biography, "topic": title, "events": events}
        answer = tellings_answer(interest, drawn, dates)
        about = f"persona {persona.id}, events of {title}"
        return await self._written(TELLINGS, asked, answer, about=about)

    async def wordings(
        self, persona: Persona, drawn: Material
    ) -> dict[str, dict[str, QuestionWording]]:
        """Have the questions about each topic worded, with slots for the entries."""
        topics = drawn.topics
        replies = await asyncio.gather(*(self._worded(persona, topic, drawn) for topic in topics))
        return {topic.name: reply for topic, reply in zip(topics, replies, strict=True)}

    async def _worded(
        self, persona: Persona, topic: Topic, drawn: Material
    ) -> dict[str, QuestionWording]:
        questions = []
        for kind, asks in zip(EVIDENCE, _ASKS, strict=True):
            questions.append({"asks": asks, "slots": list(slots_of(kind))})
        # The number makes two personas with one topic two requests: else they get the same words.
        asked = {"topic": topic.title, "variant": persona.id, "questions": questions}
        about = f"persona {persona.id}, questions about {topic.title}"
        return await self._written(WORDINGS, asked, wordings_answer(topic, drawn), about=about)

    async def _written(
        self, prompt: Prompt, asked: Mapping[str, Any], answer: AnswerType[T], *, about: str
    ) -> T:
        """Ask for a text until it passes its checks.

        Raises:
            UnwrittenError: If it does not in `DRAWS` draws, or the model can't be asked.
        """
        payload = {"language": _LANGUAGES[self.language], **asked}
        messages = chat(prompt, payload)
        for draw in range(DRAWS):
            request = Request(
                model=self.name,
                messages=messages,
                answer=answer,
                sampling=self.sampling,
                api_base=self.api_base,
                extra=self.extra,
                repeat=draw,
                about=about,
                structured=self.structured,
            )
            reply = await self.client.complete(request)
            if reply.value is not None:
                return reply.value
            if reply.outcome in ("budget", "transport"):
                break
        raise UnwrittenError(reply.outcome, f"{about}: {reply.error or reply.outcome}")


def chat(prompt: Prompt, payload: Mapping[str, Any]) -> tuple[Mapping[str, str], ...]:
    """Return instructions and, as the user's message, what they are about as JSON."""
    shown = json.dumps(payload, ensure_ascii=False)
    return {"role": "system", "content": prompt.text}, {"role": "user", "content": shown}
