"""Requests to a model follow no redirect: the key and the dialogue would go to a host that the user never named.

HTTP clients drop `Authorization` when a redirect leaves the host. They go on sending `x-api-key`, `api-key`,
`x-goog-api-key` and, after 307 and 308, the body. litellm makes its clients itself, of several libraries, and has them
follow redirects, so the libraries are told, and only while a model is asked: downloads need redirects.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any
from urllib.parse import urljoin, urlsplit


@dataclass
class Refused:
    """The redirect that an endpoint answered with; `status` is None while there was none.

    `answered` tells whether the last answer began with a status of success, whatever became of its body.
    """

    status: int | None = None
    host: str = ""
    answered: bool = False

    def note(self, status: int, asked: str, location: str) -> None:
        """Keep what an error message names: of the new address only the host, as the rest may hold a key."""
        self.status, self.host = status, urlsplit(urljoin(asked, location)).netloc.rpartition("@")[2]


class RedirectError(Exception):
    """An endpoint answered with a redirect."""


_asking: ContextVar[Refused | None] = ContextVar("asking", default=None)


@contextmanager
def following_none() -> Iterator[Refused]:
    """Let no request that is made inside follow a redirect; what is yielded tells of one that was met."""
    refused = Refused()
    token = _asking.set(refused)
    try:
        yield refused
    finally:
        _asking.reset(token)


def teach_clients() -> None:
    """Have every client of httpx and aiohttp in this process refuse redirects inside `following_none`; call it once."""
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
        refused = _asking.get()
        if refused is None:
            return send(client, request, **options)
        refused.answered = False
        response = send(client, request, **{**options, "follow_redirects": False})
        refused.answered = response.is_success
        if response.is_redirect:
            response.close()
            refused.note(response.status_code, str(request.url), response.headers.get("location", ""))
            raise RedirectError
        return response

    return sent


def _refusing_async(send: Any) -> Any:
    @wraps(send)
    async def sent(client: Any, request: Any, **options: Any) -> Any:
        refused = _asking.get()
        if refused is None:
            return await send(client, request, **options)
        refused.answered = False
        response = await send(client, request, **{**options, "follow_redirects": False})
        refused.answered = response.is_success
        if response.is_redirect:
            await response.aclose()
            refused.note(response.status_code, str(request.url), response.headers.get("location", ""))
            raise RedirectError
        return response

    return sent


def _refusing_aiohttp(request: Any) -> Any:
    @wraps(request)
    async def requested(session: Any, method: str, url: Any, **options: Any) -> Any:
        refused = _asking.get()
        if refused is None:
            return await request(session, method, url, **options)
        refused.answered = False
        response = await request(session, method, url, **{**options, "allow_redirects": False})
        refused.answered = 200 <= response.status < 300
        if 300 <= response.status < 400:
            response.close()
            refused.note(response.status, str(url), response.headers.get("location", ""))
            raise RedirectError
        return response

    return requested
