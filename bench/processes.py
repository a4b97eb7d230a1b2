"""Processes that are weighed one by one.

Seconds of the clock and of the processor, and their own peak memory.

Import nothing heavy before `taken`: what a process has loaded when it starts another is counted as
memory of that one.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Taken(NamedTuple):
    """What a process took.

    Attributes:
        code: Its exit code.
        seconds: Of the clock.
        computing: Seconds of the processor, its own and the system's for it.
        megabytes: Its peak memory.
        said: Its output.
        complained: Its error stream.
    """

    code: int
    seconds: float
    computing: float
    megabytes: float
    said: str
    complained: str


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return an environment without anybody's keys, whose cache and data lie in `folder`."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    own = {"ALPS_CACHE": str(folder / "cache"), "XDG_DATA_HOME": str(folder / "share")}
    quiet = {"ALPS_PROGRESS": "off", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "COLUMNS": "80"}
    return {**kept, **own, **quiet, **more}


def taken(
    words: Sequence[str],
    folder: Path,
    *,
    program: str = sys.executable,
    codes: Sequence[int] = (0,),
    **more: str,
) -> Taken:
    """Run `program` with `words` in `folder`, away from the user's cache, data and keys.

    The program is Python unless told otherwise; `more` are variables of its environment.

    Raises:
        SystemExit: If it ends in another exit code than `codes`; names the command and shows the
            end of its errors.
    """
    given = environment(folder, **more)
    with (
        (folder / "said").open("w+", encoding="utf-8") as said,
        (folder / "complained").open("w+") as complained,
    ):
        started = time.perf_counter()
        process = subprocess.Popen(
            [program, *words], cwd=folder, env=given, stdout=said, stderr=complained
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)  # nothing is left to wait for
        said.seek(0)
        complained.seek(0)
        printed, errors = said.read(), complained.read()
    if process.returncode not in codes:
        sys.exit(f"{' '.join(words)}: exit {process.returncode}; it said:\n{errors[-1_500:]}")
    computing = used.ru_utime + used.ru_stime
    return Taken(process.returncode, seconds, computing, used.ru_maxrss / 1024, printed, errors)
