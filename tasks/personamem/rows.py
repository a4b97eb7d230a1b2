"""Rows and cells of PersonaMem's CSV files, and the question that a row becomes."""

import ast
import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from alps.errors import DataError
from alps.slips import HEAD, refuse_encoding

SIZES = ("32k", "128k", "1M")
LETTERS = "abcd"
LONGEST_FIELD = 10_000_000
"""The csv module refuses fields above 131,072 characters unless told otherwise."""

_SHOWN = 20


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
    """One row of a CSV file: its cells by column, and where it stands."""

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
            raise self.fault(f"'{text[:_SHOWN]}' is no whole number of 0 or more", name)
        return whole

    def literal(self, name: str) -> object:
        """Return a cell written in JSON or as Python writes it: published files have both.

        None where it is neither.
        """
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


def read_rows(path: Path, columns: Sequence[str], on_fault: OnFault = refuse) -> Iterator[CsvRow]:
    """Yield the rows of a file with at least these columns.

    Args:
        path: The file.
        columns: Those that must stand in it once.
        on_fault: Takes what is wrong with a row, which is then left out.

    Raises:
        DataError: If it is no CSV, or a column is missing or stands twice; names the line.
    """
    csv.field_size_limit(LONGEST_FIELD)
    line = 0
    try:
        with path.open("rb") as file:
            refuse_encoding(file.read(HEAD), path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, None)
            _check_header(header, columns, path)
            assert header is not None
            line = reader.line_num
            for cells in reader:
                first, line = line + 1, reader.line_num
                if len(cells) == len(header):
                    yield CsvRow(dict(zip(header, cells, strict=True)), path, first)
                elif cells:
                    counted = f"{len(cells)} cells where the header has {len(header)}"
                    on_fault(DataError(counted, path=path, line=first))
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"not CSV ({error})", path=path, line=line + 1) from error
    except OSError as error:
        raise DataError(f"can't be read ({error.strerror})", path=path) from error


def _check_header(header: Sequence[str] | None, columns: Sequence[str], path: Path) -> None:
    if header is None:
        raise DataError("empty; expected PersonaMem's questions", path=path)
    for name in columns:
        if header.count(name) != 1:
            times = "stands twice" if name in header else "is missing"
            raise DataError(f"the column {times}", path=path, line=1, field=name)
