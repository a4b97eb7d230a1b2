"""Sets: their list, one written in the form of one's own, and answers that others recorded.

In that form `histories.jsonl` has a session a line, `questions.jsonl` a question a line. `alps
import` reads result files of many forms into rows of one form; here each row finds its question, so
that the answers are scored as if they had been given here.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError
from rich.console import Console

from alps.errors import DataError, UsageError, closest
from alps.ext.histories import READERS, SETS
from alps.ext.histories.book import Book, files_of, known_defects, open_book, stories
from alps.ext.histories.files import JsonSlice, Role, SetChoice, lines
from alps.ext.histories.judging import OUTCOMES
from alps.ext.histories.model import CitedSet, Scoring, SetQuestion, Story
from alps.ext.histories.settings import AnswersSettings, ConvertSettings
from alps.extension import load
from alps.jsonl import Row, dump, scan
from alps.schema import FrozenRow
from alps.show.formatting import counted
from alps.show.table import Table, named, print_parts, row_of, thousands
from alps.text import fold

HISTORIES, QUESTIONS = "histories.jsonl", "questions.jsonl"
Name = Annotated[str, Field(min_length=1)]
RowT = TypeVar("RowT", bound=FrozenRow)
ANSWERS, VERDICTS = "answers.jsonl", "verdicts.jsonl"


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
    sessions: tuple[JsonSlice, ...]
    questions: tuple[JsonSlice, ...]

    def read(self) -> tuple[list[SessionRow], list[QuestionRow]]:
        """Read them."""
        told = [_row(place, SessionRow) for place in self.sessions]
        return told, [_row(place, QuestionRow) for place in self.questions]


@dataclass(frozen=True)
class Sets:
    """All sets that there are readers of."""

    sets: tuple[CitedSet, ...]

    def as_json(self) -> list[dict[str, Any]]:
        """Return them as JSON values."""
        rows = []
        for one in self.sets:
            row: dict[str, Any] = {"task": one.name, "title": one.title, "licence": one.licence}
            row |= {"language": one.language, "from": one.source}
            row["questions"] = dict(one.expected(SetChoice()))
            rows.append({**row, "known_defects": len(known_defects(one.name))})
        return rows


def list_sets() -> Sets:
    """Return the sets by the names of their tasks."""
    return Sets(tuple(load(f"{READERS}.{name}:SET") for name in SETS))


def print_sets(found: Sets, console: Console) -> None:
    """Print a table of them."""
    rows = []
    for one in found.sets:
        asked = sum(one.expected(SetChoice()).values())
        questions = thousands(asked) if asked else "–"
        rows.append(row_of(one.name, one.licence, one.language, questions, one.source))
    columns = ("licence", "language", "questions", "source")
    table = Table("Sets of histories and questions", [named("task"), *map(named, columns)], rows)
    print_parts(console, [table], ())


def _set_of(name: str) -> CitedSet:
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
    cited = _set_of(settings.task)
    out = Path(settings.out)
    for name in (HISTORIES, QUESTIONS):
        if (out / name).exists():
            raise UsageError(f"out={settings.out}: {name} exists already; name another folder")
    choice = cited.choose(SetChoice(settings.set, settings.size))
    found = files_of(cited, settings.data, choice)
    histories, questions = _write(out, (story for _, story in stories(cited, found.stories)))
    all_histories = counted(histories, "history", "histories")
    return f"wrote {all_histories} and {counted(questions, 'question')} in {settings.out}"


def _row(place: JsonSlice, kind: type[RowT]) -> RowT:
    try:
        return kind.model_validate(place.read())
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise DataError(first["msg"], path=place.path, line=place.line, field=field) from error


def by_history(path: Path, kind: type[RowT]) -> dict[str, list[JsonSlice]]:
    """Return the lines of each history in a file, once all were read.

    Raises:
        DataError: If a line is of another form; names it and the field.
    """
    found: dict[str, list[JsonSlice]] = {}
    for place in lines(path):
        row: Any = _row(place, kind)
        found.setdefault(row.history, []).append(place)
    return found


def _session_rows(story: Story) -> Iterator[dict[str, Any]]:
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


def write_answers(settings: AnswersSettings) -> str:
    """Write answers and verdicts of a folder of imported rows; return what was written.

    Raises:
        UsageError: If the folder has no such answers, or none of them is to a question of the set.
        DataError: If a row can't be read.
    """
    path, out = Path(settings.imported) / ANSWERS, Path(settings.out)
    rows = _imported_rows(path, settings.system)
    choice = SetChoice(settings.set, settings.size)
    book = open_book(_set_of(settings.task), settings.data, choice)
    found = dict(_matched(rows, book))
    if not found:
        raise UsageError(
            f"imported={settings.imported}: no answer matches a question of {settings.task}"
        )
    out.mkdir(parents=True, exist_ok=True)
    judged = 0
    with (out / ANSWERS).open("wb") as answers, (out / VERDICTS).open("wb") as verdicts:
        for name, row in found.items():
            answers.write(dump({"benchmark_id": name, "answer": row.get("answer") or ""}))
            if row.get("score") in (0, 1) or row.get("outcome"):
                judged += 1
                verdicts.write(dump(_verdict(name, row)))
    some = f"{len(found):,} of {counted(len(book.entries), 'answer')} ({judged:,} judged)"
    split = sum(row.get("score") not in (0, 1, None) for row in found.values())
    # A recorded verdict is a mark: shares of draws, and half marks, are none.
    fractional = "answers without a verdict because their score is fractional"
    shares = f"; {fractional}: {split:,}" if split else ""
    lacking = len(book.entries) - len(found)
    none = f"; answers counted as wrong because they are missing: {lacking:,}" if lacking else ""
    other = len(rows) - len(found)
    left_out = f"; answers left out because they match no question: {other:,}" if other else ""
    return (
        f"wrote {some}{shares}{none}{left_out}. To score: "
        f"model=predictions:{out / ANSWERS} judge=recorded:{out / VERDICTS}"
    )


def _imported_rows(path: Path, system: str | None) -> list[Row]:
    if not path.is_file():
        raise UsageError(f"imported={path.parent}: no {path.name}; create it with alps import")
    rows = []
    for number, (_, _, row) in enumerate(scan(path), start=1):
        if row is None or "system" not in row or "id" not in row:
            raise DataError("not an imported answer; run alps import again", path=path, line=number)
        rows.append(row)
    systems = list(dict.fromkeys(str(row["system"]) for row in rows))
    if system is None and len(systems) > 1:
        known = ", ".join(systems)
        raise UsageError(f"imported={path.parent}: several systems ({known}); set system=")
    # A record has one verdict: of repeats the first is taken.
    return [row for row in rows if row["system"] == (system or systems[0]) and not row["repeat"]]


def _matched(rows: Sequence[Row], book: Book) -> Iterator[tuple[str, Row]]:
    """Yield the answers with the ids of their questions: by id, else by words in a conversation."""
    questions = [entry.question for entry in book.entries]
    known = {question.id for question in questions}
    # Result files of Mem0's form have no ids: questions are found by their words.
    if any(row["id"] in known for row in rows):
        yield from ((row["id"], row) for row in rows if row["id"] in known)
        return
    by_history: dict[str, list[SetQuestion]] = defaultdict(list)
    for question in questions:
        by_history[question.history].append(question)
    by_conversation: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_conversation[str(row["conversation"])].append(row)
    for own in by_conversation.values():
        asked = {fold(str(row["question"])) for row in own}
        # Harnesses number conversations their own way: the one with the most questions in common is
        # meant.
        best = max(
            by_history.values(), key=lambda listed: sum(fold(q.text) in asked for q in listed)
        )
        yield from _in_history(own, best)


def _in_history(rows: Sequence[Row], questions: Sequence[SetQuestion]) -> Iterator[tuple[str, Row]]:
    free: dict[str, list[SetQuestion]] = defaultdict(list)
    for question in questions:
        free[fold(question.text)].append(question)
    for row in rows:
        same = free[fold(str(row["question"]))]
        # Of a question that is there twice the one with the same gold comes first.
        same.sort(key=lambda one: fold(one.answer) != fold(str(row.get("gold") or "")))
        if same:
            yield same.pop(0).id, row


def _verdict(name: str, row: Row) -> dict[str, Any]:
    said = str(row.get("answer") or "")
    outcome = row.get("outcome")
    given: dict[str, Any] = {"score": int(row["score"])}
    if outcome in OUTCOMES:
        # By HaluMem's rubric an answer that is wrong is made up, or leaves something out.
        given = {"marks": {"outcome": OUTCOMES.index(outcome)}}
    return {
        "benchmark_id": name,
        "model_output": {"responses": [{"response": said}]},
        "judge_output": [{**given, "response": said}],
    }
