"""A loopback server that forwards requests to models and counts their usage.

It speaks as much of OpenAI's API as memory systems ask for: chat completions, with tools and
formats of an answer, and embeddings. What it is asked goes through the client of the run: budget,
ledger, kept replies, retries. Whoever asks shows a key that is drawn for the run; the keys of
providers stay here.

Bodies of requests come from a program of somebody else's. Each field that goes on is of the type
that OpenAI's API gives it: what a provider can't read would else count as its failure.
"""

import asyncio
import base64
import json
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from aiohttp import ClientError, web
from aiohttp.http import HttpProcessingError
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from alps.errors import AlpsError
from alps.jsonl import parse_json, parse_strict
from alps.llm.provider import read_reply
from alps.llm.structured import as_body
from alps.llm.types import Completes, Cost, Count, Reply, Request
from alps.llm.wire import Exchange, libraries
from alps.schema import Outcome
from alps.sizes import Body, Unreadable

Embed = Callable[[Sequence[str]], NDArray[np.float32]]
Asked = Literal["chat", "embeddings"]
_LONGEST = ("max_tokens", "max_completion_tokens")
"""Fields of a chat that bound the tokens of its answer."""
# The longest prompt of any provider, 10 million tokens of about 4 bytes, is below it.
_LARGEST = 64 << 20
# OpenAI's clients ask again after a 429 and a 5xx; here everything was tried already.
_STATUS: Mapping[Outcome, int] = {"budget": 402, "transport": 424}
# What changes no answer, or is answered here; a body may have it and it goes no further.
_LEFT_OUT = frozenset(("model", "stream", "encoding_format", "user", "store", "metadata"))
_MOST_TOKENS = 100_000_000
"""Above it a number is no count of tokens: the longest prompt of any provider has 10 million."""
_IN_WORDS = {
    "model_type": "expected an object",
    "dict_type": "expected an object",
    "list_type": "expected a list",
    "string_type": "expected a string",
    "missing": "missing",
}


@dataclass(frozen=True)
class PassedOn:
    """The form of a request whose only message is the JSON of a system's, which is sent as it is.

    Attributes:
        asked: What it asks for.
        most: The most tokens of its answer; None where only the model bounds it.
    """

    asked: Asked
    most: int | None

    @classmethod
    def of(cls, asked: Asked, body: Mapping[str, Any]) -> "PassedOn":
        """Return the form of a body that was checked."""
        bounds = [body[name] for name in _LONGEST if body.get(name) is not None]
        return cls(asked, max(bounds, default=None) if asked == "chat" else 0)

    @property
    def key(self) -> Mapping[str, Any]:
        """What tells such requests apart in the cache."""
        return {"passed": self.asked}

    async def ask(
        self, request: Request[Any], message: str, options: Mapping[str, Any], exchange: Exchange
    ) -> Reply:
        """Make one request; the text of the reply is the JSON of its body, and of what it used."""
        litellm = libraries().litellm
        ask = litellm.acompletion if self.asked == "chat" else litellm.aembedding
        body = as_body({"model": request.model, **json.loads(message)}, request.model)
        response = await ask(**{**body, **options})
        reply = read_reply(response, request.model)
        used = {name: getattr(reply, name) for name in _Use.model_fields}
        text = json.dumps({"body": response.model_dump(mode="json"), "used": used})
        return replace(reply, text=text, refusal=None, thought=None)

    def check(self, text: str) -> None:
        """Refuse a text that was kept and is no such reply, in a ValueError."""
        passed_in(text)


class _Use(BaseModel):
    prompt_tokens: Count | None
    completion_tokens: Count | None
    cost: Cost | None


class PassedBody(BaseModel):
    """A reply that is passed on: the body as it came, and what it used."""

    body: dict[str, Any]
    used: _Use


def passed_in(text: str) -> PassedBody:
    """Read the text of such a reply.

    Raises:
        ValueError: If it is something else.
    """
    return PassedBody.model_validate(parse_json(text))


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

    asked: Asked
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
    client: Completes | None = None
    api_base: str | None = None
    embed: Embed | None = None

    @property
    def shown(self) -> str:
        """The name without its provider, as clients of OpenAI's API expect one."""
        return self.model.partition("/")[2] or self.model


class Proxy:
    """Serves the models of a run on a free port of 127.0.0.1, once started.

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
        self._behind: Mapping[Asked, Behind | None] = {"chat": llm, "embeddings": embedder}
        self._note, self._about = note, about
        # Any account of the machine reaches loopback, and would spend the budget of the run.
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
        app = web.Application(middlewares=[_as_json])
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/embeddings", self._embeddings)
        # Bodies are inflated here, within a bound and without a word in the log. At its end aiohttp
        # would wait for 60 s, also for a connection that a system left open.
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=1.0, auto_decompress=False
        )
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

    async def _answered(self, kind: Asked, asked: web.Request) -> web.Response:
        # As bytes: `compare_digest` raises on texts with other letters than those of ASCII. What is
        # no UTF-8 in a header is half a character to Python.
        shown = asked.headers.get("Authorization", "").encode(errors="surrogateescape")
        if not secrets.compare_digest(shown, f"Bearer {self.key}".encode()):
            return _refused(401, "the API key is not the key of this run")
        behind = self._behind[kind]
        if behind is None:
            return _refused(404, f"the run has no model for {kind}")
        try:
            body, passed = _body_of(kind, await _read(asked))
        except _BodyError as error:
            return _refused(400, str(error))
        if behind.embed is not None:
            return await self._embedded(behind, behind.embed, body)
        return await self._passed_on(kind, behind, passed, body)

    async def _embedded(self, behind: Behind, embed: Embed, body: dict[str, Any]) -> web.Response:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        if not all(isinstance(text, str) for text in texts):
            return _refused(400, "input: expected strings")
        started = time.perf_counter()
        # A model of this machine takes seconds for many texts; no other request would move.
        vectors = enumerate((await asyncio.to_thread(embed, texts)).tolist())
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in vectors]
        seconds = round(time.perf_counter() - started, 6)
        self._note(Metered("embeddings", behind.model, cost=0.0, seconds=seconds))
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        answer = {"object": "list", "model": behind.model, "usage": usage, "data": data}
        return web.json_response(_encoded(answer, body))

    async def _passed_on(
        self, kind: Asked, behind: Behind, passed: str, body: dict[str, Any]
    ) -> web.Response:
        request: Request[str] = Request(
            behind.model,
            ({"role": "user", "content": passed},),
            None,
            api_base=behind.api_base,
            purpose="memory",
            about=self._about(),
            form=PassedOn.of(kind, body),
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


def _encoded(answer: dict[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with its embeddings in base64 where that was asked for."""
    if body.get("encoding_format") == "base64":
        for row in answer["data"]:
            values = np.asarray(row["embedding"], dtype="<f4")
            row["embedding"] = base64.b64encode(values.tobytes()).decode()
    return answer


async def _read(asked: web.Request) -> bytes:
    """Return the body of a request, unpacked.

    Raises:
        _BodyError: If it can't be unpacked, is too large, or ends before its length.
    """
    try:
        body = Body(asked.headers.get("Content-Encoding", ""), _LARGEST)
        async for chunk in asked.content.iter_any():
            body.add(chunk)
    except (Unreadable, ClientError, HttpProcessingError, OSError) as error:
        fault = str(error) or "it was cut off"
        raise _BodyError(f"the body can't be read: {fault}") from error
    return bytes(body.data)


@web.middleware
async def _as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer what the server itself refuses as an API does."""
    try:
        return await handler(request)
    except web.HTTPException as refused:
        return _refused(refused.status, refused.reason)


def _refused(status: int, why: str) -> web.Response:
    error = {"message": why, "type": "alps", "code": str(status)}
    return web.json_response({"error": error}, status=status)


class _BodyError(ValueError):
    """A body that is not passed on: names the field, and what it takes."""


_Number = Annotated[float, Field(allow_inf_nan=False)]
# JSON has numbers of 400 digits; what is read by 64 bits elsewhere would fail there.
_Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
# Clients such as LangChain's send the texts to embed as ids of tokens.
_Token = Annotated[int, Field(ge=0, lt=2**31)]


class _Fields(BaseModel):
    # Strict: a provider refuses `"0.5"` as a temperature, and the run would call that a failure of
    # the provider.
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _FunctionCall(_Fields):
    """A call of a function, as a model once answered it."""

    name: str
    arguments: str


class _Call(_Fields):
    id: str | None = None
    type: Literal["function"] = "function"
    function: _FunctionCall


class _ContentPart(_Fields):
    type: str
    text: str | None = None
    refusal: str | None = None


class _Message(_Fields):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_ContentPart] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    function_call: _FunctionCall | None = None


class _Function(_Fields):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _FunctionTool(_Fields):
    type: Literal["function"]
    function: _Function


class _Named(_Fields):
    name: str


class _FunctionChoice(_Fields):
    type: Literal["function"]
    function: _Named


class _ReplyForm(_Fields):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


class _Chat(_Fields):
    messages: Annotated[list[_Message], Field(min_length=1)]
    tools: list[_FunctionTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | _FunctionChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: _ReplyForm | None = None
    temperature: _Number | None = None
    top_p: _Number | None = None
    stop: str | list[str] | None = None
    seed: _Whole | None = None
    presence_penalty: _Number | None = None
    frequency_penalty: _Number | None = None
    logit_bias: dict[str, _Number] | None = None
    logprobs: bool | None = None
    top_logprobs: _Whole | None = None
    reasoning_effort: str | None = None


class _Embeddings(_Fields):
    input: str | Annotated[list[str] | list[_Token] | list[list[_Token]], Field(min_length=1)]
    dimensions: Annotated[_Whole, Field(ge=1)] | None = None


_FORMS: Mapping[Asked, type[_Fields]] = {"chat": _Chat, "embeddings": _Embeddings}
_TAKEN: Mapping[Asked, frozenset[str]] = {
    "chat": frozenset((*_Chat.model_fields, "n", *_LONGEST)),
    "embeddings": frozenset(_Embeddings.model_fields),
}


def _body_of(kind: Asked, content: bytes) -> tuple[dict[str, Any], str]:
    """Return a body, and the JSON that is forwarded.

    Nothing that could send it elsewhere, or a key with it, is.

    Raises:
        _BodyError: If it can't be read, or asks for something that is not passed on.
    """
    try:
        body = parse_strict(content)
        # Escaped halves of characters pass the parser, and fail where the request is written.
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise _BodyError("the body contains half a character (a lone surrogate)") from error
    except ValueError as error:
        raise _BodyError(f"not JSON ({error})") from error
    if not isinstance(body, dict):
        raise _BodyError("expected an object")
    # Usage is read from a whole answer, and only a whole one can be kept. ReMe and SimpleMem stream
    # unless they are set otherwise.
    if body.get("stream"):
        raise _BodyError("stream: streaming is not supported")
    if kind == "chat":
        _check_chat(body)
    elif not isinstance(body.get("input"), list | str):
        raise _BodyError("input: expected a string or a list of strings")
    passed = {}
    for name, value in body.items():
        # Clients send null for what is not set; with it the request would have another key.
        if value is None or name in _LEFT_OUT:
            continue
        if name not in _TAKEN[kind]:
            raise _BodyError(f"{name[:80]}: not supported")
        passed[name] = value
    try:
        _FORMS[kind].model_validate(passed)
    except ValidationError as error:
        raise _BodyError(_first(error)) from error
    # Sorted, so that a kept reply is found in whatever order a client writes the fields.
    return body, json.dumps(passed, sort_keys=True)


def _check_chat(body: Mapping[str, Any]) -> None:
    """Refuse what multiplies the cost of a request beyond its text and its longest answer.

    Raises:
        _BodyError: Names the field.
    """
    n = body.get("n")
    # The budget sets aside one longest answer a request.
    if n is not None and (n != 1 or isinstance(n, bool)):
        raise _BodyError("n: one answer per request; send another request for more")
    for name in _LONGEST:
        most = body.get(name)
        whole = isinstance(most, int) and not isinstance(most, bool)
        if most is not None and not (whole and 1 <= most <= _MOST_TOKENS):
            raise _BodyError(f"{name}: expected a whole number from 1 to {_MOST_TOKENS:,}")
    if not isinstance(body.get("messages"), list):
        raise _BodyError("messages: expected a list")
    for place, message in enumerate(body["messages"]):
        _check_message(message, f"messages[{place}]")
    tools = body.get("tools") or []
    # A provider's own tools, such as a search of the web, are billed beyond the tokens.
    if not isinstance(tools, list) or any(_kind_of(tool) != "function" for tool in tools):
        raise _BodyError("tools: only functions are supported")


def _check_message(message: Any, where: str) -> None:
    """Refuse images and files, whose tokens nobody knows before they are sent."""
    if not isinstance(message, dict):
        raise _BodyError(f"{where}: expected an object")
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            if _kind_of(part) not in ("text", "refusal"):
                raise _BodyError(f"{where}.content: only text is supported")
    elif content is not None and not isinstance(content, str):
        raise _BodyError(f"{where}.content: expected a string")


def _kind_of(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def _first(error: ValidationError) -> str:
    """Return what is wrong first: `messages[1].tool_calls: expected a list`."""
    first, place = error.errors(include_url=False, include_input=False)[0], ""
    for part in first["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}"
    return f"{place.lstrip('.')}: {_IN_WORDS.get(first['type'], first['msg'])}"
