"""BEAM: chats of up to ten million tokens, with two questions of each of ten abilities a chat.

Tavakoli et al., ICLR 2026. A chat is a folder, `chats/SIZE/N`; where its authors cut a chat, they
ask about the cut one. Batches are sessions, dated by their first message that has a date.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.ext.histories.authors.beam import ABILITIES, PUBLISHED
from alps.ext.histories.files import Whole
from alps.ext.histories.model import (
    Choice,
    CitedSet,
    Files,
    Message,
    Question,
    Session,
    Story,
    when,
)
from alps.ext.histories.task import tracks_of

ASKED_OF = {"100K": 40, "500K": 70, "1M": 70, "10M": 20}
SIZES = tuple(ASKED_OF)
GOLDS = ("answer", "ideal_response", "ideal_answer", "ideal_summary", "expected_compliance")
CHATS = ("chat_trunecated.json", "chat.json")
ASKED = Path("probing_questions") / "probing_questions.json"
# Two of three messages of users end in the place that their generator gave them.
_MARK = re.compile(r"\s*->->\s*[\d,.\s]*$")


@dataclass(frozen=True)
class Chat:
    """The folder of one chat."""

    path: Path

    @property
    def files(self) -> tuple[Path, Path]:
        """The chat that the authors read, and the questions about it."""
        chat = next(self.path / name for name in CHATS if (self.path / name).is_file())
        return chat, self.path / ASKED

    def read(self) -> tuple[str, Any, Any]:
        """Read the name, the chat and the questions."""
        chat, asked = (Whole(path).read() for path in self.files)
        return f"{self.path.parent.name}-{self.path.name}", chat, asked


def _files(data: Path, choice: Choice) -> Files:
    size = choice.size or SIZES[0]
    found = [*(data / size).glob("*"), *(data / "chats" / size).glob("*")]
    chats = [Chat(path) for path in found if (path / ASKED).is_file()]
    chats.sort(key=lambda chat: (len(chat.path.name), chat.path.name))
    return Files(tuple(chats), [path for chat in chats for path in chat.files])


def _story(node: tuple[str, Any, Mapping[str, Any]]) -> Story:
    name, chat, asked = node
    sessions = tuple(_session(batch, n) for n, batch in enumerate(_batches(chat), start=1))
    return Story(name, sessions, tuple(_questions(asked, name)))


def _batches(chat: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for part in chat:
        # Ten million tokens come as plans, each a list of batches under its name.
        for batches in [[part]] if "turns" in part else part.values():
            yield from batches


def _session(batch: Mapping[str, Any], number: int) -> Session:
    said = [message for turn in batch["turns"] for message in turn]
    written = next((one["time_anchor"] for one in said if one.get("time_anchor")), "")
    messages = [Message(m["role"], _MARK.sub("", m["content"]), str(m["id"])) for m in said]
    return Session(f"b{number}", when(written, "%B-%d-%Y"), tuple(messages), written)


def _questions(asked: Mapping[str, Any], history: str) -> Iterator[Question]:
    for ability, questions in asked.items():
        for number, one in enumerate(questions, start=1):
            yield Question(
                id=f"{history}:{ability}:{number}",
                history=history,
                text=one["question"],
                answer=str(next((one[name] for name in GOLDS if one.get(name)), "")),
                kind=ability,
                evidence=tuple(map(str, _ids(one.get("source_chat_ids")))),
                abstains=ability == ABILITIES[0],
                scoring="points",
                points=tuple(map(str, one["rubric"])),
            )


def _ids(given: Any) -> list[Any]:
    """Return the ids of messages, which stand in a list, or in lists by what they are."""
    lists = given.values() if isinstance(given, dict) else [given or []]
    return [name for own in lists for name in (own if isinstance(own, list) else [own])]


SET = CitedSet(
    name="beam",
    title="BEAM",
    licence="CC BY-SA 4.0",
    language="English",
    source="mohammadtavakoli78/BEAM, chats/",
    files=_files,
    story=_story,
    kinds=dict.fromkeys(ABILITIES, ""),
    authors=PUBLISHED,
    rubrics=("point", "aligned"),
    expected=lambda choice: dict.fromkeys(ABILITIES, ASKED_OF[choice.size or SIZES[0]]),
    chosen={"size": SIZES},
)
tracks = tracks_of(SET)
