"""Any litellm model behind a completions endpoint, as the system that compares continuations.

Each option is one call. The first is asked alone, the others when it is answered: they begin with
the same history, which servers then have in their cache.
"""

import asyncio
from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

from alps.errors import UsageError
from alps.llm.likelihood import GENERATED, Compared, likelihood_of
from alps.llm.types import Completes, Completion, Request
from alps.schema import Prediction
from alps.tasks import Task

PROBE = ("One, two,", " three.")
"""What an endpoint is asked first: a few tokens show whether it echoes log-probabilities."""


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
        return self._request(messages=(message,), echo_from=len(prefix), **fixed)

    def on(self, client: Completes) -> "LikelihoodSystem":
        """Return the same model, asked through `client`."""
        moved = copy(self)
        moved._client, moved._probed = client, None
        return moved

    def _of_options(self, task: Task, sample: Any) -> list[Request[Any]]:
        assert task.asking.continuations is not None
        given = task.asking.continuations(sample)
        return [self._asked(given.prefix, option, sample.benchmark_id) for option in given.options]

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Ask for each option of `sample`; a missing one leaves it unanswered.

        Raises:
            UsageError: If the endpoint does not echo log-probabilities.
        """
        await self._refuse_silence()
        first, *others = self._of_options(task, sample)
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
    compared = Compared(tuple(likelihood_of(completion.value or "") for completion in completions))
    return Prediction(**row, outcome="ok", prediction=task.to_prediction(compared))
