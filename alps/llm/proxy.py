"""A loopback server that asks models for somebody else, and counts what each request used.

It speaks as much of OpenAI's API as memory systems ask for: chat completions, with tools and
formats of an answer, and embeddings. What it is asked goes through the client of the run: budget,
ledger, kept replies, retries. Whoever asks shows a key that is drawn for the run; the keys of
providers stay here.
"""

import asyncio
import base64
import json
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from alps.errors import AlpsError
from alps.jsonl import parse_json
from alps.llm.provider import passed_in
from alps.llm.types import LONGEST, Completion, Passed, Request
from alps.schema import Outcome

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
_CHAT = """
messages tools tool_choice parallel_tool_calls response_format temperature top_p max_tokens
max_completion_tokens stop seed n presence_penalty frequency_penalty logit_bias logprobs
top_logprobs reasoning_effort
"""
_TAKEN: Mapping[Passed, frozenset[str]] = {
    "chat": frozenset(_CHAT.split()),
    "embeddings": frozenset(("input", "dimensions")),
}
# What changes no answer, or is answered here; a body may have it and it goes no further.
_LEFT_OUT = frozenset(("model", "stream", "encoding_format", "user", "store", "metadata"))
_LARGEST = 64 << 20
# OpenAI's clients ask again after a 429 and a 5xx; here everything was tried already.
_STATUS: Mapping[Outcome, int] = {"budget": 402, "transport": 424}


class Asks(Protocol):
    """What answers requests: a client."""

    async def complete(self, request: Request[str]) -> Completion[str]:
        """Answer a request."""
        ...


@dataclass(frozen=True)
class Metered:
    """One request of a system: what it was for, and what its answer used.

    Attributes:
        asked: `chat` or `embeddings`.
        model: The model that answered.
        prompt_tokens: As the provider counted them; 0 where it did not tell.
        completion_tokens: The same, of the answer.
        cost: US dollars, as if none were kept; None where the price is not known.
        cached: Whether a kept reply answered.
        outcome: `ok`, or why there was no answer.
        seconds: Of the clock, waits and retries among them.
    """

    asked: Passed
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    cached: bool = False
    outcome: Outcome = "ok"
    seconds: float = 0.0


@dataclass(frozen=True)
class Behind:
    """A model behind the proxy: its name, and either a client that asks it or a function."""

    model: str
    client: Asks | None = None
    api_base: str | None = None
    embed: Embed | None = None

    @property
    def shown(self) -> str:
        """The name without its provider, as clients of OpenAI's API expect one."""
        return self.model.partition("/")[2] or self.model


class Proxy:
    """Serves what is behind it on a free port of 127.0.0.1, once it is started.

    Args:
        llm: Who answers chats; None for nobody.
        embedder: Who embeds; None for nobody.
        note: Is given each request that was answered, or was not.
        about: Says what the ledger writes a request down as.
    """

    def __init__(
        self,
        llm: Behind | None,
        embedder: Behind | None,
        *,
        note: Callable[[Metered], None],
        about: Callable[[], str] = str,
    ) -> None:
        self._behind: Mapping[Passed, Behind | None] = {"chat": llm, "embeddings": embedder}
        self._note, self._about = note, about
        self.key = secrets.token_urlsafe(24)
        self.fatal: AlpsError | None = None
        # The port is known before anything is served: an adapter is told it when it is opened.
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._runner: web.AppRunner | None = None

    @property
    def api_base(self) -> str:
        """Where it is served."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    async def start(self) -> None:
        """Serve from now on, in this loop; nothing where it is served already."""
        if self._runner is not None:
            return
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/embeddings", self._embeddings)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket).start()

    async def aclose(self) -> None:
        """Serve no more."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._socket.close()

    async def _chat(self, asked: web.Request) -> web.Response:
        return await self._answered("chat", asked)

    async def _embeddings(self, asked: web.Request) -> web.Response:
        return await self._answered("embeddings", asked)

    async def _answered(self, kind: Passed, asked: web.Request) -> web.Response:
        shown = asked.headers.get("Authorization", "")
        if not secrets.compare_digest(shown.encode(), f"Bearer {self.key}".encode()):
            return _refused(401, "not the key of this run")
        behind = self._behind[kind]
        if behind is None:
            return _refused(404, f"the run gives no model for {kind}")
        try:
            body = parse_json(await asked.read())
            passed = body_of(kind, body)
        except ValueError as error:
            return _refused(400, str(error))
        if behind.embed is not None:
            return await self._embedded(behind, behind.embed, body)
        return await self._passed_on(kind, behind, passed, body)

    async def _embedded(self, behind: Behind, embed: Embed, body: dict[str, Any]) -> web.Response:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        if not all(isinstance(text, str) for text in texts):
            return _refused(400, "input: expected texts")
        started = time.perf_counter()
        vectors = (await asyncio.to_thread(embed, texts)).tolist()
        seconds = round(time.perf_counter() - started, 6)
        self._note(Metered("embeddings", behind.model, cost=0.0, seconds=seconds))
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        answer = {"object": "list", "model": behind.model, "usage": usage, "data": _rows(vectors)}
        return web.json_response(_encoded(answer, body))

    async def _passed_on(
        self, kind: Passed, behind: Behind, passed: str, body: dict[str, Any]
    ) -> web.Response:
        request: Request[str] = Request(
            behind.model,
            ({"role": "user", "content": passed},),
            None,
            api_base=behind.api_base,
            purpose="memory",
            about=self._about(),
            passed=kind,
        )
        assert behind.client is not None
        started = time.perf_counter()
        try:
            completion = await behind.client.complete(request)
        except AlpsError as error:  # no later request can go through: whoever runs this ends it
            self.fatal = error
            return _refused(424, str(error))
        cached, seconds = completion.cached, round(time.perf_counter() - started, 6)
        if completion.raw is None:
            outcome = completion.outcome
            unheard = Metered(kind, behind.model, cached=cached, outcome=outcome, seconds=seconds)
            self._note(unheard)
            return _refused(_STATUS.get(outcome, 400), completion.error or outcome)
        answer = passed_in(completion.raw)
        prompt, told = answer.used.prompt_tokens or 0, answer.used.completion_tokens or 0
        cost = answer.used.cost
        self._note(Metered(kind, behind.model, prompt, told, cost, cached, seconds=seconds))
        return web.json_response(_encoded(answer.body, body))


def body_of(kind: Passed, body: Any) -> str:
    """Return the JSON of what is passed on of a request.

    Nothing that could send it elsewhere, or a key with it, is.

    Raises:
        ValueError: If it asks for something that is not passed on; names it.
    """
    if not isinstance(body, dict):
        raise ValueError("expected an object")
    if body.get("stream"):
        raise ValueError("stream: answers are not streamed")
    if kind == "chat":
        _check_chat(body)
    elif not isinstance(body.get("input"), list | str):
        raise ValueError("input: missing")
    passed = {}
    for name, value in body.items():
        if value is None or name in _LEFT_OUT:
            continue
        if name not in _TAKEN[kind]:
            raise ValueError(f"{name}: not passed on")
        passed[name] = value
    return json.dumps(passed, sort_keys=True)


def _check_chat(body: Mapping[str, Any]) -> None:
    """Refuse what multiplies the cost of a request beyond its text and its longest answer.

    Raises:
        ValueError: Names the field.
    """
    n = body.get("n")
    if n is not None and (n != 1 or isinstance(n, bool)):
        raise ValueError("n: one answer a request is passed on; ask again for another")
    for name in LONGEST:
        most = body.get(name)
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise ValueError(f"{name}: expected a whole number from 1 on")
    if not isinstance(body.get("messages"), list):
        raise ValueError("messages: missing")
    for place, message in enumerate(body["messages"]):
        _check_message(message, f"messages[{place}]")
    tools = body.get("tools") or []
    if not isinstance(tools, list) or any(_kind_of(tool) != "function" for tool in tools):
        raise ValueError("tools: only functions are passed on")


def _check_message(message: Any, where: str) -> None:
    """Refuse images and files, whose tokens nobody knows before they are sent."""
    if not isinstance(message, dict):
        raise ValueError(f"{where}: expected an object")
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            if _kind_of(part) not in ("text", "refusal"):
                raise ValueError(f"{where}.content: only texts are passed on")
    elif content is not None and not isinstance(content, str):
        raise ValueError(f"{where}.content: expected a text")


def _kind_of(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def _rows(vectors: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    rows = enumerate(vectors)
    return [{"object": "embedding", "index": place, "embedding": row} for place, row in rows]


def _encoded(answer: dict[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with its embeddings in base64 where that was asked for."""
    if body.get("encoding_format") == "base64":
        for row in answer["data"]:
            values = np.asarray(row["embedding"], dtype="<f4")
            row["embedding"] = base64.b64encode(values.tobytes()).decode()
    return answer


def _refused(status: int, why: str) -> web.Response:
    error = {"message": why, "type": "alps", "code": str(status)}
    return web.json_response({"error": error}, status=status)
