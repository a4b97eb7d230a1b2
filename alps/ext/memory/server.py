"""A memory system behind HTTP: `POST /add` and `POST /search`, and more where the server has it.

`/add` answers once what it was sent can be found, so nothing is waited for. A server outlives a
run: what it was told is not told again when a killed run goes on.
"""

import asyncio
import json
import os
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import httpx

from alps.errors import UsageError
from alps.ext.memory.connection import (
    METHODS,
    TIMED_OUT,
    MemoryFailed,
    MemoryReply,
    answered,
    beginning,
)
from alps.ext.memory.protocol import Opening, Session, Settled
from alps.jsonl import Row, parse_json
from alps.llm.options import HEADERS, sent, variables
from alps.llm.secrets import check_address
from alps.llm.wire import Exchange, read_async
from alps.sizes import ENCODINGS
from alps.systems.base import described, one_line

_APART, _RESET = "runs are kept apart", "a reset is complete"
PROBED = ("reset", "memories", "forget")
_HEADERS = "headers."
# Frameworks differ: an unknown path, a path of GET alone, a method that is not written.
_NOT_THERE = (404, 405, 501)
_AT_ONCE = 16
_SHOWN = 4_000
_SENT = {"content-type": "application/json", "accept-encoding": ENCODINGS}


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
    declaring = 'answer POST /declares with {{"data": {}}}'

    def __init__(self, address: str, options: Mapping[str, str]) -> None:
        try:
            check_address(address)
        except ValueError as error:
            raise UsageError(f"memory=…: {error}") from error
        self._address = address.rstrip("/")
        headers = _headers(options)
        self.can = frozenset(METHODS)
        # A server knows no runs: what keeps them apart is that each has users of its own.
        self.settings: Mapping[str, Any] = {"address": self._address, "declares": [_APART]}
        # Our own bound of all connections: waiting for one must not count as the server's time.
        self._turns = asyncio.Semaphore(_AT_ONCE)
        # Its own clock per request would begin anew with every byte.
        self._client = httpx.AsyncClient(headers=headers, timeout=None)

    async def call(self, method: str, *arguments: Any, timeout: float) -> MemoryReply:
        """Send the request of a method."""
        async with self._turns:
            started = time.perf_counter()
            try:
                # One clock for all that is sent and read for a call.
                async with asyncio.timeout(timeout):
                    value = await getattr(self, f"_{method}")(*arguments)
            except TimeoutError as error:
                raise MemoryFailed(method, f"{TIMED_OUT} {timeout:g} s") from error
            return answered(method, value, time.perf_counter() - started)

    async def _open(self, opening: Opening) -> None:
        """Find out whether there is a server, and what it has beside the two paths."""
        there = set(METHODS) - {"reset"}
        for name in PROBED:
            # A user whom nobody knows: nothing is changed.
            body = {"user_id": f"u{uuid4().hex[:20]}", "what": "nothing"}
            status, _ = await self._post("open", name, body)
            if status not in _NOT_THERE:
                there.add(name)
        self.can = frozenset(there)
        declares = [_APART, *([] if "reset" in there else [_RESET])]
        declares += await self._declared()
        self.settings = {**self.settings, "declares": list(dict.fromkeys(declares))}

    async def _declared(self) -> list[str]:
        """Return the checks that the server declares it does without, where it says so."""
        # A server that does not know the path may break off as well as answer 404.
        try:
            status, content = await self._post("open", "declares", {})
            answer = parse_json(content) if 200 <= status < 300 else None
        except (MemoryFailed, ValueError, RecursionError):
            return []
        # A server may answer whatever path it is asked.
        data = answer.get("data") if isinstance(answer, dict) else None
        return [str(name) for name in data] if isinstance(data, list) else []

    async def _ingest(self, user: str, session: Session) -> None:
        messages = [
            {"role": said.role, "content": said.text, "timestamp": said.at}
            for said in session.turns
        ]
        # The same when a session is sent again, so that a server may know it.
        request = f"{user}-{session.id}"
        body = {"request_id": request, "messages": messages}
        await self._ask("ingest", "add", {**body, "user_id": user, "session_id": session.id})

    async def _settle(self, user: str, longest: float) -> Settled:
        return "ready"

    async def _search(self, user: str, query: str, k: int, at: str) -> Any:
        body = {"query": query, "user_id": user, "top_k": k}
        return _data("search", await self._ask("search", "search", body))

    async def _reset(self, user: str) -> None:
        await self._ask("reset", "reset", {"user_id": user})

    async def _memories(self, user: str) -> Any:
        return _data("memories", await self._ask("memories", "memories", {"user_id": user}))

    async def _forget(self, user: str, what: str) -> None:
        await self._ask("forget", "forget", {"user_id": user, "what": what})

    async def _ask(self, method: str, path: str, body: Row) -> Any:
        status, content = await self._post(method, path, body)
        # A redirect is not followed: it could take a user's turns, and the headers, elsewhere.
        if not 200 <= status < 300:
            text = one_line(content[:_SHOWN].decode(errors="replace"))[:200]
            said = f": {text}" if text else ""
            raise MemoryFailed(method, f"/{path} answered HTTP {status}{said}")
        try:
            return parse_json(content) if content.strip() else None
        except ValueError as error:
            text = beginning(content.decode(errors="replace"))
            what = f"/{path} did not answer with JSON: {text}"
            raise MemoryFailed(method, what) from error

    async def _post(self, method: str, path: str, body: Row) -> tuple[int, bytes]:
        address = f"{self._address}/{path}"
        try:
            request = self._client.build_request("POST", address, content=json.dumps(body))
            request.headers.update(_SENT)
            response = await self._client.send(request, stream=True)
            whole = await read_async(response, Exchange())
            return whole.status_code, whole.content
        except Exception as error:  # whatever a client raises, no answer came
            raise MemoryFailed(method, f"{address}: {described(error)}") from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _data(method: str, answer: Any) -> Any:
    if not isinstance(answer, dict) or "data" not in answer:
        raise MemoryFailed(method, f"expected an object with `data`, got {beginning(answer)}")
    return answer["data"]


def _headers(options: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the options, with values that come out of the environment."""
    for name in options:
        if not name.startswith(_HEADERS):
            raise UsageError(f"memory.{name}: a server takes only memory.headers.NAME")
    given = {HEADERS: {name.removeprefix(_HEADERS): text for name, text in options.items()}}
    if missing := [name for name in variables(given) if name not in os.environ]:
        raise UsageError(f"memory.headers: {missing[0]} is not set in the environment")
    values: dict[str, str] = sent(given).get("extra_headers", {})
    return values
