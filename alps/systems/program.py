"""A program as the system under test: one JSON line in, one JSON line out, one process for the
whole run.

Answers are joined by `benchmark_id`, in whatever order they come. A line that is no answer
(garbage) may be log output or an answer that went wrong; only what follows tells. So it ends a row
only when no answer can be expected any more:
when the row's time is up, or when the process, told that nothing more comes, has ended.
"""

import asyncio
import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.jsonl import parse_json
from alps.llm.secrets import keep_secret, masked, redact
from alps.llm.types import EmptyAnswer, Read
from alps.schema import Outcome, Prediction
from alps.systems.base import OnTask
from alps.systems.environment import program_environment
from alps.systems.process import GRACE, STDERR_KEPT, Life, LineProcess, Row, tail
from alps.tasks import Task

_LONG_LINE = 1 << 20  # is read in a thread
_SILENCE = 10.0
_STRIKES, _DEATHS = 3, 2
_NO_ANSWER = "its output holds no answer to this row"
_TO_ANOTHER = "an answer to a row that was not waiting for one was ignored"
_WITHOUT_ID = "an answer without benchmark_id, taken for the only row under way"


class ProgramSystem:
    """Asks a program that reads rows from stdin and writes predictions to stdout.

    A row on which the program dies twice, or that it does not answer within `timeout` seconds, is
    an empty answer; the program is started anew for the others.

    Args:
        command: The program and its arguments; no shell reads them.
        task: What is asked, unless `on` says otherwise.
        timeout: Seconds for an answer, from when the program is free for the row.
        stderr_path: Where the end of its stderr is kept; None for nowhere.
        in_flight: How many rows may be under way at once.
        env: Variables of the environment that it gets beside those that every program needs.

    Raises:
        UsageError: If there is no such program, or one of the variables is not set.
    """

    def __init__(
        self,
        command: str,
        *,
        task: Task,
        timeout: float,
        stderr_path: Path | None,
        in_flight: int = 4,
        env: Sequence[str] = (),
    ) -> None:
        shown = redact(command)
        self._key = f"model=program:{shown}"
        self._words = _split(command, self._key)
        self.name = f"program:{Path(self._words[0]).name}"
        self.settings: Mapping[str, Any] = {"command": shown, "timeout": timeout}
        self._environment = program_environment(env)
        keep_secret(env)
        self._task, self._timeout = task, timeout
        self._stderr_path, self._stderr, self._in_flight = stderr_path, b"", in_flight
        self._waiting: list[Row] = []
        self._pending: set[Row] = set()
        self._held: list[tuple[Row, Prediction]] = []
        self._ended: set[str] = set()
        self._strays: list[str] = []
        self._strikes = 0
        self._proven = self._chatty = self._closing = False
        self._supervisor: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    def on(self, task: Task) -> "OnTask":
        """Return this very program as a system for another track.

        There is one process for all of them.
        """
        return OnTask(self, task)

    async def predict(self, sample: Any) -> Prediction:
        """Ask the program about `sample`.

        Raises:
            UsageError: If the program can't be started, or never answers.
        """
        return await self.ask(self._task, sample)

    async def ask(self, task: Task, sample: Any) -> Prediction:
        """Ask the program what `task` asks about `sample`.

        Raises:
            UsageError: If the program can't be started, or never answers.
        """
        if self._failure is not None:
            raise self._failure
        line = json.dumps(task.input_row(sample)).encode() + b"\n"
        row = Row(task, sample.benchmark_id, line, asyncio.get_running_loop().create_future())
        self._pending.add(row)
        self._waiting.append(row)
        if self._supervisor is None:
            self._wake = asyncio.Event()
            self._supervisor = asyncio.create_task(self._supervise())
        self._wake.set()
        try:
            return await row.answer
        finally:
            self._pending.discard(row)

    async def aclose(self) -> None:
        """Let the program end, or make it; neither it nor its children stay behind."""
        if self._supervisor is not None:
            self._closing = True
            self._wake.set()
            try:
                await self._supervisor
            finally:
                self._closing = False

    async def _supervise(self) -> None:
        """Keep a process running as long as there are rows for it."""
        try:
            while not self._closing:
                self._waiting = [row for row in self._waiting if not row.answer.done()]
                if self._waiting:
                    await self._live()
                else:
                    self._let_go()
                    await self._woken(None)
        except Exception as error:
            self._failure = error
        finally:
            self._supervisor = None
            self._waiting.clear()
            for row in self._pending:
                if self._failure is not None and not row.answer.done():
                    row.answer.set_exception(self._failure)
                row.answer.cancel()

    async def _live(self) -> None:
        life = Life()
        try:
            hear = partial(self._hear, life)
            life.process = await LineProcess.start(
                self._words, self._environment, hear=hear, ended=self._wake.set
            )
        except OSError as error:
            raise UsageError(f"{self._key}: can't be started: {error.strerror or error}") from error
        patience = 0.0
        try:
            patience = await self._converse(life)
        finally:
            try:
                await life.process.end(patience)
            finally:
                self._keep_stderr(life.process.stderr)
        if not self._closing:
            self._bury(life)

    async def _converse(self, life: Life) -> float:
        """Send rows and watch the clock until the process is done with.

        Return how long its end may take.
        """
        while not (life.process.over or self._closing or (life.told_end and not life.asked)):
            self._send(life)
            moments = [since + self._timeout for _, since in life.on_clock()]
            await self._woken(min([*moments, *self._silent_at(life)], default=None))
            if self._give_up_overdue(life):
                return 0.0
            if any(moment <= time.monotonic() for moment in self._silent_at(life)):
                life.told_end = True
                life.process.close_input()
        return GRACE

    async def _woken(self, moment: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(
                None if moment is None else max(0.0, moment - time.monotonic())
            ):
                await self._wake.wait()
        self._wake.clear()

    def _send(self, life: Life) -> None:
        """Send what may be sent.

        Two rows of one id are never under way together: their answers look the same.
        """
        for row in list(self._waiting):
            if row.answer.done() or row.name in life.asked:
                continue
            if (
                life.told_end
                or life.busy >= self._in_flight
                or (life.asked and (row.alone or life.lonely))
            ):
                return
            self._waiting.remove(row)
            life.send(row)

    def _give_up_overdue(self, life: Life) -> bool:
        """End the rows whose time is up; tell whether the process is stuck at one of them."""
        now = time.monotonic()
        for row, since in life.on_clock():
            if now - since >= self._timeout:
                life.hung = life.hung or not row.passed
                if not row.passed:
                    life.attribute([row])
                self._give_up(life, row, f"no answer within {self._timeout:g} s")
        return life.hung

    def _silent_at(self, life: Life) -> list[float]:
        """Return when the process is to be told that nothing more comes, if it is.

        That is, after some silence, when it wrote as many lines of garbage as it owes answers. It
        seems to have replied to everything; should it still be at work, it loses nothing: it sees
        the end of its input when it is done.
        """
        if self._chatty or life.told_end or not life.asked or life.unexplained != len(life.asked):
            return []
        return [life.active_at + min(_SILENCE, self._timeout / 10)]

    async def _hear(self, life: Life, line: bytes, whole: bool) -> None:
        text = line.decode(errors="replace").lstrip("\ufeff").strip()
        if not text:
            return
        life.active_at = time.monotonic()
        node = await _off_loop(text, _json_object, text) if whole else None
        if node is None or not await self._take(life, node, text):
            life.heard_garbage(text)
        self._chatty = self._chatty or life.unexplained > len(life.asked)
        self._wake.set()

    async def _take(self, life: Life, node: dict[str, Any], text: str) -> bool:
        """Take a JSON object as an answer; tell whether it is one."""
        given = node.get("benchmark_id")
        name = life.only if given is None else str(given)
        read = await _off_loop(text, _read, life.asked[name], node) if name in life.asked else None
        row = life.asked.get(name)  # may have been given up meanwhile
        if row is None or read is None:
            if given is not None:
                self._strays.append(_TO_ANOTHER)
            return given is not None and name in self._ended
        if given is None and isinstance(read, ValueError):
            # without an id, only what reads as an answer is one: log lines may be JSON, too
            return False
        self._answer(life, row, read, text, () if given is not None else (_WITHOUT_ID,))
        return True

    def _answer(
        self, life: Life, row: Row, read: Read[Any] | ValueError, text: str, note: tuple[str, ...]
    ) -> None:
        life.answered(row)
        self._prove()
        raw = redact(masked(text, row.line.decode))
        if isinstance(read, Read):
            value = row.task.to_prediction(read.value)
            self._settle(row, outcome="ok", prediction=value, raw=raw, notes=(*read.notes, *note))
        else:
            outcome: Outcome = "empty" if isinstance(read, EmptyAnswer) else "invalid"
            self._settle(row, outcome=outcome, raw=raw, error=redact(str(read)))

    def _give_up(self, life: Life, row: Row, error: str, *, outcome: Outcome | None = None) -> None:
        """End a row without an answer: unparsable where garbage stands in its place, else empty."""
        life.gave_up(row)
        found: Outcome = outcome or ("unparsable" if row.garbage else "empty")
        error = f"{error}; {_NO_ANSWER}" if found == "unparsable" else error
        self._settle(row, outcome=found, raw="\n".join(row.garbage) or None, error=error)

    def _settle(
        self, row: Row, *, outcome: Outcome, notes: tuple[str, ...] = (), **fields: Any
    ) -> None:
        self._ended.add(row.name)
        ignored = (
            f"output that is no answer was ignored: {_short(row.garbage)}" if row.garbage else None
        )
        seen = (ignored,) if ignored and outcome in ("ok", "invalid") else ()
        prediction = Prediction(
            benchmark_id=row.name,
            track=row.task.track,
            outcome=outcome,
            notes=(*notes, *seen, *dict.fromkeys(self._strays)),
            **fields,
        )
        self._strays.clear()
        self._held.append((row, prediction))
        if self._proven:
            self._let_go()

    def _let_go(self) -> None:
        """Hand out what was held back: the failures of a program that never answered may be its
        own.
        """
        for row, prediction in self._held:
            if not row.answer.done():
                row.answer.set_result(prediction)
        self._held.clear()

    def _prove(self) -> None:
        self._proven, self._strikes = True, 0

    def _bury(self, life: Life) -> None:
        """Decide about the rows that a process left behind."""
        rows, process = list(life.asked.values()), life.process
        if life.told_end and not life.hung:
            self._prove()
            life.attribute_spare()
            for row in rows:
                self._give_up(life, row, "the program ended")
            return
        head = life.head or (rows[0] if rows else None)
        if head is not None and not life.hung and process.consumed > head.offset:
            head.deaths += 1
            if head.deaths == _DEATHS:
                life.attribute([head])
                end = f"the program died on this row ({process.how()}), twice{_after_colon(process.last_words())}"
                self._give_up(life, head, end, outcome="empty")
        untouched = process.consumed == 0
        fruitless = not self._proven and not (life.hung and process.spoke)
        self._strikes = self._strikes + 1 if untouched or fruitless else 0
        if self._strikes == _STRIKES:
            raise UsageError(self._why_not(life))
        rows = list(life.asked.values())
        for row in rows:
            row.alone = True
        self._waiting = [*rows, *self._waiting]

    def _why_not(self, life: Life) -> str:
        words = _after_colon(life.process.last_words())
        if life.hung:
            hint = words or ": does it flush its output after every line?"
            return f"{self._key}: no answer within {self._timeout:g} s, {_STRIKES} times{hint}"
        when = "before it read a row" if life.process.consumed == 0 else "before its first answer"
        return f"{self._key}: died {_STRIKES} times {when} ({life.process.how()}){words}"

    def _keep_stderr(self, heard: bytes) -> None:
        self._stderr = tail(self._stderr + heard)
        if self._stderr_path is not None and self._stderr:
            text = redact(masked(self._stderr.decode(errors="replace")))
            with suppress(OSError):
                self._stderr_path.write_bytes(text.encode()[-STDERR_KEPT:])


def _read(row: Row, node: dict[str, Any]) -> Read[Any] | ValueError:
    try:
        answer = masked({k: v for k, v in node.items() if k != "benchmark_id"}, row.line.decode)
        read: Read[Any] = row.task.answer.read(answer)
    except EmptyAnswer as error:
        return error
    except (ValueError, RecursionError) as error:
        return ValueError(str(error))
    return read


def _split(command: str, key: str) -> list[str]:
    if os.name != "posix":
        raise UsageError(f"{key}: programs are run on Linux and macOS only")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{key}: {str(error).lower()}") from error
    if not words:
        raise UsageError(f"{key}: names no program")
    if shutil.which(words[0]) is None:
        raise UsageError(f"{key}: {words[0]}: command not found")
    return words


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        node = parse_json(text)
    except (ValueError, RecursionError):
        return None
    return node if isinstance(node, dict) else None


async def _off_loop(text: str, function: Callable[..., Any], *given: Any) -> Any:
    return await asyncio.to_thread(function, *given) if len(text) > _LONG_LINE else function(*given)


def _short(lines: Sequence[str]) -> str:
    first = " ".join(lines[0].split())
    more = f" and {len(lines) - 1} more lines" if len(lines) > 1 else ""
    return f"'{first[:80]}{'…' if len(first) > 80 else ''}'{more}"


def _after_colon(words: str) -> str:
    return f": {words}" if words else ""
