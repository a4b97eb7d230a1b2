"""Results on LongMemEval: hypotheses with a label each, next to the file of its questions.

Source: `src/evaluation/evaluate_qa.py` of xiaowu0162/LongMemEval.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, AliasPath, BeforeValidator, Field

from alps.ext.importers.reading import Foreign, ImportedAnswer, Text, read_rows
from alps.show.formatting import counted

ABSTENTION = "_abs"
"""What the ids of questions have whose right answer is that nothing is known."""
UNKNOWN = "unknown type"


def _unless_empty(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


class _Label(Foreign):
    model: str | None = None
    label: Annotated[bool | None, BeforeValidator(_unless_empty)] = None


def _as_label(value: object) -> object:
    # Forks of the script leave out who judged.
    return {"label": value} if isinstance(value, bool) else value


class _Hypothesis(Foreign):
    """One answer; without a label where nobody judged it yet."""

    question_id: Text
    hypothesis: Text
    question_type: str | None = None
    autoeval_label: Annotated[_Label, BeforeValidator(_as_label)] | None = None


def _either(name: str, other: str, *within: str | int) -> Any:
    return Field(validation_alias=AliasChoices(name, AliasPath(other, *within)))


class _Question(Foreign):
    """One question of the benchmark's own file, or of the Agent Memory Benchmark's list of them."""

    question_id: Text = _either("question_id", "id")
    question_type: str = _either("question_type", "meta", "question_type")
    question: Text = _either("question", "query")
    answer: Text = _either("answer", "gold_answers", 0)


def read_longmemeval(
    path: Path, system: str, data: Path | None
) -> tuple[list[ImportedAnswer], list[str]]:
    """Read hypotheses, one a line or in one list, with or without `autoeval_label`.

    As in the script, answers to questions that are not in `data` are left out: they are named.

    Args:
        path: The file that `evaluate_qa.py` wrote, or its input.
        system: What the file is of.
        data: The questions, such as longmemeval_s.json; without them types and gold are unknown.

    Raises:
        DataError: If a line has another form.
    """
    rows: list[_Hypothesis] = read_rows(path, _Hypothesis)
    listed: list[_Question] = [] if data is None else read_rows(data, _Question)
    questions = {question.question_id: question for question in listed}
    answers = []
    others = [row.question_id for row in rows if data and row.question_id not in questions]
    for row in rows:
        if data is not None and row.question_id not in questions:
            continue
        known, label = questions.get(row.question_id), row.autoeval_label
        answers.append(
            ImportedAnswer(
                system=system,
                id=row.question_id,
                # Each question has a history of its own.
                conversation=row.question_id,
                category=(row.question_type or UNKNOWN) if known is None else known.question_type,
                question=None if known is None else known.question,
                gold=None if known is None else known.answer,
                answer=row.hypothesis,
                score=None if label is None or label.label is None else float(label.label),
                abstains=ABSTENTION in row.question_id,
                unread=row.unread | ({} if label is None else {"autoeval_label": label.unread}),
            )
        )
    if not others:
        return answers, []
    what = f"left out {counted(len(others), 'answer')} to no question of {data}"
    return answers, [f"{system}: {what}: {', '.join(others[:3])}"]
