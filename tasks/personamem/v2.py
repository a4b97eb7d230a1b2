"""Files of PersonaMem-v2: one CSV of questions, and a JSON file with the history of each persona.

Its columns are described beside the data set and written by its authors' preparation code (Jiang
et al., arXiv 2512.06688). A row has the right answer and three wrong ones, and no letters: the
authors shuffle the options anew in each run. Here they stand in the order of their sha256, seeded
by the row's id, so that everybody has the same letters. A row has no id, either: it is the persona
and the place of the row, as `521-0`. The whole history comes before the question.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from alps.data.histories import ROLES, HistorySource
from alps.errors import DataError
from alps.schema import Turn
from alps.tasks.personamem.rows import LETTERS, CsvRow, OnFault, Question, read_rows, refuse

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
        try:
            return bool(history) and self._is_inside(history) and self._file(history).is_file()
        except OSError:  # a name that no file can have
            return False

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

    def _is_inside(self, history: str) -> bool:
        return not Path(history).is_absolute() and ".." not in Path(history).parts


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
) -> Iterator[Question]:
    """Yield the questions of a file in its order.

    Args:
        path: The file.
        size: Which of the histories they are about.
        histories: Where these are; a question whose history is not there ends at its beginning.
        on_fault: Takes what is wrong with a row, which is then left out.

    Raises:
        DataError: If a column is missing or stands twice, or a row can't be read; names the file,
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


def _question(row: CsvRow, place: int, size: str, end: int) -> Question:
    persona, right = row.text("persona_id"), row.text("correct_answer")
    name = f"{persona}-{place}"
    answers = [right, *row.texts("incorrect_answers", len(LETTERS) - 1, "three")]
    options = sorted(answers, key=lambda text: hashlib.sha256(f"{name} {text}".encode()).digest())
    # Of a snippet that they did not find in the history, the authors write a distance of 0.
    tokens_back = row.count(f"distance_from_related_snippet_to_query_{size}") or None
    return Question(
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
