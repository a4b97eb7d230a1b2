"""PersonaMem as its authors ask and read it: plain text, and a letter after `<final_answer>`.

For comparison with published figures. Both of their parsers look at the right letter: the newer one
gives a reply two chances, and the older one calls "(a) I understand" wrong.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from alps.judges.base import Judge
from alps.llm.repair import looks_like_refusal
from alps.llm.types import AnswerType
from alps.prompts import load_prompt
from alps.schema import Prediction, TextAnswer
from alps.tasks.base import Row, Scored, Task
from alps.tasks.personamem.release import LETTERS
from alps.tasks.personamem.results import PARSERS, read_replies
from alps.tasks.personamem.scores import ChoiceSample, Credit, scored
from alps.tasks.personamem.scores import score as score_choice
from alps.tasks.utilization import read_answer

PROMPT = load_prompt("alps.tasks", "prompts", "personamem_authors")


def messages(sample: ChoiceSample) -> tuple[Mapping[str, str], ...]:
    """Render the history as a chat, and message, instructions and options as its last turn."""
    seen = sample.seen()
    turns = [{"role": turn.role, "content": turn.text} for turn in seen.turns]
    options = zip(LETTERS, sample.question.options, strict=True)
    listed = "\n".join(f"({letter}) {option}" for letter, option in options)
    parts = [*seen.memories, sample.question.message, PROMPT.text, listed]
    return (*turns, {"role": "user", "content": "\n\n".join(parts)})


def score(
    sample: ChoiceSample,
    prediction: Prediction,
    verdict: Row | None,
    judge: Judge,
    *,
    parser: str,
) -> Scored:
    """Score a reply as one of the authors' parsers does; trivial baselines choose as ever."""
    given = prediction.prediction or {}
    if "answer" not in given:
        return score_choice(sample, prediction, verdict, judge)
    named = PARSERS[parser](given["answer"])
    chosen = next((letters for letters in named if len(letters) == 1), None)
    if sample.gold in named:
        return scored(sample, prediction, Credit(1.0, sample.gold))
    invalid = "" if chosen is not None else _invalid(prediction, given["answer"])
    return scored(sample, prediction, Credit(0.0, chosen), invalid=invalid)


def _invalid(prediction: Prediction, text: str) -> str:
    """Return what kind of invalid response a reply is that names no letter alone."""
    letters = PARSERS["authors"](text)
    if prediction.truncated:
        return "cut_off"
    if any(len(one) == 1 for one in letters):
        return "format"
    if any(letters):
        return "two_answers"
    return "refusal" if looks_like_refusal(text) else "no_answer"


def _texts(task: Task, answer: Row) -> tuple[str, ...]:
    # Embedded systems choose a letter, as in the task itself.
    return (answer["answer"],) if "answer" in answer else tuple(task.public.texts(answer))


def as_authors(task: Task, parser: str) -> Task:
    """Return the task of choices as one that asks and reads as the authors do."""
    return replace(
        task,
        prompt=PROMPT,
        asking=replace(task.asking, plain=True),
        answer=AnswerType(schema=TextAnswer, read=read_answer, partial=False),
        messages=messages,
        to_prediction=lambda text: {"answer": text},
        score=partial(score, parser=parser),
        public=replace(
            task.public,
            longest=30_000,
            texts=partial(_texts, task),
            choice=None,
            schema=TextAnswer,
        ),
        data=replace(task.data, read_results=read_replies),
        conditions={**task.conditions, "parser": parser},
    )
