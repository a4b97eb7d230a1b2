"""A Python class as the system under test: `predict(sample)`, plain or async."""

import asyncio
import importlib
import inspect
import json
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from alps.errors import UsageError, closest
from alps.llm.secrets import masked, redact
from alps.schema import Outcome, Prediction
from alps.systems.base import Tracebacks, described, one_line, understood
from alps.tasks import Task

# Seconds; a class that hangs in `close` must not keep a finished run from ending
_CLOSING_TIME = 10.0

Call = Callable[[], Any]
Ended = tuple[Any, BaseException | None]
"""What a call returned, or what it raised."""


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

    _worker: "_Worker"

    def __init__(
        self, path: str, *, timeout: float, in_flight: int = 16, tracebacks: Path | None = None
    ) -> None:
        self.name = f"python:{path}"
        key = f"model={self.name}"
        self._object = _instantiate(path, key)
        declared = _declared_settings(self._object, key)
        self.settings: Mapping[str, Any] = {"class": path, "timeout": timeout, **declared}
        self._timeout, self._tracebacks = timeout, Tracebacks(tracebacks)
        self._in_thread = not inspect.iscoroutinefunction(self._object.predict)
        self._width = 1 if self._in_thread else in_flight
        self._renew()

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Ask the object what `task` asks about `sample`."""
        shown = task.for_class(sample)
        async with self._turns:
            ended = await self._call(
                lambda: self._object.predict(shown), self._in_thread, self._timeout
            )
            if ended is None and self._in_thread:
                # nothing can stop a thread: this one ends when its call does, another goes on
                self._worker.stop()
                self._worker = _Worker()
        if ended is None:
            return _failed(task, sample, "empty", f"no answer within {self._timeout:g} s")
        result, error = ended
        if error is not None:
            self._tracebacks.keep(error, about=f"{task.track}, {sample.benchmark_id}")
            return _failed(task, sample, "invalid", f"raised {described(error)}")
        return _understood(task, sample, result)

    async def aclose(self) -> None:
        """Call the object's `aclose` or `close`, if any; what it raises changes no result."""
        close = getattr(self._object, "aclose", None) or getattr(self._object, "close", None)
        if callable(close):
            await self._call(close, not inspect.iscoroutinefunction(close), _CLOSING_TIME)
        self._worker.stop()
        self._renew()

    def _renew(self) -> None:
        """Begin anew: a semaphore belongs to the event loop that first waited for it."""
        self._turns = asyncio.Semaphore(self._width)
        self._worker = _Worker()

    async def _call(self, function: Call, in_thread: bool, timeout: float) -> Ended | None:
        """Call `function`; return how it ended, None where it did not in time."""
        call = asyncio.ensure_future(self._ended(function, in_thread))
        try:
            await asyncio.wait({call}, timeout=timeout)
            return call.result() if call.done() else None
        finally:
            call.cancel()

    async def _ended(self, function: Call, in_thread: bool) -> Ended:
        result, error = await self._worker.call(function) if in_thread else _end_of(function)
        if not inspect.isawaitable(result):
            return result, error
        try:
            return await result, None
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            task = asyncio.current_task()
            cancelled = isinstance(raised, asyncio.CancelledError)
            if cancelled and task is not None and task.cancelling():  # by us, not by the user
                raise
            return None, raised


class _Worker:
    """A daemon thread that makes one call after the other.

    A call that never ends does not keep the run from ending, as one of a pool of threads would.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Call, asyncio.Future[Ended]] | None]
        self._calls = queue.SimpleQueue()
        self._started = False

    def call(self, function: Call) -> asyncio.Future[Ended]:
        if not self._started:
            self._started = True
            threading.Thread(target=self._work, name="alps python system", daemon=True).start()
        future: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._calls.put((function, future))
        return future

    def stop(self) -> None:
        self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            function, future = item
            ended = _end_of(function)
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                future.get_loop().call_soon_threadsafe(_deliver, future, ended)


def _deliver(future: asyncio.Future[Ended], ended: Ended) -> None:
    if not future.done():
        future.set_result(ended)


def _end_of(function: Call) -> Ended:
    try:
        return function(), None
    except BaseException as error:  # sys.exit() in the user's code must not end the run
        return None, error


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
        node = masked(_mapped(answer), asked)
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


def _instantiate(path: str, key: str) -> Any:
    module_name, _, class_name = path.partition(":")
    if not module_name or not class_name:
        raise UsageError(f"{key}: expected python:package.module:Class")
    module = _import(module_name, key)
    made = getattr(module, class_name, None)
    if not callable(made):
        classes = [name for name, value in vars(module).items() if inspect.isclass(value)]
        hint = closest(class_name, classes)
        raise UsageError(f"{key}: no class '{class_name}' in {module_name}{hint}")
    instance, error = _end_of(made)
    if error is not None:
        raise UsageError(f"{key}: {class_name}() raised {described(error)}") from error
    if not callable(getattr(instance, "predict", None)):
        hint = closest("predict", [name for name in dir(instance) if not name.startswith("_")])
        if type(instance).__module__ == "builtins":  # a function that returns a text, say
            hint = f" (it gives a {type(instance).__name__})"
        raise UsageError(f"{key}: {class_name} has no method 'predict'{hint}")
    return instance


def _import(name: str, key: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last: a file of the user's must not stand in for a library
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            raise UsageError(f"{key}: no module '{missing}'") from error
        raise UsageError(f"{key}: importing {name} raised {described(error)}") from error


def _declared_settings(instance: Any, key: str) -> dict[str, Any]:
    """Return the object's `settings` as plain JSON; they are hashed into the manifest."""
    declared = getattr(instance, "settings", None) or {}
    if not isinstance(declared, Mapping):
        raise UsageError(f"{key}: its settings must be a dict, got {type(declared).__name__}")
    try:
        plain = json.loads(json.dumps(dict(declared), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{key}: its settings must be plain JSON ({error})") from error
    redacted: dict[str, Any] = _mapped(plain, redact)
    return redacted


def _mapped(node: Any, change: Callable[[str], str] = str) -> Any:
    """Turn models, mappings and sequences, however deep, into what JSON has; `change` its texts."""
    if isinstance(node, BaseModel):
        node = node.model_dump()
    if isinstance(node, Mapping):
        return {str(name): _mapped(value, change) for name, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [_mapped(value, change) for value in node]
    return change(node) if isinstance(node, str) else node


def _as_text(node: Any) -> str:
    try:
        return json.dumps(node, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(node)
