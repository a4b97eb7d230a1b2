"""Questions of PersonaMem whose options are compared by log-probability: `answer=logprob`.

It is the authors' generative setting: the mean log-probability of an option's tokens given history
and message, and the highest of four. The model sees no letters and no other option.

Each option is one call of a completions endpoint. The first is asked alone, the others when it is
answered: they begin with the same history, which servers then have in their cache.

The log-probabilities are those of the end of a prompt, out of a completion that echoes it, which
`Echoed` asks for.
"""

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from alps.errors import UsageError
from alps.judges.base import Judge
from alps.llm.options import sent
from alps.llm.prices import entry_of
from alps.llm.provider import read_reply
from alps.llm.secrets import redact
from alps.llm.structured import as_body
from alps.llm.types import Completes, Completion, Reply, Request, TransportError
from alps.llm.wire import Exchange, libraries
from alps.prompts import load_prompt
from alps.schema import Prediction
from alps.sizes import LARGEST_REPLY
from alps.tasks.base import Row, Scored, Task
from alps.tasks.metrics import Metric
from alps.tasks.personamem.release import LETTERS
from alps.tasks.personamem.samples import ChoiceSample, Letter, StoredChoice
from alps.tasks.personamem.scores import METRICS, RESAMPLED, places_of, score

LIKELIHOOD_PROMPT = load_prompt("alps.tasks", "prompts", "personamem_logprob")
PROBE = ("One, two,", " three.")
"""What an endpoint is asked first: a few tokens show whether it echoes log-probabilities."""
_OPENAI = ("openai", "text-completion-openai")
GENERATED = 1
"""Tokens that are asked for behind the prompt."""
# Of a reply: 4 characters are about a token, and each token about 400 bytes of JSON under vLLM
_BYTES_A_CHARACTER = 100
_Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_VALUES = TypeAdapter(Annotated[list[_Finite], Field(min_length=1)])
# How servers name bytes: `<0xE2>` (llama), `bytes:\xe2` (OpenAI)
_BYTE = re.compile(rb"<0x([0-9A-Fa-f]{2})>|\\x([0-9A-Fa-f]{2})")
_NAMED = b"bytes:"
_UNREADABLE = "\ufffd"
# Bytes of a character; all of one that has several are at 128 or above
_LONGEST, _BEYOND_ASCII = 4, 0x80


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


class _Logprobs(BaseModel):
    """What stands of each token in a reply; more than that is not looked at."""

    tokens: Annotated[list[str], Field(min_length=1)]
    token_logprobs: list[Annotated[float, Field(allow_inf_nan=False)] | None]
    text_offset: list[int] | None = None


class Echo:
    """Tokens of a prompt, removed from a reply's body before litellm parses the rest.

    The openai package walks through them in pure Python: 1.5 s of a processor for 50,000 tokens.

    OpenAI's legacy completions and servers of that form (vLLM, llama-cpp-python) repeat the tokens
    of the prompt, each with its log-probability, where `echo` and `logprobs` are asked for. Two
    things can't be relied on: `max_tokens` of 0, which some take for «no limit», so one token is
    generated and left out here; and `text_offset`, which vLLM counts with the text of a token
    before the prompt, as `<|begin_of_text|>`, and with a mark for each part of a character. So the
    text of the tokens, read from the end of the prompt, says where each one lies; offsets are asked
    where it does not spell the prompt, and only count if they end where the prompt ends.

    Args:
        prompt: What is echoed.
        begins: The character from which on log-probabilities are asked for.
    """

    def __init__(self, prompt: str, begins: int) -> None:
        self._prompt, self._begins = prompt, begins
        self._heard: object = None

    @property
    def largest(self) -> int:
        """The most bytes that a body may have."""
        return LARGEST_REPLY + _BYTES_A_CHARACTER * len(self._prompt)

    def options(self, model: str) -> dict[str, Any]:
        """Return what litellm's text completion is given to have the prompt echoed."""
        if libraries().litellm.get_llm_provider(model)[1] == "openai":
            # litellm would ask a server of one's own by chat where its model is named as OpenAI's
            model = f"text-completion-openai/{model.removeprefix('openai/')}"
        return {"model": model, "prompt": self._prompt, "echo": True, "logprobs": 1}

    def take(self, body: bytes) -> bytes:
        """Keep the tokens of a body, and return it without."""
        try:
            reply = json.loads(body)
            choice = reply["choices"][0]
            self._heard = choice.pop("logprobs", None)
            choice.pop("prompt_logprobs", None)  # vLLM tells them a second time
        except (ValueError, LookupError, TypeError, AttributeError):
            return body  # no completion: litellm will say what it is
        return json.dumps(reply).encode()

    def read(self, generated: int | None) -> str:
        """Return as JSON the log-probabilities of the tokens that hold what was asked for.

        `generated` is how many tokens the server says to have answered, None where it does not.

        Raises:
            ValueError: If the reply does not tell them; one line.
        """
        try:
            heard = _Logprobs.model_validate(self._heard)
        except ValidationError as error:
            raise ValueError("it returns no log-probabilities of the prompt's tokens") from error
        tokens, values = heard.tokens, heard.token_logprobs
        last = len(tokens) - (GENERATED if generated is None else min(generated, GENERATED))
        first = _first_by_text(self._prompt, self._begins, tokens[:last])
        if first is None:
            offsets = heard.text_offset or ()
            first = _first_by_offsets(len(self._prompt), self._begins, offsets, last)
        if first is None or len(values) != len(tokens):
            what = "neither its tokens nor its offsets match the prompt"
            raise ValueError(what)
        # Nothing comes before the first token of all: its log-probability is not known.
        wanted = values[max(first, 1) : last]
        if not wanted or None in wanted:
            raise ValueError("it returns no log-probability of some tokens of the text")
        return json.dumps(wanted)


def values_of(text: str) -> list[float]:
    """Read what `Echo.read` wrote.

    Raises:
        ValueError: If it is something else.
    """
    return _VALUES.validate_json(text)


@dataclass(frozen=True)
class Echoed:
    """The form of a request whose reply is the log-probabilities of the end of its message.

    Attributes:
        begins: The character of the message from which on they are asked for.
        most: The most tokens of the answer.
    """

    begins: int
    most: int = GENERATED

    @property
    def key(self) -> Mapping[str, Any]:
        """What tells such requests apart in the cache."""
        return {"echo_from": self.begins}

    async def ask(
        self, request: Request[Any], prompt: str, options: Mapping[str, Any], exchange: Exchange
    ) -> Reply:
        """Make one request, and return the log-probabilities as JSON in the text of the reply.

        Raises:
            TransportError: If the reply does not tell them: asked again, it would not, either.
        """
        echo = Echo(prompt, self.begins)
        exchange.largest, exchange.take = echo.largest, echo.take
        asked = {**echo.options(request.model), **request.decoding, **sent(request.extra)}
        asked = {**as_body(asked, request.model), **options}
        try:
            response = await libraries().litellm.atext_completion(**asked)
            reply = read_reply(response, request.model)
        finally:
            # litellm makes a client for each completion of plain text, and closes none of them.
            if exchange.client is not None:
                await exchange.client.aclose()
        try:
            values = echo.read(reply.completion_tokens)
        except ValueError as error:
            raise TransportError(str(error), transient=False, status=200, billed=True) from error
        return replace(reply, text=values, finish_reason="stop")

    def check(self, text: str) -> None:
        """Refuse a text that was kept and is no list of log-probabilities, in a ValueError."""
        values_of(text)


def _first_by_offsets(end: int, begins: int, offsets: Sequence[int], last: int) -> int | None:
    """Return the first token that holds a character from `begins` on, as its server counts.

    None where the offsets are not those of the prompt: the first token that was generated, at the
    place `last`, must begin where the prompt ends.
    """
    ordered = list(offsets) == sorted(offsets) and list(offsets[:1]) == [0]
    if not ordered or len(offsets) <= last or offsets[last] != end:
        return None
    holding = (n for n in range(last) if offsets[n] >= begins or offsets[n + 1] > begins)
    return next(holding, None)


def _first_by_text(prompt: str, begins: int, tokens: Sequence[str]) -> int | None:
    """Return the first token that holds a character from `begins` on, spelling from the end.

    Where a character is parted among tokens, servers write a mark for each part, or nothing: such
    tokens stand for some bytes beyond ASCII, up to the next token that can be read.
    """
    text, start = prompt.encode(), len(prompt[:begins].encode())
    end = len(text)
    least = most = 0  # the bytes of tokens that can't be read, ahead of `end`
    for place in range(len(tokens) - 1, -1, -1):
        behind, readable, ahead = _parts(tokens[place])
        least, most = least + behind, most + _LONGEST * max(behind, not tokens[place])
        if not readable:
            continue
        found = _before(text, end, range(least, most + 1), readable)
        if found is None:
            return None
        token_begins, token_ends = found
        if token_ends < start or (token_ends == start and not behind):
            return place + 1 if token_ends == start else None
        if token_begins <= start:
            return place
        end, least, most = token_begins, ahead, _LONGEST * ahead
    return None


def _parts(token: str) -> tuple[int, str, int]:
    """Return the marks behind what can be read of a token, this text, and the marks ahead of it."""
    without = token.rstrip(_UNREADABLE)
    readable = without.lstrip(_UNREADABLE)
    return len(token) - len(without), readable, len(without) - len(readable)


def _before(text: bytes, end: int, skipped: range, token: str) -> tuple[int, int] | None:
    """Return where a token begins and ends that comes so many bytes beyond ASCII before `end`."""
    literal = token.encode()
    named = _BYTE.sub(_byte, literal.removeprefix(_NAMED))
    for skip in skipped:
        token_ends = end - skip
        if token_ends < 0 or (skip > skipped.start and text[token_ends] < _BEYOND_ASCII):
            return None
        for form in (literal, named):
            if text.endswith(form, 0, token_ends):
                return token_ends - len(form), token_ends
    return None


def _byte(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1] or match[2], 16)])
