"""A child process that is spoken to in lines, and can't block, flood or outlive us.

Between it and us stands a keeper (`keeper.py`), which ends it with everything that it started, also
where we are killed. Of the environment it is given what programs need to run, and no key.
"""

import asyncio
import errno
import os
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from alps.errors import UsageError
from alps.folders import working_folder
from alps.llm.secrets import masked, redact
from alps.sizes import LARGEST_REPLY

KEEPER = str(Path(__file__).with_name("keeper.py"))
# Bounds of what is kept in memory: a program may write without end
STDERR_KEPT = 64 << 10
# Seconds for which a program may end by itself, before it is terminated
GRACE = 2.0

_SWEEPING = 6.0  # seconds; a little longer than the keeper looks for what is left
_CHUNK = 64 << 10
_SHOWN = 20_000  # bytes that are kept of a line above `LARGEST_REPLY`

Hear = Callable[[bytes, bool], None]
"""Gets a line of output, and whether it is whole: if not, it is the beginning of one."""


def split_command(command: str, key: str) -> list[str]:
    """Return the words of a command; `key` is the setting that gives it, as messages say it.

    Raises:
        UsageError: If it names no program that is there.
    """
    if os.name != "posix":
        raise UsageError(f"{key}: programs run only on Linux and macOS")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{key}: {str(error).lower()}") from error
    if not words:
        raise UsageError(f"{key}: the command is empty; name a program")
    typed = words[0]
    if shutil.which(str(working_folder() / typed) if os.sep in typed else typed) is None:
        raise UsageError(f"{key}: {words[0]}: command not found")
    return words


class LineProcess:
    """One process from start to end.

    The pipes are ours, not asyncio's: an exit is then noticed even while a child of the process
    holds them open.

    Attributes:
        stderr: The end of what it wrote there.
    """

    _stdin: asyncio.WriteTransport
    _listener: asyncio.Task[None]
    _drain: asyncio.Task[None]
    _exit: asyncio.Task[int]
    _program: int

    def __init__(self) -> None:
        self.stderr = b""
        self._stopped = False
        self._resources = ExitStack()
        self._lifeline = self._resources.enter_context(ExitStack())

    @classmethod
    async def start(
        cls,
        words: Sequence[str],
        environment: Mapping[str, str],
        hear: Hear,
        ended: Callable[[], None],
    ) -> "LineProcess":
        """Start a process in a session of its own.

        `hear` gets its lines, `ended` is called when no more can come.

        Raises:
            OSError: If it can't be started.
        """
        process = cls()
        try:
            await process._open(words, environment)
        except BaseException:
            process._resources.close()
            raise
        process._listener = asyncio.create_task(process._listen(hear))
        process._drain = asyncio.create_task(process._keep_stderr())
        process._exit = asyncio.create_task(process._process.wait())
        for task in (process._listener, process._exit):
            task.add_done_callback(lambda _: ended())
        return process

    @property
    def over(self) -> bool:
        """Whether it has exited, or closed its output."""
        return self._exit.done() or self._listener.done()

    def write(self, line: bytes) -> None:
        """Write a line without waiting for the process to read it."""
        self._stdin.write(line)

    async def end(self, *, at_once: bool) -> None:
        """Close its input, let it end, terminate, kill: nothing that it started stays behind.

        What it wrote before its end is still heard. `at_once` gives it no time to end by itself.
        """
        try:
            self._stdin.close()
            if not at_once and not await self._gone(GRACE):
                self._stopped = True
                self._tell_keeper(signal.SIGTERM)
                await self._gone(GRACE / 2)
        finally:
            self._lifeline.close()  # at this the keeper kills all of them
            try:
                if not await self._gone(_SWEEPING):
                    self._kill_group()
                    await self._gone(GRACE)
                await asyncio.wait({self._listener, self._drain}, timeout=GRACE)
            finally:
                await self._release()

    def how(self) -> str:
        """Say how it ended."""
        code = self._process.returncode
        if self._stopped:
            return "it closed its output"
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"

    def last_words(self) -> str:
        """Return the last line that it wrote to stderr, redacted; empty where there is none."""
        lines = redact(masked(self.stderr.decode(errors="replace"))).splitlines()
        return next((" ".join(line.split())[:300] for line in reversed(lines) if line.strip()), "")

    async def _open(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        with ExitStack() as theirs:
            stdin, stdin_write = os.pipe()
            theirs.callback(os.close, stdin)
            loop = asyncio.get_running_loop()
            writer = os.fdopen(stdin_write, "wb", 0)
            self._stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, writer)
            self._resources.callback(self._drop_stdin)
            self._stdout, stdout = await _output_pipe(self._resources, theirs)
            self._stderr, stderr = await _output_pipe(self._resources, theirs)
            start_status, status = await _output_pipe(self._resources, theirs)
            lifeline, ours = os.pipe()  # whose end tells the keeper that we are gone
            theirs.callback(os.close, lifeline)
            self._lifeline.callback(os.close, ours)
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", KEEPER, str(lifeline), str(status), *words),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=(lifeline, status),
                env=environment,
                cwd=working_folder(),
            )
        try:
            self._program = await _started(start_status)
        except BaseException:
            self._lifeline.close()
            await self._process.wait()
            raise

    async def _listen(self, hear: Hear) -> None:
        async for line, whole in _lines(self._stdout):
            hear(line, whole)

    async def _keep_stderr(self) -> None:
        while chunk := await self._stderr.read(_CHUNK):
            self.stderr = tail(self.stderr + chunk)

    async def _gone(self, patience: float) -> bool:
        # not self._exit: an interrupted run cancels all its tasks
        waiting = asyncio.create_task(self._process.wait())
        await asyncio.wait({waiting}, timeout=patience)
        waiting.cancel()
        return self._process.returncode is not None

    def _drop_stdin(self) -> None:
        if self._stdin.get_write_buffer_size() or not self._stdin.is_closing():
            self._stdin.abort()  # else it is closed, or about to be

    def _tell_keeper(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _kill_group(self) -> None:
        """Kill a program whose keeper does not end, as one that was stopped."""
        self._tell_keeper(signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._program, signal.SIGKILL)

    async def _release(self) -> None:
        tasks = (self._listener, self._drain, self._exit)
        for task in tasks:
            task.cancel()
        self._resources.close()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result


def tail(data: bytes) -> bytes:
    """Keep the end of `data`, from the start of a line, lest half a secret be kept."""
    if len(data) <= STDERR_KEPT:
        return data
    kept = data[-STDERR_KEPT:]
    return kept.partition(b"\n")[2] or kept[_CHUNK // 16 :]


async def _output_pipe(ours: ExitStack, theirs: ExitStack) -> tuple[asyncio.StreamReader, int]:
    """Open a pipe; return its reading end as a stream and its writing end for the child."""
    reading, writing = os.pipe()
    theirs.callback(os.close, writing)
    stream = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(stream)
    loop, pipe = asyncio.get_running_loop(), os.fdopen(reading, "rb", 0)
    transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
    ours.callback(transport.close)
    return stream, writing


async def _started(status: asyncio.StreamReader) -> int:
    """Return the process id of the program, as its keeper tells it.

    Raises:
        OSError: If it could not be started.
    """
    text = await status.read()
    number = int(text or -errno.ECHILD)
    if number < 0:
        raise OSError(-number, os.strerror(-number))
    return number


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, bool]]:
    """Yield every line, and whether it is whole."""
    line, whole = bytearray(), True
    while chunk := await stream.read(_CHUNK):
        parts = chunk.split(b"\n")
        for number, part in enumerate(parts, start=1):
            if whole:
                line += part
                if len(line) > LARGEST_REPLY:
                    del line[_SHOWN:]
                    whole = False
            if number < len(parts):
                yield bytes(line), whole
                line, whole = bytearray(), True
        await asyncio.sleep(0)  # a flood must not keep the event loop to itself
    if line:
        yield bytes(line), whole
