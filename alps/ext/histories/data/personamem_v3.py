"""PersonaMem v3: what a user of five apps did, with questions that each have a time (2026).

`backend/USER/` has the events of each app, `benchmark/USER/queries.csv` or `backend/USER/test.json`
the questions. What an app holds of a day is a session; an event that is no chat is a note of the
user. Events at or after a question are hidden from it. Rankings, tasks that write, and those of
several turns are left out.

Questions have two forms, `queries.csv` of version 2 and `test.json`. A row of the table has points,
which say what an answer does (+) and what it does not (-); a record of the list says in a text what
a good answer is. Source: `scripts/prepare_eval_data.py`, `evaluation/task_registry.py` and
`data_preparation/visualize.py` of bowen-upenn/PersonaMem-v3.
"""

import csv
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alps.errors import DataError, UsageError
from alps.ext.histories.files import (
    SetChoice,
    SetFiles,
    WholeFile,
    as_list,
    maybe_listed,
    refuse_head,
    text,
)
from alps.ext.histories.model import CitedSet, HistorySession, Message, SetQuestion, Story
from alps.ext.histories.task import tracks_of

APPS = ("instagram", "facebook", "threads", "chatbot", "ai_studio")
_TEXTS = ("text", "title", "caption", "overall_description")

VERSION = "# queries_csv_version=2"
LONGEST_FIELD = 1 << 27  # a question holds all its candidates
ASKED_IN_WORDS = frozenset(
    (
        *("chatbot_personalized_response", "new_suggestions_chatbot", "hidden_persona_implicit_qa"),
        *("over_personalization_chatbot_text", "over_personalization_context_shift"),
        *("over_personalization_sensitive_event", "over_personalization_sycophancy"),
        *("preference_shift_followthrough", "personal_qa_hallucination"),
    )
)
"""The tasks of a list that one answer in words is given to."""
_NOBODY_ASKS = "[system prompt]"
_POINT = re.compile(r"(?:\A|;)\s*\(([+-])\)\s*")
_FORBIDS = re.compile(r"(don['’]?t|do not|no|never|avoid)\b", re.IGNORECASE)
Row = Mapping[str, Any]


@dataclass(frozen=True)
class User:
    """The questions to one user, and the files of the apps."""

    path: Path
    apps: tuple[Path, ...]

    def read(self) -> tuple[str, Sequence[Mapping[str, Any]], dict[str, Any]]:
        """Read the id, the questions that are answered in words, and the events."""
        events = {app.stem: WholeFile(app).read() for app in self.apps}
        return self.path.parent.name, _questions_in(self.path), events


def _files(data: Path, choice: SetChoice) -> SetFiles:
    users = []
    asked = {path.parent.name: path for path in data.glob("backend/*/test.json")}
    asked |= {path.parent.name: path for path in data.glob("benchmark/*/queries.csv")}
    for _, path in sorted(asked.items()):
        there = [data / "backend" / path.parent.name / f"{app}.json" for app in APPS]
        users.append(User(path, tuple(app for app in there if app.is_file())))
    if not users:
        raise UsageError(
            f"data={data}: no benchmark/USER/queries.csv and no backend/USER/test.json in it"
        )
    return SetFiles(tuple(users), [path for user in users for path in (user.path, *user.apps)])


def _story(node: tuple[str, Sequence[Mapping[str, Any]], Mapping[str, Any]]) -> Story:
    user, asked, apps = node
    times = sorted({int(row["ts"]) for row in asked})
    groups: dict[tuple[int, str, str], list[tuple[int, dict[str, Any]]]] = {}
    for app, events in apps.items():
        for event in as_list(events, app):
            at = int(text(event, "source_timestamp"))
            # A session ends where a question is asked: what follows is hidden from that.
            key = bisect_right(times, at), _when_at(at)[:10], app
            groups.setdefault(key, []).append((at, event))
    order = sorted(groups, key=lambda key: (key[0], min(at for at, _ in groups[key])))
    sessions = [_session(key[2], groups[key], n) for n, key in enumerate(order, start=1)]
    before = {at: sum(key[0] <= place for key in order) for place, at in enumerate(times)}
    questions = [_question_of(row, user, before[int(row["ts"])]) for row in asked]
    return Story(user, tuple(sessions), tuple(questions))


def _session(app: str, events: list[tuple[int, dict[str, Any]]], number: int) -> HistorySession:
    said: list[tuple[Any, str]] = []
    for _, event in sorted(events, key=lambda one: one[0]):
        said += _said(app, event)
    messages = [Message(role, text, f"s{number}:{n}") for n, (role, text) in enumerate(said)]
    first = _when_at(min(at for at, _ in events))
    return HistorySession(f"s{number}", first, tuple(messages), first)


def _said(app: str, event: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    for turn in maybe_listed(event, "conversation"):
        yield "user" if text(turn, "role") == "user" else "assistant", text(turn, "content")
    if not event.get("conversation"):
        did, content = event["interaction_format"], event.get("content") or {}
        words = [str(content[name]) for name in _TEXTS if content.get(name)]
        words += event.get("source_hashtags") or []
        # What the user told the app, such as to show less of something
        told = f" “{did['user_message']}”" if did.get("user_message") else ""
        yield "user", f"[{app}] {did['action_label']}{told}: {' '.join(words)}"


SET = CitedSet(
    name="personamem_v3",
    title="PersonaMem v3",
    licence="CC BY-NC 4.0",
    language="English",
    source="bowen-upenn/PersonaMem-v3, with backend/ and benchmark/",
    files=_files,
    story=_story,
    rubrics=("point", "guide"),
)
tracks = tracks_of(SET)


def _questions_in(path: Path) -> list[Row]:
    """Return the questions of a file that are asked and answered in words.

    Raises:
        DataError: If it is of another form or version.
    """
    return list(_of_list(path) if path.suffix == ".json" else _of_table(path))


def _of_table(path: Path) -> Iterator[Row]:
    refuse_head(path)
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if (found := file.readline().strip()) != VERSION:
                raise DataError(f"expected {VERSION}, got {found[:40]}", path=path, line=1)
            for row in _whole(csv.DictReader(file, strict=True), path):
                if _is_asked_in_words(row):
                    yield {**row, "instance": json.loads(row["instance_json"] or "{}")}
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"no table ({error})", path=path) from error
    finally:
        csv.field_size_limit(before)


def _whole(table: "csv.DictReader[str]", path: Path) -> Iterator[dict[str, str]]:
    for row in table:
        if None in row.values() or None in row:
            # The first line is that of the version.
            raise DataError("a row with other columns", path=path, line=table.line_num + 1)
        yield row


def _is_asked_in_words(row: Row) -> bool:
    asked = row["query_text"] and not row["query_text"].startswith(_NOBODY_ASKS)
    in_words = row["expected_response_kind"] != "ranking"
    return bool(asked) and in_words and row["state_write_policy"] == "read_only"


def _of_list(path: Path) -> Iterator[Row]:
    for record in as_list(WholeFile(path).read(), path.name):
        if text(record, "task_type") in ASKED_IN_WORDS and record.get("user_query"):
            guide = record.get("groundtruth_preference") or ""
            instance = record.get("instance_full") or {}
            guide = guide if isinstance(guide, str) else json.dumps(guide, ensure_ascii=False)
            yield {**record, "query_text": record["user_query"], "guide": guide} | {
                "instance": {**instance, "prior_conversation": record.get("prior_conversation")}
            }


def _when_at(at: int) -> str:
    """Return a time in seconds as ISO 8601."""
    return datetime.fromtimestamp(at, UTC).isoformat()


def _question_of(row: Row, user: str, sessions: int) -> SetQuestion:
    """Return a row as the question to a user after `sessions` sessions."""
    asked = _behind_turns(text(row, "query_text"), row["instance"].get("prior_conversation") or ())
    more: dict[str, Any] = {"sessions": sessions, "at": _when_at(int(row["ts"]))}
    if "guide" in row:
        more |= {"scoring": "guided", "answer": row["guide"]}
    else:
        points = tuple(_points(row["display_rubric"] or ""))
        more |= {"scoring": "points", "points": points, "answer": ""}
    name = text(row, "query_id")
    return SetQuestion(id=name, history=user, text=asked, kind=text(row, "task_type"), **more)


def _behind_turns(asked: str, turns: Sequence[Row]) -> str:
    """Return what is asked behind the turns of the same conversation."""
    if not turns:
        return asked
    said = [f"{text(turn, 'role')}: {text(turn, 'content')}" for turn in turns]
    return "\n".join((*said, f"user: {asked}"))


def _points(rubric: str) -> Iterator[str]:
    marked = _POINT.split(rubric)[1:]
    for mark, point in zip(marked[::2], marked[1::2], strict=True):
        # Most say themselves what an answer does not do: twice would be the opposite.
        is_said = mark == "+" or _FORBIDS.match(point)
        yield point.strip() if is_said else f"must not be true: {point.strip()}"
