"""Requests to a model follow no redirect: the key and the dialogue would go to a host that the user
never named.

HTTP clients drop `Authorization` when a redirect leaves the host. They go on sending `x-api-key`,
`api-key`, `x-goog-api-key` and, after 307 and 308, the body. litellm makes its clients itself, of
several libraries, and has them follow redirects, so the libraries are told, and only while a model
is asked: downloads need redirects. The same clients are where an answer is met as it comes, so that
what it says is noted, and its body bounded, here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from alps.llm.exchange import Exchange, ask_for_plain, current, read, read_aiohttp, read_async


class RedirectError(Exception):
    """An endpoint answered with a redirect."""


@contextmanager
def following_none() -> Iterator[Exchange]:
    """Let no request that is made inside follow a redirect.

    What is yielded tells what was answered.
    """
    exchange = Exchange()
    token = current.set(exchange)
    try:
        yield exchange
    finally:
        current.reset(token)


def teach_clients() -> None:
    """Have every client of httpx and aiohttp in this process refuse redirects inside
    `following_none`; call it once.
    """
    import aiohttp
    import httpx

    httpx_client: Any = httpx.Client
    httpx_async_client: Any = httpx.AsyncClient
    aiohttp_session: Any = aiohttp.ClientSession
    httpx_client.send = _refusing(httpx_client.send)
    httpx_async_client.send = _refusing_async(httpx_async_client.send)
    aiohttp_session._request = _refusing_aiohttp(aiohttp_session._request)


def _refusing(send: Any) -> Any:
    @wraps(send)
    def sent(client: Any, request: Any, **options: Any) -> Any:
        exchange = current.get()
        if exchange is None:
            return send(client, request, **options)
        exchange.begin()
        ask_for_plain(request.headers)
        response = send(client, request, **{**options, "follow_redirects": False, "stream": True})
        exchange.note(response.status_code, response.headers)
        if response.is_redirect:
            response.close()
            exchange.redirected(str(request.url))
            raise RedirectError
        return read(response, exchange)

    return sent


def _refusing_async(send: Any) -> Any:
    @wraps(send)
    async def sent(client: Any, request: Any, **options: Any) -> Any:
        exchange = current.get()
        if exchange is None:
            return await send(client, request, **options)
        exchange.begin()
        ask_for_plain(request.headers)
        response = await send(
            client, request, **{**options, "follow_redirects": False, "stream": True}
        )
        exchange.note(response.status_code, response.headers)
        if response.is_redirect:
            await response.aclose()
            exchange.redirected(str(request.url))
            raise RedirectError
        return await read_async(response, exchange)

    return sent


def _refusing_aiohttp(request: Any) -> Any:
    @wraps(request)
    async def requested(session: Any, method: str, url: Any, **options: Any) -> Any:
        exchange = current.get()
        if exchange is None:
            return await request(session, method, url, **options)
        exchange.begin()
        response = await request(session, method, url, **{**options, "allow_redirects": False})
        exchange.note(response.status, response.headers)
        if 300 <= response.status < 400:
            response.close()
            exchange.redirected(str(url))
            raise RedirectError
        if options.get("auto_decompress") is False:  # asked by a client of httpx, which reads it
            return response
        return await read_aiohttp(response, exchange)

    return requested
