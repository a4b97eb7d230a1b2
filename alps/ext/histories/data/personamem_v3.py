"""PersonaMem v3: what a user of five apps did, with questions that each have a time (2026).

`backend/USER/` has the events of each app, `benchmark/USER/queries.csv` the questions. What an app
holds of a day is a session; an event that is no chat is a note of the user. Events at or after a
question are hidden from it. Rankings and tasks that write are left out; points judge the others.
"""

import csv
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alps.errors import DataError, UsageError
from alps.ext.histories.files import SetChoice, SetFiles, WholeFile
from alps.ext.histories.model import CitedSet, HistorySession, Message, SetQuestion, Story
from alps.ext.histories.task import tracks_of

APPS = ("instagram", "facebook", "threads", "chatbot", "ai_studio")
VERSION = "# queries_csv_version=2"
_POINT = re.compile(r";?\s*\(([+-])\)\s*")
_TEXTS = ("text", "title", "caption", "overall_description")


@dataclass(frozen=True)
class User:
    """The questions to one user, and the files of the apps."""

    path: Path
    apps: tuple[Path, ...]

    def read(self) -> tuple[str, list[dict[str, str]], dict[str, Any]]:
        """Read the id, the questions and the events."""
        csv.field_size_limit(1 << 27)  # a question holds all its candidates
        with self.path.open(encoding="utf-8", newline="") as file:
            if (found := file.readline().strip()) != VERSION:
                raise DataError(f"expected {VERSION}, got {found[:40]}", path=self.path, line=1)
            rows = list(csv.DictReader(file))
        return self.path.parent.name, rows, {app.stem: WholeFile(app).read() for app in self.apps}


def _files(data: Path, choice: SetChoice) -> SetFiles:
    users = []
    for path in sorted(data.glob("benchmark/*/queries.csv")):
        there = [data / "backend" / path.parent.name / f"{app}.json" for app in APPS]
        users.append(User(path, tuple(app for app in there if app.is_file())))
    if not users:
        raise UsageError(f"data={data}: no benchmark/USER/queries.csv in it")
    return SetFiles(tuple(users), [path for user in users for path in (user.path, *user.apps)])


def _story(node: tuple[str, Sequence[Mapping[str, str]], Mapping[str, Any]]) -> Story:
    user, rows, apps = node
    asked = [row for row in rows if _is_answered_in_words(row)]
    times = sorted({int(row["ts"]) for row in asked})
    groups: dict[tuple[int, str, str], list[tuple[int, dict[str, Any]]]] = {}
    for app, events in apps.items():
        for event in events:
            at = int(event["source_timestamp"])
            # A session ends where a question is asked: what follows is hidden from that.
            key = bisect_right(times, at), _when(at)[:10], app
            groups.setdefault(key, []).append((at, event))
    order = sorted(groups, key=lambda key: (key[0], min(at for at, _ in groups[key])))
    sessions = [_session(key[2], groups[key], n) for n, key in enumerate(order, start=1)]
    before = {at: sum(key[0] <= place for key in order) for place, at in enumerate(times)}
    questions = [_question(row, user, before[int(row["ts"])]) for row in asked]
    return Story(user, tuple(sessions), tuple(questions))


def _is_answered_in_words(row: Mapping[str, str]) -> bool:
    return row["state_write_policy"] == "read_only" and row["expected_response_kind"] != "ranking"


def _when(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def _session(app: str, events: list[tuple[int, dict[str, Any]]], number: int) -> HistorySession:
    said: list[tuple[Any, str]] = []
    for _, event in sorted(events, key=lambda one: one[0]):
        said += _said(app, event)
    messages = [Message(role, text, f"s{number}:{n}") for n, (role, text) in enumerate(said)]
    first = _when(min(at for at, _ in events))
    return HistorySession(f"s{number}", first, tuple(messages), first)


def _said(app: str, event: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    for turn in event.get("conversation") or ():
        yield turn["role"], str(turn["content"])
    if not event.get("conversation"):
        content = event.get("content") or {}
        words = [str(content[name]) for name in _TEXTS if content.get(name)]
        words += event.get("source_hashtags") or []
        yield "user", f"[{app}] {event['interaction_format']['action_label']}: {' '.join(words)}"


def _question(row: Mapping[str, str], user: str, sessions: int) -> SetQuestion:
    marked = _POINT.split(row["display_rubric"])[1:]
    pairs = zip(marked[::2], marked[1::2], strict=True)
    points = [f"must not be true: {text}" if mark == "-" else text for mark, text in pairs]
    name, asked, kind, at = (row[key] for key in ("query_id", "query_text", "task_type", "ts"))
    more: dict[str, Any] = {"points": tuple(points), "sessions": sessions, "at": _when(int(at))}
    return SetQuestion(name, user, asked, "", kind, scoring="points", **more)


SET = CitedSet(
    name="personamem_v3",
    title="PersonaMem v3",
    licence="CC BY-NC 4.0",
    language="English",
    source="bowen-upenn/PersonaMem-v3, with backend/ and benchmark/",
    files=_files,
    story=_story,
    rubrics=("point",),
)
tracks = tracks_of(SET)
