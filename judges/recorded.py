"""Verdicts that the AlpsBench authors' judge left, read from their records.

No call, no new opinion.

Each line holds `benchmark_id`, the `model_output.memory_items` that were judged, and
`judge_output.pair_reviews` with `gold_id`, `pred_id` and `error_type`. A review is only used for
the very prediction that it was made of.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from alps.errors import DataError, UsageError, shown
from alps.jsonl import Row, dump, scan
from alps.judges.base import EmbeddedJudge
from alps.judges.matching import Judgement, MatchQuestion, Pair, Relation
from alps.judges.question import Question
from alps.judges.rubric import GRADED, Rating, RubricQuestion, rubric
from alps.schema import Memory, read_memories
from alps.text import fold

RELATION_OF: Mapping[str, Relation] = {
    "EQUIVALENT": "same",
    "LABEL_WRONG": "same",
    "TYPE_WRONG": "same",
    "UNDERGENERAL": "narrower",
    "OVERGENERAL": "broader",
    "VALUE_DRIFT": "conflicting",
    "HALLUCINATION": "related",
    "OTHER": "related",
}
"""What a recorded error type says of the values: a wrong label or type leaves them the same."""


class RecordedJudge(EmbeddedJudge):
    """Repeats recorded pair reviews.

    Raises:
        UsageError: If the file does not exist.
        DataError: If a row or a review can't be read.
    """

    relations: frozenset[Relation] = frozenset(
        {"same", "narrower", "broader", "conflicting", "related"}
    )
    answers: frozenset[type[Question[Any]]] = frozenset({MatchQuestion, RubricQuestion})
    comparable = False

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"judge=recorded:{path}: no such file")
        self.name = f"recorded:{path.name}"
        self.fingerprint: Mapping[str, Any] = {
            "judge": "recorded",
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "relations": dict(RELATION_OF),
        }
        self._records = _read_records(path)
        self._ratings = _read_ratings(self._records)

    async def answer(self, question: Question[Any], *, about: str) -> Any:
        """Return what was recorded about this very prediction."""
        match question:
            case MatchQuestion():
                return self._match(question, about)
            case RubricQuestion():
                return self._rate(question, about)
        return question.refused()

    def _match(self, question: MatchQuestion, about: str) -> Judgement:
        """Return the recorded relations of `about`.

        No reviews, or reviews of another prediction, are a failure.
        """
        record = self._records.get(about)
        output = record.get("judge_output") if record else None
        reviews = output.get("pair_reviews") if isinstance(output, dict) else None
        if record is None or reviews is None:
            return Judgement("empty", error="no recorded verdict for this record")
        judged = self._judged(about) or {}
        rows = {item.memory_id: row for row, item in enumerate(question.gold)}
        columns = {item.memory_id: column for column, item in enumerate(question.predicted)}
        for item in question.predicted:
            if judged.get(item.memory_id) != fold(item.value):
                return Judgement("invalid", error="the recorded verdict is of another prediction")
        pairs = {
            (rows[review["gold_id"]], columns[review["pred_id"]]): review
            for review in reviews
            if review.get("gold_id") in rows and review.get("pred_id") in columns
        }
        return Judgement("ok", tuple(_pair(place, review) for place, review in pairs.items()))

    def _rate(self, question: RubricQuestion, about: str) -> Rating:
        """Return the recorded verdict on this very response."""
        scores = self._ratings.get(about)
        if not scores:
            return Rating("empty", error="no recorded verdict for this record")
        marks = scores.get(fold(question.response))
        if marks is None:
            return Rating("invalid", error="the recorded verdict is of another response")
        if marks and marks.keys() != set(question.rubric.marks):
            return Rating("invalid", error="the recorded verdict is by another rubric")
        return (
            Rating("ok", marks, "recorded")
            if marks
            else Rating("empty", error="the recorded verdict is empty")
        )

    def is_about(self, about: str, predicted: Sequence[Memory]) -> bool:
        """Tell whether the recorded reviews of `about` were made of these very memories."""
        return self._judged(about) == {memory.memory_id: fold(memory.value) for memory in predicted}

    def _judged(self, about: str) -> dict[str, str] | None:
        """Return the folded values that were judged, by id; None where they can't be read."""
        items = (self._records.get(about, {}).get("model_output") or {}).get("memory_items") or []
        try:
            return {
                memory.memory_id: fold(memory.value) for memory in read_memories(items).memories
            }
        except ValueError:
            return None

    def reviews(self, about: str) -> Row | None:
        """Return the recorded reviews of `about` as they are; None where the judge gave nothing."""
        record = self._records.get(about)
        found = record.get("judge_output") if record is not None else None
        return found if isinstance(found, dict) else None


def _read_ratings(records: Mapping[str, Row]) -> dict[str, dict[str, dict[str, int]]]:
    """Return the recorded marks by the id of the query and the folded response.

    Empty marks where they are null.
    """
    found: dict[str, dict[str, dict[str, int]]] = {}
    for name, record in records.items():
        answers = (record.get("model_output") or {}).get("responses") or []
        output = record.get("judge_output")
        judged = [
            said or {} for said in (output if isinstance(output, list) else [output] * len(answers))
        ]
        for place, answer in enumerate(said or {} for said in answers):
            about = (
                str(answer.get("query_id"))
                if isinstance(output, list) and len(answers) > 1
                else name
            )
            response = fold(str(answer.get("response") or ""))
            of_it = [said for said in judged[place : place + 1] + judged if _is_of(said, response)]
            found.setdefault(about, {})[response] = _marks(of_it[0]) if of_it else {}
        if isinstance(output, dict) and isinstance(output.get("used_memory"), bool):
            answered = ((record.get("model_output") or {}).get("parsed_response") or {}).get(
                "answer"
            )
            found[name] = {fold(str(answered or "")): {"met": int(output["used_memory"])}}
    return found


def _is_of(said: Row, response: str) -> bool:
    """Tell whether a verdict is of `response`.

    It may quote what it is of, and places can be out of step.
    """
    return "response" not in said or fold(str(said["response"] or "")) == response


def _marks(said: Row) -> dict[str, int]:
    """Return the marks of a verdict; none where one of them is missing or off the scale."""
    if (met := _mark(said.get("score"), (0, 1))) is not None:
        return {"met": met}
    for by in map(rubric, GRADED):
        marks: dict[str, int] = {}
        for name in by.marks:
            if (mark := _mark(said.get(name), by.scale)) is not None:
                marks[name] = mark
        if len(marks) == len(by.marks):
            return marks
    return {}


def _mark(given: object, scale: Sequence[object]) -> int | None:
    if isinstance(given, bool) or not isinstance(given, int | float) or given not in scale:
        return None
    return int(given)


def _pair(place: tuple[int, int], review: Row) -> Pair:
    reason = f"{review['error_type']}: {review.get('rationale') or ''}"
    return Pair(*place, RELATION_OF[review["error_type"]], reason)


def _read_records(path: Path) -> dict[str, Row]:
    records: dict[str, Row] = {}
    for line, (_, _, row) in enumerate(scan(path), start=1):
        if row is None or not isinstance(row.get("benchmark_id"), str):
            raise DataError("expected an object with a benchmark_id", path=path, line=line)
        if fault := _fault_of_output(row.get("model_output")) or _fault_of_verdict(
            row.get("judge_output")
        ):
            field, message = fault
            raise DataError(message, path=path, line=line, field=field)
        records[row["benchmark_id"]] = row
    return records


def _fault_of_output(output: object) -> tuple[str, str] | None:
    """Return the field of a model's answer that can't be read, and what it must be."""
    if not isinstance(output, dict | None):
        return "model_output", "must be an object or null"
    given = output or {}
    if not isinstance(given.get("memory_items"), list | None):
        return "model_output.memory_items", "must be a list or null"
    if not isinstance(given.get("parsed_response"), dict | None):
        return "model_output.parsed_response", "must be an object or null"
    return (
        None
        if _are_objects(given.get("responses"))
        else ("model_output.responses", "must be a list of objects")
    )


def _fault_of_verdict(output: object) -> tuple[str, str] | None:
    """Return the field of a verdict that can't be read, and what it must be."""
    if not isinstance(output, dict | list | None):
        return "judge_output", "must be an object, a list or null"
    try:
        dump({"judge_output": output})
    except (ValueError, RecursionError):
        return "judge_output", "holds a number beyond the range of numbers, or is nested too deeply"
    if not isinstance(output, dict):
        return None if _are_objects(output) else ("judge_output", "must be a list of objects")
    for name in ("pair_reviews", "missing_reviews", "extra_reviews"):
        if not _are_objects(output.get(name)) or any(
            review is None for review in output.get(name) or ()
        ):
            return f"judge_output.{name}", "must be a list of objects, or null"
    reviews = enumerate(output.get("pair_reviews") or ())
    return next(
        (fault for number, review in reviews if (fault := _fault_of_review(number, review))), None
    )


def _fault_of_review(number: int, review: Row) -> tuple[str, str] | None:
    field = f"judge_output.pair_reviews.{number}"
    if not isinstance(said := review.get("error_type"), str) or said not in RELATION_OF:
        return f"{field}.error_type", f"unknown error type {shown(said)}"
    odd = next(
        (name for name in ("gold_id", "pred_id") if not isinstance(review.get(name), str | None)),
        None,
    )
    return (f"{field}.{odd}", f"must be text, got {shown(review[odd])}") if odd else None


def _are_objects(given: object) -> bool:
    return given is None or (
        isinstance(given, list) and all(isinstance(said, dict | None) for said in given)
    )
