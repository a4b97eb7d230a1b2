"""Answers to PersonaMem that others published as CSV, and how the authors read a reply.

`pred_*.csv` has question_id, answer (the gold), p (the letter chosen) and, in some files, r (what
was retrieved). `eval_results_*.csv` has the reply as model_response, and repeats columns of the
questions: which of them differs between models and versions.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from alps.errors import DataError
from alps.tasks.personamem.rows import LETTERS, PersonaQuestion, csv_lines

_ID = "question_id"
_ANSWERS = ("p", "model_response")
_IN_PARENTHESES, _BARE = re.compile(r"\(([a-d])\)"), re.compile(r"\b([a-d])\b")
_ANY_LETTER = re.compile(r"[a-z]")
_COMPARED = ("correct_answer", "answer", "persona_id", "user_question_or_message", "question")
_BOM = "\ufeff"
_SHOWN = 40


Rows = list[tuple[int, dict[str, str]]]
"""Rows as they stand in a results file, each with its line."""


def read_results(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the answers of a published results file as predictions, each with its line.

    The letter stands in `p`, or `model_response` is read as `read_reply` does.

    Raises:
        DataError: If a column is missing, or a row can't be read.
    """
    return _answers_in(path, _choice)


def read_replies(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the replies of a published results file as they are, each with its line.

    Raises:
        DataError: If a column is missing, or a row can't be read.
    """
    return _answers_in(path, lambda column, text: {"prediction": {"answer": text}})


def _answers_in(
    path: Path, read: Callable[[str, str], dict[str, Any]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield predictions of a file, each with its line; `read` gets a column and what it says."""
    rows, _ = _read_table(path)
    for line, row in rows:
        column = next(name for name in _ANSWERS if name in row)
        empty, text = {"outcome": "empty", "error": f"{column} is empty"}, row[column]
        told = {"outcome": "ok", **read(column, text)} if text.strip() else empty
        yield line, {"benchmark_id": row[_ID], **told}


def _choice(column: str, text: str) -> dict[str, Any]:
    if column == "p":
        return {"prediction": {"choice": text.strip()}}
    return {"prediction": {"choice": read_reply(text)}, "raw": text}


def check_results(path: Path, questions: Sequence[PersonaQuestion]) -> tuple[str, ...]:
    """Refuse a results file that does not belong to these questions.

    Compared is what both sides know of a question: its id, the right letter, the persona, and the
    message, which some files cut.

    Returns:
        What a user should know of the file: what is doubled in it, and how much is missing.

    Raises:
        DataError: If a row is of no question, or says something else of it; names line and column.
    """
    rows, oddities = _read_table(path)
    known = {question.id: question for question in questions}
    strange = [line for line, row in rows if row[_ID] not in known]
    for line, row in rows:
        if row[_ID] not in known:
            which = f"'{row[_ID][:_SHOWN]}' is not a question of the data"
            count = f"rows with unknown ids: {len(strange)} of {len(rows)}"
            raise DataError(f"{which} ({count}; is size= right?)", path=path, line=line, field=_ID)
        _check_row(row, known[row[_ID]], path, line)
    if missing := len(known) - len({row[_ID] for _, row in rows}):
        lacking = f"questions without a row: {missing:,} of {len(known):,}"
        oddities.append(f"{lacking}; they are unscored, as in the published results")
    return tuple(oddities)


def _check_row(row: dict[str, str], question: PersonaQuestion, path: Path, line: int) -> None:
    gold = f"({LETTERS[question.gold]})"
    for name in ("correct_answer", "answer"):
        said = row.get(name, "").strip()
        if said and said.strip("()").lower() != LETTERS[question.gold]:
            raise _contradiction(said, gold, path, line, name)
    persona = row.get("persona_id", "").strip()
    if persona and persona != question.persona:
        raise _contradiction(persona, question.persona, path, line, "persona_id")
    for name in ("user_question_or_message", "question"):
        said, message = (" ".join(text.split()) for text in (row.get(name, ""), question.message))
        if said and not message.startswith(said.removesuffix("…").removesuffix("...")):
            raise _contradiction(said, message, path, line, name)


def _contradiction(said: str, known: str, path: Path, line: int, field: str) -> DataError:
    what = f"'{said[:_SHOWN]}', but the data has '{known[:_SHOWN]}'; use results of this data"
    return DataError(what, path=path, line=line, field=field)


def _read_table(path: Path) -> tuple[Rows, list[str]]:
    """Read a results file without repeated header rows; also return what was read past.

    Raises:
        DataError: If it is no CSV, a column or a cell is missing, or columns of one name differ.
    """
    lines = csv_lines(path)
    _, header = next(lines, (0, []))
    _check_header(header, path)
    rows: Rows = []
    again = 0
    for line, cells in lines:
        if [cell.removeprefix(_BOM) for cell in cells] == header:
            again += 1
        elif cells:
            rows.append((line, _row(cells, header, path, line)))
    oddities = [
        f"the column {name} appears {header.count(name)} times; the first is read"
        for name in dict.fromkeys(header)
        if header.count(name) > 1
    ]
    if again:
        oddities.append(f"repeated header rows, left out: {again}")
    return rows, oddities


def _check_header(header: Sequence[str], path: Path) -> None:
    if not header:
        raise DataError("empty; expected published answers", path=path)
    if _ID not in header:
        raise DataError("the column is missing", path=path, line=1, field=_ID)
    if not any(name in header for name in _ANSWERS):
        raise DataError("the column is missing", path=path, line=1, field=", or ".join(_ANSWERS))


def _row(cells: Sequence[str], header: Sequence[str], path: Path, line: int) -> dict[str, str]:
    if len(cells) != len(header):
        cut = "the row is cut off: " if len(cells) < len(header) else ""
        counted = f"{cut}{len(cells)} cells where the header has {len(header)}"
        raise DataError(counted, path=path, line=line)
    row: dict[str, str] = {}
    for name, cell in zip(header, cells, strict=True):
        if row.setdefault(name, cell) != cell and name in (_ID, *_ANSWERS, *_COMPARED):
            differs = "two columns of this name, with different values"
            raise DataError(differs, path=path, line=line, field=name)
    if not row[_ID].strip():
        raise DataError("empty", path=path, line=line, field=_ID)
    return row


def read_reply(text: str) -> str:
    """Return the letters that a reply names, as the benchmark's newer parser reads them.

    Several letters are joined, and are then no answer.
    """
    last, whole = named_by_newer(text)
    return last if len(last) == 1 else whole


def named_by_newer(text: str) -> tuple[str, str]:
    """Return the letters after the last `<final_answer>`, and those of the whole reply.

    Of each those in parentheses, else bare ones. The authors call a reply right where either is the
    right letter alone.
    """
    return _letters(_after_tag(text)), _letters(text)


def named_by_older(text: str) -> tuple[str]:
    """Return every letter of the alphabet after the last `<final_answer>`, of words, too.

    The authors call a reply right where that is the right letter alone.
    """
    return ("".join(sorted(set(_ANY_LETTER.findall(_after_tag(text).lower())))),)


def _after_tag(text: str) -> str:
    return text.rpartition("<final_answer>")[2].strip().removesuffix("</final_answer>").strip()


def _letters(text: str) -> str:
    found = _IN_PARENTHESES.findall(text.lower()) or _BARE.findall(text.lower())
    return "".join(sorted(set(found)))


PARSERS: Mapping[str, Callable[[str], tuple[str, ...]]] = {
    "authors": named_by_newer,
    "authors-older": named_by_older,
}
"""The authors' parsers by the name that `parser=` gives them: the letters by which one scores."""
