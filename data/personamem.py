"""PersonaMem's files: questions as CSV, beside the histories that they are about.

`questions_<size>.csv` names for each question the history it is about and where that history ends
(Jiang et al., COLM 2025, arXiv 2504.14225).
"""

import ast
import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.data.histories import Histories, Message, open_histories
from alps.errors import DataError, UsageError, closest

SIZES = ("32k", "128k", "1M")
LETTERS = "abcd"
_COLUMNS = (
    "persona_id",
    "question_id",
    "question_type",
    "topic",
    "user_question_or_message",
    "correct_answer",
    "all_options",
    "shared_context_id",
    "end_index_in_shared_context",
)
LONGEST_FIELD = 10_000_000
"""The csv module refuses fields above 131,072 characters unless told otherwise."""


@dataclass(frozen=True)
class Question:
    """One row of the questions.

    Attributes:
        options: The four answers without their letters, in the order of the file.
        gold: The position of the right one.
        end: How many messages of the history come before the question; the slice is `[:end]`.
        sessions_back: Sessions between the evidence and the question, where the file says so.
        tokens_back: Tokens between them.
        tokens: Tokens of the history.
        letters: Characters of the history's messages.
        irrelevant_tokens: Tokens of unrelated chats between.
        line: The line of the file that the row begins on.
    """

    persona: str
    id: str
    type: str
    topic: str
    message: str
    options: tuple[str, ...]
    gold: int
    history: str
    end: int
    sessions_back: int | None
    tokens_back: int | None
    tokens: int | None
    letters: int | None
    irrelevant_tokens: int | None
    line: int


def read_questions(path: Path) -> Iterator[Question]:
    """Yield the questions of a file in its order.

    Raises:
        DataError: If a column is missing or stands twice, or a row can't be read; names the file,
            the line and the column.
    """
    csv.field_size_limit(LONGEST_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        seen: dict[str, int] = {}
        header, line = _header(reader, path), reader.line_num
        while True:
            first = line + 1
            try:
                cells = next(reader, None)
            except (csv.Error, UnicodeDecodeError) as error:
                raise DataError(f"not CSV ({error})", path=path, line=first) from error
            if cells is None:
                return
            line = reader.line_num
            if not cells:
                continue
            if len(cells) != len(header):
                counted = f"{len(cells)} cells where the header has {len(header)}"
                raise DataError(counted, path=path, line=first)
            question = _question(dict(zip(header, cells, strict=True)), path, first)
            if question.id in seen:
                twice = f"'{question.id}' stands twice, before on line {seen[question.id]}"
                raise DataError(twice, path=path, line=first, field="question_id")
            seen[question.id] = first
            yield question


def _header(reader: Any, path: Path) -> list[str]:
    try:
        header = next(reader, None)
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"not CSV ({error})", path=path, line=1) from error
    if header is None:
        raise DataError("empty; expected PersonaMem's questions", path=path)
    for name in _COLUMNS:
        if header.count(name) != 1:
            times = "stands twice" if name in header else "is missing"
            raise DataError(f"the column {times}", path=path, line=1, field=name)
    return list(header)


def _question(row: Mapping[str, str], path: Path, line: int) -> Question:
    options = _options(row["all_options"], path, line)
    for name in ("persona_id", "question_id", "question_type", "user_question_or_message"):
        if not row[name].strip():
            raise DataError("empty", path=path, line=line, field=name)
    return Question(
        persona=row["persona_id"],
        id=row["question_id"],
        type=row["question_type"],
        topic=row["topic"],
        message=row["user_question_or_message"],
        options=options,
        gold=_gold(row["correct_answer"], len(options), path, line),
        history=row["shared_context_id"],
        end=_count(row, "end_index_in_shared_context", path, line) or 0,
        sessions_back=_count(row, "distance_to_ref_in_blocks", path, line),
        tokens_back=_count(row, "distance_to_ref_in_tokens", path, line),
        tokens=_count(row, "context_length_in_tokens", path, line),
        letters=_count(row, "context_length_in_letters", path, line),
        irrelevant_tokens=_count(row, "num_irrelevant_tokens", path, line),
        line=line,
    )


def _count(row: Mapping[str, str], name: str, path: Path, line: int) -> int | None:
    text = row.get(name, "").strip()
    if not text and name not in _COLUMNS:
        return None
    try:
        number = float(text)
        whole = int(number)
    except (ValueError, OverflowError):
        whole, number = -1, 0.0
    if whole != number or whole < 0:
        shown = f"'{text[:20]}' is no whole number of 0 or more"
        raise DataError(shown, path=path, line=line, field=name)
    return whole


def _gold(text: str, n: int, path: Path, line: int) -> int:
    letter = text.strip().strip("()").lower()
    if len(letter) != 1 or letter not in LETTERS[:n]:
        shown = f"'{text[:20]}' is none of the letters (a) to ({LETTERS[n - 1]})"
        raise DataError(shown, path=path, line=line, field="correct_answer")
    return LETTERS.index(letter)


def _options(text: str, path: Path, line: int) -> tuple[str, ...]:
    """Read the options, written as a list of JSON or of Python: the published file has both."""
    try:
        options = json.loads(text)
    except (ValueError, RecursionError):
        try:
            options = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            options = None
    fits = isinstance(options, list) and len(options) == len(LETTERS)
    if not fits or not all(isinstance(option, str) for option in options):
        expected = "expected a list of four texts, in JSON or as Python writes it"
        raise DataError(expected, path=path, line=line, field="all_options")
    return tuple(_bare(option, letter) for option, letter in zip(options, LETTERS, strict=True))


def _bare(option: str, letter: str) -> str:
    """Return an option without the letter it begins with."""
    return option.removeprefix(f"({letter})").strip()


@dataclass(frozen=True)
class PersonaMem:
    """The files of one size in a folder; several files of histories are looked through in turn."""

    size: str
    questions: Path
    histories: tuple[Histories, ...]

    def read(self) -> Iterator[Question]:
        """Yield the questions in their order; see `read_questions`."""
        return read_questions(self.questions)

    def holds(self, question: Question) -> bool:
        """Tell whether the history of a question is there."""
        return any(question.history in histories for histories in self.histories)

    def check(self, question: Question) -> None:
        """Check that the history of a question is there, and as long as the question says.

        Raises:
            DataError: If not; names the line of the question.
        """
        self._histories_of(question)

    def history(self, question: Question) -> tuple[Message, ...]:
        """Return what the user and the assistant said before the question.

        Raises:
            DataError: If the history is not there, or is shorter than the question says.
        """
        return self._histories_of(question).read(question.history, question.end)

    def _histories_of(self, question: Question) -> Histories:
        name, line = question.history, question.line
        for histories in self.histories:
            if name in histories:
                length = histories.length(name)
                if question.end > length:
                    short = f"{question.end}, but history '{name}' has {length} messages"
                    field = "end_index_in_shared_context"
                    raise DataError(short, path=self.questions, line=line, field=field)
                return histories
        files = ", ".join(histories.path.name for histories in self.histories)
        where = files or f"{self.questions.parent}: no shared_contexts_{self.size}*.jsonl there"
        missing = f"no history '{name}' in {where}"
        raise DataError(missing, path=self.questions, line=line, field="shared_context_id")


def open_personamem(folder: Path, size: str | None = None) -> PersonaMem:
    """Find PersonaMem's files of one size in a folder.

    Raises:
        UsageError: If there are none, or several sizes and none was named.
    """
    there = {
        size: folder / f"questions_{size}.csv"
        for size in SIZES
        if (folder / f"questions_{size}.csv").is_file()
    }
    if size is None and len(there) > 1:
        raise UsageError(f"data={folder}: name a size with size= (found: {', '.join(there)})")
    if size is not None and size not in SIZES:
        known = ", ".join(SIZES)
        raise UsageError(f"size={size}: unknown{closest(size, SIZES)} (known: {known})")
    chosen = size or next(iter(there), SIZES[0])
    if chosen not in there:
        raise UsageError(f"data={folder}: no questions_{chosen}.csv in it")
    paths = sorted(folder.glob(f"shared_contexts_{chosen}*.jsonl"))
    return PersonaMem(chosen, there[chosen], tuple(open_histories(path) for path in paths))
