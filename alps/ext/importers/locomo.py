"""Results on LoCoMo: of its own evaluation, and of Mem0's.

Source: `task_eval/evaluate_qa.py` of snap-research/locomo; `evaluation/evals.py` of mem0ai/mem0.
"""

from pathlib import Path
from typing import Any

from alps.errors import DataError
from alps.ext.importers.reading import (
    Foreign,
    ImportedAnswer,
    Listed,
    Numbered,
    Score,
    Text,
    read_file,
)

CATEGORIES = {
    "1": "multi-hop",
    "2": "temporal",
    "3": "open-domain",
    "4": "single-hop",
    "5": "adversarial",
}
ADVERSARIAL = "adversarial"
_PREDICTION, _F1 = "_prediction", "_f1"


class _Conversation(Foreign):
    """One conversation: its questions, in which each system has fields of its own name."""

    sample_id: Text
    qa: Listed[dict[str, Any]]


class _Question(Foreign):
    """What of a question does not depend on the system."""

    question: Text
    category: Text
    answer: Text | None = None


class _Mem0Answer(Foreign):
    """One answer of Mem0's evaluation.

    Its judge leaves out the adversarial questions; the file of answers that it reads has them, and
    no score.
    """

    question: Text
    answer: Text
    response: Text
    category: Text
    llm_score: Score = None


def read_locomo(path: Path, system: str) -> list[ImportedAnswer]:
    """Read the `--out-file` of LoCoMo's evaluation; its score is the token F1 of each question.

    Raises:
        DataError: If it has another form.
    """
    conversations: list[_Conversation] = read_file(path, list[_Conversation])
    answers: list[ImportedAnswer] = []
    numbered = Numbered()
    for place, conversation in enumerate(conversations):
        for number, fields in enumerate(conversation.qa):
            where = f"{place}.qa.{number}"
            question = _question(fields, path, where)
            same = ImportedAnswer(
                system=system,
                id=numbered.of(conversation.sample_id, question.question),
                conversation=conversation.sample_id,
                category=CATEGORIES.get(question.category, question.category),
                question=question.question,
                gold=question.answer,
                abstains=CATEGORIES.get(question.category) == ADVERSARIAL,
                unread=_not_of_systems(question.unread),
            )
            answers += _of_each_system(same, fields, path, where)
    # One file may hold the answers of several models, under their names.
    if len({answer.system for answer in answers}) > 1:
        return answers
    return [answer.model_copy(update={"system": system}) for answer in answers]


def _question(fields: dict[str, Any], path: Path, where: str) -> _Question:
    try:
        return _Question.model_validate(fields)
    except ValueError as error:
        raise DataError("needs a question and its category", path=path, field=where) from error


def _not_of_systems(fields: dict[str, Any]) -> dict[str, Any]:
    of_systems = (_PREDICTION, _F1)
    return {name: value for name, value in fields.items() if not name.endswith(of_systems)}


def _of_each_system(
    same: ImportedAnswer, fields: dict[str, Any], path: Path, where: str
) -> list[ImportedAnswer]:
    """Return the answer of each system that has fields of its name."""
    answers = []
    for field, said in fields.items():
        if not field.endswith(_PREDICTION):
            continue
        name = field.removesuffix(_PREDICTION)
        score = fields.get(name + _F1)
        if score is not None and not (isinstance(score, int | float) and 0 <= score <= 1):
            raise DataError("no score from 0 to 1", path=path, field=f"{where}.{name}{_F1}")
        own = {"system": name, "answer": None if said is None else str(said), "score": score}
        answers.append(same.model_copy(update=own))
    if not answers:
        raise DataError(f"no field NAME{_PREDICTION}", path=path, field=where)
    return answers


def read_mem0(path: Path, system: str) -> list[ImportedAnswer]:
    """Read the `--output_file` of Mem0's evaluation of LoCoMo; its score is the judge's.

    Its `--input_file` is read, too: all of it is unscored, to be judged here.

    Raises:
        DataError: If it has another form.
    """
    conversations: dict[str, list[_Mem0Answer]] = read_file(path, dict[str, list[_Mem0Answer]])
    answers, numbered = [], Numbered()
    for conversation, rows in conversations.items():
        for number, row in enumerate(rows):
            if row.llm_score is not None and not 0 <= row.llm_score <= 1:
                field = f"{conversation}.{number}.llm_score"
                raise DataError("no score from 0 to 1", path=path, field=field)
            category = CATEGORIES.get(row.category, row.category)
            answers.append(
                ImportedAnswer(
                    system=system,
                    id=numbered.of(conversation, row.question),
                    conversation=conversation,
                    category=category,
                    question=row.question,
                    gold=row.answer or None,
                    answer=row.response,
                    score=row.llm_score,
                    abstains=category == ADVERSARIAL,
                    unread=row.unread,
                )
            )
    return answers
