"""A process that carries out one shard for its parent, and ends when its parent does.

It is told what on a line of its input and answers with a line. What it runs prints to stderr alone.
"""

import asyncio
import json
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from alps.errors import AlpsError, FolderInUseError
from alps.event_loop import cancel_loop, run_loop
from alps.ext.fleet.leased import (
    LOOPBACK,
    Connection,
    Leased,
    LeasedBudget,
    OwnerLostError,
    connected,
)
from alps.ext.fleet.lines import as_line
from alps.folders import kept_working_folder
from alps.parsing import parse_settings
from alps.run.services import opens_models
from alps.run.session import Session, resolve
from alps.run.shared import open_cache
from alps.run.start import run_beside_others
from alps.settings import RunSettings

# Seconds for which a shard waits for the worker that had it, which may still be ending
_IN_USE, _LOOK_AGAIN = 120.0, 0.5
# Seconds that a run has to end in; what it holds is on disk at any time
_ENDING = 5.0


def main() -> None:
    """Carry out the shard, and end when the input does."""
    # Code of the user's may print, and read: neither may come between the lines.
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    order = json.loads(asked.readline() or "null")
    main_thread = threading.get_ident()

    def wait_for_the_end() -> None:
        asked.read()
        # Nobody waits any more: the parent has the answer, or is gone.
        if cancel_loop(main_thread):
            time.sleep(_ENDING)
        os._exit(0)

    waiting = threading.Thread(target=wait_for_the_end, daemon=True)
    waiting.start()
    # Interrupted by the end of the input alone: signals are for the parent. Without an answer the
    # parent gives the shard to another worker.
    with suppress(KeyboardInterrupt, OwnerLostError):
        if order is not None:
            answers.write(as_line(_answer_to(order)))
            answers.flush()
        waiting.join()


def _answer_to(order: Mapping[str, Any]) -> dict[str, str]:
    """Carry out a shard; return nothing, or the error that the user can mend."""
    patience = time.monotonic() + _IN_USE
    try:
        session = resolve(parse_settings(order["settings"], RunSettings), known=order.get("data"))
        while True:
            try:
                with kept_working_folder():
                    run_loop(_carried_out(session, order["owner"]))
                return {}
            except FolderInUseError:
                if time.monotonic() >= patience:
                    raise
                time.sleep(_LOOK_AGAIN)
    except AlpsError as error:
        return {"error": type(error).__name__, "message": str(error)}


async def _carried_out(session: Session, address: Mapping[str, Any]) -> None:
    """Carry out a shard on what all workers share, for as long as its owner is there.

    Raises:
        OwnerLostError: If the owner is lost; what was answered is on disk.
    """
    async with connected(address, str(session.settings.shard)) as owner:
        shared = _shared(session, owner, here=address["host"] in LOOPBACK)
        running = asyncio.ensure_future(run_beside_others(session, shared, owner.watched))
        try:
            either: set[asyncio.Future[Any]] = {running, owner.lost}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise OwnerLostError(f"{address['host']}:{address['port']}")
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await shared.aclose()


def _shared(session: Session, owner: Connection, *, here: bool) -> Leased:
    settings = session.settings
    if not opens_models(settings, session.data.tasks, session.parts):
        return Leased(owner=owner, here=here)
    from alps.llm.structured import Ladder

    capped = settings.max_cost is not None or settings.max_total_tokens is not None
    budget = LeasedBudget(owner) if capped else None
    return Leased(open_cache(), budget, Ladder(), owner=owner, here=here)


if __name__ == "__main__":
    main()
