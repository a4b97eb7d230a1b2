"""Replies of a model about an invented person, and the checks that each reply must pass.

A reply that breaks one is asked for again, with the sentence that says what is wrong.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Literal

from alps.llm.replies import ReplyModel, forgiving, read_tolerantly
from alps.llm.types import AnswerType, Read
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
    QuestionWording,
    Reason,
    Telling,
    Topic,
    alike,
)
from alps.text import fold

ITEMS, REASONS = 8, 6
"""Entries that are kept of those written: the nearest in length."""
_SIGNS_OF_FORMULAS = "=+-−@"
_LONGEST_BIOGRAPHY, _LONGEST_TEXT, _LONGEST_WORDING = 800, 1_500, 400


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
    _names_none("biography", biography, known)
    return Read(Material(biography, tuple(topics), reasons, outline.helpers, outline.elsewhere))


def _reasons(written: Sequence[ReasonReply]) -> tuple[Reason, ...]:
    """Keep the reasons that are alike both as they are said and as traits."""
    by_trait: dict[str, str] = {}
    for reason in written:
        by_trait.setdefault(" ".join(reason.trait.split()), " ".join(reason.why.split()))
    traits = {why: trait for trait, why in by_trait.items()}
    whys = _entries("reasons, why", list(traits), REASONS + 2)
    kept = _entries("reasons, trait", [traits[why] for why in whys], REASONS)
    return tuple(Reason(why, traits[why]) for why in whys if traits[why] in kept)


def _entries(what: str, written: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the entries of a list that are kept: distinct ones, nearest in length.

    Raises:
        ValueError: If they can't be told apart, or are too different in length.
    """
    texts = list(dict.fromkeys(" ".join(entry.split()) for entry in written))
    apart = [text for text in texts if text and not _part_of_another(text, texts)]
    try:
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
            _names_none(where, f"{question}\n{option}", known)
            worded[kind] = QuestionWording(question, option)
        asked = [fold(wording.question) for wording in worded.values()]
        again = [number for number, text in enumerate(asked) if text in asked[:number]]
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
