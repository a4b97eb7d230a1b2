"""Generated PersonaMem data: invented people whose preferences change for reasons.

A persona's timeline holds, for each of its topics, three preferences that follow one another, the
reasons of the two changes, something tried once and the name of a helper. Sessions tell it,
unrelated chats lie between, and seven types of question ask about it. The four answers of a
question are one sentence with four entries of one list, of which the seed made one true: neither
length, position nor wording can tell it, by construction. The same seed gives the same bytes.
"""

import csv
import hashlib
import json
import random
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from alps.data.personamem import LETTERS, SIZES
from alps.errors import UsageError
from alps.folders import cache_folder, can_be_kept

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
VERSION = 1
"""Raised whenever the same seed may give other bytes."""
SAMPLES = 6
"""Personas of `data=samples`."""
TOPICS_OF_ONE = 5
"""Topics of one persona: with seven types each, 35 questions."""
BYTES_A_TOKEN = 4
_TOKENS = {"32k": 32_000, "128k": 128_000, "1M": 1_000_000}
_FILLED = 0.9
"""The share of the size that histories fill, as in the published sets."""
_BLOCKS = {"32k": 10, "128k": 20, "1M": 60}
"""Sessions of a history, as in the published sets."""
_COLUMNS = (
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


@dataclass(frozen=True)
class Interest:
    """What one persona's timeline says of one topic.

    Attributes:
        likes: Three preferences, each given up for the next.
        reasons: The places in the list of reasons of the two changes.
        tried: What was tried once and not liked.
        helper: Who helped when it began.
        dates: When each preference began, and when the last was tried: (year, month) each.
    """

    topic: str
    likes: tuple[str, str, str]
    reasons: tuple[int, int]
    tried: str
    helper: str
    dates: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Persona:
    """One invented user: a biography and a timeline."""

    id: int
    biography: str
    interests: tuple[Interest, ...]


@dataclass(frozen=True)
class _History:
    """The messages of one persona, and where each topic's evidence stands in them."""

    messages: list[dict[str, str]]
    evidence: dict[tuple[str, str], int]
    irrelevant: list[int]


@dataclass(frozen=True)
class _Asked:
    """One question before it becomes a row; `gold` is the place of the right option."""

    topic: str
    type: str
    question: str
    options: tuple[str, ...]
    gold: int


def sample_set(size: str) -> Path:
    """Return the folder of the samples of one size, which are generated once, in English.

    Raises:
        UsageError: If there is no cache folder to keep them in.
    """
    folder = cache_folder()
    if folder is None or not can_be_kept(folder / "personamem"):
        raise UsageError("data=samples: no cache folder for PersonaMem; use alps data personas")
    kept = folder / "personamem" / f"samples-{size}-{VERSION}"
    if not kept.is_dir():
        with TemporaryDirectory(dir=kept.parent) as scratch:
            made = Path(scratch) / "made"
            write_set(made, personas=SAMPLES, size=size)
            # Another process may have been first: its bytes are the same.
            with suppress(OSError):
                made.rename(kept)
    return kept


def write_set(
    folder: Path, *, personas: int, size: str, seed: int = 0, language: Language = "en"
) -> int:
    """Write one size of a generated set; return how many questions it has.

    Three files: `questions_<size>.csv`, `shared_contexts_<size>.jsonl`, and
    `timelines_<size>.jsonl`, which says what is true of whom.

    Raises:
        UsageError: If the size or the language is unknown.
    """
    if size not in SIZES:
        raise UsageError(f"size={size}: unknown (known: {', '.join(SIZES)})")
    if language not in LANGUAGES:
        raise UsageError(f"language={language}: unknown (known: {', '.join(LANGUAGES)})")
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    with (
        (folder / f"questions_{size}.csv").open("w", encoding="utf-8", newline="") as questions,
        (folder / f"shared_contexts_{size}.jsonl").open("wb") as histories,
        (folder / f"timelines_{size}.jsonl").open("wb") as timelines,
    ):
        writer = csv.DictWriter(questions, _COLUMNS)
        writer.writeheader()
        for number in range(personas):
            rng = random.Random(f"{seed} {language} {size} {number}")
            persona = make_persona(number, rng, language)
            history = _tell(persona, size, rng, language)
            line = json.dumps(history.messages, ensure_ascii=False)
            name = hashlib.sha256(line.encode()).hexdigest()
            histories.write(f'{{"{name}": {line}}}\n'.encode())
            timelines.write(json.dumps(asdict(persona), ensure_ascii=False).encode() + b"\n")
            for row in _ask(persona, history, name, rng, language):
                writer.writerow(row)
                count += 1
    return count


def make_persona(number: int, rng: random.Random, language: Language) -> Persona:
    """Draw one persona; the same generator state gives the same one."""
    words = _words(language)
    biography = words["biography"].format(
        name=rng.choice(words["names"]),
        age=rng.randint(24, 67),
        job=rng.choice(words["jobs"]),
        town=rng.choice(words["towns"]),
    )
    topics = rng.sample(sorted(words["topics"]), TOPICS_OF_ONE)
    helpers = rng.sample(words["people"]["first"], TOPICS_OF_ONE)
    interests = []
    for topic, helper in zip(topics, helpers, strict=True):
        first, second, third, tried = rng.sample(words["topics"][topic]["items"], 4)
        before, after = rng.sample(range(len(words["reasons"])), 2)
        year = rng.randint(2019, 2022)
        dates = tuple((year + step, rng.randint(1, 12)) for step in range(4))
        interests.append(
            Interest(topic, (first, second, third), (before, after), tried, helper, dates)
        )
    return Persona(number, biography, tuple(interests))


def _tell(persona: Persona, size: str, rng: random.Random, language: Language) -> _History:
    """Tell a timeline in sessions, in the order of its dates, with unrelated chats between."""
    words = _words(language)
    told = sorted(_events(persona, rng, words), key=lambda event: event[0])
    blocks = _BLOCKS[size]
    budget = int(_TOKENS[size] * _FILLED * BYTES_A_TOKEN)
    spent = sum(len(text.encode()) for _, _, text in told)
    session_cost = len(persona.biography.encode()) * blocks
    chats = _chats(budget - spent - session_cost, blocks, rng, words)
    history = _History([], {}, [])
    for number in range(blocks):
        history.messages.append({"role": "system", "content": persona.biography})
        _say(history, words, rng.choice(words["frames"]["smalltalk"]))
        _answer(history, words, rng.choice(words["frames"]["smallreply"]))
        first, last = (len(told) * number // blocks, len(told) * (number + 1) // blocks)
        for _, key, text in told[first:last]:
            history.evidence[key] = len(history.messages)
            _say(history, words, text)
            _answer(history, words, rng.choice(words["frames"]["reply"]))
        for question, answer in chats[number]:
            history.irrelevant.extend((len(history.messages), len(history.messages) + 1))
            _say(history, words, question)
            _answer(history, words, answer)
    return history


def _events(
    persona: Persona, rng: random.Random, words: dict[str, Any]
) -> Iterator[tuple[tuple[int, int, str], tuple[str, str], str]]:
    """Yield each event: when it was, what it is evidence for, and how the user tells it."""
    frames = words["frames"]
    for interest in persona.interests:
        dates = [_date(date, words) for date in interest.dates]
        old, between, new = interest.likes
        why = [words["reasons"][place]["why"] for place in interest.reasons]
        texts = {
            "begin": rng.choice(frames["like"]).format(item=old, date=dates[0]),
            "helper": rng.choice(frames["fact"]).format(person=interest.helper, date=dates[0]),
            "change": rng.choice(frames["change"]).format(
                old=old, new=between, date=dates[1], why=why[0]
            ),
            "latest": rng.choice(frames["change"]).format(
                old=between, new=new, date=dates[2], why=why[1]
            ),
            "tried": rng.choice(frames["tried"]).format(item=interest.tried, date=dates[3]),
        }
        when = dict(zip(texts, (0, 0, 1, 2, 3), strict=True))
        for order, (kind, text) in enumerate(texts.items()):
            title = words["topics"][interest.topic]["title"]
            shown = f"{title[:1].upper()}{title[1:]}: {text}"
            year, month = interest.dates[when[kind]]
            yield (year, month, f"{interest.topic} {order}"), (interest.topic, kind), shown


def _chats(
    budget: int, blocks: int, rng: random.Random, words: dict[str, Any]
) -> list[list[tuple[str, str]]]:
    """Make unrelated chats of about `budget` bytes in all, spread evenly over the sessions."""
    chat, of_session = words["chat"], []
    for _ in range(blocks):
        left, chats = budget // blocks, []
        while left > 0:
            thing = rng.choice(chat["things"])
            sentences = rng.choices(chat["sentences"], k=rng.randint(4, 12))
            answer = " ".join(
                sentence.format(thing=thing, n=rng.randint(2, 60)) for sentence in sentences
            )
            question = rng.choice(chat["ask"]).format(thing=thing)
            chats.append((question, answer))
            left -= len(question.encode()) + len(answer.encode())
        of_session.append(chats)
    return of_session


def _say(history: _History, words: dict[str, Any], text: str) -> None:
    history.messages.append({"role": "user", "content": words["label_user"] + text})


def _answer(history: _History, words: dict[str, Any], text: str) -> None:
    history.messages.append({"role": "assistant", "content": words["label_assistant"] + text})


EVIDENCE = {
    "recall_user_shared_facts": "latest",
    "recalling_facts_mentioned_by_the_user": "helper",
    "track_full_preference_evolution": "latest",
    "recalling_the_reasons_behind_previous_updates": "latest",
    "suggest_new_ideas": "tried",
    "generalizing_to_new_scenarios": "latest",
    "provide_preference_aligned_recommendations": "latest",
}
"""The event that each type of question is about."""


def _ask(
    persona: Persona, history: _History, name: str, rng: random.Random, language: Language
) -> Iterator[Row]:
    """Yield the rows of a persona's questions, gold positions dealt out evenly."""
    words = _words(language)
    shift = persona.id  # 35 questions are no multiple of 4: the letters take turns
    positions = [(place + shift) % len(LETTERS) for place in range(len(EVIDENCE) * TOPICS_OF_ONE)]
    rng.shuffle(positions)
    for interest in persona.interests:
        for kind in EVIDENCE:
            question, gold, wrong = _options(kind, persona, interest, rng, words)
            options = rng.sample(wrong, len(wrong))
            place = positions.pop()
            options.insert(place, gold)
            asked = _Asked(interest.topic, kind, question, tuple(options), place)
            yield _row(persona, asked, history, name)


def _options(
    kind: str, persona: Persona, interest: Interest, rng: random.Random, words: dict[str, Any]
) -> tuple[str, str, list[str]]:
    """Return a question, its right answer, and three wrong ones of the same make."""
    title = words["topics"][interest.topic]["title"]
    items = words["topics"][interest.topic]["items"]
    used = (*interest.likes, interest.tried)
    unseen = [item for item in items if item not in used]
    old, between, new = interest.likes
    entry = words["answer"][kind]
    elsewhere = ""
    if kind == "track_full_preference_evolution":
        orders = [(old, new, between), (between, old, new), (new, between, old)]
        made = [entry.format(a=a, b=b, c=c) for a, b, c in orders]
        return words["ask"][kind].format(topic=title), entry.format(a=old, b=between, c=new), made
    if kind == "recalling_facts_mentioned_by_the_user":
        helpers = [other.helper for other in persona.interests if other is not interest]
        gold, wrong = interest.helper, rng.sample(helpers, 3)
    elif kind == "suggest_new_ideas":
        gold, wrong = rng.choice(unseen), rng.sample(used, 3)
    elif kind in ("recalling_the_reasons_behind_previous_updates", "generalizing_to_new_scenarios"):
        field = "why" if kind.startswith("recalling") else "trait"
        before, latest = interest.reasons
        others = [place for place in range(len(words["reasons"])) if place not in (before, latest)]
        places = [latest, before, *rng.sample(others, 2)]
        gold, *wrong = [words["reasons"][place][field] for place in places]
        mine = {told.topic for told in persona.interests}
        free = [topic for topic in sorted(words["topics"]) if topic not in mine]
        elsewhere = words["topics"][rng.choice(free)]["title"]
    else:
        gold, wrong = new, [old, interest.tried, rng.choice(unseen)]
    question = words["ask"][kind].format(topic=title, elsewhere=elsewhere)
    return question, entry.format(item=gold), [entry.format(item=item) for item in wrong]


def _row(persona: Persona, asked: _Asked, history: _History, name: str) -> Row:
    messages, topic, kind = history.messages, asked.topic, asked.type
    at = history.evidence[topic, EVIDENCE[kind]]
    lengths = [len(message["content"].encode()) for message in messages]
    total, back = sum(lengths) // BYTES_A_TOKEN, sum(lengths[at:]) // BYTES_A_TOKEN
    letters = sum(len(message["content"]) for message in messages)
    irrelevant = sum(lengths[place] for place in history.irrelevant) // BYTES_A_TOKEN
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
        "end_index_in_shared_context": str(len(messages)),
    }


def _date(date: tuple[int, int], words: dict[str, Any]) -> str:
    year, month = date
    return str(words["date"]).format(year=year, month=words["months"][month - 1])


@cache
def _words(language: Language) -> dict[str, Any]:
    text = (files("alps.data") / "persona_words" / f"{language}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
