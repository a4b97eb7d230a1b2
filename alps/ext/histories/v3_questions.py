"""Questions of PersonaMem v3 in its two forms: `queries.csv` of version 2, and `test.json`.

Source: `scripts/prepare_eval_data.py`, `evaluation/task_registry.py` and `data_preparation/
visualize.py` of bowen-upenn/PersonaMem-v3. A row of the table has points, which say what an answer
does (+) and what it does not (-); a record of the list says in a text what a good answer is.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from alps.errors import DataError
from alps.ext.histories.files import (
    WholeFile,
    as_list,
    as_object,
    maybe_listed,
    naming,
    refuse_head,
    text,
    whole,
)
from alps.ext.histories.model import SetQuestion

# Names of tasks and columns change between versions: another one is refused, and not guessed at.
VERSION = "# queries_csv_version=2"
LONGEST_FIELD = 1 << 27  # a question holds all its candidates
ASKED_IN_WORDS = frozenset(
    (
        *("chatbot_personalized_response", "new_suggestions_chatbot", "hidden_persona_implicit_qa"),
        *("over_personalization_chatbot_text", "over_personalization_context_shift"),
        *("over_personalization_sensitive_event", "over_personalization_sycophancy"),
        *("preference_shift_followthrough", "personal_qa_hallucination"),
    )
)
"""The tasks of a list that one answer in words is given to."""
_NOBODY_ASKS = "[system prompt]"
_POINT = re.compile(r"(?:\A|;)\s*\(([+-])\)\s*")
_FORBIDS = re.compile(r"(don['’]?t|do not|no|never|avoid)\b", re.IGNORECASE)
Row = Mapping[str, Any]


def questions_in(path: Path) -> list[Row]:
    """Return the questions of a file that are asked and answered in words.

    Raises:
        DataError: If it is of another form or version.
    """
    return list(_of_list(path) if path.suffix == ".json" else _of_table(path))


def _of_table(path: Path) -> Iterator[Row]:
    refuse_head(path)
    # The limit is one for the whole process, so it is put back.
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if (found := file.readline().strip()) != VERSION:
                raise DataError(f"expected {VERSION}, got {found[:40]}", path=path, line=1)
            for row in _whole(csv.DictReader(file, strict=True), path):
                if _is_asked_in_words(row):
                    yield {**row, "instance": _instance(row["instance_json"])}
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"not a CSV table ({error})", path=path) from error
    finally:
        csv.field_size_limit(before)


def _whole(table: "csv.DictReader[str]", path: Path) -> Iterator[dict[str, str]]:
    for row in table:
        if None in row.values() or None in row:
            # The first line is that of the version.
            raise DataError(
                "the row does not have the columns of the header",
                path=path,
                line=table.line_num + 1,
            )
        yield row


def _instance(written: str) -> Row:
    with naming("instance_json"):
        return as_object(json.loads(written or "{}"), "value")


def _is_asked_in_words(row: Row) -> bool:
    asked = row["query_text"] and not row["query_text"].startswith(_NOBODY_ASKS)
    in_words = row["expected_response_kind"] != "ranking"
    # What a task writes to an app is no answer in words that a judge could read.
    return bool(asked) and in_words and row["state_write_policy"] == "read_only"


def _of_list(path: Path) -> Iterator[Row]:
    for record in as_list(WholeFile(path).read(), path.name):
        if text(record, "task_type") in ASKED_IN_WORDS and record.get("user_query"):
            guide = record.get("groundtruth_preference") or ""
            instance = as_object(record.get("instance_full") or {}, "instance_full")
            guide = guide if isinstance(guide, str) else json.dumps(guide, ensure_ascii=False)
            yield {**record, "query_text": record["user_query"], "guide": guide} | {
                "instance": {**instance, "prior_conversation": record.get("prior_conversation")}
            }


def when_at(at: int) -> str:
    """Return a time in seconds as ISO 8601.

    Raises:
        ValueError: If no calendar has it.
    """
    with suppress(OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(at, UTC).isoformat()
    raise ValueError(f"no date is {at} seconds after 1970")


def question_of(row: Row, user: str, sessions: int) -> SetQuestion:
    """Return a row as the question to a user after `sessions` sessions."""
    told = maybe_listed(row["instance"], "prior_conversation")
    asked = _behind_turns(text(row, "query_text"), told)
    more: dict[str, Any] = {"sessions": sessions, "at": when_at(whole(row, "ts"))}
    if "guide" in row:
        more |= {"scoring": "guided", "answer": row["guide"]}
    else:
        points = tuple(_points(row["display_rubric"] or ""))
        more |= {"scoring": "points", "points": points, "answer": ""}
    name = text(row, "query_id")
    return SetQuestion(id=name, history=user, text=asked, kind=text(row, "task_type"), **more)


def _behind_turns(asked: str, turns: Sequence[Row]) -> str:
    """Return what is asked behind the turns of the same conversation."""
    if not turns:
        return asked
    said = [f"{text(turn, 'role')}: {text(turn, 'content')}" for turn in turns]
    return "\n".join((*said, f"user: {asked}"))


def _points(rubric: str) -> Iterator[str]:
    marked = _POINT.split(rubric)[1:]
    for mark, point in zip(marked[::2], marked[1::2], strict=True):
        # Most say themselves what an answer does not do: twice would be the opposite.
        is_said = mark == "+" or _FORBIDS.match(point)
        yield point.strip() if is_said else f"must not be true: {point.strip()}"
