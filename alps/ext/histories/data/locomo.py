"""LoCoMo: ten conversations of two friends over months (Maharana et al., ACL 2024).

`locomo10.json` is a list of conversations, each with the questions about it; the archive of the
first release has one in each of ten files, at their top level. Kinds go by number: two conventions
of names contradict each other.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.ext.histories.authors import ADVERSARIAL, LOCOMO
from alps.ext.histories.files import (
    SetChoice,
    SetFiles,
    StoryPlace,
    Together,
    as_object,
    items,
    listed,
    maybe_listed,
    text,
)
from alps.ext.histories.model import CitedSet, HistorySession, Message, SetQuestion, Story, when
from alps.ext.histories.task import tracks_of

_NUMBER = re.compile(r"session_(\d+)\Z")
_TIME = "%I:%M %p on %d %B, %Y"
# Six strings of evidence hold several ids, with spaces or semicolons between.
_ID = re.compile(r"D\d+:\d+")


def _files(data: Path, choice: SetChoice) -> SetFiles:
    paths = sorted(data.rglob("*.json")) if data.is_dir() else [data]
    whole = [path for path in paths if path.name == "locomo10.json"] or paths
    if not whole:
        raise UsageError(f"data={data}: no locomo10.json in it")
    return SetFiles(tuple(_places(whole)), whole)


def _places(paths: list[Path]) -> Iterator[StoryPlace]:
    for path in paths:
        with path.open("rb") as file:
            is_list = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["
        # The first release has the numbers of its conversations in the names of files alone.
        yield from items(path) if is_list else (Together(f"conv-{path.stem}", (path,)),)


def _story(node: Mapping[str, Any] | tuple[str, Mapping[str, Any]]) -> Story:
    number, node = node if isinstance(node, tuple) else ("", node)
    said = as_object(node.get("conversation", node), "conversation")
    name = number or text(node, "sample_id")
    # By sessions and not by dates: conv-26 has 16 dates without a session.
    numbers = sorted(int(found[1]) for key in said if (found := _NUMBER.match(key)))
    sessions = tuple(_session(said, number) for number in numbers)
    asked = [_question(one, place, name) for place, one in enumerate(listed(node, "qa"))]
    return Story(name, sessions, tuple(asked))


def _session(said: Mapping[str, Any], number: int) -> HistorySession:
    messages = tuple(_message(one) for one in listed(said, f"session_{number}"))
    written = str(said.get(f"session_{number}_date_time", ""))
    return HistorySession(f"D{number}", when(written, _TIME), messages, written)


def _message(one: Mapping[str, Any]) -> Message:
    # What a picture shows is a part of what was said, and 1,226 messages have one.
    said, who = text(one, "text"), text(one, "speaker")
    caption = f" [shares a picture: {one['blip_caption']}]" if one.get("blip_caption") else ""
    # Both friends are users by name. Mem0's code ingests a conversation once for each of them,
    # which doubles tokens and context.
    return Message("user", f"{said}{caption}", text(one, "dia_id"), who)


def _question(one: Mapping[str, Any], place: int, history: str) -> SetQuestion:
    kind = text(one, "category")
    absent = kind == ADVERSARIAL
    # The released file has two adversarial golds, and an empty one is no gold at all.
    given = "answer" if "answer" in one and not absent else "adversarial_answer"
    gold = text(one, given) if one.get(given) is not None or not absent else ""
    evidence = tuple(_ID.findall(" ".join(map(str, maybe_listed(one, "evidence")))))
    name, asked = f"{history}:q{place}", text(one, "question")
    return SetQuestion(name, history, asked, gold, kind, "", evidence, absent)


SET = CitedSet(
    name="locomo",
    title="LoCoMo",
    licence="CC BY-NC 4.0",
    language="English",
    source="snap-research/locomo, data/locomo10.json",
    files=_files,
    story=_story,
    kinds={
        "1": "multi-hop (Mem0: single-hop)",
        "2": "temporal",
        "3": "open-domain (Mem0: multi-hop)",
        "4": "single-hop (Mem0: open-domain)",
        ADVERSARIAL: "adversarial (left out by Mem0)",
    },
    authors=LOCOMO,
    rubrics=("generous",),
    expected=lambda choice: {"1": 282, "2": 321, "3": 96, "4": 841, ADVERSARIAL: 446},
)
tracks = tracks_of(SET)
