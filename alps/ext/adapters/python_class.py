"""A Python class as the system under test: `predict(sample)`, plain or async."""

import asyncio
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alps.ext.adapters.user_class import attribute, declared_settings, instantiate, plain
from alps.ext.adapters.user_code import Caller, end_of
from alps.llm.secrets import masked
from alps.schema import Outcome, Prediction
from alps.systems.base import Place, Tracebacks, described, one_line, understood
from alps.tasks import Task

# Seconds; a class that hangs in `close` must not keep a finished run from ending
_CLOSING_TIME = 10.0


class PythonSystem:
    """Asks an object of a class that the user wrote; it never sees the gold.

    A plain `predict` runs in one worker thread, one sample after the other; of an async one
    `in_flight` calls are under way at once. It returns a `Prediction`, the release's form of a
    prediction, or a list of memories.

    Args:
        path: `package.module:Class`; the working directory is searched, too.
        timeout: Seconds for one sample.
        in_flight: How many calls of an async `predict` may be under way at once.
        tracebacks: The file that keeps what `predict` raises; None for nowhere.

    Raises:
        UsageError: If the module, the class or its `predict` is missing, or can't be used.
    """

    _caller: Caller

    def __init__(
        self, path: str, *, timeout: float, in_flight: int = 16, tracebacks: Path | None = None
    ) -> None:
        self.name = f"python:{path}"
        key = f"model={self.name}"
        self._object = instantiate(path, key, ("predict",))
        declared = declared_settings(self._object, key)
        self.settings: Mapping[str, Any] = {"class": path, "timeout": timeout, **declared}
        self._timeout, self._tracebacks = timeout, Tracebacks(tracebacks)
        predict = attribute(self._object, "predict", key)
        self._in_thread = not inspect.iscoroutinefunction(predict)
        self._width = 1 if self._in_thread else in_flight
        self._renew()

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Ask the object what `task` asks about `sample`."""
        shown = task.asking.for_class(sample)
        async with self._turns:
            ended = await self._caller.call(
                lambda: self._object.predict(shown), self._timeout, in_thread=self._in_thread
            )
        if ended is None:
            return _failed(task, sample, "empty", f"no answer within {self._timeout:g} s")
        result, error = ended
        if error is not None:
            self._tracebacks.keep(error, about=f"{task.track}, {sample.benchmark_id}")
            return _failed(task, sample, "invalid", f"raised {described(error)}")
        return _understood(task, sample, result)

    async def aclose(self) -> None:
        """Call the object's `aclose` or `close`, if any; what it raises changes no result."""
        close, error = end_of(
            lambda: getattr(self._object, "aclose", None) or getattr(self._object, "close", None)
        )
        if error is None and callable(close):
            in_thread = not inspect.iscoroutinefunction(close)
            await self._caller.call(close, _CLOSING_TIME, in_thread=in_thread)
        self._caller.stop()
        self._renew()

    def _renew(self) -> None:
        """Begin anew: a semaphore belongs to the event loop that first waited for it."""
        self._turns = asyncio.Semaphore(self._width)
        self._caller = Caller()


def _understood(task: Task, sample: Any, result: Any) -> Prediction:
    """Read what `predict` returned."""
    if result is None:
        return _failed(task, sample, "empty", "returned None")
    if not isinstance(result, Prediction):
        return _read(task, sample, result)
    if result.benchmark_id != sample.benchmark_id:
        return _failed(task, sample, "invalid", f"answered for '{result.benchmark_id}' instead")
    if result.outcome != "ok":
        error = None if result.error is None else one_line(result.error)
        return result.model_copy(update={"track": task.track, "prediction": None, "error": error})
    read = _read(task, sample, result.prediction, raw=result.raw)
    if read.outcome != "ok":
        return read
    fields = {"prediction": read.prediction, "raw": read.raw, "track": task.track}
    return result.model_copy(update={**fields, "notes": (*result.notes, *read.notes)})


def _read(task: Task, sample: Any, answer: Any, *, raw: str | None = None) -> Prediction:
    def asked() -> str:
        return json.dumps(task.input_row(sample), ensure_ascii=False)

    try:
        node = masked(plain(answer), asked)
        raw = raw or _as_text(node)
    except (ValueError, RecursionError) as error:
        return _failed(task, sample, "invalid", str(error), raw=raw)
    about = node.pop("benchmark_id", None) if isinstance(node, dict) else None
    if about is not None and str(about) != sample.benchmark_id:
        return _failed(task, sample, "invalid", f"answered for '{about}' instead", raw=raw)
    return understood(task, sample.benchmark_id, node, raw=raw, asked=asked)


def _failed(
    task: Task, sample: Any, outcome: Outcome, error: str, *, raw: str | None = None
) -> Prediction:
    row = {"benchmark_id": sample.benchmark_id, "track": task.track, "raw": raw}
    return Prediction(**row, outcome=outcome, error=one_line(error))


def _as_text(node: Any) -> str:
    try:
        return json.dumps(node, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(node)


def system_of(path: str, place: Place) -> PythonSystem:
    """Return an object of the class `MODULE:CLASS`."""
    return PythonSystem(path, timeout=place.timeout, tracebacks=place.tracebacks)
