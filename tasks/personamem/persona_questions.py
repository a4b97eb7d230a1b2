"""Questions about invented people, whose options are balanced in length and position.

The four answers of a question are one sentence with four entries of one list, of which the seed
made one true: neither length, position nor wording can tell it, by construction.
"""

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from alps.tasks.personamem.persona_histories import BYTES_A_TOKEN, History
from alps.tasks.personamem.persona_timeline import (
    ELSEWHERE,
    EVIDENCE,
    FACT,
    ITEM,
    NEW_IDEAS,
    REASONS,
    SCENARIOS,
    STEPS,
    TOPICS_OF_ONE,
    TRACK,
    Interest,
    Material,
    Persona,
    Wording,
)
from alps.tasks.personamem.release import LETTERS

COLUMNS = (
    "persona_id",
    "question_id",
    "question_type",
    "topic",
    "context_length_in_tokens",
    "context_length_in_letters",
    "distance_to_ref_in_blocks",
    "distance_to_ref_in_tokens",
    "num_irrelevant_tokens",
    "distance_to_ref_proportion_in_context",
    "user_question_or_message",
    "correct_answer",
    "all_options",
    "shared_context_id",
    "end_index_in_shared_context",
)
Row = dict[str, str]
GOLD = "gold"
"""What stands for the right option where the others have why they are wrong."""


@dataclass(frozen=True)
class Asked:
    """One question before it becomes a row.

    Attributes:
        gold: The place of the right option.
        kinds: Why each option is wrong; `gold` for the right one.
    """

    topic: str
    type: str
    question: str
    options: tuple[str, ...]
    gold: int
    kinds: tuple[str, ...]


def ask(
    persona: Persona,
    material: Material,
    worded: Mapping[str, Mapping[str, Wording]],
    rng: random.Random,
) -> Iterator[Asked]:
    """Yield a persona's questions, gold positions dealt out evenly.

    Args:
        persona: Whose timeline says what is right.
        material: The entries that wrong options are drawn from.
        worded: The wording of each type of question, by topic.
        rng: Draws options and positions.
    """
    shift = persona.id  # 35 questions are no multiple of 4: the letters take turns
    positions = [(place + shift) % len(LETTERS) for place in range(len(EVIDENCE) * TOPICS_OF_ONE)]
    rng.shuffle(positions)
    for interest in persona.interests:
        for kind in EVIDENCE:
            wording = worded[interest.topic][kind]
            gold, wrong = _entries(kind, persona, interest, material, rng)
            question = wording.question
            # Of reasons no other topic is asked; the draw keeps a seed's questions what they were.
            if kind in (REASONS, SCENARIOS):
                question = question.replace(ELSEWHERE, rng.choice(material.elsewhere))
            entries = rng.sample(wrong, len(wrong))
            place = positions.pop()
            entries.insert(place, gold)
            shown = tuple(_filled(wording.option, entry) for entry in entries)
            kinds = [_why_wrong(kind, entry, interest) for entry in entries]
            kinds[place] = GOLD
            yield Asked(interest.topic, kind, question, shown, place, tuple(kinds))


Entry = tuple[str, ...]
"""What fills the slots of an option: one item, or three in their order."""


def _entries(
    kind: str, persona: Persona, interest: Interest, material: Material, rng: random.Random
) -> tuple[Entry, list[Entry]]:
    """Return the right entry of a question, and three wrong ones of the same list."""
    used = (*interest.likes, interest.tried)
    unseen = [item for item in material.items(interest.topic) if item not in used]
    old, between, new = interest.likes
    if kind == TRACK:
        return interest.likes, [(old, new, between), (between, old, new), (new, between, old)]
    if kind == FACT:
        helpers = [other.helper for other in persona.interests if other is not interest]
        gold, wrong = interest.helper, rng.sample(helpers, 3)
    elif kind == NEW_IDEAS:
        gold, wrong = rng.choice(unseen), rng.sample(used, 3)
    elif kind in (REASONS, SCENARIOS):
        before, latest = interest.reasons
        others = [reason for reason in material.reasons if reason not in interest.reasons]
        drawn = [latest, before, *rng.sample(others, 2)]
        gold, *wrong = [reason.why if kind == REASONS else reason.trait for reason in drawn]
    else:
        gold, wrong = new, [old, interest.tried, rng.choice(unseen)]
    return (gold,), [(entry,) for entry in wrong]


def _why_wrong(kind: str, entry: Entry, interest: Interest) -> str:
    """Return what is wrong with a wrong entry, as the timeline tells it."""
    of_type = {TRACK: "order", FACT: "other_topic", NEW_IDEAS: "known"}
    if kind in of_type:
        return of_type[kind]
    before = interest.reasons[0]
    if entry[0] in (*interest.likes, before.why, before.trait):
        return "superseded"
    return "disliked" if entry[0] == interest.tried else "unsaid"


def _filled(sentence: str, entry: Entry) -> str:
    slots = (ITEM,) if len(entry) == 1 else STEPS
    for slot, text in zip(slots, entry, strict=True):
        sentence = sentence.replace(slot, text)
    return sentence


def row_of(persona: Persona, asked: Asked, history: History, name: str, end: int) -> Row:
    """Write a question as a row, asked before message `end` of the history `name`."""
    messages, topic, kind = history.messages[:end], asked.topic, asked.type
    at = history.evidence[topic, EVIDENCE[kind]]
    lengths = [len(message["content"].encode()) for message in messages]
    total, back = sum(lengths) // BYTES_A_TOKEN, sum(lengths[at:]) // BYTES_A_TOKEN
    letters = sum(len(message["content"]) for message in messages)
    before = [place for place in history.irrelevant if place < end]
    irrelevant = sum(lengths[place] for place in before) // BYTES_A_TOKEN
    sessions = sum(message["role"] == "system" for message in messages[at:])
    listed = [f"({letter}) {text}" for letter, text in zip(LETTERS, asked.options, strict=True)]
    identity = f"{name} {topic} {kind}"
    return {
        "persona_id": str(persona.id),
        "question_id": hashlib.sha256(identity.encode()).hexdigest()[:32],
        "question_type": kind,
        "topic": topic,
        "context_length_in_tokens": str(total),
        "context_length_in_letters": str(letters),
        "distance_to_ref_in_blocks": str(sessions),
        "distance_to_ref_in_tokens": str(back),
        "num_irrelevant_tokens": str(irrelevant),
        "distance_to_ref_proportion_in_context": f"{back / total:.2%}",
        "user_question_or_message": asked.question,
        "correct_answer": f"({LETTERS[asked.gold]})",
        "all_options": json.dumps(listed, ensure_ascii=False),
        "shared_context_id": name,
        "end_index_in_shared_context": str(end),
    }
