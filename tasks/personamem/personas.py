"""Generated PersonaMem data: invented people whose preferences change for reasons.

A persona's timeline holds, for each of its topics, three preferences that follow one another, the
reasons of the two changes, something tried once and the name of a helper. Sessions tell it,
unrelated chats lie between, and seven types of question ask about it. The same seed gives the same
bytes. The four answers of a question are one sentence with four entries of one list, of which the
seed made one true: neither length, position nor wording can tell it, by construction.
"""

import csv
import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from alps.errors import UsageError
from alps.folders import cache_folder, can_be_kept, keep_private
from alps.tasks.personamem.persona_timeline import (
    BYTES_A_TOKEN,
    ELSEWHERE,
    EVENTS,
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
    Language,
    Material,
    Persona,
    PersonaMessages,
    QuestionWording,
    draw_persona,
    material,
    tell,
    tellings,
    wordings,
    words_of,
)
from alps.tasks.personamem.release import LETTERS, SIZES

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
class DraftQuestion:
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
    worded: Mapping[str, Mapping[str, QuestionWording]],
    rng: random.Random,
) -> Iterator[DraftQuestion]:
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
            yield DraftQuestion(interest.topic, kind, question, shown, place, tuple(kinds))


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


def row_of(
    persona: Persona, asked: DraftQuestion, history: PersonaMessages, name: str, end: int
) -> Row:
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


VERSION = 3
"""Raised whenever the same seed may give other bytes."""
SAMPLES = 6
"""Personas of `data=samples`."""
_LATE = 0.8
"""Where in a history the first questions are asked; half of them are asked at its end. In the
published 32k set the earliest stand at .78 to .9 of the messages."""


_BESIDE = ("shared_contexts", "timelines", "options")
"""The files of a set beside the questions, a persona, a history or a question a line."""


@dataclass(frozen=True)
class Writer:
    """Writes personas one after another into the files of a set."""

    questions: "csv.DictWriter[str]"
    histories: IO[bytes]
    timelines: IO[bytes]
    options: IO[bytes]

    def write(
        self,
        persona: Persona,
        history: PersonaMessages,
        asked: Sequence[DraftQuestion],
        rng: random.Random,
    ) -> int:
        """Write one persona; return how many questions it has. `rng` draws where they are asked."""
        line = json.dumps(history.messages, ensure_ascii=False)
        name = hashlib.sha256(line.encode()).hexdigest()
        self.histories.write(f'{{"{name}": {line}}}\n'.encode())
        self.timelines.write(json.dumps(asdict(persona), ensure_ascii=False).encode() + b"\n")
        for question in asked:
            end = _end(question, history, rng)
            row = row_of(persona, question, history, name, end)
            self.questions.writerow(row)
            why = {"question_id": row["question_id"], "options": question.kinds}
            self.options.write(json.dumps(why).encode() + b"\n")
        return len(asked)


def _end(asked: DraftQuestion, history: PersonaMessages, rng: random.Random) -> int:
    """Draw where a question is asked after its events: at the end, or before a late turn."""
    length = len(history.messages)
    first = max(history.evidence[asked.topic, event] for event in EVENTS) + 2
    turns = []
    for place in range(max(first, int(_LATE * length)), length):
        if history.messages[place]["role"] == "user":
            turns.append(place)
    return rng.choice(turns) if turns and rng.random() < 0.5 else length


@contextmanager
def set_writer(folder: Path, size: str) -> Iterator[Writer]:
    """Write the files of a set, which get their names when all of them are whole."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"questions_{size}.csv", *(f"{name}_{size}.jsonl" for name in _BESIDE)]
    begun = [folder / f"{name}.tmp" for name in names]
    with (
        begun[0].open("w", encoding="utf-8", newline="") as questions,
        begun[1].open("wb") as histories,
        begun[2].open("wb") as timelines,
        begun[3].open("wb") as options,
    ):
        # Read back as it stands, so no cell is guarded as those of exports are: what a model words
        # as a question is refused where it begins as a formula.
        rows: csv.DictWriter[str] = csv.DictWriter(questions, COLUMNS)
        rows.writeheader()
        yield Writer(rows, histories, timelines, options)
    for path, name in zip(begun, names, strict=True):
        path.replace(folder / name)


def sample_set(size: str) -> Path:
    """Return the folder of the samples of one size, which are generated once, in English.

    Raises:
        UsageError: If there is no cache folder to keep them in.
    """
    folder = cache_folder()
    if folder is None or not can_be_kept(folder / "personamem"):
        raise UsageError(
            "data=samples: alps generates PersonaMem's questions and needs a cache folder for "
            "them; set ALPS_CACHE to a folder, or run alps data personas out=FOLDER and give "
            "data=FOLDER"
        )
    kept = folder / "personamem" / f"samples-{size}-{VERSION}"
    if not kept.is_dir():
        with TemporaryDirectory(dir=kept.parent) as scratch:
            made = Path(scratch) / "made"
            write_set(made, personas=SAMPLES, size=size)
            keep_private(made, *made.iterdir())
            # Another process may have been first: its bytes are the same.
            with suppress(OSError):
                made.rename(kept)
    return kept


def seeded(seed: int, language: str, size: str, number: int) -> tuple[random.Random, random.Random]:
    """Return what draws a persona, and what draws where its questions are asked."""
    name = f"{seed} {language} {size} {number}"
    return random.Random(name), random.Random(f"{name} ends")


def write_set(
    folder: Path, *, personas: int, size: str, seed: int = 0, language: Language = "en"
) -> int:
    """Write one size of a set from templates; return how many questions it has.

    Raises:
        UsageError: If the size is unknown.
    """
    if size not in SIZES:
        raise UsageError(f"size={size}: unknown (known: {', '.join(SIZES)})")
    count, words = 0, words_of(language)
    with set_writer(folder, size) as writer:
        for number in range(personas):
            rng, places = seeded(seed, language, size, number)
            drawn = material(words, rng)
            persona = draw_persona(number, drawn, rng)
            history = tell(persona, tellings(persona, words, rng), size, words, rng)
            worded = {topic.name: wordings(topic, words) for topic in drawn.topics}
            count += writer.write(persona, history, list(ask(persona, drawn, worded, rng)), places)
    return count
