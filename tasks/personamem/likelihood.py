"""PersonaMem by log-probability: the options are compared as ways in which the history may go on.

The authors' generative setting: the mean log-probability of an option's tokens given history and
message, and the highest of four. The model sees no letters and no other option.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from alps.judges.base import Judge
from alps.llm.likelihood import Compared, Likelihood
from alps.prompts import load_prompt
from alps.schema import Prediction
from alps.tasks.base import Continuations, Row, Scored, Task
from alps.tasks.metrics import Inference, Metric
from alps.tasks.personamem.answers import Letter, StoredChoice
from alps.tasks.personamem.release import LETTERS
from alps.tasks.personamem.scores import METRICS as OF_CHOICES
from alps.tasks.personamem.scores import ChoiceSample
from alps.tasks.personamem.scores import score as score_choice

PROMPT = load_prompt("alps.tasks", "prompts", "personamem_logprob")


class OptionLikelihood(BaseModel):
    """One option: its tokens, and their log-probabilities (natural), summed and a token."""

    model_config = ConfigDict(extra="forbid")

    tokens: Annotated[int, Field(ge=1)]
    sum: float
    mean: float


class LikelihoodAnswer(StoredChoice):
    """The letter of the highest mean, and what it was compared with.

    Attributes:
        choice_by_sum: The letter of the highest sum.
        margin: By how much the highest mean is above the next one.
    """

    choice_by_sum: Letter
    margin: float
    logprobs: Annotated[list[OptionLikelihood], Field(min_length=4, max_length=4)]


def continuations(sample: ChoiceSample) -> Continuations:
    """Render history and message as plain text, and each option as the answer that follows."""
    seen = sample.seen()
    lines = [_line(turn.role, turn.text) for turn in seen.turns]
    lines += [f"Known about the user: {text}" for text in seen.memories]
    lines.append(_line("user", sample.question.message))
    prefix = "\n\n".join([PROMPT.text, *lines, "Assistant:"])
    return Continuations(prefix, tuple(f" {option}" for option in sample.question.options))


def _line(role: str, text: str) -> str:
    # Published histories name the speaker in the text already, the questions do not.
    name = f"{role.capitalize()}: "
    return text if text.startswith(name) else name + text


def to_prediction(compared: Compared) -> dict[str, Any]:
    """Return the row of a prediction."""
    best = [LETTERS[place] for place in compared.best]
    tied = {"tied": best} if len(best) > 1 else {}
    rows = [
        {"tokens": option.tokens, "sum": option.sum, "mean": option.mean}
        for option in compared.options
    ]
    by_sum = LETTERS[compared.best_by_sum[0]]
    figures = {"choice_by_sum": by_sum, "margin": compared.margin, "logprobs": rows}
    return {"choice": best[0], "reason": "", **tied, **figures}


def fits(sample: ChoiceSample, prediction: Row) -> None:
    """Refuse a choice that its log-probabilities do not come to.

    Raises:
        ValueError: If it is another.
    """
    if "logprobs" not in prediction:  # trivial baselines compare nothing
        return
    rows = prediction["logprobs"]
    compared = to_prediction(Compared(tuple(Likelihood(r["tokens"], r["sum"]) for r in rows)))
    for name in ("choice", "tied", "choice_by_sum", "margin", "logprobs"):
        if prediction.get(name) != compared.get(name):
            raise ValueError(f"{name}: not what the log-probabilities come to")


def score(
    sample: ChoiceSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score the choice by mean as any choice; beside it that by sum, and the margin."""
    scored = score_choice(sample, prediction, verdict, judge)
    given = prediction.prediction
    own: dict[str, float] = {}
    if given is None:
        own = {"accuracy_by_sum": 0.0}
    elif "logprobs" in given:  # trivial baselines compare nothing
        highest = _highest([option["sum"] for option in given["logprobs"]])
        credit = 1 / len(highest) if sample.question.gold in highest else 0.0
        own = {"accuracy_by_sum": credit, "margin": given["margin"]}
    return replace(scored, scores={**scored.scores, **own})


def _highest(values: Sequence[float]) -> list[int]:
    return [place for place, value in enumerate(values) if value == max(values)]


METRICS = (
    *OF_CHOICES,
    Metric(
        "accuracy_by_sum",
        "accuracy by summed log-probability",
        judged=False,
        optional=True,
        inference=Inference(resampled=True),
    ),
    Metric(
        "margin",
        "mean margin, nats a token",
        judged=False,
        optional=True,
        inference=Inference(resampled=True),
        highest=10_000.0,
    ),
)


def by_likelihood(task: Task) -> Task:
    """Return the task of choices as one whose options are compared by log-probability."""
    return replace(
        task,
        prompt=PROMPT,
        asking=replace(task.asking, plain=True, continuations=continuations),
        to_prediction=to_prediction,
        fits=fits,
        score=score,
        metrics=METRICS,
        public=replace(task.public, schema=LikelihoodAnswer),
        conditions={**task.conditions, "answer": "logprob"},
    )
