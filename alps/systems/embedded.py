"""Systems that need neither a network nor a process: plain functions of the sample, and the one that is not asked."""

from collections.abc import Callable, Mapping
from typing import Any

from alps.schema import Prediction


class Unheard:
    """A system that is not asked any more: where a finished run is judged again, what is missing stays missing."""

    def __init__(self, name: str, track: str) -> None:
        self.name = name
        self.settings: Mapping[str, Any] = {}
        self._track = track

    async def predict(self, sample: Any) -> Prediction:
        """Say that `sample` was not answered."""
        error = "not predicted in the run that is judged again"
        return Prediction(benchmark_id=sample.benchmark_id, track=self._track, outcome="transport", error=error)


class Embedded:
    """A system that answers at once, without a network."""

    def __init__(self, name: str, track: str, answer: Callable[[Any], dict[str, Any]]) -> None:
        self.name = name
        self.settings: Mapping[str, Any] = {}
        self._track = track
        self._answer = answer

    async def predict(self, sample: Any) -> Prediction:
        """Answer `sample`."""
        return self.answer(sample)

    def answer(self, sample: Any) -> Prediction:
        """Answer `sample` outside an event loop."""
        return Prediction(
            benchmark_id=sample.benchmark_id, track=self._track, outcome="ok", prediction=self._answer(sample)
        )
