"""Results on HaluMem: `…_eval_stat_result.json`, its tasks as parts.

Source: `eval/evaluation.py` and `scripts/stage6_1_question_generation.py` of MemTensor/HaluMem.

Source of the published rates: `aggregate_eval_results` in `eval/evaluation.py`. Each rate is over
the records that have a verdict (`valid` there); F1, as there, is of the figures over all records.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from alps.ext.importers.reading import (
    UNKNOWN,
    Foreign,
    ImportedAnswer,
    Listed,
    Numbered,
    Text,
    read_file,
)

ANSWERS, UPDATES, RECALL = "question answering", "memory updating", "memory extraction (recall)"
PRECISION = "memory extraction (precision)"
_CORRECT = "correct"
_OF_ANSWERS = (_CORRECT, "hallucination", "omission")
_OF_UPDATES = (*_OF_ANSWERS, "other")
"""Verdicts in small letters; files begin them with a capital."""
_INTERFERENCE, _WHOLE = "interference", 2
# Asks for what no session says: the right answer is that nothing is known.
_BOUNDARY = "Memory Boundary"
_NO_VERDICT = re.compile(r"\s*|.*(fail|error).*", re.I | re.S)
_SLACK = 5e-5
Rates = Mapping[str, Mapping[str, float]]
_Part = tuple[float, float]
"""What a rate is the quotient of."""


def _as_mark(value: object) -> object:
    # Forks write a word where the judge failed, and the authors null.
    return None if isinstance(value, str) and _NO_VERDICT.fullmatch(value) else value


_MARK = Annotated[Annotated[int, Field(ge=0, le=_WHOLE)] | None, BeforeValidator(_as_mark)]


class _AnsweredQuestion(Foreign):
    uuid: Text
    question: Text
    answer: Text
    system_response: Text | None = None
    question_type: str | None = None
    result_type: str | None = None


class _Memory(Foreign):
    uuid: Text
    memory_content: Text
    memory_type: str | None = None
    is_update: Any = None
    importance: Any = None

    @property
    def weight(self) -> float:
        return self.importance if isinstance(self.importance, int | float) else 0.0


class _Update(_Memory):
    memory_update_type: str | None = None


class _IntegrityMark(_Memory):
    """Integrity: 2 where the memory was extracted whole, 1 in part, 0 not; None without verdict."""

    memory_source: str | None = None
    memory_integrity_score: _MARK = None

    @property
    def distracts(self) -> bool:
        return self.memory_source == _INTERFERENCE


class _Extracted(_Memory):
    """Accuracy of a memory that the system wrote; of the gold ones where it says so."""

    memory_accuracy_score: _MARK = None
    is_included_in_golden_memories: bool | str | None = None

    @property
    def is_target(self) -> bool:
        return str(self.is_included_in_golden_memories) in ("true", "True")


class _Results(Foreign):
    overall_score: dict[str, Any] = Field(default_factory=dict)
    question_answering_records: Listed[_AnsweredQuestion]
    memory_update_records: Listed[_Update] = Field(default_factory=list)
    memory_integrity_records: Listed[_IntegrityMark] = Field(default_factory=list)
    memory_accuracy_records: Listed[_Extracted] = Field(default_factory=list)


def read_halumem(path: Path, system: str) -> tuple[list[ImportedAnswer], list[str]]:
    """Read the records behind HaluMem's figures: 1 for `Correct`, or a memory extracted whole.

    Distractors (`interference`) are no memories to extract, and are left out. The precision is that
    of extracted memories which are among the gold ones, as `target_accuracy(valid)` has it: half of
    the mark from 0 to 2.

    Raises:
        DataError: If it has another form.
    """
    results: _Results = read_file(path, _Results)
    answers, numbered = [], Numbered()
    for row in results.question_answering_records:
        answers.append(
            ImportedAnswer(
                system=system,
                part=ANSWERS,
                id=numbered.of(row.uuid, row.question),
                conversation=row.uuid,
                category=row.question_type or UNKNOWN,
                question=row.question,
                gold=row.answer,
                answer=row.system_response,
                score=_is_correct(row.result_type, _OF_ANSWERS),
                outcome=_outcome(row.result_type, _OF_ANSWERS),
                abstains=row.question_type == _BOUNDARY,
                unread=row.unread | _unknown("result_type", row.result_type, _OF_ANSWERS),
            )
        )
    for update in results.memory_update_records:
        given = update.memory_update_type
        score = _is_correct(given, _OF_UPDATES)
        rated = _memory(update, system, UPDATES, score, numbered)
        unread = {**rated.unread, **_unknown("memory_update_type", given, _OF_UPDATES)}
        answers.append(rated.model_copy(update={"unread": unread}))
    for kept in results.memory_integrity_records:
        # A memory that must not be kept is no gold, and would count as missed.
        if not kept.distracts:
            whole = kept.memory_integrity_score
            score = None if whole is None else float(whole == _WHOLE)
            answers.append(_memory(kept, system, RECALL, score, numbered))
    for extracted in results.memory_accuracy_records:
        if extracted.is_target:
            mark = extracted.memory_accuracy_score
            score = None if mark is None else mark / _WHOLE
            rated = _memory(extracted, system, PRECISION, score, numbered)
            # The system wrote this text itself: no gold is like it, and no other system lacks it.
            answers.append(rated.model_copy(update={"gold": None, "of_system": True}))
    rates = _rates_of(results)
    doubts = [*_lines_of(system, rates), *_contradicted(path.name, results.overall_score, rates)]
    return answers, doubts


def _outcome(result: str | None, verdicts: Sequence[str]) -> str | None:
    known = (result or "").strip().casefold()
    return known if known in verdicts else None


def _is_correct(result: str | None, verdicts: Sequence[str]) -> float | None:
    known = _outcome(result, verdicts)
    return None if known is None else float(known == _CORRECT)


def _unknown(field: str, result: str | None, verdicts: Sequence[str]) -> dict[str, Any]:
    """Return a verdict of other words than HaluMem's, which would be dropped in silence."""
    return {} if _is_correct(result, verdicts) is not None else {field: result}


def _memory(
    row: _Memory, system: str, part: str, score: float | None, numbered: Numbered
) -> ImportedAnswer:
    return ImportedAnswer(
        system=system,
        part=part,
        id=numbered.of(f"{part} {row.uuid}", row.memory_content),
        conversation=row.uuid,
        category=row.memory_type or UNKNOWN,
        gold=row.memory_content,
        score=score,
        unread=row.unread,
    )


def _rates_of(results: _Results) -> dict[str, dict[str, float]]:
    """Return the rates by task and name, as `overall_score` has them; none over no records."""
    answers = [_outcome(one.result_type, _OF_ANSWERS) for one in results.question_answering_records]
    updates = [
        _outcome(one.memory_update_type, _OF_UPDATES) for one in results.memory_update_records
    ]
    real = [one for one in results.memory_integrity_records if not one.distracts]
    left = _left(results.memory_integrity_records)
    stored = results.memory_accuracy_records
    about = [one for one in stored if one.is_target]
    recalled, accurate = _recall(real), _accuracy(about)
    found: dict[str, dict[str, _Part]] = {
        "memory_integrity": recalled,
        "memory_accuracy": {
            "target_accuracy(valid)": accurate,
            "weighted_accuracy(valid)": _accuracy(stored),
            "interference_accuracy(valid)": (left.count(0), len(left)),
        },
        "memory_update": _shares(updates, "{}_update_memory_ratio(valid)", _OF_UPDATES),
        "question_answering": _shares(answers, "{}_qa_ratio(valid)", _OF_ANSWERS),
    }
    rates = {task: _divided(parts) for task, parts in found.items()}
    if real and about:
        recall, precision = recalled["recall(valid)"][0] / len(real), accurate[0] / len(about)
        rates["memory_accuracy"] |= _extraction_f1(recall, precision)
    return rates


def _divided(parts: Mapping[str, _Part]) -> dict[str, float]:
    return {name: above / below for name, (above, below) in parts.items() if below}


def _extraction_f1(recall: float, precision: float) -> dict[str, float]:
    if not recall + precision:
        return {}
    return {"memory_extraction_f1": 2 * precision * recall / (precision + recall)}


def _left(records: Sequence[_IntegrityMark]) -> list[int]:
    """Return the marks of the memories that were only to distract."""
    return _known(one.memory_integrity_score for one in records if one.distracts)


def _known(marks: Iterable[int | None]) -> list[int]:
    return [mark for mark in marks if mark is not None]


def _recall(real: Sequence[_IntegrityMark]) -> dict[str, _Part]:
    marks = [(one.memory_integrity_score, one.weight) for one in real]
    known = [(mark, weight) for mark, weight in marks if mark is not None]
    whole = sum(mark == _WHOLE for mark, _ in known)
    weighted = sum(mark * weight for mark, weight in known) / _WHOLE
    weights = sum(weight for _, weight in known)
    return {"recall(valid)": (whole, len(known)), "weighted_recall(valid)": (weighted, weights)}


def _accuracy(memories: Sequence[_Extracted]) -> _Part:
    known = _known(one.memory_accuracy_score for one in memories)
    return sum(known) / _WHOLE, len(known)


def _shares(outcomes: Sequence[str | None], name: str, known: Sequence[str]) -> dict[str, _Part]:
    valid = [one for one in outcomes if one in known]
    return {name.format(one): (valid.count(one), len(valid)) for one in known}


def _lines_of(system: str, rates: Rates) -> Iterator[str]:
    for task, own in rates.items():
        if own:
            shown = (f"{name.replace('(valid)', '')} {one:.2%}" for name, one in own.items())
            yield f"{system}: {task}: {', '.join(shown)}"


def _contradicted(name: str, said: Mapping[str, Any], rates: Rates) -> Iterator[str]:
    """Yield each rate that a file says of itself, and its records do not give."""
    for task, own in rates.items():
        for rate, value in own.items():
            claims = said if rate == "memory_extraction_f1" else said.get(task)
            claim = claims.get(rate) if isinstance(claims, dict) else None
            if isinstance(claim, int | float) and abs(value - claim) > _SLACK:
                yield (
                    f"{name}: {task}, {rate}: stated {claim:.2%}, but the records give {value:.2%}"
                )
