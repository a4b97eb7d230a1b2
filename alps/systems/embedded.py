"""Systems that need neither a network nor a process: plain functions of the sample, and the one
that is not asked.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from alps.errors import AlpsError
from alps.schema import Prediction
from alps.systems.raised import Tracebacks, described


class Unheard:
    """A system that is not asked any more: where a finished run is judged again, what is missing
    stays missing.
    """

    def __init__(self, name: str, track: str) -> None:
        self.name = name
        self.settings: Mapping[str, Any] = {}
        self._track = track

    async def predict(self, sample: Any) -> Prediction:
        """Say that `sample` was not answered."""
        error = "not predicted in the run that is judged again"
        return Prediction(
            benchmark_id=sample.benchmark_id, track=self._track, outcome="transport", error=error
        )


class Embedded:
    """A system that answers at once, without a network.

    A function of the user's own task may raise: that is an invalid answer, and its traceback goes
    to `tracebacks`.
    """

    def __init__(
        self,
        name: str,
        track: str,
        answer: Callable[[Any], dict[str, Any]],
        *,
        tracebacks: Path | None = None,
    ) -> None:
        self.name = name
        self.settings: Mapping[str, Any] = {}
        self._track = track
        self._answer = answer
        self._tracebacks = Tracebacks(tracebacks)

    async def predict(self, sample: Any) -> Prediction:
        """Answer `sample`."""
        return self.answer(sample)

    def answer(self, sample: Any) -> Prediction:
        """Answer `sample` outside an event loop."""
        row: dict[str, Any] = {"benchmark_id": sample.benchmark_id, "track": self._track}
        try:
            return Prediction(**row, outcome="ok", prediction=self._answer(sample))
        except AlpsError:
            raise
        except Exception as error:
            self._tracebacks.keep(
                error, about=f"{self.name} on {self._track}, {sample.benchmark_id}"
            )
            return Prediction(**row, outcome="invalid", error=f"raised {described(error)}")
