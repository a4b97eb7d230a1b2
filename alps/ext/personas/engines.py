"""Engines that write an invented person's texts: templates, or any litellm model.

Both give the same three things: what a timeline is drawn from, how its events are told, and how
the questions are worded. What becomes true, balance and positions are the plan's, in `alps.data`.

A reply of a model must pass checks; one that breaks any is asked for again, with the sentence that
says what is wrong.
"""

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, Protocol, TypeVar

from alps.errors import AlpsError
from alps.llm.client import Client
from alps.llm.replies import ReplyModel, forgiving, read_tolerantly
from alps.llm.types import AnswerType, Read, Request, Structured
from alps.prompts import Prompt, load_prompt
from alps.tasks.personamem.persona_timeline import (
    ELSEWHERE,
    EVENTS,
    EVIDENCE,
    ITEM,
    SCENARIOS,
    STEPS,
    TRACK,
    Interest,
    Material,
    Outline,
    Persona,
    QuestionWording,
    Reason,
    Telling,
    Topic,
    Words,
    alike,
    date_in,
    material,
    outline,
    tellings,
    wordings,
)
from alps.text import fold

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


# Length gives published answers away: the longest option is right in 50.5 % of the 32k set.
ITEMS, REASONS = 8, 6
"""Entries that are kept of those written: the nearest in length."""
_SIGNS_OF_FORMULAS = "=+-−@"
_LONGEST_BIOGRAPHY, _LONGEST_TEXT, _LONGEST_WORDING = 800, 1_500, 400


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
                # A part of the cache's key: without it the reply that failed would come again.
                repeat=draw,
                about=about,
                structured=self.structured,
            )
            reply = await self.client.complete(request)
            if reply.value is not None:
                return reply.value
            # Another draw would meet the same budget, or the same outage.
            if reply.outcome in ("budget", "transport"):
                break
        raise UnwrittenError(reply.outcome, f"{about}: {reply.error or reply.outcome}")


def chat(prompt: Prompt, payload: Mapping[str, Any]) -> tuple[Mapping[str, str], ...]:
    """Return instructions and, as the user's message, what they are about as JSON."""
    shown = json.dumps(payload, ensure_ascii=False)
    return {"role": "system", "content": prompt.text}, {"role": "user", "content": shown}


class ItemsReply(ReplyModel):
    """The items of one topic."""

    items: list[str]


class ReasonReply(ReplyModel):
    """One reason of a change."""

    why: str
    trait: str


class MaterialReply(ReplyModel):
    """A biography, and lists of interchangeable entries."""

    biography: str
    topics: list[ItemsReply]
    reasons: list[ReasonReply]


class MessageReply(ReplyModel):
    """One event as the user tells it, and the assistant's answer."""

    text: str
    reply: str


class TellingsReply(ReplyModel):
    """The events of one topic."""

    messages: list[MessageReply]


class QuestionReply(ReplyModel):
    """One question and the sentence of its options."""

    question: str
    option: str


class WordingsReply(ReplyModel):
    """The questions about one topic."""

    questions: list[QuestionReply]


def _letter(value: object) -> str:
    return str(value or "").strip().strip("()").rstrip(".:").lower()


class BlindReply(ReplyModel):
    """One letter."""

    choice: Annotated[Literal["a", "b", "c", "d"], forgiving(_letter)]


BLIND: AnswerType[str] = AnswerType(
    schema=BlindReply,
    read=lambda node: Read(read_tolerantly(BlindReply, node).choice),
    partial=False,
)


def material_answer(outline: Outline) -> AnswerType[Material]:
    """Return how the first reply about a persona is read."""
    return AnswerType(MaterialReply, partial(_read_material, outline), partial=False)


def _read_material(outline: Outline, node: object) -> Read[Material]:
    reply = read_tolerantly(MaterialReply, node)
    if len(reply.topics) != len(outline.topics):
        raise ValueError(f"topics: {len(reply.topics)} lists of items for {len(outline.topics)}")
    biography = _text("biography", reply.biography, _LONGEST_BIOGRAPHY)
    topics = []
    for topic, written in zip(outline.topics, reply.topics, strict=True):
        items = _entries(f"items of {topic.title}", written.items, ITEMS)
        topics.append(Topic(topic.name, topic.title, items))
    reasons = _reasons(reply.reasons)
    known = [item for topic in topics for item in topic.items]
    for reason in reasons:
        known += [reason.why, reason.trait]
    # The biography begins every session: an entry in it would be known without the history.
    _names_none("biography", biography, known)
    return Read(Material(biography, tuple(topics), reasons, outline.helpers, outline.elsewhere))


def _reasons(written: Sequence[ReasonReply]) -> tuple[Reason, ...]:
    """Keep the reasons that are alike both as they are said and as traits."""
    by_trait: dict[str, str] = {}
    for reason in written:
        by_trait.setdefault(" ".join(reason.trait.split()), " ".join(reason.why.split()))
    traits = {why: trait for trait, why in by_trait.items()}
    # Two more than are kept, as their traits must be alike in length, too.
    whys = _entries("reasons, why", list(traits), REASONS + 2)
    kept = _entries("reasons, trait", [traits[why] for why in whys], REASONS)
    return tuple(Reason(why, traits[why]) for why in whys if traits[why] in kept)


def _entries(what: str, written: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the entries of a list that are kept: distinct ones, nearest in length.

    Raises:
        ValueError: If they can't be told apart, or are too different in length.
    """
    texts = list(dict.fromkeys(" ".join(entry.split()) for entry in written))
    # An option that holds another one is right for both.
    apart = [text for text in texts if text and not _part_of_another(text, texts)]
    try:
        # A brace would be taken for a slot when the entry is put into a question.
        return alike([text for text in apart if "{" not in text], count)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


def _part_of_another(text: str, texts: Sequence[str]) -> bool:
    return any(text != other and fold(text) in fold(other) for other in texts)


def must_say(interest: Interest, event: str, date: str) -> tuple[str, ...]:
    """Return the words by which an event's text is held to the timeline."""
    old, between, new = interest.likes
    before, after = interest.reasons
    return {
        "begin": (old, date),
        "helper": (interest.helper, date),
        "change": (old, between, before.why, date),
        "latest": (between, new, after.why, date),
        "tried": (interest.tried, date),
    }[event]


def tellings_answer(
    interest: Interest, material: Material, dates: Mapping[str, str]
) -> AnswerType[dict[str, Telling]]:
    """Return how the texts of one topic's events are read; `dates` are in words, by event."""

    def read(node: object) -> Read[dict[str, Telling]]:
        messages = read_tolerantly(TellingsReply, node).messages
        if len(messages) != len(EVENTS):
            raise ValueError(f"messages: {len(messages)} for {len(EVENTS)} events")
        told = {}
        for number, (event, message) in enumerate(zip(EVENTS, messages, strict=True), start=1):
            where = f"messages {number}"
            said = must_say(interest, event, dates[event])
            text = _text(f"{where} text", message.text, _LONGEST_TEXT)
            reply = _text(f"{where} reply", message.reply, _LONGEST_TEXT)
            # The gold has to stand in the history: what the model words otherwise nobody could
            # find.
            missing = [words for words in said if fold(words) not in fold(text)]
            if missing:
                raise ValueError(f"{where} text: '{missing[0]}' must be in it, word for word")
            _names_none(where, f"{text}\n{reply}", _others(interest, material, said))
            told[event] = Telling(text, reply)
        return Read(told)

    return AnswerType(TellingsReply, read, partial=False)


def _others(interest: Interest, material: Material, said: Sequence[str]) -> list[str]:
    """Return the entries that a text may not name: they are true of another event, or of none."""
    every = [*material.items(interest.topic), *material.helpers]
    every += [reason.why for reason in material.reasons]
    return [entry for entry in every if entry not in said]


def slots_of(kind: str) -> tuple[str, ...]:
    """Return the slots that an option of a type of question has."""
    return STEPS if kind == TRACK else (ITEM,)


def wordings_answer(topic: Topic, material: Material) -> AnswerType[dict[str, QuestionWording]]:
    """Return how the questions about one topic are read, by type."""
    known = [*topic.items, *material.helpers]
    for reason in material.reasons:
        known += [reason.why, reason.trait]

    def read(node: object) -> Read[dict[str, QuestionWording]]:
        questions = read_tolerantly(WordingsReply, node).questions
        if len(questions) != len(EVIDENCE):
            raise ValueError(f"questions: {len(questions)} for {len(EVIDENCE)} that were asked")
        worded = {}
        for number, (kind, written) in enumerate(zip(EVIDENCE, questions, strict=True), start=1):
            where = f"questions {number}"
            question = _text(f"{where} question", written.question, _LONGEST_WORDING)
            option = _text(f"{where} option", written.option, _LONGEST_WORDING)
            _is_no_formula(f"{where} question", question)
            _has_slots(f"{where} question", question, (ELSEWHERE,) if kind == SCENARIOS else ())
            _has_slots(f"{where} option", option, slots_of(kind))
            # An entry in the wording would be in every option, or point to one of them.
            _names_none(where, f"{question}\n{option}", known)
            worded[kind] = QuestionWording(question, option)
        asked = [fold(wording.question) for wording in worded.values()]
        again = [number for number, text in enumerate(asked) if text in asked[:number]]
        # Of the published 589 rows only 400 are distinct questions about a persona.
        if again:
            raise ValueError(f"questions {again[0] + 1} question: asked before, word for word")
        return Read(worded)

    return AnswerType(WordingsReply, read, partial=False)


def _has_slots(where: str, text: str, slots: Sequence[str]) -> None:
    wrong = [slot for slot in slots if text.count(slot) != 1]
    if wrong or text.count("{") != len(slots):
        raise ValueError(f"{where}: expected these slots, each once: {', '.join(slots) or 'none'}")


def _text(where: str, text: str, longest: int) -> str:
    stripped = text.strip()
    if not 0 < len(stripped) <= longest:
        raise ValueError(f"{where}: {len(stripped)} characters; expected 1 to {longest}")
    return stripped


def _is_no_formula(where: str, text: str) -> None:
    # A question is a cell of a CSV file that is read back as it stands, so that nothing can be put
    # before it: a spreadsheet would compute it.
    first = fold(text).lstrip("\"' ")[:1]
    if first and first in _SIGNS_OF_FORMULAS:
        raise ValueError(f"{where}: begins with '{first}'; expected a letter")


def _names_none(where: str, text: str, entries: Sequence[str]) -> None:
    folded = fold(text)
    named = [entry for entry in entries if fold(entry) in folded]
    if named:
        raise ValueError(f"{where}: names '{named[0]}', which is not allowed there")
