"""Questions of PersonaMem whose options are compared by log-probability: `answer=logprob`.

It is the authors' generative setting: the mean log-probability of an option's tokens given history
and message, and the highest of four. The model sees no letters and no other option.

Each option is one call of a completions endpoint. The first is asked alone, the others when it is
answered: they begin with the same history, which servers then have in their cache.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from alps.errors import UsageError
from alps.judges.base import Judge
from alps.llm.prices import entry_of
from alps.llm.secrets import redact
from alps.llm.types import Completes, Completion, Request
from alps.llm.wire import libraries
from alps.prompts import load_prompt
from alps.schema import Prediction
from alps.tasks.base import Row, Scored, Task
from alps.tasks.metrics import Metric
from alps.tasks.personamem.echo import GENERATED, Echoed, values_of
from alps.tasks.personamem.release import LETTERS
from alps.tasks.personamem.samples import ChoiceSample, Letter, StoredChoice
from alps.tasks.personamem.scores import METRICS, RESAMPLED, places_of, score

LIKELIHOOD_PROMPT = load_prompt("alps.tasks", "prompts", "personamem_logprob")


PROBE = ("One, two,", " three.")
"""What an endpoint is asked first: a few tokens show whether it echoes log-probabilities."""
_OPENAI = ("openai", "text-completion-openai")


class LikelihoodSystem:
    """Answers with the option that a model gives the highest mean log-probability of a token."""

    def __init__(
        self,
        model: str,
        *,
        client: Completes,
        api_base: str | None,
        extra: Mapping[str, Any] | None = None,
        repeat: int = 0,
    ) -> None:
        self.name = model
        settings: dict[str, Any] = {"sampling": {}, "api_base": api_base}
        self.settings: Mapping[str, Any] = settings | ({"request": dict(extra)} if extra else {})
        self._client = client
        self._request = partial(
            Request[Any],
            model,
            answer=None,
            sampling={"max_tokens": GENERATED},
            api_base=api_base,
            extra=extra or {},
            repeat=repeat,
        )
        self._probe = self._asked(*PROBE)
        self._probed: asyncio.Task[Completion[Any]] | None = None

    def _asked(self, prefix: str, continuation: str, about: str = "") -> Request[Any]:
        message = {"role": "user", "content": prefix + continuation}
        # A dry run goes on as if each had been told: one token, which is certain.
        fixed: dict[str, Any] = {"about": about, "likely": lambda: "[0.0]"}
        return self._request(messages=(message,), form=Echoed(len(prefix)), **fixed)

    @staticmethod
    def check(model: str, *, api_base: str | None, local: bool) -> None:
        """Refuse a `local` system, and a model with a chat endpoint only: it scores no given text.

        Raises:
            UsageError: Says so, and what to name instead.
        """
        if local:
            why = "this system returns no log-probabilities; name a litellm model"
            raise UsageError(f"answer=logprob: model={redact(model)}: {why}")
        litellm = libraries().litellm
        provider = litellm.get_llm_provider(model)[1]
        known = provider in (*_OPENAI, *litellm.openai_text_completion_compatible_providers)
        own_server = provider != "openai" or api_base is not None
        mode = "completion" if own_server else (entry_of(model) or {}).get("mode", "completion")
        if not known or mode != "completion":
            what = "it has only a chat endpoint, which returns no log-probabilities of a given text"
            instead = "use an endpoint whose completions support echo: openai/NAME with api_base="
            raise UsageError(f"answer=logprob: model '{model}': {what}; {instead}")

    def on(self, client: Completes) -> "LikelihoodSystem":
        """Return the same model, asked through `client`."""
        moved = copy(self)
        moved._client, moved._probed = client, None
        return moved

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Ask for each option of `sample`; a missing one leaves it unanswered.

        Raises:
            UsageError: If the endpoint does not echo log-probabilities.
        """
        await self._refuse_silence()
        prefix, options = continuations(sample)
        first, *others = [self._asked(prefix, option, sample.benchmark_id) for option in options]
        completions = [await self._client.complete(first)]
        if completions[0].outcome == "ok":
            completions += await asyncio.gather(*map(self._client.complete, others))
        return _prediction(task, sample, completions)

    async def _refuse_silence(self) -> None:
        if self._probed is None:
            self._probed = asyncio.ensure_future(self._client.complete(self._probe))
        probed = await asyncio.shield(self._probed)
        if probed.outcome in ("ok", "budget"):
            return
        what = f"the endpoint does not echo log-probabilities ({probed.error})"
        instead = "answer=logprob needs completions with `echo` and `logprobs`"
        raise UsageError(f"model '{self.name}': {what}; {instead}")


def _prediction(task: Task, sample: Any, completions: Sequence[Completion[Any]]) -> Prediction:
    row: dict[str, Any] = {"benchmark_id": sample.benchmark_id, "track": task.track}
    for completion in completions:
        if completion.outcome != "ok":
            return Prediction(**row, outcome=completion.outcome, error=completion.error)
    options = []
    for completion in completions:
        values = values_of(completion.value or "")
        options.append(likelihood(len(values), round(math.fsum(values), 6)))
    return Prediction(**row, outcome="ok", prediction=task.to_prediction(options))


class OptionLikelihood(BaseModel):
    """One option: its tokens, and their natural log-probabilities, summed and averaged."""

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


def continuations(sample: ChoiceSample) -> tuple[str, list[str]]:
    """Render history and message as plain text, and each option as the answer that follows.

    The text ends where a model would begin to answer; each option begins with the space that parts
    it from there.
    """
    seen = sample.seen()
    lines = [_line(turn.role, turn.text) for turn in seen.turns]
    lines += [f"Known about the user: {text}" for text in seen.memories]
    lines.append(_line("user", sample.question.message))
    prefix = "\n\n".join([LIKELIHOOD_PROMPT.text, *lines, "Assistant:"])
    return prefix, [f" {option}" for option in sample.question.options]


def _line(role: str, text: str) -> str:
    # Published histories name the speaker in the text already, the questions do not.
    name = f"{role.capitalize()}: "
    return text if text.startswith(name) else name + text


def likelihood(tokens: int, total: float) -> dict[str, Any]:
    """Return the row of an option: the mean is comparable between texts of any length."""
    return {"tokens": tokens, "sum": total, "mean": round(total / tokens, 6)}


def compared_to_prediction(options: Sequence[Row]) -> dict[str, Any]:
    """Return the row of a prediction: the option of the highest mean, several where they tie."""
    means = [option["mean"] for option in options]
    best = [LETTERS[place] for place in places_of(max, means)]
    tied = {"tied": best} if len(best) > 1 else {}
    by_sum = LETTERS[places_of(max, [option["sum"] for option in options])[0]]
    first, second = sorted(means, reverse=True)[:2]
    margin = round(first - second, 6)
    figures = {"choice_by_sum": by_sum, "margin": margin, "logprobs": list(options)}
    return {"choice": best[0], "reason": "", **tied, **figures}


def fits_likelihood(sample: ChoiceSample, prediction: Row) -> None:
    """Refuse a choice that its log-probabilities do not come to.

    Raises:
        ValueError: If it is another.
    """
    if "logprobs" not in prediction:  # trivial baselines compare nothing
        return
    rows = prediction["logprobs"]
    compared = compared_to_prediction([likelihood(row["tokens"], row["sum"]) for row in rows])
    for name in ("choice", "tied", "choice_by_sum", "margin", "logprobs"):
        if prediction.get(name) != compared.get(name):
            raise ValueError(f"{name}: does not follow from the log-probabilities")


def score_likelihood(
    sample: ChoiceSample, prediction: Prediction, verdict: Row | None, judge: Judge
) -> Scored:
    """Score the choice by mean as any choice; beside it that by sum, and the margin."""
    scored = score(sample, prediction, verdict, judge)
    given = prediction.prediction
    own: dict[str, float] = {}
    if given is None:
        own = {"accuracy_by_sum": 0.0}
    elif "logprobs" in given:  # trivial baselines compare nothing
        highest = places_of(max, [option["sum"] for option in given["logprobs"]])
        credit = 1 / len(highest) if sample.question.gold in highest else 0.0
        own = {"accuracy_by_sum": credit, "margin": given["margin"]}
    return replace(scored, scores={**scored.scores, **own})


_UNJUDGED: dict[str, Any] = {"judged": False, "optional": True, "inference": RESAMPLED}
LIKELIHOOD_METRICS = (
    *METRICS,
    Metric("accuracy_by_sum", "accuracy by summed log-probability", **_UNJUDGED),
    Metric("margin", "mean margin, nats per token", highest=10_000.0, **_UNJUDGED),
)


def by_likelihood(task: Task) -> Task:
    """Return the task of choices as one whose options are compared by log-probability."""
    return replace(
        task,
        prompt=LIKELIHOOD_PROMPT,
        asking=replace(task.asking, plain=True, own_system=LikelihoodSystem),
        to_prediction=compared_to_prediction,
        fits=fits_likelihood,
        score=score_likelihood,
        metrics=LIKELIHOOD_METRICS,
        public=replace(task.public, schema=LikelihoodAnswer),
        conditions={**task.conditions, "answer": "logprob"},
    )
