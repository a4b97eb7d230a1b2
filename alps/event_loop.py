"""The event loop of a command: a signal cancels what runs in it, and breaks nothing off midway."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_cancel: list[Callable[[], object]] = []


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end, as `asyncio.run` does.

    `asyncio.run` cancels its task at Ctrl-C, but not where Ctrl-C is ignored. An exception raised
    in the handler of a signal would then hit any line: in the start of a thread, for one, of which
    nobody knows at exit, so that it is waited for without end.

    Raises:
        KeyboardInterrupt: If it was ended by `cancel_loop`.
    """
    import asyncio  # here: most commands need none

    ended: list[bool] = []

    async def watched() -> T:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()

        def cancel() -> None:
            ended.append(True)
            if task is not None:
                loop.call_soon_threadsafe(task.cancel)

        _cancel.append(cancel)
        try:
            return await main
        finally:
            _cancel.pop()

    try:
        return asyncio.run(watched())
    except asyncio.CancelledError:
        if not ended:
            raise
        raise KeyboardInterrupt from None


def cancel_loop() -> bool:
    """Cancel what `run_loop` runs, from the handler of a signal; tell whether it runs anything."""
    for cancel in _cancel[-1:]:
        cancel()
    return bool(_cancel)
