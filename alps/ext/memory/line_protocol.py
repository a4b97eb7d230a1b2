"""A memory system in a process of its own, which is asked by lines of JSON: ours, or those of MCP.

It is asked one thing at a time. A process that hangs is ended; one that ended is started and opened
again at the next call, and `begun` tells how often, as what it was told before may be lost.
Lines of a program are `{"id", "method", …}` and `{"id", "result"}`.

The Model Context Protocol is JSON-RPC 2.0 a line: `initialize`, `tools/list`, `tools/call`. The
tools have the names of the protocol's methods and their arguments: `ingest(user, session)`,
`search(user, query, k, at)`, `reset(user)`; all others are optional. Speaking it here, not by a
client library, keeps the process under our keeper and its environment ours.
"""

import asyncio
import itertools
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, FailFast

from alps.errors import UsageError
from alps.ext.adapters.process import STDERR_KEPT, LineProcess, split_command, tail
from alps.ext.memory import STDERR
from alps.ext.memory.connection import (
    METHODS,
    OPTIONAL,
    TIMED_OUT,
    MemoryFailed,
    MemoryReply,
    answered,
    beginning,
    named,
    shaped,
)
from alps.ext.memory.protocol import Opening
from alps.jsonl import Row, parse_json
from alps.llm.secrets import keep_secret, masked, program_environment, redact
from alps.sizes import LARGEST_REPLY, too_large
from alps.systems.base import one_line

# Time-outs in a row after which a process is not started again: else each of a thousand users
# would wait for its own.
_HANGS = 3
# Pages of one list that a server gives page by page
_MOST_PAGES = 100

# The first version with `structuredContent`, which says what is a list and what a text.
MCP_VERSION = "2025-06-18"
"""Of the protocol, as it is offered; servers answer with one that they speak."""
NEEDED_TOOLS = ("ingest", "search", "reset")


class _EndedError(Exception):
    """The process ended, or was ended as it hung, before it answered; says how."""

    def __init__(self, how: str, *, hung: bool = False) -> None:
        super().__init__(how)
        self.hung = hung


@dataclass(frozen=True)
class Declared:
    """Declarations of a system when it is opened, see `Connection`."""

    can: frozenset[str]
    persistent: bool
    declares: Any = None


Ask = Callable[[Mapping[str, Any]], Awaitable[Row]]
"""Sends a request and returns the answer to it."""


class SpokenConnection:
    """A connection to a program.

    Args:
        command: The program and its arguments; no shell reads them.
        language: How requests and answers are written.
        key: The setting that names it, as messages say it.
        env: Variables of the environment that it gets beside those that every program needs.
        folder: Where the end of its stderr is kept; None for nowhere.
        settings: What the manifest says of it; None for the command.

    Raises:
        UsageError: If there is no such program, or one of the variables is not set.
    """

    declaring = 'answer `open` with {{"declares": {}}}'

    def __init__(
        self,
        command: str,
        language: "JsonLines | McpTools",
        *,
        key: str,
        env: Sequence[str],
        folder: Path | None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.can, self.persistent = frozenset(METHODS), False
        self.settings: Mapping[str, Any] = (
            {"command": redact(command)} if settings is None else settings
        )
        self._language = language
        self._process = _Process(split_command(command, key), key, env)
        self._log = None if folder is None else folder / STDERR
        self._turn = asyncio.Lock()
        self._opening: Opening | None = None
        self._hangs = 0

    @property
    def begun(self) -> int:
        """How often the program was started."""
        return self._process.begun

    async def call(self, method: str, *arguments: Any, timeout: float) -> MemoryReply:
        """Ask the program."""
        async with self._turn:
            if self._hangs == _HANGS:
                why = f"the program was not restarted after {_HANGS} timeouts in a row"
                raise MemoryFailed(method, why)
            try:
                if method == "open":
                    # A process each, so that what one holds of the other opening is gone.
                    await self._process.end(at_once=False)
                    self._opening = arguments[0]
                    return await self._open(timeout)
                if not self._process.running:
                    await self._open(timeout)
                return await self._call(method, named(method, arguments), timeout)
            finally:
                self._keep_stderr()

    async def _open(self, timeout: float) -> MemoryReply:
        assert self._opening is not None
        started = time.perf_counter()

        async def ask(request: Mapping[str, Any]) -> Row:
            # One clock for all that opening takes.
            left = started + timeout - time.perf_counter()
            return await self._process.ask(request, timeout, left=left)

        try:
            row = named("open", (self._opening,))
            declared = await self._language.open(ask, self._process.tell, row)
        except (_EndedError, ValueError) as error:
            self._count(error)
            await self._process.end(at_once=True)
            raise MemoryFailed("open", one_line(str(error))) from error
        self.can, self.persistent = declared.can, declared.persistent
        if declared.declares is not None:
            self.settings = {**self.settings, "declares": declared.declares}
        return MemoryReply(None, time.perf_counter() - started)

    async def _call(self, method: str, arguments: Row, timeout: float) -> MemoryReply:
        started = time.perf_counter()
        try:
            answer = await self._process.ask(self._language.request(method, arguments), timeout)
            self._hangs = 0
            # An error is an answer: the process lives, and counts as one that does not hang.
            value = self._language.result(answer)
        except (_EndedError, ValueError) as error:
            self._count(error)
            raise MemoryFailed(method, one_line(str(error))) from error
        return answered(method, value, time.perf_counter() - started)

    def _count(self, error: Exception) -> None:
        self._hangs += isinstance(error, _EndedError) and error.hung

    def _keep_stderr(self) -> None:
        if self._log is not None and self._process.stderr:
            # Tracebacks of programs quote the environment and the addresses that they were given.
            text = redact(masked(self._process.stderr.decode(errors="replace")))
            with suppress(OSError):
                self._log.write_bytes(text.encode()[-STDERR_KEPT:])

    async def aclose(self) -> None:
        """Wait for the program to end, or kill it with its children."""
        await self._process.end(at_once=False)
        self._keep_stderr()


class _Process:
    """The process, started when it is first asked something after its beginning or its end.

    Attributes:
        begun: How often it was started.
        stderr: The end of what its processes that ended wrote there.
    """

    def __init__(self, words: Sequence[str], key: str, env: Sequence[str]) -> None:
        self._words, self._key = words, key
        self._environment = program_environment(env)
        # What `env=` passes may be a key; the program may repeat it in a hit or on stderr.
        keep_secret(env)
        self._process: LineProcess | None = None
        self._wake = asyncio.Event()
        self._ids = itertools.count(1)
        self._awaited = 0
        self._answer: Row = {}
        self._unreadable = ""
        self.begun, self.stderr = 0, b""

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped; it may have exited."""
        return self._process is not None

    async def ask(
        self, request: Mapping[str, Any], timeout: float, *, left: float | None = None
    ) -> Row:
        """Send a request under an id of its own; return the answer.

        Args:
            request: Is sent as JSON.
            timeout: Seconds that whoever asks gives the program, for messages.
            left: Seconds that are left of them; None for all.

        Raises:
            _EndedError: If the process ended, also because no answer came in time.
            ValueError: If the answer can't be read.
        """
        process = self._process or await self._start()
        self._awaited, self._answer, self._unreadable = next(self._ids), {}, ""
        self.tell({"id": self._awaited, **request})
        try:
            async with asyncio.timeout(timeout if left is None else left):
                while not (self._answer or self._unreadable or process.over):
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError as error:
            # A late answer would else be read as that of the next request.
            await self.end(at_once=True)
            raise _EndedError(f"{TIMED_OUT} {timeout:g} s", hung=True) from error
        if self._unreadable:
            raise ValueError(f"the program's answer can't be read: {self._unreadable}")
        if not self._answer:
            await self.end(at_once=False)  # hears what it said before its end
            if not self._answer:
                words = process.last_words()
                raise _EndedError(f"the program ended ({process.how()})" + (words and f": {words}"))
        return self._answer

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a line that nothing answers."""
        if self._process is not None:
            self._process.write(json.dumps(message).encode() + b"\n")

    async def _start(self) -> LineProcess:
        starting = LineProcess.start(self._words, self._environment, self._hear, self._wake.set)
        try:
            self._process = await starting
        except OSError as error:
            # No record is to blame for a program that is not there: the run ends.
            raise UsageError(f"{self._key}: can't be started: {error.strerror or error}") from error
        self.begun += 1
        return self._process

    async def end(self, *, at_once: bool) -> None:
        """End the process with everything that it started."""
        process, self._process = self._process, None
        if process is not None:
            try:
                await process.end(at_once=at_once)
            finally:
                self.stderr = tail(self.stderr + process.stderr)

    def _hear(self, line: bytes, whole: bool) -> None:
        try:
            row = parse_json(line) if whole else None
        except ValueError as error:
            row = None
            # A library's own lines may be anything, and are no answers.
            if re.search(rb'"id"\s*:\s*%d\s*[,}]' % self._awaited, line):
                self._unreadable = str(error)
        # Of a line that is too long only the beginning is here; what begins as JSON was the answer.
        if not whole and line.lstrip().startswith(b"{"):
            self._unreadable = str(too_large(LARGEST_REPLY))
        if self._unreadable:
            self._wake.set()
        # MCP servers ask, too, under numbers of their own, which may be the awaited one.
        if isinstance(row, dict) and row.get("id") == self._awaited and "method" not in row:
            self._answer = row
            self._wake.set()


class JsonLines:
    """Requests with their arguments beside `method`; answers with a `result` or an `error`.

    `open` and `result` raise a ValueError for an answer that is an error, or in no form.
    """

    async def open(self, ask: Ask, tell: Callable[[Row], None], arguments: Row) -> Declared:
        """Open the program; it may answer with `can`, `persistent` and `declares`."""
        said = self.result(await ask(self.request("open", arguments)))
        return declared(said, frozenset(METHODS))

    def request(self, method: str, arguments: Row) -> Row:
        """Return a request; its id is added."""
        return {"method": method, **arguments}

    def result(self, answer: Row) -> Any:
        """Return the result."""
        if answer.get("error") is not None:
            raise ValueError(f"answered with an error: {answer['error']}")
        if "result" not in answer:
            raise ValueError(f"answered without a result: {beginning(answer)}")
        return answer["result"]


def declared(said: Any, has: frozenset[str]) -> Declared:
    """Read what the answer to `open` declares; `has` is known without it.

    Raises:
        ValueError: If it is not in form.
    """
    if said is None:
        return Declared(has, False)
    if not isinstance(said, dict):
        expected = "expected null or an object with `can`, `persistent` and `declares`"
        raise ValueError(f"{expected}, got {beginning(said)}")
    more = said.get("can", [])
    if not isinstance(more, list) or any(name not in (*OPTIONAL, *METHODS) for name in more):
        raise ValueError(f"can: expected a list of method names ({', '.join(OPTIONAL)})")
    declares = said.get("declares")
    return Declared(has | frozenset(more), said.get("persistent") is True, declares)


# Else millions of wrong elements would be millions of faults, each with its words.
class _TextPart(BaseModel):
    text: str = ""


class _Called(BaseModel):
    """What a tool returned."""

    content: Annotated[list[_TextPart], FailFast()] = []
    isError: bool = False


class _ListedTool(BaseModel):
    name: str


class _Page(BaseModel):
    tools: Annotated[list[_ListedTool], FailFast()] = []
    nextCursor: str | None = None


class McpTools:
    """Calls of tools; see `JsonLines`."""

    def __init__(self) -> None:
        self._tools: frozenset[str] = frozenset()

    async def open(self, ask: Ask, tell: Callable[[Row], None], arguments: Row) -> Declared:
        """Shake hands, learn the tools, and call `open` where there is one."""
        client = {"name": "alps", "version": "1"}
        hello = {"protocolVersion": MCP_VERSION, "capabilities": {}, "clientInfo": client}
        _result(await ask(_call("initialize", hello)))
        # The protocol allows no call of a tool before it.
        tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._tools = await _tools(ask)
        if missing := [name for name in NEEDED_TOOLS if name not in self._tools]:
            raise ValueError(f"the server has no tool '{missing[0]}'")
        has = (frozenset(OPTIONAL) & self._tools) | frozenset(METHODS)
        if "open" not in self._tools:
            return Declared(has, False)
        return declared(self.result(await ask(self.request("open", arguments))), has)

    def request(self, method: str, arguments: Row) -> Row:
        """Return the call of a tool; where there is no `settle`, nothing is to be waited for."""
        if method == "settle" and method not in self._tools:
            return _call("ping", {})
        return _call("tools/call", {"name": method, "arguments": arguments})

    def result(self, answer: Row) -> Any:
        """Return what a tool returned."""
        result = _result(answer)
        if not result:  # of a ping
            return "ready"
        called = shaped(_Called, result, "result")
        texts = [part.text for part in called.content]
        if called.isError:
            raise ValueError(f"answered with an error: {' '.join(texts)}")
        structured = result.get("structuredContent")
        # The official library wraps what is no object, a list of hits say, in `result`.
        if isinstance(structured, dict):
            return structured.get("result") if [*structured] == ["result"] else structured
        if len(texts) > 1:  # a list comes as a text an element
            return [_read(text) for text in texts]
        return _read(texts[0]) if texts else None


async def _tools(ask: Ask) -> frozenset[str]:
    names: set[str] = set()
    cursor: Row = {}
    # Cursors of a server may never end; the timeout alone would let it send pages for minutes.
    for _ in range(_MOST_PAGES):
        answer = _result(await ask(_call("tools/list", cursor)))
        page = shaped(_Page, answer, "tools/list")
        names.update(tool.name for tool in page.tools)
        if not page.nextCursor:
            return frozenset(names)
        cursor = {"cursor": page.nextCursor}
    raise ValueError(f"tools/list: more than {_MOST_PAGES} pages")


def _call(method: str, params: Row) -> Row:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _result(answer: Row) -> Row:
    error = answer.get("error")
    if error is not None:
        message = error.get("message") if isinstance(error, dict) else None
        raise ValueError(f"answered with an error: {message or error}")
    result = answer.get("result")
    if not isinstance(result, dict):
        raise ValueError(f"answered without a result: {beginning(answer)}")
    return result


def _read(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text
