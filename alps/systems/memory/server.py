"""A memory system behind HTTP: `POST /add` and `POST /search`, and more where the server has it.

`/add` answers once what it was sent can be found, so nothing is waited for. A server outlives a
run: what it was told is not told again when a killed run goes on.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import httpx

from alps.errors import UsageError
from alps.jsonl import Row, parse_json
from alps.llm.options import header_values
from alps.llm.secrets import check_address
from alps.systems.base import described, one_line
from alps.systems.memory.connection import METHODS, TIMED_OUT, Answered, MemoryFailed
from alps.systems.memory.protocol import Opening, Session, Settled

_APART, _RESET = "runs are kept apart", "a reset is complete"
PROBED = ("reset", "memories", "forget")
_HEADERS = "headers."
_NOT_THERE = (404, 405, 501)
_AT_ONCE = 16


class HttpConnection:
    """A connection to a server.

    Args:
        address: Its address; the paths are put behind it.
        options: Headers, as `headers.NAME`; a value `env:VARIABLE` is taken from the environment.

    Raises:
        UsageError: If the address can't be read, holds a key, or an option is none of a server.
    """

    persistent = True
    begun = 1

    def __init__(self, address: str, options: Mapping[str, str]) -> None:
        try:
            check_address(address)
        except ValueError as error:
            raise UsageError(f"memory={address.partition('?')[0]}: {error}") from error
        self._address = address.rstrip("/")
        headers = _headers(options)
        self.can = frozenset(METHODS)
        # A server knows no runs: what keeps them apart is that each has users of its own.
        self.settings: Mapping[str, Any] = {"address": self._address, "declares": [_APART]}
        # Our own bound of all connections: waiting for one must not count as the server's time.
        self._turns = asyncio.Semaphore(_AT_ONCE)
        # Its own clock per request would begin anew with every byte.
        self._client = httpx.AsyncClient(headers=headers, timeout=None)

    async def call(self, method: str, *arguments: Any, timeout: float) -> Answered:
        """Send the request that stands for a method."""
        async with self._turns:
            started = time.perf_counter()
            value = await getattr(self, f"_{method}")(timeout, *arguments)
            return Answered(value, time.perf_counter() - started)

    async def _open(self, timeout: float, opening: Opening) -> None:
        """Find out whether there is a server, and what it has beside the two paths."""
        there = set(METHODS) - {"reset"}
        for name in PROBED:
            # A user whom nobody knows: nothing is changed.
            body = {"user_id": f"u{uuid4().hex[:20]}", "what": "nothing"}
            answered = await self._post("open", name, body, timeout)
            if answered.status_code not in _NOT_THERE:
                there.add(name)
        self.can = frozenset(there)
        if "reset" not in there:
            self.settings = {**self.settings, "declares": [_APART, _RESET]}

    async def _ingest(self, timeout: float, user: str, session: Session) -> None:
        messages = [
            {"role": said.role, "content": said.text, "timestamp": said.at}
            for said in session.turns
        ]
        # The same when a session is sent again, so that a server may know it.
        request = f"{user}-{session.id}"
        body = {"request_id": request, "messages": messages}
        await self._ask(
            "ingest", "add", {**body, "user_id": user, "session_id": session.id}, timeout
        )

    async def _settle(self, timeout: float, user: str, longest: float) -> Settled:
        return "ready"

    async def _search(self, timeout: float, user: str, query: str, k: int, at: str) -> Any:
        body = {"query": query, "user_id": user, "top_k": k}
        return _data("search", await self._ask("search", "search", body, timeout))

    async def _reset(self, timeout: float, user: str) -> None:
        await self._ask("reset", "reset", {"user_id": user}, timeout)

    async def _memories(self, timeout: float, user: str) -> Any:
        return _data(
            "memories", await self._ask("memories", "memories", {"user_id": user}, timeout)
        )

    async def _forget(self, timeout: float, user: str, what: str) -> None:
        await self._ask("forget", "forget", {"user_id": user, "what": what}, timeout)

    async def _ask(self, method: str, path: str, body: Row, timeout: float) -> Any:
        answered = await self._post(method, path, body, timeout)
        if not answered.is_success:
            said = one_line(answered.text)[:200]
            raise MemoryFailed(method, f"/{path} answered {answered.status_code}: {said}")
        try:
            return parse_json(answered.content) if answered.content.strip() else None
        except (ValueError, RecursionError) as error:
            raise MemoryFailed(method, f"/{path} answered no JSON") from error

    async def _post(self, method: str, path: str, body: Row, timeout: float) -> httpx.Response:
        try:
            async with asyncio.timeout(timeout):
                return await self._client.post(f"{self._address}/{path}", json=body)
        except TimeoutError as error:
            raise MemoryFailed(method, f"{TIMED_OUT} {timeout:g} s") from error
        except httpx.HTTPError as error:
            raise MemoryFailed(method, f"{self._address}/{path}: {described(error)}") from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _data(method: str, answer: Any) -> Any:
    if not isinstance(answer, dict) or "data" not in answer:
        raise MemoryFailed(method, "expected an object with data")
    return answer["data"]


def _headers(options: Mapping[str, str]) -> dict[str, str]:
    for name in options:
        if not name.startswith(_HEADERS):
            raise UsageError(f"memory.{name}: a server takes memory.headers.NAME alone")
    try:
        return header_values({name.removeprefix(_HEADERS): text for name, text in options.items()})
    except ValueError as error:
        raise UsageError(f"memory.headers: {error}") from error
