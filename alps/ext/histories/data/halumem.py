"""HaluMem: twenty users over months, with questions that are asked right after a session.

Chen et al. 2025, arXiv 2511.03506. A user is a line; sessions that were generated to distract are
ingested and never asked about.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.ext.histories.authors import HALUMEM
from alps.ext.histories.files import (
    SetChoice,
    SetFiles,
    lines,
    listed,
    maybe_listed,
    refuse_other_set,
    role,
    text,
)
from alps.ext.histories.judging import OUTCOME
from alps.ext.histories.model import CitedSet, HistorySession, Message, SetQuestion, Story, when
from alps.ext.histories.task import tracks_of

BOUNDARY = "Memory Boundary"
NAMES: Mapping[str, str] = {"medium": "HaluMem-Medium.jsonl", "long": "HaluMem-Long.jsonl"}
TIME = "%b %d, %Y, %H:%M:%S"


def _files(data: Path, choice: SetChoice) -> SetFiles:
    refuse_other_set(data, choice, {key: [name] for key, name in NAMES.items()})
    names = [NAMES[choice.set]] if choice.set else [*NAMES.values()]
    there = [path for path in (data, *(data / name for name in names)) if path.is_file()]
    if not there:
        raise UsageError(f"data={data}: no {names[0]} in it")
    return SetFiles(tuple(lines(there[0])), (there[0],))


def _story(node: Mapping[str, Any]) -> Story:
    user = text(node, "uuid")
    said: dict[str, str] = {}
    sessions, questions = [], list[SetQuestion]()
    for number, session in enumerate(listed(node, "sessions"), start=1):
        name = f"s{number}"
        sessions.append(_session(session, name))
        for point in maybe_listed(session, "memory_points"):
            # Evidence names the text of a point and no message: the first session with that text is
            # meant.
            said.setdefault(text(point, "memory_content"), name)
        if not session.get("is_generated_qa_session"):
            questions += _questions(session, f"{user}:{name}", user, number, said)
    return Story(user, tuple(sessions), tuple(questions))


def _session(session: Mapping[str, Any], name: str) -> HistorySession:
    messages = []
    for place, one in enumerate(listed(session, "dialogue")):
        messages.append(Message(role(one), text(one, "content"), f"{name}:{place}"))
    written = text(session, "start_time")
    return HistorySession(name, when(written, TIME), tuple(messages), written)


def _questions(
    session: Mapping[str, Any], name: str, user: str, number: int, said: Mapping[str, str]
) -> Iterator[SetQuestion]:
    for place, one in enumerate(maybe_listed(session, "questions"), start=1):
        facts = [text(fact, "memory_content") for fact in maybe_listed(one, "evidence")]
        # A fact that no point has is named as it is: evidence that is not there.
        found = [said.get(fact, fact) for fact in facts]
        yield SetQuestion(
            id=f"{name}:q{place}",
            history=user,
            text=text(one, "question"),
            answer=text(one, "answer"),
            kind=text(one, "question_type"),
            at=when(text(session, "end_time"), TIME),
            evidence=tuple(dict.fromkeys(found)),
            abstains=one["question_type"] == BOUNDARY,
            # The authors ask right after the session; other harnesses ask after all of them.
            sessions=number,
            more={"facts": facts, "written": text(session, "end_time")},
        )


SET = CitedSet(
    name="halumem",
    title="HaluMem",
    licence="CC BY-NC-ND 4.0",
    language="English",
    source="hub:IAAR-Shanghai/HaluMem",
    hub="IAAR-Shanghai/HaluMem",
    wanted=lambda choice: (NAMES[choice.set or "medium"],),
    files=_files,
    story=_story,
    authors=HALUMEM,
    rubrics=(OUTCOME,),
    expected=lambda choice: {
        BOUNDARY: 828,
        "Memory Conflict": 769,
        "Basic Fact Recall": 746,
        "Generalization & Application": 746,
        "Multi-hop Inference": 198,
        "Dynamic Update": 180,
    },
    chosen={"set": tuple(NAMES)},
)
tracks = tracks_of(SET)
