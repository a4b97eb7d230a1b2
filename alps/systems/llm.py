"""Any litellm model as the system under test."""

from collections.abc import Mapping
from copy import copy
from functools import partial
from typing import Any

from alps.llm.types import Completes, Completion, OutputBudget, Request, Structured
from alps.schema import Prediction, UsedToAnswer
from alps.tasks import Task


class LlmSystem:
    """Asks a model what a task asks.

    Args:
        budgets: The output budgets of its answers, by track; those of others are not bounded.
        most: The most tokens that one may come to.
    """

    def __init__(
        self,
        model: str,
        *,
        client: Completes,
        api_base: str | None,
        sampling: Mapping[str, Any],
        extra: Mapping[str, Any] | None = None,
        repeat: int = 0,
        structured: Structured | None = None,
        budgets: Mapping[str, OutputBudget] | None = None,
        most: int | None = None,
    ) -> None:
        self.name = model
        self._budgets, self._most = budgets or {}, most
        settings: dict[str, Any] = {"sampling": dict(sampling), "api_base": api_base}
        if budgets:
            settings["output_budget"] = {track: one.row() for track, one in budgets.items()}
        self.settings: Mapping[str, Any] = settings | ({"request": dict(extra)} if extra else {})
        self._client, self._structured = client, structured
        fixed: dict[str, Any] = {"sampling": sampling, "api_base": api_base, "extra": extra or {}}
        self._request = partial(Request[Any], model, repeat=repeat, **fixed)

    def on(self, client: Completes) -> "LlmSystem":
        """Return the same model, asked through `client`."""
        moved = copy(self)
        moved._client = client
        return moved

    def request(self, task: Task, sample: Any) -> Request[Any]:
        """Return what the model is asked for `task` about `sample`."""
        messages, budget = task.messages(sample), self._budgets.get(task.track)
        longest = None if budget is None else budget.of_messages(messages, self._most)
        return self._request(
            messages=messages,
            longest=longest,
            answer=task.answer_to(sample),
            about=sample.benchmark_id,
            structured=self._structured if not task.asking.plain else None,
        )

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Ask the model about `sample`."""
        completion = await self._client.complete(self.request(task, sample))
        answered = completion.outcome == "ok"
        return Prediction(
            benchmark_id=sample.benchmark_id,
            track=task.track,
            outcome=completion.outcome,
            repaired=completion.repaired,
            truncated=completion.truncated,
            strict=completion.strict,
            prediction=task.to_prediction(completion.value) if answered else None,
            raw=completion.raw,
            thought=completion.thought,
            notes=completion.notes,
            error=completion.error,
            used=_used(completion),
        )


def _used(completion: Completion[Any]) -> UsedToAnswer | None:
    used = completion.used
    return None if used is None else used.model_copy(update={"cached": completion.cached})
