"""Commands of the tests, forked from a parent that has imported the package and its libraries.

Importing litellm and instructor takes seconds in every process, scipy.stats most of one, and the
modules of `alps` half of one; a test's command itself often takes a tenth. So the first command,
or pytest-xdist before its workers, starts a parent (tests/warm_parent.py), which imports them all
and waits. For every command it forks a child, and the child is what the test looks at. It is an
honest process:

- It has a pid, open files and locks of its own, and ends with an exit code or by a signal; a test
  can interrupt it or kill it. Nothing is replaced: it talks HTTP with the same litellm, through the
  same sockets, as any other.
- The parent imports, builds models of pydantic and looks up versions. The child runs
  `runpy.run_module("alps", run_name="__main__")`, which is what `python -m alps` does, in the
  folder, with the words and the environment of the command, on its own stdin, stdout and stderr.
- The parent makes no request, so there is neither an event loop nor a connection to inherit
  (tests/core/test_warm.py compares what a child finds with what a process of its own does), and it
  forks only while it has one Python thread. OpenBLAS ends its threads before a fork and starts them
  again after it; `random`, `ssl` and numpy get new seeds.
- The child joins its threads, runs exit handlers, collects what it no longer uses and flushes.
  It does not take apart what the parent imported, which takes longer than many a command.

What it can't show: what is imported by which command, how long a start takes, what the package and
libraries read when they are imported, what modules still hold at the very end, and another seed of
`hash` than that of the parent. Tests of those, and some of every kind of run, start
`python -m alps` (`tests.endtoend.start_cold`). So does every command where the environment differs
in something that an interpreter or a library reads at its start, every one with
`ALPS_TESTS_COLD=1`, and every one on a system other than Linux.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests import warm_client
from tests.warm_client import ask, read_number

READ_AT_START = (
    "PYTHON",
    "LC_",
    "LANG",
    "LITELLM_",
    "OPENBLAS_",
    "OMP_",
    "SSL_",
    "LD_",
    "TIKTOKEN_",
)
"""Variables that begin so are read by the interpreter or by libraries, once. Those of the hub are
not among them: the parent leaves its library to its children (tests/warm_parent.py).
"""
LOCAL = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True"}
"""What alps itself sets before litellm is imported. A worker that imported it would else start
every further command anew, its environment not being the parent's: the suite took three times as
long.
"""
CLIENT = Path(warm_client.__file__)
PARENT = CLIENT.with_name("warm_parent.py")
HARMLESS = ("PYTHONDONTWRITEBYTECODE", "TIKTOKEN_CACHE_DIR")
"""The second is set by litellm itself, whatever it was, once it counts tokens: in the tests' own
process, too.
"""


class WarmProcess:
    """A command as a child of the warm parent, with what tests use of `subprocess.Popen`."""

    def __init__(
        self, address: str, words: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.args = ["alps", *words]
        self.returncode: int | None = None
        outputs, inputs = zip(os.pipe(), os.pipe(), strict=True)
        try:
            self._line = ask(address, words, folder, environment, (0, *inputs))
        finally:
            for number in inputs:
                os.close(number)
        self.stdout, self.stderr = (os.fdopen(number, encoding="utf-8") for number in outputs)
        self._read: dict[IO[str], str] = {}
        self._readers: list[threading.Thread] = []
        self.pid = read_number(self._line)

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return the exit code, or minus the signal that ended it."""
        if self.returncode is None:
            self._line.settimeout(timeout)
            try:
                self.returncode = read_number(self._line)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._line.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both outputs to their ends and wait."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._readers:
            files = (self.stdout, self.stderr)
            self._readers = [
                threading.Thread(target=self._drain, args=(file,), daemon=True) for file in files
            ]
            for reader in self._readers:
                reader.start()
        for reader in self._readers:
            reader.join(_left(deadline))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(_left(deadline))
        return self._read[self.stdout], self._read[self.stderr]

    def _drain(self, file: IO[str]) -> None:
        with file:
            self._read[file] = file.read()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it without asking."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def variables() -> dict[str, str]:
    """Return the environment, whatever another thread sets or deletes meanwhile: pytest does so
    around every test.
    """
    found = {name: os.environ.get(name) for name in list(os.environ)}
    return {name: text for name, text in found.items() if text is not None}


class Home:
    """A parent that this process started, and the socket under which it is asked.

    `more` are variables of its environment. One that is `light` imports no client of models.
    """

    def __init__(self, *, light: bool = False, **more: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="alps-"))
        environment = {**variables(), **LOCAL, **more}
        self.place = Place(str(self.folder / "warm"), _read_at_start(environment))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.place.address)
            listener.listen(64)
            self.process = subprocess.Popen(
                [sys.executable, "-P", str(PARENT), str(listener.fileno()), *["light"] * light],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                cwd=self.folder,
                env=environment,
                pass_fds=[listener.fileno()],
            )

    def close(self) -> None:
        self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class Place:
    """Where a parent is asked, and what it read of its environment."""

    address: str
    read: dict[str, str]


SHARED = "ALPS_TESTS_WARM"
"""The variable by which the workers of pytest-xdist hear of the parent that all of them ask."""
_home: Home | None = None
_lock = threading.Lock()


def share() -> None:
    """Start a parent and let the processes that this one starts ask it."""
    if sys.platform == "linux" and SHARED not in os.environ:
        place = _own_place()
        os.environ[SHARED] = json.dumps([place.address, place.read])


def _own_place() -> Place:
    global _home  # noqa: PLW0603
    with _lock:
        if _home is None:
            _home = Home()
    return _home.place


def is_used() -> bool:
    """Tell whether commands are forked at all."""
    return sys.platform == "linux" and not os.environ.get("ALPS_TESTS_COLD")


def address_for(environment: Mapping[str, str]) -> str | None:
    """Return where the parent is asked, None where a command needs a start of its own."""
    if not is_used():
        return None
    shared = os.environ.get(SHARED)
    place = Place(*json.loads(shared)) if shared else _own_place()
    return place.address if _read_at_start(environment) == place.read else None


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: text
        for name, text in environment.items()
        if name.startswith(READ_AT_START) and name not in HARMLESS
    }


def stop() -> None:
    """End the parent that this process started, if any."""
    global _home  # noqa: PLW0603
    if _home is not None:
        _home.close()
        _home = None
