"""The engine of a cluster: each shard is a task of dask.distributed, and its folder is shared.

Tasks hold settings, and no key: those come from the environment of the workers. A task starts a
process of its own, which ends with the worker: the workers of a cluster are somebody's.
"""

import asyncio
import json
import os
import time
from typing import Any
from uuid import uuid4

from alps.errors import AlpsError, RunFolderError, UsageError
from alps.event_loop import stopping_together
from alps.ext.fleet.settings import FleetKeys
from alps.ext.fleet.shards import Divided, Endings, raise_error_of, watched
from alps.ext.fleet.worker import carry_out_shard
from alps.llm.secrets import redact
from alps.run.opened import SUMMARY
from alps.run.services import say_once

try:
    from distributed import Client, KilledWorker
    from distributed.client import FutureCancelledError
except ImportError as error:
    raise UsageError(f"engine=dask: {error}; run pip install 'alps-eval[dask]'") from error

# Seconds: for a connection, between two looks for a scheduler that is gone, and until a file that
# another machine wrote is seen here
_CONNECTING, _LOOK_AGAIN, _SEEN = 10.0, 1.0, 60.0


async def count_workers(scheduler: str) -> int:
    """Return how many tasks the workers of a cluster carry out at once.

    Raises:
        UsageError: If nobody answers at the address, or there is no worker.
    """
    try:
        async with _client(scheduler) as client:
            threads = await client.nthreads()
    except (OSError, ValueError) as error:
        raise UsageError(f"scheduler={scheduler}: no response ({error})") from error
    if not threads:
        raise UsageError(
            f"scheduler={scheduler}: no workers yet; set the number of workers, such as workers=8"
        )
    return sum(threads.values())


async def carry_out_on_cluster(run: Divided) -> None:
    """Run the unfinished shards of a run on a cluster.

    Where its scheduler is gone, it is looked for again until `patience` is over.

    Raises:
        AlpsError: If a shard fails; the others are ended.
    """
    _refuse_secrets(run)
    scheduler, endings = str(FleetKeys.of(run.settings).scheduler), Endings(run)
    gone_since: float | None = None
    async with watched(run):
        while left := run.left():
            try:
                async with _client(scheduler, run.settings.patience) as client:
                    if gone_since is not None:
                        waited = time.monotonic() - gone_since
                        await _wait_for_workers(client, run.settings.patience - waited)
                    gone_since = None
                    shards = (_carried_out(run, number, client, endings) for number in left)
                    async with stopping_together(shards) as tasks:
                        await asyncio.gather(*tasks)
                return  # a shard that the budget ended is left, and would end so again
            except (OSError, FutureCancelledError) as error:
                gone_since = gone_since or time.monotonic()
                if time.monotonic() - gone_since > run.settings.patience:
                    raise AlpsError(f"scheduler={scheduler}: connection lost ({error})") from error
                say_once(f"scheduler={scheduler}: connection lost, retrying (patience=)")
                await asyncio.sleep(_LOOK_AGAIN)


async def _carried_out(run: Divided, number: int, client: Any, endings: Endings) -> None:
    """Carry out a shard, however many workers are lost on the way."""
    order = {"settings": run.settings_of(number), "turn": [number % run.workers, run.workers]}
    while True:
        # A key of its own: the scheduler may still know an earlier try.
        key = f"alps-{number}-of-{run.count}-{uuid4().hex}"
        try:
            answer = await client.submit(carry_out_shard, order, os.getcwd(), key=key, pure=False)
        except KilledWorker:
            endings.add(number, "its workers stopped")
            continue
        if answer.get("error") == "FolderInUseError":
            continue  # by a worker that the scheduler has lost, and that is not ended yet
        raise_error_of(answer)
        if "done" in answer:
            return await _wait_for(run, number, answer["host"])
        endings.add(number, f"its process on {answer['host']} ended")


async def _wait_for(run: Divided, number: int, host: str) -> None:
    """Wait until the finished folder of a shard is seen here: a shared folder may lag behind.

    Raises:
        RunFolderError: If it never is.
    """
    deadline = time.monotonic() + _SEEN
    while not (run.shard(number) / SUMMARY).exists():
        if time.monotonic() >= deadline:
            raise RunFolderError(
                f"{run.shard(number)}: finished on {host} but not visible here; out= must be in "
                "a folder that all machines share"
            )
        await asyncio.sleep(_LOOK_AGAIN)


def _refuse_secrets(run: Divided) -> None:
    for name, value in run.settings_of(1).items():
        text = json.dumps(value)
        if redact(text) != text:
            raise UsageError(
                f"{name}=: the value is a secret and would pass through the scheduler; put it into "
                "the environment of the workers"
            )


async def _wait_for_workers(client: Any, seconds: float) -> None:
    """Wait until a scheduler that was gone has a worker again: they may have ended with it.

    Raises:
        OSError: If none comes in time.
    """
    deadline = time.monotonic() + seconds
    while not await client.nthreads():
        if time.monotonic() >= deadline:
            raise OSError("the scheduler was restarted, and no worker reconnected")
        await asyncio.sleep(min(_LOOK_AGAIN, max(0.0, deadline - time.monotonic())))


def _client(scheduler: str, patience: float = _CONNECTING) -> Any:
    timeout = max(_LOOK_AGAIN, min(_CONNECTING, patience))
    return Client(scheduler, asynchronous=True, timeout=timeout, set_as_default=False, name="alps")
