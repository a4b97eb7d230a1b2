"""Answers to PersonaMem that others published as CSV, and how the authors read a reply."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alps.data.personamem import LONGEST_FIELD
from alps.errors import DataError

_IN_PARENTHESES, _BARE = re.compile(r"\(([a-d])\)"), re.compile(r"\b([a-d])\b")


def read_results(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the answers of a published results file, each with its line.

    `pred_*.csv` has the chosen letter as `p`; `eval_results_*.csv` has the reply as
    `model_response`, which is read as `read_reply` does.

    Raises:
        DataError: If a column is missing, or a row can't be read.
    """
    csv.field_size_limit(LONGEST_FIELD)
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
