"""A Python class as the system under test: `predict(sample)`, plain or async."""

import asyncio
import inspect
import json
import queue
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from alps.errors import UsageError, closest
from alps.ext.adapters.asking import anonymous, understood
from alps.llm.secrets import masked, redact
from alps.own_code import import_own
from alps.schema import Outcome, Prediction
from alps.systems.base import Place, System, Tracebacks, described, one_line
from alps.tasks import Task


def instantiate(path: str, key: str, methods: tuple[str, ...]) -> Any:
    """Import and make `package.module:Class`; the working directory is searched, too.

    Args:
        path: What names it.
        key: The setting that does, as messages say it.
        methods: What it must have.

    Raises:
        UsageError: If the module, the class or a method is missing, or one of them raises.
    """
    module_name, _, class_name = path.partition(":")
    if not module_name or not class_name:
        raise UsageError(f"{key}: expected python:package.module:Class")
    module = _import(module_name, key)
    made = attribute(module, class_name, key)
    if not callable(made):
        classes = [name for name, value in vars(module).items() if inspect.isclass(value)]
        hint = closest(class_name, classes)
        raise UsageError(f"{key}: no class '{class_name}' in {module_name}{hint}")
    instance, error = end_of(made)
    if error is not None:
        hint = "; alps calls it without arguments" if isinstance(error, TypeError) else ""
        raise UsageError(f"{key}: {class_name}() raised {described(error)}{hint}") from error
    for method in methods:
        if not callable(attribute(instance, method, key)):
            hint = closest(method, _public(instance))
            if type(instance).__module__ == "builtins":  # a function that returns a text, say
                hint = f" (calling it returned an object of type {type(instance).__name__})"
            raise UsageError(f"{key}: {class_name} has no method '{method}'{hint}")
    return instance


def attribute(owner: Any, name: str, key: str, read: Callable[[Any], Any] | None = None) -> Any:
    """Return an attribute of a module, or an object, of the user's; None where there is none.

    Args:
        owner: The module, or the object.
        name: The attribute.
        key: The setting that names it, as messages say it.
        read: What is made of the value; the value itself if None.

    Raises:
        UsageError: If looking at it raises: a property or a `__getattr__` may do anything.
    """

    def look() -> Any:
        value = getattr(owner, name, None)
        return value if read is None else read(value)

    value, error = end_of(look)
    if isinstance(error, KeyboardInterrupt | UsageError):
        raise error
    if error is not None:
        raise UsageError(f"{key}: its '{name}' raised {described(error)}") from error
    return value


def _public(instance: Any) -> list[str]:
    names, error = end_of(lambda: [name for name in dir(instance) if not name.startswith("_")])
    return [] if error is not None else names


def _import(name: str, key: str) -> ModuleType:
    if "/" in name or Path(name).is_file():
        module = Path(name).stem
        instead = f"name the module, {module}, and run alps in its folder"
        raise UsageError(f"{key}: {name} is a path; {instead}")
    try:
        return import_own(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            raise UsageError(f"{key}: no module '{missing}'") from error
        raise UsageError(f"{key}: importing {name} raised {described(error)}") from error


def declared_settings(instance: Any, key: str) -> dict[str, Any]:
    """Return the object's `settings` as plain JSON; they are hashed into the manifest.

    Raises:
        UsageError: If they are none.
    """

    def read(declared: Any) -> dict[str, Any]:
        given = declared or {}
        if not isinstance(given, Mapping):
            raise UsageError(f"{key}: its settings must be a dict, got {type(given).__name__}")
        return dict(given)

    declared = attribute(instance, "settings", key, read)
    try:
        as_json = json.loads(json.dumps(declared, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{key}: its settings must be plain JSON ({error})") from error
    redacted: dict[str, Any] = plain(as_json, redact)
    return redacted


def plain(node: Any, change: Callable[[str], str] = str) -> Any:
    """Turn models, mappings and sequences, however deep, into what JSON has; `change` its texts."""
    if isinstance(node, BaseModel):
        node = node.model_dump()
    if isinstance(node, Mapping):
        return {str(name): plain(value, change) for name, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [plain(value, change) for value in node]
    return change(node) if isinstance(node, str) else node


Call = Callable[[], Any]
Ended = tuple[Any, BaseException | None]
"""What a call returned, or what it raised."""


class Caller:
    """Calls functions: plain ones in one thread, one after the other, async ones on the loop."""

    def __init__(self) -> None:
        self._worker = _Worker()

    async def call(self, function: Call, timeout: float, *, in_thread: bool) -> Ended | None:
        """Call `function`; return how it ended, None where it did not in `timeout` seconds."""
        call = asyncio.ensure_future(self._ended(function, in_thread))
        try:
            await asyncio.wait({call}, timeout=timeout)
            if call.done():
                return call.result()
            if in_thread:
                # nothing can stop a thread: this one ends when its call does, another goes on
                self.stop()
                self._worker = _Worker()
            return None
        finally:
            call.cancel()

    def stop(self) -> None:
        """Let the thread end once it has made its calls."""
        self._worker.stop()

    async def _ended(self, function: Call, in_thread: bool) -> Ended:
        result, error = await self._worker.call(function) if in_thread else end_of(function)
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
            threading.Thread(target=self._work, name="alps user code", daemon=True).start()
        future: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._calls.put((function, future))
        return future

    def stop(self) -> None:
        self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            function, future = item
            ended = end_of(function)
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                future.get_loop().call_soon_threadsafe(_deliver, future, ended)


def _deliver(future: asyncio.Future[Ended], ended: Ended) -> None:
    if not future.done():
        future.set_result(ended)


def end_of(function: Call) -> Ended:
    """Call `function`; return what it returned or raised, `sys.exit()` included."""
    try:
        return function(), None
    except BaseException as error:  # sys.exit() in the user's code must not end the run
        return None, error


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
        return _failed(task, sample, "empty", "the class returned None")
    if not isinstance(result, Prediction):
        return _read(task, sample, result)
    if result.benchmark_id != sample.benchmark_id:
        wrong = f"the class answered record '{result.benchmark_id}' instead"
        return _failed(task, sample, "invalid", wrong)
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
        wrong = f"the class answered record '{about}' instead"
        return _failed(task, sample, "invalid", wrong, raw=raw)
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


def system_of(path: str, place: Place) -> System:
    """Return an object of the class `MODULE:CLASS`."""
    system = PythonSystem(path, timeout=place.timeout, tracebacks=place.tracebacks)
    return anonymous(system, place)
