"""The parent of warm processes: imports the package and its libraries, and forks commands.

It is started as `python -P tests/warm_parent.py LISTENER`, and knows nothing of the tests. With
`light` after it, it imports the package alone.
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
import sys
import threading
import warnings
from contextlib import suppress
from typing import Any

LIBRARIES = (
    "numpy",
    "scipy.stats",
    "sklearn.feature_extraction.text",
    "pydantic",
    "litellm",
    "instructor",
    "instructor.core.exceptions",
    "instructor.v2.providers.litellm.client",
    "instructor.v2.providers.openai.handlers",
    "openai.resources",
    "openai.resources.admin",
    "openai.resources.beta",
    # What a first call would import, in every child anew.
    "anyio._backends._asyncio",
    "httpcore",
    "platformdirs",
    "litellm.llms.openai.chat.gpt_audio_transformation",
    "litellm.llms.litellm_proxy.chat.transformation",
    "litellm.llms.openai_like.dynamic_config",
    "litellm.llms.vertex_ai.vertex_ai_partner_models.anthropic.transformation",
    "litellm.proxy.openai_files_endpoints.common_utils",
    "litellm._service_logger",
)
_NUMBER = struct.Struct("=i")
_MOST = 1 << 17


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


_SLOW = ".inspect_logs"
"""The library of Inspect takes 4 s to import, and few commands need it."""


def import_all(*libraries: str) -> None:
    """Import the package, and what a run with a model imports of others in the way it does it."""
    package = importlib.import_module("alps")
    importlib.import_module("alps.errors")
    own = [module.name for module in pkgutil.walk_packages(package.__path__, "alps.")]
    for name in (*libraries, *own):
        if name == "alps.__main__" or name.endswith(_SLOW):
            continue
        # In another version, or without an extra: the child will import what it needs
        with suppress(ModuleNotFoundError, package.errors.AlpsError):
            importlib.import_module(name)
    _prepare()
    if "huggingface_hub" in sys.modules:
        raise RuntimeError("a child's HF_ variables would come too late: see tests/warm.py")
    gc.collect()
    gc.freeze()


def _prepare() -> None:
    """Build the models of the package and look up versions: a sixth of a command each."""
    importlib.import_module("alps.run.folder").library_versions()
    found = [importlib.import_module("pydantic").BaseModel]
    for model in found:
        found += model.__subclasses__()
    for model in found:
        if model.__module__.startswith("alps.") and not model.__pydantic_complete__:
            model.model_rebuild()


def be_parent(number: int, *, light: bool) -> None:
    """Be a parent until stdin ends, or a child from its fork on."""
    listener = socket.socket(fileno=number)
    atexit.register(_end_early)  # before all others: the last to run
    import_all(*([] if light else LIBRARIES))
    # The allocator of pyarrow, which scikit-learn brings, has a thread that minds forks by itself.
    warnings.filterwarnings("ignore", ".*is multi-threaded", DeprecationWarning)
    asked = Parent(listener).serve()
    if asked is None:
        shutil.rmtree(os.getcwd(), ignore_errors=True)
    else:
        become(asked)


if __name__ == "__main__":
    be_parent(int(sys.argv[1]), light="light" in sys.argv[2:])
