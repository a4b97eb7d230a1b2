"""Verdicts that the AlpsBench authors' judge left, read from their records.

No call, no new opinion.

Each line holds `benchmark_id`, the `model_output.memory_items` that were judged, and
`judge_output.pair_reviews` with `gold_id`, `pred_id` and `error_type`. A review is only used for
the very prediction that it was made of.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from alps.errors import DataError, UsageError, shown
from alps.jsonl import Row, dump, scan
from alps.judges.base import Judgement, MatchQuestion, Pair, Question, Relation
from alps.judges.embedded import EmbeddedJudge
from alps.judges.rubric import GRADED, Rating, RubricQuestion, rubric
from alps.schema import Memory, read_memories
from alps.slips import refuse_form_of
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
        """Return the recorded relations of `about`; without any of this prediction, a failure."""
        record = self._records.get(about)
        output = record.get("judge_output") if record else None
        reviews = output.get("pair_reviews") if isinstance(output, dict) else None
        if record is None or reviews is None:
            return Judgement("empty", error="no recorded verdict for this record")
        judged = self._judged(about) or {}
        for item in question.predicted:
            if judged.get(item.memory_id) != fold(item.value):
                return Judgement("invalid", error="the recorded verdict is for another prediction")
        return Judgement("ok", _pairs(question, reviews))

    def _rate(self, question: RubricQuestion, about: str) -> Rating:
        """Return the recorded verdict on this very response."""
        scores = self._ratings.get(about)
        if not scores:
            return Rating("empty", error="no recorded verdict for this record")
        marks = scores.get(fold(question.response))
        if marks is None:
            return Rating("invalid", error="the recorded verdict is for another response")
        if marks and marks.keys() != set(question.rubric.marks):
            return Rating("invalid", error="the recorded verdict used another rubric")
        if not marks:
            return Rating("empty", error="the recorded verdict is empty")
        return Rating("ok", marks, "recorded")

    def is_about(self, about: str, predicted: Sequence[Memory]) -> bool:
        """Tell whether the recorded reviews of `about` are about exactly these memories."""
        return self._judged(about) == _values(predicted)

    def _judged(self, about: str) -> dict[str, str] | None:
        """Return the folded values that were judged, by id; None where they can't be read."""
        items = (self._records.get(about, {}).get("model_output") or {}).get("memory_items") or []
        try:
            return _values(read_memories(items).memories)
        except ValueError:
            return None

    def reviews(self, about: str) -> Row | None:
        """Return the recorded reviews of `about` as they are; None where the judge gave nothing."""
        record = self._records.get(about)
        found = record.get("judge_output") if record is not None else None
        return found if isinstance(found, dict) else None


def _values(memories: Sequence[Memory]) -> dict[str, str]:
    return {memory.memory_id: fold(memory.value) for memory in memories}


def _read_ratings(records: Mapping[str, Row]) -> dict[str, dict[str, dict[str, int]]]:
    """Return recorded marks by query id and folded response; none where they are null."""
    ratings: dict[str, dict[str, dict[str, int]]] = {}
    for name, record in records.items():
        answered, output = record.get("model_output") or {}, record.get("judge_output")
        for about, response, marks in _ratings_of(name, answered.get("responses") or [], output):
            ratings.setdefault(about, {})[response] = marks
        if isinstance(output, dict) and isinstance(output.get("used_memory"), bool):
            response = fold(str((answered.get("parsed_response") or {}).get("answer") or ""))
            ratings[name] = {response: {"met": int(output["used_memory"])}}
    return ratings


def _ratings_of(
    name: str, answers: Sequence[Row | None], output: Any
) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Yield the id, the folded response and the marks of each answer of a record."""
    # One verdict may be of all answers of a record.
    verdicts = output if isinstance(output, list) else [output] * len(answers)
    by_query = isinstance(output, list) and len(answers) > 1
    for place, answer in enumerate(answers):
        fields = answer or {}
        about = str(fields.get("query_id")) if by_query else name
        response = fold(str(fields.get("response") or ""))
        # A verdict may quote what it is of: places can be out of step.
        candidates = [*verdicts[place : place + 1], *verdicts]
        verdict = next((one for one in candidates if _is_of(one or {}, response)), None)
        yield about, response, _marks(verdict or {})


def _is_of(verdict: Row, response: str) -> bool:
    return "response" not in verdict or fold(str(verdict["response"] or "")) == response


def _marks(verdict: Row) -> dict[str, int]:
    """Return the marks of a verdict; none where one of them is missing or off the scale."""
    if isinstance(named := verdict.get("marks"), dict):
        return {str(name): mark for name, mark in named.items() if isinstance(mark, int)}
    if (met := _mark(verdict.get("score"), (0, 1))) is not None:
        return {"met": met}
    for by in map(rubric, GRADED):
        marks: dict[str, int] = {}
        for name in by.marks:
            if (mark := _mark(verdict.get(name), by.scale)) is not None:
                marks[name] = mark
        if len(marks) == len(by.marks):
            return marks
    return {}


def _mark(given: object, scale: Sequence[object]) -> int | None:
    if isinstance(given, bool) or not isinstance(given, int | float) or given not in scale:
        return None
    return int(given)


def _pairs(question: MatchQuestion, reviews: Sequence[Row]) -> tuple[Pair, ...]:
    """Return what reviews say of the memories that were asked about; of two, the later counts."""
    rows = {item.memory_id: row for row, item in enumerate(question.gold)}
    columns = {item.memory_id: column for column, item in enumerate(question.predicted)}
    pairs: dict[tuple[int, int], Pair] = {}
    for review in reviews:
        # Pairs of identical values are reviewed, too, and were left out of this question.
        if review.get("gold_id") in rows and review.get("pred_id") in columns:
            place = rows[review["gold_id"]], columns[review["pred_id"]]
            pairs[place] = _pair(place, review)
    return tuple(pairs.values())


def _pair(place: tuple[int, int], review: Row) -> Pair:
    reason = f"{review['error_type']}: {review.get('rationale') or ''}"
    return Pair(*place, RELATION_OF[review["error_type"]], reason)


def _read_records(path: Path) -> dict[str, Row]:
    records: dict[str, Row] = {}
    refuse_form_of(path)
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
    fields = output or {}
    if not isinstance(fields.get("memory_items"), list | None):
        return "model_output.memory_items", "must be a list or null"
    if not isinstance(fields.get("parsed_response"), dict | None):
        return "model_output.parsed_response", "must be an object or null"
    if not _are_objects(fields.get("responses")):
        return "model_output.responses", "must be a list of objects"
    return None


def _fault_of_verdict(output: object) -> tuple[str, str] | None:
    """Return the field of a verdict that can't be read, and what it must be."""
    if not isinstance(output, dict | list | None):
        return "judge_output", "must be an object, a list or null"
    try:
        # Reviews are written into verdicts as they are.
        dump({"judge_output": output})
    except (ValueError, RecursionError):
        return ("judge_output", "contains a number that is too large, or is nested too deeply")
    if not isinstance(output, dict):
        return None if _are_objects(output) else ("judge_output", "must be a list of objects")
    for name in ("pair_reviews", "missing_reviews", "extra_reviews"):
        reviews = output.get(name)
        if not _are_objects(reviews) or None in (reviews or ()):
            return f"judge_output.{name}", "must be a list of objects, or null"
    return _fault_of_reviews(output.get("pair_reviews") or ())


def _fault_of_reviews(reviews: Sequence[Row]) -> tuple[str, str] | None:
    for number, review in enumerate(reviews):
        field = f"judge_output.pair_reviews.{number}"
        kind = review.get("error_type")
        if not isinstance(kind, str) or kind not in RELATION_OF:
            return f"{field}.error_type", f"unknown error type {shown(kind)}"
        for name in ("gold_id", "pred_id"):
            if not isinstance(review.get(name), str | None):
                return f"{field}.{name}", f"must be a string, got {shown(review[name])}"
    return None


def _are_objects(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, list) and all(isinstance(one, dict | None) for one in value)
