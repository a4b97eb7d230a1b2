"""Commands of the tests, forked from a parent that has imported the package and its libraries.

Importing litellm and instructor takes seconds in every process, scipy.stats most of one, and the
modules of `alps` half of one; a test's command itself often takes a tenth. So the first command,
or pytest-xdist before its workers, starts a parent (`python -P tests/warm.py parent SOCKET`), which
imports them all and waits. For every command it forks a child, and the child is what the test looks
at. It is an honest process:

- It has a pid, open files and locks of its own, and ends with an exit code or by a signal; a test
  can interrupt it or kill it. Nothing is replaced: it talks HTTP with the same litellm, through the
  same sockets, as any other.
- The parent imports and calls nothing. The child runs
  `runpy.run_module("alps", run_name="__main__")`, which is what `python -m alps` does, in the
  folder, with the words and the environment of the command, on its own stdin, stdout and stderr.
- The parent makes no request, so there is neither an event loop nor a connection to inherit
  (tests/test_warm.py compares what a child finds with what a process of its own does), and it forks
  only while it has one Python thread. OpenBLAS ends its threads before a fork and starts them again
  after it; `random`, `ssl` and numpy get new seeds.
- The child joins its threads, runs exit handlers, collects what it no longer uses and flushes.
  It does not take apart what the parent imported, which takes longer than many a command.

What it can't show: what is imported by which command, how long a start takes, what the package and
libraries read when they are imported, what modules still hold at the very end, and another seed of
`hash` than that of the parent. Tests of those, and some of every kind of run, start
`python -m alps` (`tests.endtoend.start_cold`). So does every command where the environment differs
in something that an interpreter or a library reads at its start, every one with
`ALPS_TESTS_COLD=1`, and every one on a system other than Linux.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

READ_AT_START = (
    "PYTHON",
    "LC_",
    "LANG",
    "LITELLM_",
    "OPENBLAS_",
    "OMP_",
    "HF_",
    "SSL_",
    "LD_",
    "TIKTOKEN_",
)
"""Variables that begin so are read by the interpreter or by libraries, once."""
HARMLESS = ("PYTHONDONTWRITEBYTECODE", "TIKTOKEN_CACHE_DIR")
"""The second is set by litellm itself, whatever it was, once it counts tokens: in the tests' own
process, too.
"""
LIBRARIES = (
    "numpy",
    "scipy.stats",
    "pydantic",
    "litellm",
    "instructor",
    "instructor.core.exceptions",
    "instructor.v2.providers.litellm.client",
    "instructor.v2.providers.openai.handlers",
    "openai.resources",
    "openai.resources.admin",
    "openai.resources.beta",
)
_NUMBER = struct.Struct("=i")
_MOST = 1 << 17


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
        self.pid = _number(self._line)

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
                self.returncode = _number(self._line)
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


def _number(line: socket.socket) -> int:
    found = line.recv(_NUMBER.size)
    if len(found) != _NUMBER.size:
        raise RuntimeError(
            "the warm parent is gone: its own words stand in the stderr of the tests"
        )
    return int(_NUMBER.unpack(found)[0])


def ask(
    address: str,
    words: Sequence[str],
    folder: Path | str,
    environment: Mapping[str, str],
    files: Sequence[int],
    *,
    safe_path: bool = False,
) -> socket.socket:
    """Ask the parent at `address` for a command on `files`; return the line on which pid and exit
    code come.

    The child is killed when the line is closed before its end. `safe_path` is the interpreter's
    `-P`.
    """
    asked = {
        "words": list(words),
        "folder": str(folder),
        "environment": dict(environment),
        "safe_path": safe_path,
    }
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(address)
    socket.send_fds(line, [json.dumps(asked).encode()], list(files))
    return line


def variables() -> dict[str, str]:
    """Return the environment, whatever another thread sets or deletes meanwhile: pytest does so
    around every test.
    """
    found = {name: os.environ.get(name) for name in list(os.environ)}
    return {name: text for name, text in found.items() if text is not None}


class _Home:
    """A parent that this process started, and the socket under which it is asked."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="alps-"))
        environment = {**variables(), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        self.place = Place(str(self.folder / "warm"), _read_at_start(environment))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.place.address)
            listener.listen(64)
            self.process = subprocess.Popen(
                [sys.executable, "-P", __file__, "parent", str(listener.fileno())],
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
_home: _Home | None = None
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
            _home = _Home()
    return _home.place


def address_for(environment: Mapping[str, str]) -> str | None:
    """Return where the parent is asked, None where a command needs a start of its own."""
    if sys.platform != "linux" or os.environ.get("ALPS_TESTS_COLD"):
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


class Parent:
    """The warm parent: forks a child for every request, and tells its pid and its exit code."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._children: dict[int, socket.socket] = {}
        self._asleep, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        signal.set_wakeup_fd(self._bell.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # of a terminal: the tests decide what becomes of the children
        self._waiting = selectors.DefaultSelector()
        for file in (0, self._asleep, listener):
            self._waiting.register(file, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """Serve until stdin ends; in a child, return what was asked for."""
        while True:
            for key, _ in self._waiting.select():
                if key.fileobj == 0:
                    for pid in self._children:
                        os.kill(pid, signal.SIGKILL)
                    return None
                if key.fileobj is self._asleep:
                    self._asleep.recv(1024)
                    self._reap()
                elif key.fileobj is not self._listener:
                    self._forsaken(key.data)
                elif asked := self._fork():
                    return asked

    def _fork(self) -> dict[str, Any] | None:
        line, _ = self._listener.accept()
        message, files, _, _ = socket.recv_fds(line, _MOST, 3)
        if not message:
            line.close()
            return None
        if threading.active_count() != 1:
            raise RuntimeError(f"this process must not be forked: {threading.enumerate()}")
        pid = os.fork()
        if pid == 0:
            line.close()
            self._let_go()
            for number, file in enumerate(files):
                os.dup2(file, number)
        for file in files:
            os.close(file)
        if pid == 0:
            return dict(json.loads(message))
        self._children[pid] = line
        self._waiting.register(line, selectors.EVENT_READ, pid)
        line.send(_NUMBER.pack(pid))
        return None

    def _let_go(self) -> None:
        """Give up in a child what belongs to the parent, and take signals as a new process does."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._waiting.close()
        for open_socket in (self._listener, self._asleep, self._bell, *self._children.values()):
            open_socket.close()

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            line = self._children.pop(pid)
            self._waiting.unregister(line)
            with suppress(OSError):
                line.send(_NUMBER.pack(os.waitstatus_to_exitcode(status)))
            line.close()

    def _forsaken(self, pid: int) -> None:
        """Kill a child that nobody waits for any more; it is reaped as any other."""
        if pid in self._children:
            os.kill(pid, signal.SIGKILL)


def become(asked: dict[str, Any]) -> None:
    """Run the command in this process, which a fork has just made."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    home = os.getcwd()
    os.chdir(asked["folder"])
    # litellm lets modules be imported from the folder in which it is imported itself
    sys.path[:] = [os.getcwd() if place == home else place for place in sys.path]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    importlib.invalidate_caches()
    importlib.import_module("numpy").random.seed()
    sys.argv = ["-m", *asked["words"]]
    try:
        runpy.run_module("alps", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            _codes.append(end.code or 0)
        raise


_codes: list[int] = []
"""The exit code of a child, once its command has ended with one."""


def _end_early() -> None:
    """End a child that ended with an exit code before the interpreter takes its modules apart.

    An uncaught error, Ctrl-C, or output that can't be written end it as they end any process.
    """
    if not _codes:
        return
    gc.collect()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except OSError:
        return
    os._exit(_codes[0] & 0xFF)


def import_all() -> None:
    """Import the package, and what a run with a model imports of others in the way it does it."""
    package = importlib.import_module("alps")
    own = [module.name for module in pkgutil.walk_packages(package.__path__, "alps.")]
    for name in (*LIBRARIES, *own):
        if name == "alps.__main__":
            continue
        with suppress(
            ModuleNotFoundError
        ):  # in another version: the child will import what it needs
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def be_parent(number: int) -> None:
    """Be a parent until stdin ends, or a child from its fork on."""
    listener = socket.socket(fileno=number)
    atexit.register(_end_early)  # before all others: the last to run
    import_all()
    asked = Parent(listener).serve()
    if asked is None:
        shutil.rmtree(os.getcwd(), ignore_errors=True)
    else:
        become(asked)


def run_by(address: str, *words: str) -> int:
    """Run a command as the installed `alps` does, in this folder and on these files; return what a
    shell would.
    """
    with ask(address, words, os.getcwd(), os.environ, (0, 1, 2), safe_path=True) as line:
        _number(line)
        code = _number(line)
    return code if code >= 0 else 128 - code


def main(what: str, *words: str) -> None:
    """Be the parent on a socket, or ask the one at an address."""
    if what == "parent":
        be_parent(int(words[0]))
    else:
        sys.exit(run_by(*words))


if __name__ == "__main__":
    main(*sys.argv[1:])
