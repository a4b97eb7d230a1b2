"""The engine that `engine=` names: processes of this machine, or the workers of a cluster."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from alps.event_loop import run_loop
from alps.ext.fleet import HERE
from alps.ext.fleet.part import Part
from alps.ext.fleet.settings import FleetKeys
from alps.ext.fleet.shards import Divided, Endings, divide, merged, raise_error_of, watched
from alps.ext.fleet.worker import ENTRY, LONGEST, as_line
from alps.run.collector import stopping_together
from alps.run.finished import Finished
from alps.run.opened import SUMMARY
from alps.run.session import run_folder
from alps.run.start import run_here
from alps.settings import RunSettings

# Seconds that a worker has to end in before it is killed
_PATIENCE = 10.0


def run(settings: RunSettings) -> Finished:
    """Run or resume a run with the engine that it names.

    A run that is finished already goes on in this process: there is little left to ask.

    Raises:
        AlpsError: If the settings, the data or the folder can't be used, or a shard fails.
    """
    keys, finished = FleetKeys.of(settings), (run_folder(settings) / SUMMARY).exists()
    if keys.engine == HERE or (finished and not settings.fresh):
        return run_here(settings)
    # Refused here, too: the workers of a cluster are counted before the run is resolved.
    Part(settings).refuse()
    if keys.engine == "processes":
        divided, carry_out = divide(settings), carry_out_in_processes
    else:
        from alps.ext.fleet.cluster import carry_out_on_cluster, count_workers

        # The keys are those of the workers: here there may be none.
        workers = keys.workers or run_loop(count_workers(str(keys.scheduler)))
        divided, carry_out = divide(settings, workers=workers, keys=False), carry_out_on_cluster
    with divided.held():
        if divided.left():
            run_loop(carry_out(divided))
        return merged(divided)


async def carry_out_in_processes(run: Divided) -> None:
    """Run the unfinished shards, each in a process of its own.

    Raises:
        AlpsError: If one fails; the others are ended.
    """
    left, endings, known = iter(run.left()), Endings(run), run.data.description

    async def work(turn: int, workers: int) -> None:
        # One stream for all: who gets the short ones takes more of them.
        for number in left:
            # Read once, here: to draw every pool again took each shard longer than its own part.
            order = {"settings": run.settings_of(number), "data": known, "turn": [turn, workers]}
            while not await _is_carried_out(order):
                endings.add(number, "its process ended")

    async with watched(run):
        most = min(run.workers, run.count)
        working = (work(turn, most) for turn in range(most))
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
        ending = asyncio.ensure_future(_ended(worker))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            # Another shard may fail while this one's process ends: left alone, it would outlive
            # the loop, which then complains on the screen.
            await ending
            raise


async def _ended(worker: Process) -> None:
    """Wait until a worker has ended by itself; kill it where that takes long."""
    assert worker.stdin is not None
    worker.stdin.close()
    try:
        await asyncio.wait_for(worker.wait(), _PATIENCE)
    except TimeoutError:
        worker.kill()
        await worker.wait()
