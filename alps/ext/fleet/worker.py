"""A process that carries out one shard for its parent, and ends when its parent does.

It is told what on a line of its input and answers with a line. What it runs prints to stderr alone.
Nothing heavy is imported with this module: the workers of a cluster, who start such a process for a
task, are somebody's.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alps.run.source import RunData
    from alps.settings import RunSettings

Row = dict[str, Any]

ENTRY = ("-P", "-m", "alps.ext.fleet.worker")
"""What Python is started with for a worker; -P: no file of the working folder is a library."""
LONGEST = 1 << 20
"""Bytes; no answer holds more than an error."""

# Seconds for which a shard waits for the worker that had it, which may still be ending
_IN_USE, _LOOK_AGAIN = 120.0, 0.5
# Seconds that a run has to end in; what it holds is on disk at any time
_ENDING = 5.0
# Seconds after which a process that does not end is killed
_LONGEST_END = 10.0


def as_line(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line of JSON."""
    return json.dumps(message).encode() + b"\n"


def main() -> None:
    """Carry out the shard, and end when the input does."""
    from alps.event_loop import cancel_loop

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
    # Interrupted by the end of the input alone: signals are for the parent.
    with suppress(KeyboardInterrupt):
        if order is not None:
            answers.write(as_line(_answer_to(order)))
            answers.flush()
        waiting.join()


def _answer_to(order: Mapping[str, Any]) -> dict[str, str]:
    """Carry out a shard; return nothing, or the error that the user can mend."""
    from functools import partial

    from alps.errors import AlpsError, FolderInUseError
    from alps.llm.limiter import TURN
    from alps.run.session import resolve
    from alps.run.source import open_data
    from alps.run.start import carry_out
    from alps.settings import RunSettings, parse_settings

    TURN.set(tuple(order["turn"]))
    os.environ["ALPS_PROGRESS"] = "off"  # the parent shows how all shards go on
    patience = time.monotonic() + _IN_USE
    known = order.get("data")
    opening = open_data if known is None else partial(_open_known, description=known)
    try:
        session = resolve(parse_settings(order["settings"], RunSettings), opening=opening)
        while True:
            try:
                carry_out(session)
                return {}
            except FolderInUseError:
                if time.monotonic() >= patience:
                    raise
                time.sleep(_LOOK_AGAIN)
    except AlpsError as error:
        return {"error": type(error).__name__, "message": str(error)}


def _open_known(settings: "RunSettings", description: Row) -> "RunData":
    """Find data that the parent has just read; they are not read again.

    Args:
        settings: Those of the run.
        description: What the parent found.

    Raises:
        UsageError: If they are not there any more.
    """
    from alps.run.source import RunData, find_track, opened_layout, options_of
    from alps.tasks import load_tracks

    tasks = {task.track: task for task in load_tracks(settings.task, options_of(settings))}
    split, source = opened_layout(settings, list(tasks.values()))
    tracks = []
    for name, known in description["tracks"].items():
        track = find_track(settings, tasks[name], split, source)
        tracks.append(replace(track, known=known))
    return RunData(tuple(tracks), description)


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
        why = f"{folder}: {error.strerror} on {host}; all workers must share this folder"
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
        worker.wait(_LONGEST_END)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


if __name__ == "__main__":
    main()
