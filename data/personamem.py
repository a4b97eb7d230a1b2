"""PersonaMem's files: questions as CSV, and the histories that many of them share.

`questions_<size>.csv` names for each question the history it is about and where that history ends;
`shared_contexts_<size>.jsonl` holds one history a line (Jiang et al., COLM 2025, arXiv 2504.14225).
A history of a million tokens is 5 MB, and hundreds of questions share it: an index of where each
message ends is built once, kept in the user's cache, and only the slice of a question is read.
"""

import ast
import csv
import hashlib
import json
import re
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from json.decoder import JSONDecoder
from pathlib import Path
from typing import Any

from alps.errors import DataError, UsageError, closest
from alps.folders import cache_folder, can_be_kept
from alps.jsonl import parse_json

SIZES = ("32k", "128k", "1M")
LETTERS = "abcd"
INDEX_VERSION = 1
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
_LONGEST_FIELD = 10_000_000
"""The csv module refuses fields above 131,072 characters unless told otherwise."""


_IN_PARENTHESES, _BARE = re.compile(r"\(([a-d])\)"), re.compile(r"\b([a-d])\b")


@dataclass(frozen=True)
class Message:
    """One message of a history: who wrote it (`system`, `user`, `assistant`), and its text."""

    role: str
    content: str


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
    csv.field_size_limit(_LONGEST_FIELD)
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


def read_results(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the answers of a published results file, each with its line.

    `pred_*.csv` has the chosen letter as `p`; `eval_results_*.csv` has the reply as
    `model_response`, which is read as `read_reply` does.

    Raises:
        DataError: If a column is missing, or a row can't be read.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            reader = csv.DictReader(file, strict=True)
            columns = list(reader.fieldnames or ())
            rows, line = [], reader.line_num
            for row in reader:
                rows.append((line + 1, row))
                line = reader.line_num
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"not CSV ({error})", path=path) from error
        answer = next((name for name in ("p", "model_response") if name in columns), None)
        if "question_id" not in columns or answer is None:
            lacking = "question_id" if "question_id" not in columns else "p, or model_response"
            raise DataError("the column is missing", path=path, line=1, field=lacking)
        for name in ("question_id", answer):
            if columns.count(name) > 1:
                raise DataError("the column stands twice", path=path, line=1, field=name)
        for first, row in rows:
            name, text = row["question_id"], row[answer]
            if not name or text is None:
                raise DataError("the row is cut off", path=path, line=first)
            letter = read_reply(text) if answer == "model_response" else text.strip().lower()
            chosen = {"benchmark_id": name, "choice": letter.strip("()")}
            silent = {"benchmark_id": name, "outcome": "empty", "error": f"{answer} is empty"}
            yield first, chosen if letter else silent


def read_reply(text: str) -> str:
    """Return the letters that a reply names, as the benchmark's newer parser reads them.

    Those in parentheses after the last `<final_answer>`, else bare ones there; several letters are
    joined, and are then no answer.
    """
    last = text.rpartition("<final_answer>")[2].strip().removesuffix("</final_answer>")
    named = ""
    for part in (last, text):
        letters = _IN_PARENTHESES.findall(part.lower()) or _BARE.findall(part.lower())
        named = "".join(sorted(set(letters)))
        if len(named) == 1:
            break
    return named


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
class _Place:
    """Where one history lies in its file.

    Attributes:
        start: The byte that its first message begins at.
        ends: For each message, the bytes from `start` to where it ends.
    """

    start: int
    ends: "array[int]"


@dataclass(frozen=True)
class Histories:
    """The histories of one file, each read as far as it is asked for.

    Attributes:
        path: The file.
        sha256: Its hash; the index goes by it, so that it is never that of another file.
    """

    path: Path
    sha256: str

    def __contains__(self, history: str) -> bool:
        """Tell whether the file has a history of that id."""
        return history in self._places

    def length(self, history: str) -> int:
        """Return how many messages a history has."""
        return len(self._places[history].ends)

    def read(self, history: str, end: int) -> tuple[Message, ...]:
        """Return the first `end` messages of a history.

        Raises:
            DataError: If the history is not there, or is shorter.
        """
        place = self._places.get(history)
        if place is None:
            raise DataError(f"no history '{history}' in it", path=self.path)
        if end > len(place.ends):
            short = f"history '{history}' has {len(place.ends)} messages, not {end}"
            raise DataError(short, path=self.path)
        if end == 0:
            return ()
        with self.path.open("rb") as file:
            file.seek(place.start)
            rows = json.loads(b"[" + file.read(place.ends[end - 1]) + b"]")
        return tuple(Message(row["role"], row["content"]) for row in rows)

    @cached_property
    def _places(self) -> dict[str, _Place]:
        kept = _index_file(self.sha256)
        if kept is not None and (places := _read_index(kept)) is not None:
            return places
        places = _scan(self.path)
        if kept is not None:
            _write_index(kept, places)
        return places


def open_histories(path: Path) -> Histories:
    """Open a file of histories; only its bytes are hashed.

    Raises:
        DataError: If it can't be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise DataError(f"can't be read ({error.strerror})", path=path) from error
    return Histories(path, digest.hexdigest())


def _scan(path: Path) -> dict[str, _Place]:
    """Find where every message ends, a line at a time: memory is that of the longest line."""
    places: dict[str, _Place] = {}
    offset = 0
    with path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            if raw.strip():
                try:
                    text = raw.decode()
                    for name, place in _histories_of(text, offset):
                        if name in places:
                            raise ValueError(f"history '{name}' stands twice")
                        places[name] = place
                except (ValueError, RecursionError) as error:
                    raise DataError(f"not a history ({error})", path=path, line=line) from error
            offset += len(raw)
    return places


def _histories_of(text: str, offset: int) -> Iterator[tuple[str, _Place]]:
    """Yield the histories of one line, `{"id": [{"role": …, "content": …}, …], …}`.

    Raises:
        ValueError: If the line is something else.
    """
    decode = JSONDecoder().raw_decode
    at = _after(text, 0, "{")
    while True:
        name, at = decode(text, _skip(text, at))
        if not isinstance(name, str):
            raise ValueError("expected the id of a history")
        at = _after(text, _after(text, at, ":"), "[")
        start, ends = at, array("q")
        measured, bytes_before = at, 0
        while text[_skip(text, at) : _skip(text, at) + 1] != "]":
            if ends:
                at = _after(text, at, ",")
            message, at = decode(text, _skip(text, at))
            _check(message, name, len(ends))
            bytes_before += len(text[measured:at].encode())
            measured = at
            ends.append(bytes_before)
        yield name, _Place(offset + len(text[:start].encode()), ends)
        at = _skip(text, _after(text, at, "]"))
        if text[at : at + 1] == "}":
            break
        at = _after(text, at, ",")
    if text[at + 1 :].strip():
        raise ValueError("something stands behind the histories")


def _check(message: Any, history: str, place: int) -> None:
    if not isinstance(message, dict):
        raise ValueError(f"{history}[{place}]: expected a message with role and content")
    for name in ("role", "content"):
        if not isinstance(message.get(name), str):
            raise ValueError(f"{history}[{place}].{name}: expected a text")


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\r", "\n"):
        at += 1
    return at


def _after(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"expected '{mark}' at character {at + 1}")
    return at + 1


def _index_file(sha256: str) -> Path | None:
    folder = cache_folder()
    if folder is None or not can_be_kept(folder / "personamem"):
        return None
    return folder / "personamem" / f"{sha256}-{INDEX_VERSION}.json"


def _read_index(path: Path) -> dict[str, _Place] | None:
    """Read a kept index; None where there is none, or it was cut off: it is then built again."""
    try:
        rows = parse_json(path.read_bytes())
        return {name: _Place(start, array("q", ends)) for name, (start, ends) in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _write_index(path: Path, places: Mapping[str, _Place]) -> None:
    rows = {name: (place.start, place.ends.tolist()) for name, place in places.items()}
    scratch = path.with_suffix(".new")
    with suppress(OSError):  # a full disk costs the next run a scan, and nothing else
        scratch.write_text(json.dumps(rows))
        scratch.replace(path)


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

    def history(self, question: Question) -> tuple[Message, ...]:
        """Return what the user and the assistant said before the question.

        Raises:
            DataError: If the history is not there, or is shorter than the question says.
        """
        for histories in self.histories:
            if question.history in histories:
                return histories.read(question.history, question.end)
        missing = f"no history '{question.history}' beside it"
        field = "shared_context_id"
        raise DataError(missing, path=self.questions, line=question.line, field=field)


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
