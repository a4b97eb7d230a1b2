"""Any litellm model as the system under test."""

from collections.abc import Mapping
from typing import Any

from alps.llm import Client, Request
from alps.llm.types import Structured
from alps.schema import Prediction
from alps.tasks import Task


class LlmSystem:
    """Asks a model what the task asks."""

    def __init__(
        self,
        model: str,
        *,
        task: Task,
        client: Client,
        api_base: str | None,
        sampling: Mapping[str, Any],
        extra: Mapping[str, Any] | None = None,
        repeat: int = 0,
        structured: Structured | None = None,
    ) -> None:
        self.name = model
        self.settings: Mapping[str, Any] = {
            "sampling": dict(sampling),
            "api_base": api_base,
            **({"request": dict(extra)} if extra else {}),
        }
        self._task = task
        self._client = client
        self._api_base = api_base
        self._sampling = sampling
        self._extra = extra or {}
        self._repeat = repeat
        self._structured = structured if not task.plain else None

    def request(self, sample: Any) -> Request[Any]:
        """Return what the model is asked about `sample`."""
        return Request(
            model=self.name,
            messages=self._task.messages(sample),
            answer=self._task.answer_to(sample),
            sampling=self._sampling,
            api_base=self._api_base,
            extra=self._extra,
            repeat=self._repeat,
            about=sample.benchmark_id,
            structured=self._structured,
        )

    async def predict(self, sample: Any) -> Prediction:
        """Ask the model about `sample`."""
        completion = await self._client.complete(self.request(sample))
        heard = completion.outcome == "ok"
        return Prediction(
            benchmark_id=sample.benchmark_id,
            track=self._task.track,
            outcome=completion.outcome,
            repaired=completion.repaired,
            truncated=completion.truncated,
            strict=completion.strict,
            prediction=self._task.to_prediction(completion.value) if heard else None,
            raw=completion.raw,
            thought=completion.thought,
            notes=completion.notes,
            error=completion.error,
        )
