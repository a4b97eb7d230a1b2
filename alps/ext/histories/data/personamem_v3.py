"""PersonaMem v3: what a user of five apps did, with questions that each have a time (2026).

`backend/USER/` has the events of each app, `benchmark/USER/queries.csv` or `backend/USER/test.json`
the questions. What an app holds of a day is a session; an event that is no chat is a note of the
user. Events at or after a question are hidden from it. Rankings, tasks that write, and those of
several turns are left out.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.ext.histories.files import (
    Role,
    SetChoice,
    SetFiles,
    WholeFile,
    as_list,
    as_object,
    as_text,
    maybe_listed,
    naming,
    text,
    whole,
)
from alps.ext.histories.model import CitedSet, HistorySession, Message, Story
from alps.ext.histories.task import tracks_of
from alps.ext.histories.v3_questions import question_of, questions_in, when_at

APPS = ("instagram", "facebook", "threads", "chatbot", "ai_studio")
_TEXTS = ("text", "title", "caption", "overall_description")
Said = tuple[Role, str]


@dataclass(frozen=True)
class User:
    """The questions to one user, and the files of the apps."""

    path: Path
    apps: tuple[Path, ...]

    def read(self) -> tuple[str, Sequence[Mapping[str, Any]], dict[str, Any]]:
        """Read the id, the questions that are answered in words, and the events."""
        events = {app.stem: WholeFile(app).read() for app in self.apps}
        return self.path.parent.name, questions_in(self.path), events


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
    times = sorted({whole(row, "ts") for row in asked})
    groups: dict[tuple[int, str, str], list[tuple[int, list[Said]]]] = {}
    for app, events in apps.items():
        with naming(f"{app}.json"):
            for event in as_list(events, app):
                at = whole(event, "source_timestamp")
                # A session ends where a question is asked: what follows is hidden from that.
                key = bisect_right(times, at), when_at(at)[:10], app
                groups.setdefault(key, []).append((at, [*_said(app, event)]))
    order = sorted(groups, key=lambda key: (key[0], min(at for at, _ in groups[key])))
    sessions = [_session(groups[key], n) for n, key in enumerate(order, start=1)]
    before = {at: sum(key[0] <= place for key in order) for place, at in enumerate(times)}
    questions = [question_of(row, user, before[whole(row, "ts")]) for row in asked]
    return Story(user, tuple(sessions), tuple(questions))


def _session(events: list[tuple[int, list[Said]]], number: int) -> HistorySession:
    said: list[Said] = []
    for _, own in sorted(events, key=lambda one: one[0]):
        said += own
    messages = [Message(role, text, f"s{number}:{n}") for n, (role, text) in enumerate(said)]
    first = when_at(min(at for at, _ in events))
    return HistorySession(f"s{number}", first, tuple(messages), first)


def _said(app: str, event: Mapping[str, Any]) -> Iterator[Said]:
    for turn in maybe_listed(event, "conversation"):
        yield "user" if text(turn, "role") == "user" else "assistant", text(turn, "content")
    if not event.get("conversation"):
        did = as_object(event["interaction_format"], "interaction_format")
        content = as_object(event.get("content") or {}, "content")
        words = [str(content[name]) for name in _TEXTS if content.get(name)]
        words += [as_text(one, "hashtag") for one in maybe_listed(event, "source_hashtags")]
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
