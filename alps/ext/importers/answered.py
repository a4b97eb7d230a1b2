"""Task of imported answers, which `task=python:alps.ext.importers.answered` has judged again.

Its rows are those that `alps import` writes: a question, its category and its gold answer.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alps.ext.importers.figures import REFUSAL, token_f1
from alps.judges.base import Judge
from alps.judges.rubric import RubricQuestion, read_rubric
from alps.llm.types import IN_WORDS, AnswerType, Read
from alps.prompts import read_prompt
from alps.schema import FrozenRow, Prediction, TextAnswer
from alps.tasks import (
    Breakdown,
    Inference,
    JudgingOptions,
    Metric,
    Needs,
    PublicAnswers,
    Scored,
    Shown,
    Task,
    TaskOptions,
)
from alps.tasks.base import chat_messages, verdict_row

TRACK = "imported_answers"
PROMPT = read_prompt(
    "<!-- id: imported/1 -->\nAnswer the question from what you remember, in a few words.",
    "alps.ext.importers.answered",
)
RUBRIC = read_rubric(Path(__file__).with_name("correct_answer.md"))
_RESAMPLED = Inference(resampled=True)
Row = Mapping[str, Any]


class ImportedQuestion(FrozenRow):
    """One question of a benchmark; `gold` is the right answer."""

    benchmark_id: str
    session_id: str
    question: str
    category: str
    gold: str | None


def _read_sample(row: Row, gold: Row | None) -> ImportedQuestion:
    asked = row["input"]
    return ImportedQuestion(
        benchmark_id=row["benchmark_id"],
        session_id=row["session_id"],
        question=asked["question"],
        category=asked["category"],
        gold=None if gold is None else gold["gold"]["answer"],
    )


def _input_row(sample: ImportedQuestion) -> dict[str, Any]:
    asked = {"question": sample.question, "category": sample.category}
    ids = {"benchmark_id": sample.benchmark_id, "session_id": sample.session_id}
    return {**ids, "task": TRACK, "input": asked}


def _read_answer(node: object) -> Read[str]:
    if not isinstance(node, dict) or not isinstance(node.get("answer"), str):
        raise ValueError("expected an object with a text `answer`")
    return Read(node["answer"])


def _said(prediction: Prediction) -> str:
    return str((prediction.prediction or {}).get("answer", ""))


async def _judge(
    sample: ImportedQuestion, prediction: Prediction, judge: Judge, options: JudgingOptions
) -> dict[str, Any]:
    verdict = verdict_row(judge, [RUBRIC])
    if RubricQuestion not in judge.answers:
        return verdict
    question = RubricQuestion(RUBRIC, sample.question, _said(prediction), sample.gold or "", ())
    return verdict | (await judge.answer(question, about=sample.benchmark_id)).row()


def _score(
    sample: ImportedQuestion, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    if verdict is None:
        return Scored({"correct": 0.0, "token_f1": 0.0})
    scores = {"token_f1": token_f1(_said(prediction), sample.gold or "")}
    if "marks" in verdict:
        scores["correct"] = float(verdict["marks"]["met"])
    return Scored(scores)


def tracks(options: TaskOptions) -> tuple[Task, ...]:
    """Return the one track."""
    return (
        Task(
            name="imported",
            track=TRACK,
            prompt=PROMPT,
            answer=AnswerType(schema=TextAnswer, read=_read_answer, partial=False, within=IN_WORDS),
            read_sample=_read_sample,
            messages=lambda sample: chat_messages(PROMPT.text, {"question": sample.question}),
            input_row=_input_row,
            to_prediction=lambda answer: {"answer": answer},
            judge=_judge,
            likely=lambda sample: {"answer": sample.gold},
            score=_score,
            metrics=(
                Metric(
                    "correct",
                    "correct answers",
                    headline=True,
                    needs=Needs(rating=True),
                    inference=_RESAMPLED,
                ),
                Metric("token_f1", "token F1 (no judge)", judged=False, inference=_RESAMPLED),
            ),
            rubrics=(RUBRIC,),
            public=PublicAnswers(gold=lambda sample: (("gold", sample.gold, ""),)),
            systems={
                "floor/refuse": lambda sample: {"answer": REFUSAL},
                "floor/repeat": lambda sample: {"answer": sample.question},
            },
            groups=lambda sample: {"category": sample.category},
            shown=Shown(breakdowns=(Breakdown("category", "category", "correct"),)),
        ),
    )
