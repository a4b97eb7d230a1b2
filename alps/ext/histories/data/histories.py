"""Histories and questions of one's own: two files of JSON Lines, which every set can be written as.

`histories.jsonl` has a session a line, `questions.jsonl` a question a line; docs/cited-sets.md says
what is in them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from alps.errors import DataError, UsageError
from alps.ext.histories.files import JsonSlice, Role, SetChoice, SetFiles, lines
from alps.ext.histories.model import (
    CitedSet,
    HistorySession,
    Message,
    Scoring,
    SetQuestion,
    Story,
    when,
)
from alps.ext.histories.task import tracks_of
from alps.jsonl import dump
from alps.schema import FrozenRow

HISTORIES, QUESTIONS = "histories.jsonl", "questions.jsonl"
Name = Annotated[str, Field(min_length=1)]
RowT = TypeVar("RowT", bound=FrozenRow)


class MessageRow(FrozenRow):
    """One message of a session."""

    text: str
    role: Role = "user"
    speaker: str = ""
    id: str = ""


class SessionRow(FrozenRow):
    """A line of `histories.jsonl`."""

    history: Name
    session: str = ""
    at: str = ""
    messages: tuple[MessageRow, ...]


class QuestionRow(FrozenRow):
    """A line of `questions.jsonl`."""

    id: Name
    history: Name
    question: Name
    answer: str = ""
    kind: str = "all"
    at: str = ""
    evidence: tuple[str, ...] = ()
    abstains: bool = False
    scoring: Scoring = "judged"
    points: tuple[str, ...] = ()
    sessions: Annotated[int, Field(ge=0)] | None = None


@dataclass(frozen=True)
class HistoryLines:
    """The lines of one history: its sessions, and the questions about it."""

    path: Path
    sessions: tuple[tuple[int, JsonSlice], ...]
    questions: tuple[tuple[int, JsonSlice], ...]

    def read(self) -> tuple[list[SessionRow], list[QuestionRow]]:
        """Read them."""
        return _rows(self.sessions, SessionRow), _rows(self.questions, QuestionRow)


def _files(data: Path, choice: SetChoice) -> SetFiles:
    paths = data / HISTORIES, data / QUESTIONS
    for path in paths:
        if not path.is_file():
            raise UsageError(f"data={data}: no {path.name} in it")
    sessions = _by_history(paths[0], SessionRow)
    asked = _by_history(paths[1], QuestionRow)
    for name, places in asked.items():
        if name not in sessions:
            line, place = places[0]
            raise DataError(f"no history '{name}'", path=place.path, line=line, field="history")
    gathered = []
    for name, places in asked.items():
        gathered.append(HistoryLines(paths[0], tuple(sessions[name]), tuple(places)))
    return SetFiles(tuple(gathered), paths)


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
    return SetQuestion(**fields, text=row.question, at=when(row.at))


SET = CitedSet(
    name="histories",
    title="Histories of your own",
    licence="yours",
    language="any",
    source=f"a folder with {HISTORIES} and {QUESTIONS}",
    files=_files,
    story=_story,
    rubrics=("guide", "point"),
)
tracks = tracks_of(SET)


def _rows(places: tuple[tuple[int, JsonSlice], ...], kind: type[RowT]) -> list[RowT]:
    return [_row(line, place, kind) for line, place in places]


def _row(line: int, place: JsonSlice, kind: type[RowT]) -> RowT:
    try:
        return kind.model_validate(place.read())
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise DataError(first["msg"], path=place.path, line=line, field=field) from error


def _by_history(path: Path, kind: type[RowT]) -> dict[str, list[tuple[int, JsonSlice]]]:
    """Return the lines of each history in a file, each with its number, once all were read.

    Raises:
        DataError: If a line is of another form; names it and the field.
    """
    found: dict[str, list[tuple[int, JsonSlice]]] = {}
    for line, place in lines(path):
        row: Any = _row(line, place, kind)
        found.setdefault(row.history, []).append((line, place))
    return found


def _session_rows(story: Story) -> Iterator[dict[str, Any]]:
    """Yield the lines of a story in `histories.jsonl`."""
    for session in story.sessions:
        messages = [MessageRow(**vars(one)).model_dump() for one in session.messages]
        row = {"history": story.id, "session": session.id, "at": session.at, "messages": messages}
        yield SessionRow.model_validate(row).model_dump(exclude_defaults=True)


def _question_row(question: SetQuestion) -> dict[str, Any]:
    fields = {**asdict(question), "question": question.text}
    known = {name: fields[name] for name in QuestionRow.model_fields}
    return QuestionRow.model_validate(known).model_dump(exclude_defaults=True)


def write(folder: Path, stories: Iterable[Story]) -> tuple[int, int]:
    """Write stories into the two files of a folder; return how many histories and questions."""
    folder.mkdir(parents=True, exist_ok=True)
    histories = questions = 0
    with (folder / HISTORIES).open("wb") as sessions, (folder / QUESTIONS).open("wb") as asked:
        for story in stories:
            histories += 1
            sessions.writelines(dump(row) for row in _session_rows(story))
            for question in story.questions:
                questions += 1
                asked.write(dump(_question_row(question)))
    return histories, questions
