"""Generated PersonaMem data: invented people whose preferences change for reasons.

A persona's timeline holds, for each of its topics, three preferences that follow one another, the
reasons of the two changes, something tried once and the name of a helper. Sessions tell it,
unrelated chats lie between, and seven types of question ask about it. The same seed gives the same
bytes.
"""

import csv
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from alps.errors import UsageError
from alps.folders import cache_folder, can_be_kept, keep_private
from alps.tasks.personamem.persona_histories import History, tell
from alps.tasks.personamem.persona_questions import COLUMNS, Asked, ask, row_of
from alps.tasks.personamem.persona_templates import (
    LANGUAGES,
    Language,
    material,
    tellings,
    wordings,
    words_of,
)
from alps.tasks.personamem.persona_timeline import EVENTS, Persona, draw_persona
from alps.tasks.personamem.release import SIZES

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
        self, persona: Persona, history: History, asked: Sequence[Asked], rng: random.Random
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


def _end(asked: Asked, history: History, rng: random.Random) -> int:
    """Draw where a question is asked: at the end, or before a late turn of the user.

    All events of its topic come before.
    """
    length = len(history.messages)
    first = max(history.evidence[asked.topic, event] for event in EVENTS) + 2
    turns = []
    for place in range(max(first, int(_LATE * length)), length):
        if history.messages[place]["role"] == "user":
            turns.append(place)
    return rng.choice(turns) if turns and rng.random() < 0.5 else length


@contextmanager
def set_writer(folder: Path, size: str) -> Iterator[Writer]:
    """Write the files of a set: questions, histories, what is true of whom, why options are wrong.

    They get their names when all of them are whole.
    """
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
            "data=samples: PersonaMem's questions are made once, in the cache folder, and there is "
            "none; set ALPS_CACHE to a folder, or make them by alps data personas out=FOLDER and "
            "give data=FOLDER"
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
        UsageError: If the size or the language is unknown.
    """
    if size not in SIZES:
        raise UsageError(f"size={size}: unknown (known: {', '.join(SIZES)})")
    if language not in LANGUAGES:
        raise UsageError(f"language={language}: unknown (known: {', '.join(LANGUAGES)})")
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
