"""Event loops that a signal cancels, or apart from one that runs already, and tasks in them."""

import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

# How to cancel what a thread runs, by the number of the thread.
_cancels: dict[int, Callable[[], object]] = {}
# Threads of `run_apart` and `run_beside` whose work has not ended.
_working: set[int] = set()
# Those of them that were stopped, maybe before their loop began.
_stopped: set[int] = set()
_changing = threading.Lock()


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end, as `asyncio.run` does.

    Raises:
        KeyboardInterrupt: If it was ended by `cancel_loop`.
    """
    # `asyncio.run` cancels its task at Ctrl-C, but not where Ctrl-C is ignored. An exception raised
    # in the handler of a signal would then hit any line: in the start of a thread, for one, of
    # which nobody knows at exit, so that it is waited for without end.
    import asyncio  # here: most commands need none

    mine = threading.get_ident()
    cancelled: list[bool] = []
    started: list[asyncio.Task[Any]] = []
    results: list[T] = []

    # Not what the task returns: asyncio asks a task that is done for its repr, with its result.
    async def cancellable() -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        started.append(task)

        def cancel() -> None:
            cancelled.append(True)
            loop.call_soon_threadsafe(task.cancel)

        _cancels[mine] = cancel
        if mine in _stopped:
            cancel()
        try:
            results.append(await main)
        finally:
            del _cancels[mine]

    try:
        asyncio.run(cancellable())
        return results[0]
    except asyncio.CancelledError:
        if not cancelled:
            raise
        raise KeyboardInterrupt from None
    except KeyboardInterrupt:
        # A second Ctrl-C is raised within the task: asyncio would print its traceback at exit,
        # as of an exception that nobody looked at.
        for task in started:
            if task.done() and not task.cancelled():
                task.exception()
        raise


def cancel_loop(thread: int | None = None) -> bool:
    """Cancel what `run_loop` runs in a thread, by default this one; return whether anything was.

    The handler of a signal may call it.
    """
    cancel = _cancels.get(threading.get_ident() if thread is None else thread)
    if cancel is not None:
        cancel()
    return cancel is not None


def run_apart(work: Callable[[], T]) -> T:
    """Call `work` in a thread of its own, and wait for it: this thread's loop is running already.

    Where the wait is interrupted, as by the stop button of a notebook, `work` is ended.
    """
    future, thread = _started(work)
    try:
        return future.result()
    except BaseException:
        _stop(thread)
        raise
    finally:
        thread.join()


async def run_beside(work: Callable[[], T]) -> T:
    """Call `work` in a thread of its own, and await it; to cancel this ends `work`."""
    import asyncio

    future, thread = _started(work)
    try:
        return await asyncio.wrap_future(future)
    except BaseException:
        _stop(thread)
        raise
    finally:
        await asyncio.to_thread(thread.join)


@asynccontextmanager
async def stopping_together(coroutines: Iterator[Any]) -> "AsyncIterator[list[asyncio.Task[Any]]]":
    """Run workers as tasks; when one fails, or the run is interrupted, end the others first."""
    import asyncio

    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        # Waited for: what is under way may still write, and the journals are closed next.
        await asyncio.gather(*tasks, return_exceptions=True)


def _started(work: Callable[[], T]) -> tuple[Future[T], threading.Thread]:
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # or whoever awaits it could cancel it before its end

    def run() -> None:
        mine = threading.get_ident()
        with _changing:
            _working.add(mine)
        try:
            future.set_result(work())
        except BaseException as error:  # whatever it is, whoever waits gets it
            future.set_exception(error)
        finally:
            with _changing:  # the number of a thread is given to another one after its end
                _working.discard(mine)
                _stopped.discard(mine)

    thread = threading.Thread(target=run, name="alps")
    thread.start()
    return future, thread


def _stop(thread: threading.Thread) -> None:
    with _changing:
        working = thread.ident in _working
        if working and thread.ident is not None:
            _stopped.add(thread.ident)
    if working:
        cancel_loop(thread.ident)
