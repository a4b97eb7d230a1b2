"""Free answers to a question of PersonaMem: no options are shown, a judge says which one is met.

What a model says by itself is told apart from what it recognises among four options.
"""

from dataclasses import replace
from typing import Any

from alps.judges.base import Judge
from alps.judges.options import OptionQuestion
from alps.judges.rubric import OPTION, rubric
from alps.llm.types import AnswerType
from alps.prompts import load_prompt
from alps.schema import Prediction, TextAnswer
from alps.tasks.base import (
    AGREEMENT,
    Asking,
    JudgingOptions,
    Row,
    Scored,
    Task,
    agreement_score,
    chat_messages,
    verdict_row,
)
from alps.tasks.metrics import Inference, Metric
from alps.tasks.personamem.release import LETTERS
from alps.tasks.personamem.scores import ChoiceSample, Credit, for_class, scored
from alps.tasks.utilization import fits, read_answer

PROMPT = load_prompt("alps.tasks", "prompts", "personamem_free")
JUDGED_BY = rubric(OPTION)


async def judge_prediction(
    sample: ChoiceSample, prediction: Prediction, judge: Judge, options: JudgingOptions
) -> dict[str, Any]:
    """Ask which option the answer agrees with; the judge is not told which one is right."""
    question = OptionQuestion(
        sample.question.message,
        (prediction.prediction or {}).get("answer", ""),
        sample.question.options,
    )
    verdict = await judge.answer(question, about=sample.benchmark_id)
    return {**verdict_row(judge, (JUDGED_BY,)), **verdict.row()}


def score(
    sample: ChoiceSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score one answer: right where it agrees with the gold; a failed one is wrong."""
    option = None if verdict is None else verdict.get("option")
    choice = None if option is None else LETTERS[option]
    whole = scored(sample, prediction, Credit(float(choice == sample.gold), choice))
    own = {} if verdict is None else {"no_option": float(choice is None)}
    return replace(whole, scores={**whole.scores, **own, **agreement_score(verdict)})


SYSTEMS = {
    "oracle": lambda sample: {"answer": sample.question.options[sample.question.gold]},
    "floor/parrot": lambda sample: {"answer": sample.question.message},
    "floor/generic": lambda sample: {
        "answer": "Thank you for your message, I am happy to help you with that in any way I can."
    },
}

NO_OPTION = Metric(
    "no_option",
    "agrees with no option",
    lower_is_better=True,
    optional=True,
    inference=Inference(resampled=True),
)


def free(task: Task) -> Task:
    """Return `task`, whose questions have options, as one in which they are not shown."""
    metrics = tuple(replace(metric, judged=True) for metric in task.metrics)

    def input_row(sample: ChoiceSample) -> dict[str, Any]:
        row = task.input_row(sample)
        shown = {name: part for name, part in row["input"].items() if name != "options"}
        return {**row, "input": shown}

    return replace(
        task,
        prompt=PROMPT,
        answer=AnswerType(schema=TextAnswer, read=read_answer, partial=False),
        messages=lambda sample: chat_messages(PROMPT.text, input_row(sample)["input"]),
        input_row=input_row,
        to_prediction=lambda text: {"answer": text},
        fits=fits,
        rubrics=(JUDGED_BY,),
        judge=judge_prediction,
        likely=lambda sample: {"answer": sample.question.message},
        score=score,
        metrics=(*metrics, NO_OPTION, AGREEMENT),
        asking=Asking(plain=True, for_class=lambda sample: replace(for_class(sample), options=())),
        public=replace(
            task.public,
            longest=10_000,
            texts=lambda answer: (answer["answer"],),
            choice=None,
            schema=TextAnswer,
        ),
        systems=SYSTEMS,
        data=replace(task.data, read_results=None, check_results=None),
        conditions={**task.conditions, "answer": "free"},
    )
