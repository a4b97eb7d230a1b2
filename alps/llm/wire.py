"""litellm imported, and one request on the wire: redirects refused, the answer noted and bounded.

litellm and instructor are imported inside the first call: that takes seconds and 168 MB.

litellm tells of failures in terms of its own: a 413 becomes a 429, headers are lost, and what its
own code stumbles over after a good answer becomes a 500. Here stands what the server said.

HTTP clients drop `Authorization` when a redirect leaves the host. They go on sending `x-api-key`,
`api-key`, `x-goog-api-key` and, after 307 and 308, the body: the key and the dialogue would go to a
host that the user never named. litellm makes its clients itself, of several libraries, and has them
follow redirects, so the libraries are patched, and refuse only while a model is asked: downloads
need redirects.
"""

import functools
import gc
import importlib
import json
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from functools import wraps
from types import SimpleNamespace
from typing import Any
from urllib.parse import urljoin, urlsplit

from alps.sizes import ENCODINGS, LARGEST_REPLY, Body, Unreadable
from alps.waiting import tell

_KEPT = 1 << 16
MOST_ANSWERS = 1_000
"""Answers of one reply, or its parts: providers give at most 128 answers (OpenAI, `n`)."""
_ANSWERS = ("choices", "candidates", "content", "output")
# What LiteLLM's proxy puts before the headers of the provider behind it, Retry-After among them.
_PASSED_ON = "llm_provider-"
_NOT_OF_THE_TEXT = ("content-encoding", "content-length", "transfer-encoding")


@dataclass
class Exchange:
    """The last answer to a request; `status` is None while none came.

    Attributes:
        redirect: The host of a redirect, which was not followed; None where there was none.
        body: The beginning of the body, inflated.
        problem: Why the body was given up, None where it was read.
        largest: The most bytes that a body may have, inflated.
        take: Is given a body and returns what its client shall read of it; None for all.
        client: The client of httpx that asked, where it is asynchronous.
        rewrite: Returns the request of httpx that is sent in the place of another.
        each_piece: Is given each piece of a body as it comes.
        stand_in: Answers in the place of the network, from which nothing is then asked.
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    redirect: str | None = None
    body: bytes = b""
    problem: str | None = None
    largest: int = LARGEST_REPLY
    take: Callable[[bytes], bytes] | None = None
    client: Any = None
    rewrite: Callable[[Any], Any] | None = None
    each_piece: Callable[[bytes], None] | None = None
    stand_in: Callable[[Any], Any] | None = None

    def begin(self) -> None:
        """Forget what an earlier request, such as one for a token, was answered."""
        self.status = self.redirect = self.problem = None
        self.headers, self.body = {}, b""

    def note(self, status: int, headers: Any) -> None:
        """Keep the status and the headers, by names in lower case."""
        self.status = status
        lower = {str(name).lower(): str(value) for name, value in headers.items()}
        passed_on = {name.removeprefix(_PASSED_ON): lower[name] for name in lower}
        self.headers = {**passed_on, **lower}

    def redirected(self, asked: str) -> "RedirectError":
        """Keep the host of a redirect for a message; the rest of the address may contain a key."""
        address = urljoin(asked, self.headers.get("location", ""))
        self.redirect = urlsplit(address).netloc.rpartition("@")[2]
        return RedirectError()


current: ContextVar[Exchange | None] = ContextVar("exchange", default=None)


async def read_async(response: Any, exchange: Exchange) -> Any:
    """Return a response of httpx like `response`, read and inflated within the bound.

    Raises:
        httpx.DecodingError: If it is too large or can't be inflated.
    """
    try:
        with _bounded(response, exchange) as body:
            async for data in response.aiter_raw():
                body.add(data)
                if exchange.each_piece is not None:
                    exchange.each_piece(data)
        return _whole(response, bytes(body.data), exchange)
    finally:
        await response.aclose()


def read(response: Any, exchange: Exchange) -> Any:
    """Read a response as `read_async` does, where a client of a library is not asynchronous."""
    try:
        with _bounded(response, exchange) as body:
            for data in response.iter_raw():
                body.add(data)
        return _whole(response, bytes(body.data), exchange)
    finally:
        response.close()


async def read_aiohttp(response: Any, exchange: Exchange) -> Any:
    """Read a response of aiohttp, which inflates it piece by piece itself, within the bound.

    Raises:
        httpx.DecodingError: If it is too large.
    """
    try:
        with _bounded(None, exchange) as body:
            async for data in response.content.iter_chunked(_KEPT):
                body.add(data)
    except Exception:
        response.close()
        raise
    exchange.body = bytes(body.data[:_KEPT])
    response._body = bytes(body.data)  # where aiohttp itself keeps what was read
    return response


@contextmanager
def _bounded(response: Any, exchange: Exchange) -> Iterator[Body]:
    """Collect a body; `response` is the one of httpx that says how it is packed, if any."""
    import httpx

    encoding = "" if response is None else response.headers.get("content-encoding", "")
    try:
        body = Body(encoding, exchange.largest)
        yield body
        check_answers(body.data)
    except Unreadable as error:
        exchange.problem = str(error)
        raise httpx.DecodingError(str(error), request=getattr(response, "request", None)) from error


def check_answers(data: bytes | bytearray) -> None:
    """Refuse a reply of more answers, or parts of one, than any provider gives.

    Raises:
        Unreadable: If it has more than `MOST_ANSWERS`.
    """
    # litellm makes several objects of each: 1.9 million took 2 GB, and did not end in 20 minutes.
    if len(data) < _KEPT:
        return
    try:
        row = json.loads(data)
    except (ValueError, RecursionError):
        return  # its reader says what is wrong
    for name in _ANSWERS if isinstance(row, dict) else ():
        answers = row.get(name)
        if isinstance(answers, list) and len(answers) > MOST_ANSWERS:
            raise Unreadable(f"it has {len(answers):,} {name}, more than {MOST_ANSWERS:,}")


def _whole(response: Any, data: bytes, exchange: Exchange) -> Any:
    import httpx

    exchange.body = data[:_KEPT]
    headers = httpx.Headers(response.headers)
    if exchange.take is not None:
        data, headers["content-type"] = exchange.take(data), "application/json"
    for name in _NOT_OF_THE_TEXT:
        headers.pop(name, None)
    # Else litellm works out a cost that nobody reads, for a tenth of the processor time of a call;
    # of a cost of 0 it looks up the reason.
    headers["x-litellm-response-cost"] = "1"
    whole = httpx.Response(
        response.status_code,
        headers=headers,
        content=data,
        request=response.request,
        extensions=response.extensions,
        default_encoding=response.default_encoding,
    )
    # known only where a response was read and closed by its own client, and litellm asks for it
    whole.elapsed = getattr(response, "_elapsed", timedelta())
    return whole


def _stood_in(exchange: Exchange, request: Any) -> Any:
    assert exchange.stand_in is not None
    response = exchange.stand_in(request)
    exchange.note(response.status_code, response.headers)
    exchange.body = response.content[:_KEPT]
    response.elapsed = timedelta()
    return response


class RedirectError(Exception):
    """An endpoint answered with a redirect."""


@contextmanager
def following_none() -> Iterator[Exchange]:
    """Let no request made inside follow a redirect; yield what is answered."""
    exchange = Exchange()
    token = current.set(exchange)
    try:
        yield exchange
    finally:
        current.reset(token)


def teach_clients() -> None:
    """Have clients of httpx and aiohttp refuse redirects inside `following_none`, for good."""
    import aiohttp
    import httpx

    httpx_client: Any = httpx.Client
    httpx_async_client: Any = httpx.AsyncClient
    aiohttp_session: Any = aiohttp.ClientSession
    httpx_client.send = _refusing(httpx_client.send)
    httpx_async_client.send = _refusing_async(httpx_async_client.send)
    aiohttp_session._request = _refusing_aiohttp(aiohttp_session._request)


def _prepared(exchange: Exchange, request: Any, options: dict[str, Any]) -> dict[str, Any]:
    exchange.begin()
    request.headers["accept-encoding"] = ENCODINGS
    return {**options, "follow_redirects": False, "stream": True}


def _refusing(send: Any) -> Any:
    @wraps(send)
    def sent(client: Any, request: Any, **options: Any) -> Any:
        exchange = current.get()
        if exchange is None:
            return send(client, request, **options)
        if exchange.stand_in is not None:
            return _stood_in(exchange, request)
        options = _prepared(exchange, request, options)
        response = send(client, request, **options)
        exchange.note(response.status_code, response.headers)
        if response.is_redirect:
            response.close()
            raise exchange.redirected(str(request.url))
        return read(response, exchange)

    return sent


def _refusing_async(send: Any) -> Any:
    @wraps(send)
    async def sent(client: Any, request: Any, **options: Any) -> Any:
        exchange = current.get()
        if exchange is None:
            return await send(client, request, **options)
        if exchange.stand_in is not None:
            return _stood_in(exchange, request)
        options = _prepared(exchange, request, options)
        exchange.client = client
        request = request if exchange.rewrite is None else exchange.rewrite(request)
        response = await send(client, request, **options)
        exchange.note(response.status_code, response.headers)
        if response.is_redirect:
            await response.aclose()
            raise exchange.redirected(str(request.url))
        return await read_async(response, exchange)

    return sent


def _refusing_aiohttp(request: Any) -> Any:
    @wraps(request)
    async def requested(session: Any, method: str, url: Any, **options: Any) -> Any:
        exchange = current.get()
        if exchange is None:
            return await request(session, method, url, **options)
        if exchange.stand_in is not None:
            raise NotImplementedError("only httpx requests can be replaced")
        exchange.begin()
        response = await request(session, method, url, **{**options, "allow_redirects": False})
        exchange.note(response.status, response.headers)
        if 300 <= response.status < 400:
            response.close()
            raise exchange.redirected(str(url))
        if options.get("auto_decompress") is False:  # asked by a client of httpx, which reads it
            return response
        return await read_aiohttp(response, exchange)

    return requested


_LOCK = threading.Lock()


def libraries() -> SimpleNamespace:
    """Return the modules `litellm` and `instructor`."""
    # Two threads that came first together taught the clients twice: no body could be read then.
    with _LOCK:
        return _libraries()


@functools.cache
def _libraries() -> SimpleNamespace:
    for name, value in list(os.environ.items()):
        if name.endswith("_API_KEY") and not value.strip():
            del os.environ[name]  # litellm takes an empty key for a key
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # Else the first request to Anthropic fetches a table that lies in the package, too.
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    # litellm opens 500 connections a host; of more requests at once the rest would wait inside
    # `timeout`.
    os.environ.setdefault("AIOHTTP_CONNECTOR_LIMIT_PER_HOST", "2048")
    os.environ.setdefault("AIOHTTP_CONNECTOR_LIMIT", "4096")
    for name in ("instructor", "LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai", "httpx"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        logger.setLevel(logging.CRITICAL)
    with _no_dotenv():
        tell("loading the model client")
        litellm, instructor = _imported("litellm", "instructor")
    teach_clients()
    litellm.suppress_debug_info = True
    # Where a reply says no usage, litellm counts tokens, and would fetch the tokenizer of some
    # models for it. Only this is forbidden, and not the hub: data may be fetched after this.
    litellm.disable_hf_tokenizer_download = True
    litellm.telemetry = False
    # To clients that it replaces, as each is after an hour, litellm keeps weak references, where it
    # keeps any: one that the garbage collector takes before it is closed complains on the screen.
    with suppress(AttributeError):
        litellm.in_memory_llm_clients_cache.evicted_client_closer._owned = set()
    # litellm makes a request's coroutine in a thread; an interrupt in between leaves it unawaited.
    warnings.filterwarnings("ignore", r"coroutine '\w*Completion\w*\.", RuntimeWarning)
    # of odd replies, on the screen
    warnings.filterwarnings("ignore", r"Pydantic serializer warnings", UserWarning)
    return SimpleNamespace(litellm=litellm, instructor=instructor)


def _imported(*names: str) -> list[Any]:
    """Import libraries that make a million objects and throw none away."""
    # The garbage collector would look through them again and again, for a quarter of the time that
    # the import takes, and after it at every full collection.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextmanager
def _no_dotenv() -> Iterator[None]:
    """Keep libraries from reading a `.env` while they are imported.

    litellm reads one unless its mode is PRODUCTION: a file of a checkout could then send keys and
    dialogues elsewhere. python-dotenv itself is switched off, too, for versions and libraries that
    ask it in other places. Both variables are put back: a class under test may read its own file,
    and what it starts sees the user's environment.
    """
    switches = {"LITELLM_MODE": "PRODUCTION", "PYTHON_DOTENV_DISABLED": "1"}
    before = {name: os.environ.get(name) for name in switches}
    os.environ.update(switches)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
