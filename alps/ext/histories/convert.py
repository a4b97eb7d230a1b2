"""Sets written in the form of one's own: histories and questions as JSON Lines.

`histories.jsonl` has a session a line, `questions.jsonl` a question a line.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError

from alps.errors import DataError, UsageError, closest
from alps.ext.histories import READERS, SETS
from alps.ext.histories.book import find, stories
from alps.ext.histories.files import JsonSlice, Role, SetChoice, lines
from alps.ext.histories.model import CitedSet, Scoring, SetQuestion, Story
from alps.extension import load
from alps.jsonl import dump
from alps.keys import DATA, FrozenSettings, HomePath
from alps.schema import FrozenRow
from alps.show.formatting import counted

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


class SetSettings(FrozenSettings):
    """Set and output folder of a conversion."""

    task: str = Field(description="the set")
    data: str = Field("samples", description=DATA)
    out: HomePath = Field(description="folder to write")
    set: str | None = Field(None, description="file of the set, if it has several")
    size: str | None = Field(None, description="size of the set, if it has several")


class ConvertSettings(SetSettings):
    """What `alps data convert` takes."""


def set_of(name: str) -> CitedSet:
    """Return the set whose task is called `name`.

    Raises:
        UsageError: If there is none.
    """
    if name not in SETS:
        known = ", ".join(SETS)
        raise UsageError(f"task={name}: unknown set{closest(name, SETS)} (known: {known})")
    cited: CitedSet = load(f"{READERS}.{name}:SET")
    return cited


def convert(settings: ConvertSettings) -> str:
    """Write a set into a folder; return what was written.

    Raises:
        UsageError: If there is no such set, or the folder has one already.
        DataError: If a file can't be read.
    """
    cited = set_of(settings.task)
    out = Path(settings.out)
    for name in (HISTORIES, QUESTIONS):
        if (out / name).exists():
            raise UsageError(f"out={settings.out}: has a {name} already; name another folder")
    choice = cited.choose(SetChoice(settings.set, settings.size))
    found = cited.files(find(cited, settings.data, choice), choice)

    def read() -> Iterator[Story]:
        for _, story in stories(cited, found.stories):
            yield story

    histories, questions = _write(out, read())
    all_histories = counted(histories, "history", "histories")
    return f"wrote {all_histories} and {counted(questions, 'question')} in {settings.out}"


def _rows(places: tuple[tuple[int, JsonSlice], ...], kind: type[RowT]) -> list[RowT]:
    return [_row(line, place, kind) for line, place in places]


def _row(line: int, place: JsonSlice, kind: type[RowT]) -> RowT:
    try:
        return kind.model_validate(place.read())
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise DataError(first["msg"], path=place.path, line=line, field=field) from error


def by_history(path: Path, kind: type[RowT]) -> dict[str, list[tuple[int, JsonSlice]]]:
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


def _write(folder: Path, stories: Iterable[Story]) -> tuple[int, int]:
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
