"""The engine of one machine: shards in processes, each with an interpreter of its own."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from alps.ext.fleet.lines import ENTRY, LONGEST, as_line
from alps.ext.fleet.owner import owner_of
from alps.ext.fleet.shards import Divided, Endings, raise_error_of, watched
from alps.run.collector import stopping_together

# Seconds that a worker has to end in before it is killed
_PATIENCE = 10.0


async def carry_out(run: Divided) -> None:
    """Carry out what is left of the shards of a run, as many at once as it has workers.

    Raises:
        AlpsError: If one fails; the others are ended.
    """
    left, endings, known = iter(run.left()), Endings(run), run.data.description

    async def work(owner: Mapping[str, Any]) -> None:
        # One stream for all: who gets the short ones takes more of them.
        for number in left:
            # Read once, here: to draw every pool again took each shard longer than its own part.
            order = {"settings": run.settings_of(number), "owner": owner, "data": known}
            while not await _is_carried_out(order):
                endings.add(number, "its process ended")

    with watched(run) as heard:
        async with owner_of(run, heard).serving("127.0.0.1") as owner:
            working = (work(owner) for _ in range(min(run.workers, run.count)))
            async with stopping_together(working) as workers:
                # Not gathered: where this is cancelled each worker is cancelled once, and has time
                # to wait for its process.
                for ended in asyncio.as_completed(workers):
                    await ended


async def _is_carried_out(order: Mapping[str, Any]) -> bool:
    """Carry out a shard; tell whether its process lived to say so."""
    async with _worker() as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(as_line(order))
        answer = await worker.stdout.readline()
    if not answer:
        return False
    raise_error_of(json.loads(answer))
    return True


@asynccontextmanager
async def _worker() -> AsyncIterator[Process]:
    """Start a worker, and end it on leaving."""
    # In a session of its own: Ctrl-C is for the parent, which then ends its workers.
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, *ENTRY),
        stdin=PIPE,
        stdout=PIPE,
        start_new_session=True,
        limit=LONGEST,
    )
    try:
        yield worker
    finally:
        assert worker.stdin is not None
        worker.stdin.close()
        try:
            await asyncio.wait_for(worker.wait(), _PATIENCE)
        except TimeoutError:
            worker.kill()
            await worker.wait()
