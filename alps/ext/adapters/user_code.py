"""Calls of the user's own code: each ends in time, and what it raises ends no run."""

import asyncio
import inspect
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

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
