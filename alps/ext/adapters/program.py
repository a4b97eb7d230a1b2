"""A program as the system under test: one JSON line in, one JSON line out, one process for the run.

Answers are joined by `benchmark_id`, in whatever order they come. Every other line that the program
writes is ignored, and noted with the next row that ends.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alps.errors import UsageError
from alps.ext.adapters.asking import anonymous, understood
from alps.ext.adapters.process import STDERR_KEPT, LineProcess, split_command, tail
from alps.jsonl import parse_json
from alps.llm.secrets import keep_secret, masked, program_environment, redact
from alps.schema import Outcome, Prediction
from alps.systems.base import STDERR, Place, System
from alps.tasks import Task

# A row at which the program dies once may have been killed by something else
_DEATHS = 2
# Processes in a row without one answer that end the run: before the first answer, and after it.
# Later more, as some records that follow each other may crash a program that works.
_FRUITLESS, _FRUITLESS_LATER = 3, 10
# Lines that are no answer and are kept for a row, and characters of each: logs are endless
_IGNORED_LINES, _IGNORED_LENGTH = 20, 20_000


@dataclass(eq=False)
class _WaitingRow:
    """A row that waits for its answer.

    Attributes:
        since: From when its time counts; None while the program is still at an earlier row.
        passed: Whether a row that was sent later was answered.
        alone: Whether it is sent alone, because a process ended while it was under way.
        deaths: How many processes died at it.
    """

    task: Task
    name: str
    line: bytes
    answer: asyncio.Future[Prediction]
    since: float | None = None
    passed: bool = False
    alone: bool = False
    deaths: int = 0


class ProgramSystem:
    """Asks a program that reads rows from stdin and writes predictions to stdout.

    A row on which the program dies twice, or that it does not answer within `timeout` seconds, is
    an empty answer; the program is started anew for the others.

    Args:
        command: The program and its arguments; no shell reads them.
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
        timeout: float,
        stderr_path: Path | None,
        in_flight: int = 4,
        env: Sequence[str] = (),
    ) -> None:
        shown = redact(command)
        self._key = f"model=program:{shown}"
        self._words = split_command(command, self._key)
        self.name = f"program:{Path(self._words[0]).name}"
        self.settings: Mapping[str, Any] = {"command": shown, "timeout": timeout}
        self._environment = program_environment(env)
        keep_secret(env)
        self._timeout, self._in_flight = timeout, in_flight
        self._stderr_path, self._stderr = stderr_path, b""
        self._waiting: list[_WaitingRow] = []
        self._asked: dict[str, _WaitingRow] = {}
        self._withheld: list[tuple[_WaitingRow, Prediction]] = []
        self._ignored: list[str] = []
        self._fruitless = 0
        self._ever_answered = self._answered = self._closing = False
        self._supervisor: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    async def answer(self, task: Task, sample: Any) -> Prediction:
        """Ask the program what `task` asks about `sample`.

        Raises:
            UsageError: If the program can't be started, or never answers.
        """
        if self._failure is not None:
            raise self._failure
        line = json.dumps(task.input_row(sample)).encode() + b"\n"
        row = _WaitingRow(
            task, sample.benchmark_id, line, asyncio.get_running_loop().create_future()
        )
        self._waiting.append(row)
        if self._supervisor is None:
            self._wake = asyncio.Event()
            self._supervisor = asyncio.create_task(self._supervise())
        self._wake.set()
        return await row.answer

    async def aclose(self) -> None:
        """Wait for the program to end, or kill it with its children."""
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
                    await self._run_process()
                else:
                    self._hand_out()
                    await self._woken(None)
        except Exception as error:
            self._failure = error
        finally:
            self._supervisor = None
            self._abandon()

    def _abandon(self) -> None:
        """Leave no row waiting for ever: each raises what ended the program, or is cancelled."""
        withheld = [row for row, _ in self._withheld]
        for row in (*self._waiting, *self._asked.values(), *withheld):
            if self._failure is not None and not row.answer.done():
                row.answer.set_exception(self._failure)
            row.answer.cancel()
        self._waiting, self._asked, self._withheld = [], {}, []

    async def _run_process(self) -> None:
        """Start a process and ask it rows until it has ended, or is stuck."""
        self._answered, self._ignored = False, []
        try:
            start = LineProcess.start(self._words, self._environment, self._hear, self._wake.set)
            process = await start
        except OSError as error:
            raise UsageError(f"{self._key}: can't be started: {error.strerror or error}") from error
        stuck = True
        try:
            stuck = await self._converse(process)
        finally:
            try:
                await process.end(at_once=stuck)
            finally:
                self._keep_stderr(process.stderr)
        if not self._closing:
            self._count_end(process, stuck=stuck)
            self._sort_left_rows(process, stuck=stuck)

    async def _converse(self, process: LineProcess) -> bool:
        """Send rows and watch the clock until the process has ended; tell whether it is stuck."""
        while not (process.over or self._closing):
            self._send(process)
            await self._woken(min((since for _, since in self._on_clock()), default=None))
            if self._give_up_overdue():
                return True
        return False

    async def _woken(self, since: float | None) -> None:
        """Wait until something happens, or the time is up that counts from `since`."""
        left = None if since is None else max(0.0, since + self._timeout - time.monotonic())
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._wake.wait()
        self._wake.clear()

    def _send(self, process: LineProcess) -> None:
        for row in list(self._waiting):
            # two rows of one id are never under way together: their answers look the same
            if row.answer.done() or row.name in self._asked:
                continue
            lonely = row.alone or any(row_under_way.alone for row_under_way in self._asked.values())
            if len(self._asked) >= self._in_flight or (self._asked and lonely):
                return
            self._waiting.remove(row)
            row.since, row.passed = None, False
            process.write(row.line)
            self._asked[row.name] = row

    def _on_clock(self) -> list[tuple[_WaitingRow, float]]:
        """Return the rows whose time counts, and from when.

        A program may work off its rows in order, so a row's time begins when all before it have
        ended or were passed over.
        """
        now, counted = time.monotonic(), []
        for row in self._asked.values():
            row.since = now if row.since is None else row.since
            counted.append((row, row.since))
            if not row.passed:
                break
        return counted

    def _give_up_overdue(self) -> bool:
        """End the rows whose time is up; tell whether the process is stuck at one of them."""
        now, stuck = time.monotonic(), False
        for row, since in self._on_clock():
            if now - since >= self._timeout:
                # a process that went on to later rows has left this one out, and is not stuck
                stuck = stuck or not row.passed
                self._give_up(row, f"no answer within {self._timeout:g} s")
        return stuck

    def _hear(self, line: bytes, whole: bool) -> None:
        text = line.decode(errors="replace").lstrip("\ufeff").strip()
        if not text:
            return
        node = _json_object(text) if whole else None
        row = self._asked.get(str(node["benchmark_id"])) if node is not None else None
        if row is not None and node is not None:
            self._take(row, node, text)
        elif len(self._ignored) < _IGNORED_LINES:
            shown = redact(masked(text[: 2 * _IGNORED_LENGTH]))
            self._ignored.append(shown[:_IGNORED_LENGTH])
        self._wake.set()

    def _take(self, row: _WaitingRow, node: dict[str, Any], text: str) -> None:
        """Take a JSON object as the answer to a row."""
        for earlier in self._asked.values():
            if earlier is row:
                break
            earlier.passed = True
        del self._asked[row.name]
        self._answered = self._ever_answered = True
        self._fruitless = 0
        self._hand_out()
        raw = redact(masked(text, row.line.decode))
        answer = {key: value for key, value in node.items() if key != "benchmark_id"}
        prediction = understood(row.task, row.name, answer, raw=raw, asked=row.line.decode)
        if self._ignored:
            note = f"ignored output that is not an answer: {_short(self._ignored)}"
            prediction = prediction.model_copy(update={"notes": (*prediction.notes, note)})
            self._ignored = []
        self._settle(row, prediction)

    def _give_up(self, row: _WaitingRow, error: str, outcome: Outcome | None = None) -> None:
        """End a row without an answer: unparsable where the program wrote something else."""
        self._asked.pop(row.name, None)
        ignored, self._ignored = self._ignored, []
        outcome = outcome or ("unparsable" if ignored else "empty")
        if outcome == "unparsable":
            error = f"{error}; the program's output contains no answer to this record"
        names: dict[str, Any] = {"benchmark_id": row.name, "track": row.task.track}
        raw = "\n".join(ignored) or None
        self._settle(row, Prediction(**names, outcome=outcome, raw=raw, error=error))

    def _settle(self, row: _WaitingRow, prediction: Prediction) -> None:
        self._withheld.append((row, prediction))
        # Failures of a program that does not answer may be its own: they are withheld, lest they
        # are written as scores of 0 before the run is stopped.
        if self._ever_answered and not self._fruitless:
            self._hand_out()

    def _hand_out(self) -> None:
        for row, prediction in self._withheld:
            if not row.answer.done():
                row.answer.set_result(prediction)
        self._withheld.clear()

    def _count_end(self, process: LineProcess, *, stuck: bool) -> None:
        """Count a process that ended without an answer.

        Raises:
            UsageError: If there were too many in a row: a program that can't work must not score 0.
        """
        if self._answered or (stuck and self._ever_answered):
            return
        self._fruitless += 1
        if self._fruitless < (_FRUITLESS_LATER if self._ever_answered else _FRUITLESS):
            return
        words = _after_colon(process.last_words())
        times = f"{self._fruitless} times"
        if stuck:
            words = words or "; flush the program's output after every line"
            raise UsageError(f"{self._key}: no answer within {self._timeout:g} s, {times}{words}")
        when = "in a row" if self._ever_answered else "before its first answer"
        died = f"the program died {times} {when} ({process.how()}){words}"
        raise UsageError(f"{self._key}: {died}")

    def _sort_left_rows(self, process: LineProcess, *, stuck: bool) -> None:
        """Have the rows that a process left behind sent again, one at a time.

        The oldest is taken for the one at which it died, and given up the second time.
        """
        rows, self._asked = list(self._asked.values()), {}
        if rows and not stuck:
            guilty = next((row for row in rows if not row.passed), rows[0])
            guilty.deaths += 1
            if guilty.deaths == _DEATHS:
                rows.remove(guilty)
                how = f"({process.how()}){_after_colon(process.last_words())}"
                self._give_up(guilty, f"the program died twice on this record {how}", "empty")
        for row in rows:
            row.alone = True
        self._waiting = [*rows, *self._waiting]

    def _keep_stderr(self, written: bytes) -> None:
        self._stderr = tail(self._stderr + written)
        if self._stderr_path is not None and self._stderr:
            text = redact(masked(self._stderr.decode(errors="replace")))
            with suppress(OSError):
                self._stderr_path.write_bytes(text.encode()[-STDERR_KEPT:])


def _json_object(text: str) -> dict[str, Any] | None:
    """Return a JSON object that names a record; None for every other text."""
    try:
        node = parse_json(text)
    except (ValueError, RecursionError):
        return None
    return node if isinstance(node, dict) and "benchmark_id" in node else None


def _short(lines: Sequence[str]) -> str:
    first, rest = " ".join(lines[0].split()), len(lines) - 1
    more = f" and {rest} more {'line' if rest == 1 else 'lines'}" if rest else ""
    return f"'{first[:80]}{'…' if len(first) > 80 else ''}'{more}"


def _after_colon(words: str) -> str:
    return f": {words}" if words else ""


def system_of(command: str, place: Place) -> System:
    """Return the program that a command starts."""
    stderr = place.folder / STDERR if place.folder is not None else None
    system = ProgramSystem(command, timeout=place.timeout, stderr_path=stderr, env=place.env)
    return anonymous(system, place)
