"""Rows of PersonaMem's CSV files, the question that a row becomes, and the files of PersonaMem-v2.

The columns of v2 are described beside the data set and written by its authors' preparation code
(Jiang et al., arXiv 2512.06688). A row has the right answer and three wrong ones, and no letters:
the authors shuffle the options anew in each run. Here they stand in the order of their sha256,
seeded by the row's id, so that everybody has the same letters. A row has no id, either: it is the
persona and the place of the row, as `521-0`. The whole history comes before the question.
"""

import ast
import csv
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from alps.errors import DataError
from alps.schema import Turn
from alps.slips import HEAD, refuse_encoding
from alps.tasks.personamem.histories import ROLES, Histories

SIZES = ("32k", "128k", "1M")
LETTERS = "abcd"
LONGEST_FIELD = 10_000_000
"""The csv module refuses fields above 131,072 characters unless told otherwise."""

_SHOWN = 20


@dataclass(frozen=True)
class PersonaQuestion:
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
        who: Whose preference it is about, where the file says so.
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
    who: str = ""


@dataclass(frozen=True)
class CsvRow:
    """One row of a CSV file: its cells by column, and its line."""

    cells: Mapping[str, str]
    path: Path
    line: int

    def fault(self, message: str, field: str) -> DataError:
        """Return the error for a cell that can't be read."""
        return DataError(message, path=self.path, line=self.line, field=field)

    def text(self, name: str) -> str:
        """Return a cell that must not be empty.

        Raises:
            DataError: If it is.
        """
        if not self.cells[name].strip():
            raise self.fault("empty", name)
        return self.cells[name]

    def count(self, name: str) -> int | None:
        """Return a whole number; None where the column is missing, or the cell empty.

        Raises:
            DataError: If it is something else, or negative.
        """
        text = self.cells.get(name, "").strip()
        if not text:
            return None
        try:
            number = float(text)
            whole = int(number)
        except (ValueError, OverflowError):
            whole, number = -1, 0.0
        if whole != number or whole < 0:
            raise self.fault(f"'{text[:_SHOWN]}' is not a whole number of 0 or more", name)
        return whole

    def literal(self, name: str) -> object:
        """Return a cell in JSON or as Python writes it, as published files do; else None."""
        text = self.cells[name]
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            try:
                value = ast.literal_eval(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                value = None
        return value

    def texts(self, name: str, count: int, counted: str) -> tuple[str, ...]:
        """Return a list of `count` texts.

        Raises:
            DataError: If it is something else.
        """
        values = self.literal(name)
        listed = values if isinstance(values, list) else []
        texts = tuple(value for value in listed if isinstance(value, str))
        if not len(texts) == len(listed) == count:
            expected = f"expected a list of {counted} texts, in JSON or as Python writes it"
            raise self.fault(expected, name)
        return texts


OnFault = Callable[[DataError], None]


def refuse(fault: DataError) -> None:
    """Raise what is wrong with a row: a run stops there, and an audit counts it."""
    raise fault


def csv_lines(
    path: Path, check: Callable[[bytes, Path], None] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file with the lines they begin on; `check` sees its first bytes.

    Raises:
        DataError: If it is no CSV; names the line.
    """
    csv.field_size_limit(LONGEST_FIELD)
    line = 0
    try:
        if check is not None:
            with path.open("rb") as file:
                check(file.read(HEAD), path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                first, line = line + 1, reader.line_num
                yield first, cells
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"not CSV ({error})", path=path, line=line + 1) from error
    except OSError as error:
        raise DataError(f"can't be read ({error.strerror})", path=path) from error


def read_rows(path: Path, columns: Sequence[str], on_fault: OnFault = refuse) -> Iterator[CsvRow]:
    """Yield the rows of a file with at least these columns.

    Args:
        path: The file.
        columns: Those that must stand in it once.
        on_fault: Takes what is wrong with a row, which is then left out.

    Raises:
        DataError: If it is no CSV, or a column is missing or occurs twice; names the line.
    """
    lines = csv_lines(path, refuse_encoding)
    _, header = next(lines, (0, None))
    if header is None:
        raise DataError("empty; expected PersonaMem's questions", path=path)
    for name in columns:
        if header.count(name) != 1:
            times = "appears twice" if name in header else "is missing"
            raise DataError(f"the column {times}", path=path, line=1, field=name)
    for line, cells in lines:
        if len(cells) == len(header):
            yield CsvRow(dict(zip(header, cells, strict=True)), path, line)
        elif cells:
            counted = f"{len(cells)} cells where the header has {len(header)}"
            on_fault(DataError(counted, path=path, line=line))


BENCHMARKS = ("benchmark/text/benchmark.csv", "benchmark.csv")
"""Where the questions lie below a folder; the histories are named by their paths from there."""

_SIZES = ("32k", "128k")
_COLUMNS = ("persona_id", "user_query", "correct_answer", "incorrect_answers", "pref_type")


def link_column(size: str) -> str:
    """Return the column that names the histories of a size."""
    return f"chat_history_{size}_link"


def sizes_of(path: Path) -> tuple[str, ...]:
    """Return the sizes that the questions name histories of.

    Raises:
        DataError: If it is no CSV, or has other columns.
    """
    first = next(read_rows(path, _COLUMNS, lambda fault: None), None)
    columns = first.cells if first is not None else {}
    return tuple(size for size in _SIZES if link_column(size) in columns)


def links_in(path: Path, size: str) -> list[str]:
    """Return the histories that the questions of a size name, each once."""
    rows = read_rows(path, (link_column(size),), lambda fault: None)
    return sorted({row.cells[link_column(size)] for row in rows} - {""})


@dataclass(frozen=True)
class LinkedHistories:
    """Histories that lie in a JSON file each.

    Attributes:
        path: The folder.
        links: The histories that are named, by their paths from the folder.
    """

    path: Path
    links: tuple[str, ...]

    @cached_property
    def sha256(self) -> str:
        """The hash of the files that are there."""
        digest = hashlib.sha256()
        for link in self.links:
            if link in self:
                digest.update(self._file(link).read_bytes())
        return digest.hexdigest()

    def __contains__(self, history: str) -> bool:
        """Tell whether the file of a history is there, inside the folder."""
        is_inside = not Path(history).is_absolute() and ".." not in Path(history).parts
        return is_inside and os.path.isfile(self._file(history))

    def any(self) -> bool:
        """Tell whether the file of any history is there."""
        return any(link in self for link in self.links)

    def length(self, history: str) -> int:
        """Return how many messages a history has.

        Raises:
            DataError: If its file can't be read.
        """
        return len(self._turns(history))

    def read(self, history: str, end: int, start: int = 0) -> tuple[Turn, ...]:
        """Return the messages of a history from place `start` to before place `end`.

        Raises:
            DataError: If its file can't be read.
        """
        return self._turns(history)[start:end]

    def _turns(self, history: str) -> tuple[Turn, ...]:
        file = self._file(history)
        return _read_turns(file, file.stat().st_mtime_ns)

    def _file(self, history: str) -> Path:
        return self.path / history


HistorySource = Histories | LinkedHistories
"""Where histories are: in one file, or in a file each."""


# Questions of one persona do not follow one another, and 128k tokens are 0.5 MB.
@lru_cache(maxsize=64)
def _read_turns(path: Path, changed: int) -> tuple[Turn, ...]:
    """Read `{"chat_history": [{role, content}, …], …}`, or the list alone."""
    try:
        node: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"not a history ({error})", path=path) from error
    messages = node.get("chat_history") if isinstance(node, dict) else node
    if not isinstance(messages, list):
        raise DataError("expected a list of messages", path=path, field="chat_history")
    return tuple(_turn(message, place, path) for place, message in enumerate(messages))


def _turn(message: Any, place: int, path: Path) -> Turn:
    node = message if isinstance(message, dict) else {}
    role, text = node.get("role"), node.get("content")
    if role not in ROLES or not isinstance(text, str):
        expected = f"expected a role ({', '.join(ROLES)}) and a text; images are not read"
        raise DataError(expected, path=path, field=f"chat_history[{place}]")
    return Turn(role=role, text=text)


def read_benchmark(
    path: Path,
    size: str,
    histories: Sequence[HistorySource] = (),
    on_fault: OnFault = refuse,
) -> Iterator[PersonaQuestion]:
    """Yield the questions of a file in its order.

    Args:
        path: The file.
        size: Which of the histories they are about.
        histories: Where these are; a question whose history is not there ends at its beginning.
        on_fault: Takes what is wrong with a row, which is then left out.

    Raises:
        DataError: If a column is missing or occurs twice, or a row can't be read; names the file,
            the line and the column.
    """
    rows = read_rows(path, (*_COLUMNS, link_column(size)), on_fault)
    for place, row in enumerate(rows):
        try:
            link = row.text(link_column(size))
            lengths = [source.length(link) for source in histories if link in source]
            question = _question(row, place, size, lengths[0] if lengths else 0)
        except DataError as fault:
            on_fault(fault)
            continue
        yield question


def _question(row: CsvRow, place: int, size: str, end: int) -> PersonaQuestion:
    persona, right = row.text("persona_id"), row.text("correct_answer")
    name = f"{persona}-{place}"
    answers = [right, *row.texts("incorrect_answers", len(LETTERS) - 1, "three")]
    options = sorted(answers, key=lambda text: hashlib.sha256(f"{name} {text}".encode()).digest())
    # Of a snippet that they did not find in the history, the authors write a distance of 0.
    tokens_back = row.count(f"distance_from_related_snippet_to_query_{size}") or None
    return PersonaQuestion(
        persona=persona,
        id=name,
        type=row.text("pref_type"),
        topic=row.cells.get("topic_query", ""),
        message=_message(row),
        options=tuple(option.strip() for option in options),
        gold=options.index(right),
        history=row.cells[link_column(size)],
        end=end,
        sessions_back=None,
        tokens_back=tokens_back,
        tokens=row.count(f"total_tokens_in_chat_history_{size}"),
        letters=None,
        irrelevant_tokens=row.count(f"num_persona_irrelevant_tokens_{size}"),
        line=row.line,
        who=row.cells.get("who", ""),
    )


def _message(row: CsvRow) -> str:
    """Return the text of a query: Python's writing of `{"role": …, "content": …}`, or the text."""
    text = row.text("user_query")
    node = row.literal("user_query")
    if not isinstance(node, dict):
        return text
    content = node.get("content")
    if not isinstance(content, str) or not content.strip():
        raise row.fault("expected a message with a text as `content`", "user_query")
    return content
