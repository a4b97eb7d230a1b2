"""Sets: their list, one written in the form of one's own, and answers that others recorded.

In that form `histories.jsonl` has a session a line, `questions.jsonl` a question a line. `alps
import` reads result files of many forms into rows of one form; here each row finds its question, so
that the answers are scored as if they had been given here.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from rich.console import Console

from alps.errors import DataError, UsageError, closest, first_fault
from alps.ext.histories import READERS, SETS
from alps.ext.histories.book import Book, files_of, known_defects, open_book, stories
from alps.ext.histories.files import JsonSlice, Role, SetChoice, WholeFile, lines
from alps.ext.histories.judging import OUTCOMES
from alps.ext.histories.model import CitedSet, Scoring, SetQuestion, Story
from alps.ext.histories.settings import AnswersSettings, ConvertSettings
from alps.extension import load
from alps.folders import refuse_full
from alps.jsonl import Row, dump, scan
from alps.schema import FrozenRow
from alps.show.formatting import counted
from alps.show.table import Column, Table, named, print_parts, row_of, thousands
from alps.text import fold

HISTORIES, QUESTIONS = "histories.jsonl", "questions.jsonl"
Name = Annotated[str, Field(min_length=1)]
RowT = TypeVar("RowT", bound=FrozenRow)
ANSWERS, VERDICTS, SUMMARY = "answers.jsonl", "verdicts.jsonl", "summary.json"


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
    points: Annotated[tuple[str, ...], Field(validate_default=True)] = ()
    sessions: Annotated[int, Field(ge=0)] | None = None

    @field_validator("points")
    @classmethod
    def _judged_one_by_one(cls, points: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        # Such a question would be judged by nothing that it has.
        by_points = info.data.get("scoring", "points" if points else "") == "points"
        if points and not by_points:
            raise PydanticCustomError("points", 'add "scoring": "points", or remove the points')
        if by_points and not points:
            raise PydanticCustomError("points", '"scoring": "points" needs at least one point')
        return points


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


# Columns of a terminal from which all that is known of a set has room.
_ROOMY = 64


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
    # What is typed or looked up is never cut, nor is a number.
    columns = [
        named("task", "fold"),
        Column("licence", from_width=_ROOMY),
        Column("language", from_width=_ROOMY),
        named("questions", "no"),
        named("source", "fold"),
    ]
    table = Table("Sets of histories and questions", columns, rows)
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
    told = (story for _, story in stories(cited, found.stories))
    with _all_or_nothing(out, (HISTORIES, QUESTIONS)) as paths:
        histories, questions = _write(paths[0], paths[1], told)
        if not questions:
            what = f"the data has no questions of {cited.title}"
            raise UsageError(f"data={settings.data}: {what}")
    all_histories = counted(histories, "history", "histories")
    return f"wrote {all_histories} and {counted(questions, 'question')} in {settings.out}"


def _row(place: JsonSlice, kind: type[RowT]) -> RowT:
    try:
        return kind.model_validate(place.read())
    except ValidationError as error:
        fault, field = first_fault(error)
        raise DataError(fault, path=place.path, line=place.line, field=field) from error


def by_history(
    path: Path, kind: type[RowT], check: Callable[[Any, JsonSlice], None] = lambda row, place: None
) -> dict[str, list[JsonSlice]]:
    """Return the lines of each history in a file, once all were read, and passed a check.

    Raises:
        DataError: If a line is of another form; names it and the field.
    """
    found: dict[str, list[JsonSlice]] = {}
    for place in lines(path, "write one JSON object per line"):
        row: Any = _row(place, kind)
        check(row, place)
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
    # Without a point there is nothing to be judged by: it has no gold.
    if known["scoring"] == "points" and not known["points"]:
        known["scoring"] = "judged"
    return QuestionRow.model_validate(known).model_dump(exclude_defaults=True)


def _write(told: Path, about: Path, stories: Iterable[Story]) -> tuple[int, int]:
    """Write stories and questions into two files; return how many histories and questions."""
    histories = questions = 0
    with told.open("wb") as sessions, about.open("wb") as asked:
        for story in stories:
            histories += 1
            sessions.writelines(dump(row) for row in _session_rows(story))
            for question in story.questions:
                questions += 1
                asked.write(dump(_question_row(question)))
    return histories, questions


@contextmanager
def _all_or_nothing(folder: Path, names: Sequence[str]) -> Iterator[list[Path]]:
    """Yield the paths of new files in a folder, which are removed if writing them fails."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    paths = [folder / name for name in names]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield paths
    except BaseException:
        for path in paths:
            path.unlink(missing_ok=True)
        with suppress(OSError):  # somebody else put something there
            for path in made:
                path.rmdir()
        raise


def write_answers(settings: AnswersSettings) -> str:
    """Write answers and verdicts of a folder of imported rows; return what was written.

    Verdicts are written where they are those of the judge that the set's authors, or those who
    follow them, have: a score of others would stand under their name.

    Raises:
        UsageError: If the folder has no such answers, or none of them is to a question of the set,
            or there is something at `out`.
        DataError: If a row can't be read.
    """
    path, out = Path(settings.imported) / ANSWERS, Path(settings.out)
    refuse_full(out)
    rows = _imported_rows(path, settings.system)
    choice = SetChoice(settings.set, settings.size)
    cited = _set_of(settings.task)
    book = open_book(cited, settings.data, choice)
    found = dict(_matched(rows, book))
    if not found:
        raise UsageError(
            f"imported={settings.imported}: no answer matches a question of {settings.task}"
        )
    theirs = _has_their_verdicts(cited, path.with_name(SUMMARY))
    judged = {name: row for name, row in found.items() if _is_judged(row)}
    written = judged if theirs else {}
    files = {ANSWERS: [{"benchmark_id": id, "answer": _said(row)} for id, row in found.items()]}
    if written:
        files[VERDICTS] = [_verdict(name, row) for name, row in written.items()]
    with _all_or_nothing(out, list(files)) as paths:
        for path, content in zip(paths, files.values(), strict=True):
            path.write_bytes(b"".join(map(dump, content)))
    told = _counts(rows, found, book, left_out=len(judged) - len(written))
    some = f"{len(found):,} of {counted(len(book.entries), 'answer')} ({len(written):,} judged)"
    judge = quote(f"judge=recorded:{out / VERDICTS}") if written else "judge=PROVIDER/MODEL"
    model = quote(f"model=predictions:{out / ANSWERS}")
    return f"wrote {'; '.join([some, *told])}. To score: {model} {judge}"


def _counts(
    rows: Sequence[Row], found: Mapping[str, Row], book: Book, *, left_out: int
) -> Iterator[str]:
    """Yield what of imported answers is not as it should be, and how often."""
    counts = {
        "answers without a verdict because their score is fractional": _fractional(found),
        f"verdicts left out because they are not {_whose(book.cited)}": left_out,
        "answers whose gold is not that of the data": _other_golds(found, book),
        "answers counted as wrong because they are missing": len(book.entries) - len(found),
        "answers left out because they match no question": len(rows) - len(found),
    }
    yield from (f"{what}: {n:,}" for what, n in counts.items() if n)


def _fractional(found: Mapping[str, Row]) -> int:
    # A recorded verdict is a mark: shares of draws, and half marks, are none.
    return sum(row.get("score") not in (0, 1, None) for row in found.values())


def _said(row: Row) -> str:
    return str(row.get("answer") or "")


def _is_judged(row: Row) -> bool:
    return row.get("score") in (0, 1) or row.get("outcome") in OUTCOMES


def _has_their_verdicts(cited: CitedSet, summary: Path) -> bool:
    """Return whether imported verdicts are those of the judge whose name a set's score has."""
    own = "" if cited.authors is None else cited.authors.recorded
    # Without its summary a folder does not say whose verdicts it has.
    if not own or not summary.is_file():
        return False
    imported = WholeFile(summary).read()
    # A field that `verdict=` names may be anybody's.
    is_own = isinstance(imported, dict) and imported.get("format") == own
    return is_own and "verdict" not in imported


def _whose(cited: CitedSet) -> str:
    if cited.authors is None or not cited.authors.recorded:
        return f"judged by a rubric of {cited.title}"
    titles = {metric.name: metric.title for metric in cited.authors.metrics}
    return f"known to be those of '{titles[cited.authors.judged].strip()}'"


def _other_golds(found: Mapping[str, Row], book: Book) -> int:
    """Return how many answers were imported with another gold than that of their question."""
    count = 0
    for entry in book.entries:
        gold = (found.get(entry.question.id) or {}).get("gold")
        if gold and entry.question.answer and not entry.question.abstains:
            own, theirs = (fold(str(one)).strip(" .!") for one in (entry.question.answer, gold))
            count += own != theirs
    return count


def _imported_rows(path: Path, system: str | None) -> list[Row]:
    if not path.is_file():
        raise UsageError(f"imported={path.parent}: no {path.name}; create it with alps import")
    rows = []
    for number, (_, _, row) in enumerate(scan(path), start=1):
        if row is None or "system" not in row or "id" not in row:
            raise DataError("not an imported answer; run alps import again", path=path, line=number)
        rows.append(row)
    if not rows:
        raise DataError("no answers in this file; run alps import again", path=path)
    system = _system_of(rows, path.parent, system)
    # A record has one verdict: of repeats the first is taken.
    return [row for row in rows if row["system"] == system and not row["repeat"]]


def _system_of(rows: Sequence[Row], folder: Path, system: str | None) -> str:
    systems = list(dict.fromkeys(str(row["system"]) for row in rows))
    if system is None and len(systems) > 1:
        known = ", ".join(systems)
        raise UsageError(f"imported={folder}: several systems ({known}); set system=")
    if system is not None and system not in systems:
        known = f"{closest(system, systems)} (known: {', '.join(systems)})"
        raise UsageError(f"system={system}: no such system in {folder}{known}")
    return system or systems[0]


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
    said, outcome = _said(row), row.get("outcome")
    if outcome in OUTCOMES:
        # By HaluMem's rubric an answer that is wrong is made up, or leaves something out.
        given: dict[str, Any] = {"marks": {"outcome": OUTCOMES.index(outcome)}}
    else:
        given = {"score": int(row["score"])}
    return {
        "benchmark_id": name,
        "model_output": {"responses": [{"response": said}]},
        "judge_output": [{**given, "response": said}],
    }
