"""A task of a cluster: one shard, carried out by a process beside the worker of the cluster.

Nothing heavy is imported: the workers of a cluster are somebody's, and the shard is in a process of
its own, which ends with its worker.
"""

import json
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from alps.ext.fleet.lines import ENTRY, as_line

_PATIENCE = 10.0


def carry_out_shard(order: Mapping[str, Any], folder: str) -> dict[str, str]:
    """Carry out a shard in a folder that all workers share; return what its process answers.

    An answer names the host. It has no `done` where the process did not live to give one.
    """
    host = socket.gethostname()
    try:
        worker = subprocess.Popen(
            [sys.executable, *ENTRY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
        )
    except OSError as error:
        why = f"{folder}: {error.strerror} on {host}; the workers must share it"
        return {"error": "RunFolderError", "message": why}
    assert worker.stdin is not None
    assert worker.stdout is not None
    with worker.stdout:
        try:
            worker.stdin.write(as_line(order))
            worker.stdin.flush()
            answer: dict[str, str] | None = json.loads(worker.stdout.readline() or b"null")
        except BrokenPipeError:
            answer = None
        finally:
            _end(worker)
    return {"host": host} if answer is None else {"host": host, "done": "yes", **answer}


def _end(worker: "subprocess.Popen[bytes]") -> None:
    assert worker.stdin is not None
    with suppress(BrokenPipeError):
        worker.stdin.close()
    try:
        worker.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
