"""Histories and questions of one's own: two files of JSON Lines, which every set can be written as.

`histories.jsonl` has a session a line, `questions.jsonl` a question a line; docs/cited-sets.md says
what is in them.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from alps.errors import DataError, UsageError
from alps.ext.histories.files import JsonSlice, SetChoice, SetFiles
from alps.ext.histories.model import CitedSet, HistorySession, Message, SetQuestion, Story, when
from alps.ext.histories.sets import (
    HISTORIES,
    QUESTIONS,
    HistoryLines,
    QuestionRow,
    SessionRow,
    by_history,
)
from alps.ext.histories.task import tracks_of
from alps.show.formatting import counted


def _files(data: Path, choice: SetChoice) -> SetFiles:
    paths = data / HISTORIES, data / QUESTIONS
    for path in paths:
        if not path.is_file():
            raise UsageError(f"data={data}: no {path.name} in it")
    sessions = by_history(paths[0], SessionRow)
    asked = by_history(paths[1], QuestionRow, _checked({k: len(v) for k, v in sessions.items()}))
    gathered = []
    for name, places in asked.items():
        gathered.append(HistoryLines(paths[0], tuple(sessions[name]), tuple(places)))
    return SetFiles(tuple(gathered), paths)


def _checked(sessions: Mapping[str, int]) -> Callable[[QuestionRow, JsonSlice], None]:
    """Return what refuses a question that does not fit its history, or has the id of another."""
    seen: dict[str, int | None] = {}

    def check(row: QuestionRow, place: JsonSlice) -> None:
        number = sessions.get(row.history)
        fault = None
        if number is None:
            fault = "history", f"no history '{row.history}'"
        elif row.sessions is not None and row.sessions > number:
            has = counted(number, "session")
            fault = "sessions", f"the history {row.history} has {has}, so at most {number:,}"
        elif row.id in seen:
            # Answers, verdicts and scores find their question by its id alone.
            what = f"the question {row.id} is on line {seen[row.id]} already"
            fault = "id", f"{what}; give each question an id of its own"
        if fault is not None:
            raise DataError(fault[1], path=place.path, line=place.line, field=fault[0])
        seen[row.id] = place.line

    return check


def _story(node: tuple[list[SessionRow], list[QuestionRow]]) -> Story:
    rows, asked = node
    sessions = tuple(_session(row, number) for number, row in enumerate(rows, start=1))
    return Story(asked[0].history, sessions, tuple(map(_question, asked)))


def _session(row: SessionRow, number: int) -> HistorySession:
    name = row.session or str(number)
    messages = []
    for place, one in enumerate(row.messages, start=1):
        messages.append(Message(one.role, one.text, one.id or f"{name}:{place}", one.speaker))
    return HistorySession(name, when(row.at), tuple(messages), row.at)


def _question(row: QuestionRow) -> SetQuestion:
    fields = row.model_dump(exclude={"question", "at"})
    return SetQuestion(**fields, text=row.question, at=when(row.at), more={"written": row.at})


SET = CitedSet(
    name="histories",
    title="Your own histories",
    licence="yours",
    language="any",
    source=f"a folder with {HISTORIES} and {QUESTIONS}",
    files=_files,
    story=_story,
    rubrics=("guide", "point"),
)
tracks = tracks_of(SET)
