"""A child process that is spoken to in lines, and the rows that are under way in it.

The process can't block us, flood us, or leave anything behind. Between it and us stands a keeper
(`keeper.py`), which ends it with everything that it started, also where we are killed.
"""

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from alps.llm.secrets import masked, redact
from alps.schema import Prediction
from alps.tasks import Task

KEEPER = str(Path(__file__).with_name("keeper.py"))
STDERR_KEPT = 64 << 10
LONGEST_LINE = 16 << 20
GRACE = 2.0

_SWEEPING = 6.0  # seconds; a little longer than the keeper looks for what is left
_CHUNK = 64 << 10
_GARBAGE_LINES, _GARBAGE_LENGTH = 20, 20_000

Hear = Callable[[bytes, bool], Awaitable[None]]
"""Gets a line of output, and whether it is all there: of a line above `LONGEST_LINE` only the
beginning is kept.
"""


class LineProcess:
    """One process from start to end.

    The pipes are ours, not asyncio's: an exit is then noticed even while a child of the process
    holds them open. The reading end of stdin stays open here, too, to see how much of it the
    process has read.

    Attributes:
        written: How many bytes were written to it.
        consumed: How many of them it had read when it ended.
        spoke: Whether it wrote a line.
        stderr: The end of what it wrote there.
    """

    _stdin: asyncio.WriteTransport
    _listener: asyncio.Task[None]
    _drain: asyncio.Task[None]
    _exit: asyncio.Task[int]
    _program: int

    def __init__(self) -> None:
        self.written = self.consumed = 0
        self.spoke = False
        self.stderr = b""
        self._stopped = False
        self._resources = ExitStack()
        self._lifeline = self._resources.enter_context(ExitStack())

    @classmethod
    async def start(
        cls,
        words: Sequence[str],
        environment: Mapping[str, str],
        *,
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
        self.written += len(line)

    def close_input(self) -> None:
        """Let it see the end of its input."""
        self._stdin.close()

    async def end(self, patience: float) -> None:
        """Close its input, wait for `patience` seconds, terminate, kill: nothing that it started
        stays behind.

        What it wrote before its end is still heard.
        """
        try:
            self.close_input()
            if patience and not await self._gone(patience):
                self._stopped = True
                self._tell_keeper(signal.SIGTERM)
                await self._gone(GRACE / 2)
        finally:
            self.consumed = self._read_by_it()
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
        return (
            f"killed by {signal.Signals(-code).name}"
            if code is not None and code < 0
            else f"exit code {code}"
        )

    def last_words(self) -> str:
        """Return the last line that it wrote to stderr, redacted; empty where there is none."""
        lines = redact(masked(self.stderr.decode(errors="replace"))).splitlines()
        return next((" ".join(line.split())[:300] for line in reversed(lines) if line.strip()), "")

    async def _open(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        with ExitStack() as theirs:
            self._stdin_read, stdin_write = os.pipe()
            self._resources.callback(os.close, self._stdin_read)
            loop = asyncio.get_running_loop()
            self._stdin, _ = await loop.connect_write_pipe(
                asyncio.BaseProtocol, os.fdopen(stdin_write, "wb", 0)
            )
            self._resources.callback(self._drop_stdin)
            self._stdout, stdout = await _output_pipe(self._resources, theirs)
            self._stderr, stderr = await _output_pipe(self._resources, theirs)
            told, status = await _output_pipe(self._resources, theirs)
            lifeline = _lifeline(self._lifeline, theirs)
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", KEEPER, str(lifeline), str(status), *words),
                stdin=self._stdin_read,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=(lifeline, status),
                env=environment,
            )
        try:
            self._program = await _started(told)
        except BaseException:
            self._lifeline.close()
            await self._process.wait()
            raise

    async def _listen(self, hear: Hear) -> None:
        async for line, whole in _lines(self._stdout):
            self.spoke = True
            await hear(line, whole)

    async def _keep_stderr(self) -> None:
        while chunk := await self._stderr.read(_CHUNK):
            self.stderr = tail(self.stderr + chunk)

    async def _gone(self, patience: float) -> bool:
        waiting = asyncio.create_task(
            self._process.wait()
        )  # not self._exit: an interrupted run cancels all its tasks
        await asyncio.wait({waiting}, timeout=patience)
        waiting.cancel()
        return self._process.returncode is not None

    def _drop_stdin(self) -> None:
        if (
            self._stdin.get_write_buffer_size() or not self._stdin.is_closing()
        ):  # else it is closed, or about to be
            self._stdin.abort()

    def _tell_keeper(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _kill_group(self) -> None:
        """Kill a program whose keeper does not end, as one that was stopped."""
        self._tell_keeper(signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._program, signal.SIGKILL)

    def _read_by_it(self) -> int:
        import fcntl
        import termios

        unread = int.from_bytes(
            fcntl.ioctl(self._stdin_read, termios.FIONREAD, bytes(4)), sys.byteorder
        )
        return self.written - self._stdin.get_write_buffer_size() - unread

    async def _release(self) -> None:
        tasks = (self._listener, self._drain, self._exit)
        for task in tasks:
            task.cancel()
        self._resources.close()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result


@dataclass(eq=False)
class Row:
    """A row that waits for its answer.

    Attributes:
        task: What it asks.
        since: When the program became free for it; None before.
        offset: How many bytes were written to the process before it.
        passed: Whether a row that was sent later was answered.
        alone: Whether it is asked alone, because a process ended while it was under way.
        deaths: How many processes died while it was the oldest.
        garbage: Lines that stood where its answer was expected.
    """

    task: Task
    name: str
    line: bytes
    answer: asyncio.Future[Prediction]
    since: float | None = None
    offset: int = 0
    passed: bool = False
    alone: bool = False
    deaths: int = 0
    garbage: list[str] = field(default_factory=list)


class Life:
    """What one process was asked and has not answered, in the order of asking, and what it said
    instead.

    Attributes:
        garbage: Lines since the last answer that are none.
        spare: Garbage that stood before an answer, but may have been meant for another row.
        unexplained: How many lines of garbage there were, less the rows that were given up for one.
        told_end: Whether its input was closed before its end was wanted.
        hung: Whether its end was wanted because it answered no more.
    """

    process: LineProcess

    def __init__(self) -> None:
        self.asked: dict[str, Row] = {}
        self.garbage: list[str] = []
        self.spare: list[str] = []
        self.unexplained = 0
        self.told_end = self.hung = False
        self.active_at = time.monotonic()

    @property
    def head(self) -> Row | None:
        """The row that a program which answers in order is at."""
        return next((row for row in self.asked.values() if not row.passed), None)

    @property
    def only(self) -> str:
        """The id of the only row under way; empty where there are none, or several."""
        return next(iter(self.asked)) if len(self.asked) == 1 else ""

    @property
    def busy(self) -> int:
        """How many rows it may be at; not those that were passed over for garbage."""
        return sum(not (row.passed and row.garbage) for row in self.asked.values())

    @property
    def lonely(self) -> bool:
        """Whether a row is under way that is asked alone."""
        return any(row.alone for row in self.asked.values())

    def send(self, row: Row) -> None:
        """Write `row` to the process."""
        row.offset, row.since, row.passed, row.garbage = self.process.written, None, False, []
        self.process.write(row.line)
        self.asked[row.name] = row
        self.active_at = time.monotonic()

    def on_clock(self) -> list[tuple[Row, float]]:
        """Return the rows that the process is free for, and since when: the head, and those that
        were passed over.
        """
        head, now = self.head, time.monotonic()
        rows = [row for row in self.asked.values() if row is head or row.passed]
        for row in rows:
            row.since = now if row.since is None else row.since
        return [(row, row.since or now) for row in rows]

    def heard_garbage(self, text: str) -> None:
        """Count a line that is no answer, and keep it if there are few."""
        self.unexplained += 1
        if len(self.garbage) < _GARBAGE_LINES:
            self.garbage.append(redact(masked(text[: 2 * _GARBAGE_LENGTH]))[:_GARBAGE_LENGTH])

    def answered(self, row: Row) -> None:
        """Take `row` off, and pass over the rows that were sent before it."""
        rows = list(self.asked.values())
        passed = [other for other in rows[: rows.index(row)] if not other.passed]
        for other in passed:
            other.passed = True
        self.attribute([*passed, row])
        self.spare = (self.spare + row.garbage)[:_GARBAGE_LINES]
        del self.asked[row.name]

    def gave_up(self, row: Row) -> None:
        """Take `row` off without an answer; garbage in its place is explained by it."""
        self.unexplained -= 1 if row.garbage else 0
        del self.asked[row.name]

    def attribute(self, rows: Sequence[Row]) -> None:
        """Attribute the garbage since the last answer: a line a row, as a program that answers in
        order writes it.
        """
        for row in rows:
            row.garbage += self.garbage[:1]
            del self.garbage[:1]
        if rows:
            rows[-1].garbage += self.garbage
            self.garbage.clear()

    def attribute_spare(self) -> None:
        """Attribute a line to every row that has none, at last those that stood before the answer
        to another row.
        """
        rows = [row for row in self.asked.values() if not row.garbage]
        self.garbage = (self.garbage + self.spare)[: len(rows)]
        self.attribute(rows)


def tail(data: bytes) -> bytes:
    """Keep the end of `data`.

    Where something is cut off, from the start of a line, lest half a secret be kept.
    """
    if len(data) <= STDERR_KEPT:
        return data
    kept = data[-STDERR_KEPT:]
    return kept.partition(b"\n")[2] or kept[_CHUNK // 16 :]


async def _output_pipe(ours: ExitStack, theirs: ExitStack) -> tuple[asyncio.StreamReader, int]:
    """Open a pipe; return its reading end as a stream and its writing end for the child."""
    reading, writing = os.pipe()
    theirs.callback(os.close, writing)
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb", 0)
    )
    ours.callback(transport.close)
    return stream, writing


def _lifeline(ours: ExitStack, theirs: ExitStack) -> int:
    """Open the pipe whose end tells the keeper that we are gone; return its reading end."""
    reading, writing = os.pipe()
    theirs.callback(os.close, reading)
    ours.callback(os.close, writing)
    return reading


async def _started(told: asyncio.StreamReader) -> int:
    """Return the process id of the program, as its keeper tells it.

    Raises:
        OSError: If it could not be started.
    """
    text = await told.read()
    number = int(text or -errno.ECHILD)
    if number < 0:
        raise OSError(-number, os.strerror(-number))
    return number


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, bool]]:
    """Yield every line, and whether it is whole."""
    line, whole = bytearray(), True
    while chunk := await stream.read(_CHUNK):
        parts = chunk.split(b"\n")
        for place, part in enumerate(parts):
            if whole:
                line += part
                if len(line) > LONGEST_LINE:
                    del line[_GARBAGE_LENGTH:]
                    whole = False
            if place < len(parts) - 1:
                yield bytes(line), whole
                line, whole = bytearray(), True
        await asyncio.sleep(0)  # a flood must not keep the event loop to itself
    if line:
        yield bytes(line), whole
