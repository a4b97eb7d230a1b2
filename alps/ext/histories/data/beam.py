"""BEAM: chats of up to ten million tokens, with two questions of each of ten abilities a chat.

Tavakoli et al., ICLR 2026. A chat is a folder, `chats/SIZE/N`; where its authors cut a chat, they
ask about the cut one. Batches are sessions, dated by their first message that has a date. On the
hub a chat is a row, its batches are lists, and its questions a literal of Python.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from alps.ext.histories.authors import ABILITIES, BEAM
from alps.ext.histories.files import (
    SetChoice,
    SetFiles,
    Together,
    as_list,
    as_object,
    as_text,
    ids_in,
    listed,
    literal,
    naming,
    role,
    rows_of,
    text,
)
from alps.ext.histories.model import CitedSet, HistorySession, Message, SetQuestion, Story, when
from alps.ext.histories.task import tracks_of

ASKED_OF = {"100K": 40, "500K": 70, "1M": 70, "10M": 20}
# The folder 100K has what the paper calls 128K.
SIZES = tuple(ASKED_OF)
# Abilities call their gold by different names.
GOLDS = ("answer", "ideal_response", "ideal_answer", "ideal_summary", "expected_compliance")
CHATS, ASKED = ("chat_trunecated.json", "chat.json"), "probing_questions/probing_questions.json"
# Two of three messages of users end in the place that their generator gave them.
_MARK = re.compile(r"\s*->->\s*[\d,.\s]*$")


def _files(data: Path, choice: SetChoice) -> SetFiles:
    size = choice.size or SIZES[0]
    found = [*(data / size).glob("*"), *(data / "chats" / size).glob("*")]
    chats = []
    # Folders are numbered: by length first, 10 comes after 9.
    for folder in sorted(found, key=lambda path: (len(path.name), path.name)):
        chat = [folder / name for name in CHATS if (folder / name).is_file()]
        if chat and (folder / ASKED).is_file():
            chats.append(Together(f"{size}-{folder.name}", (chat[0], folder / ASKED)))
    if not chats and (tables := sorted(data.rglob(f"*{size}*.parquet"))):
        return SetFiles(tuple(rows_of(tables, _of_hub)), tables)
    return SetFiles(tuple(chats), [path for chat in chats for path in chat.paths])


def _of_hub(name: str, row: Mapping[str, Any]) -> tuple[str, Any, Any]:
    return name, [{"turns": [batch]} for batch in row["chat"]], literal(row["probing_questions"])


def _story(node: tuple[str, Any, Any]) -> Story:
    name, chat, asked = node
    sessions = tuple(_session(batch, n) for n, batch in enumerate(_batches(chat), start=1))
    with naming("probing_questions"):
        return Story(name, sessions, tuple(_questions(asked, name)))


def _batches(chat: Any) -> Iterator[Any]:
    for part in as_list(chat, "chat"):
        # Ten million tokens come as plans, each a list of batches under its name.
        plans = as_object(part, "batch")
        for name, batches in ({"": [part]} if "turns" in plans else plans).items():
            yield from as_list(batches, name)


def _session(batch: Mapping[str, Any], number: int) -> HistorySession:
    messages, written = [], ""
    for turn in listed(batch, "turns"):
        for one in as_list(turn, "turns"):
            said = _MARK.sub("", text(one, "content"))
            messages.append(Message(role(one), said, text(one, "id")))
            # One message has the date of its batch, whose own field is null.
            written = written or str(one.get("time_anchor") or "")
    return HistorySession(f"b{number}", when(written, "%B-%d-%Y"), tuple(messages), written)


def _questions(asked: Any, history: str) -> Iterator[SetQuestion]:
    for ability, questions in as_object(asked, "questions").items():
        for number, one in enumerate(as_list(questions, ability), start=1):
            question = text(one, "question")
            yield SetQuestion(
                id=f"{history}:{ability}:{number}",
                history=history,
                text=question,
                answer=next((str(one[name]) for name in GOLDS if one.get(name)), ""),
                kind=ability,
                evidence=tuple(map(str, ids_in(one.get("source_chat_ids")))),
                abstains=ability == ABILITIES[0],
                scoring="points",
                points=tuple(as_text(point, "rubric") for point in listed(one, "rubric")),
            )


SET = CitedSet(
    name="beam",
    title="BEAM",
    licence="CC BY-SA 4.0",
    language="English",
    source="mohammadtavakoli78/BEAM, chats/; hub:Mohammadta/BEAM (10M: BEAM-10M)",
    hub="Mohammadta/BEAM",
    wanted=lambda choice: (f"*{choice.size or SIZES[0]}*.parquet",),
    files=_files,
    story=_story,
    kinds=dict.fromkeys(ABILITIES, ""),
    authors=BEAM,
    rubrics=("point", "aligned"),
    expected=lambda choice: dict.fromkeys(ABILITIES, ASKED_OF[choice.size or SIZES[0]]),
    chosen={"size": SIZES},
)
tracks = tracks_of(SET)
