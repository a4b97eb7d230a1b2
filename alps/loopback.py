"""Serving of pages on this machine alone: loopback, a token, and nothing for other pages.

Loopback is open to every account of a machine, and to every page that a browser has open.
"""

import secrets
import socket
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from alps.errors import UsageError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.routing import BaseRoute

HOST = "127.0.0.1"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_REFUSAL = "No token: open the whole address that alps printed\n"


def require_packages(command: str) -> None:
    """Refuse to begin without the packages that serve pages; `command` is who needs them.

    Raises:
        UsageError: If one is not installed.
    """
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        extra = "pip install 'alps-eval[annotate]'"
        raise UsageError(f"{command} needs packages that are not installed: {extra}")


def listen(port: int) -> socket.socket:
    """Return a socket on loopback that is bound; 0 for any port that is free.

    Raises:
        UsageError: If the port is taken.
    """
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
        # From here on a browser waits, rather than being refused, until the server runs.
        bound.listen()
    except OSError as error:
        bound.close()
        fault = f"{error.strerror or error}; choose another, or 0 for any"
        raise UsageError(f"port={port}: {fault}") from error
    return bound


def application_of(routes: "Sequence[BaseRoute]", token: str) -> "Starlette":
    """Return the application that answers `routes` to whoever has the token."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    return Starlette(
        routes=routes,
        # Another page may have its own name lead here: what is asked under it is refused.
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"]),
            Middleware(_Guard),
            Middleware(_Login, token=token),
        ],
    )


def server_of(application: "Starlette") -> Any:
    """Return the server of an application; its `run` serves sockets until it is interrupted."""
    import uvicorn

    config = uvicorn.Config(
        application, log_level="warning", access_log=False, lifespan="off", ws="none"
    )
    return uvicorn.Server(config)


class _Guard:
    """Refuses what another page asks for, and adds the headers of every answer."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.datastructures import Headers, MutableHeaders
        from starlette.responses import PlainTextResponse

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        origin, own = headers.get("origin"), f"http://{headers.get('host', '')}"
        foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if foreign or origin not in (None, own) or (scope["method"] == "POST" and origin is None):
            refusal = PlainTextResponse("asked from another page", 403)
            await refusal(scope, receive, with_headers)
        else:
            await self.app(scope, receive, with_headers)


class _Login:
    """Lets in whoever has the token, from then on by a cookie."""

    def __init__(self, app: Any, token: str) -> None:
        self.app, self._token = app, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        from starlette.requests import HTTPConnection
        from starlette.responses import PlainTextResponse, RedirectResponse, Response

        # Cookies are of a host, and each person's page is on a port of its own.
        name = f"alps-{scope['server'][1]}"
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        answer: Response
        if self._fits(HTTPConnection(scope).cookies.get(name, "")):
            await self.app(scope, receive, send)
            return
        if scope["method"] == "GET" and self._fits(given):
            answer = RedirectResponse(scope["path"], status_code=303)
            answer.set_cookie(name, self._token, httponly=True, samesite="strict")
        else:
            answer = PlainTextResponse(_REFUSAL, 403)
        await answer(scope, receive, send)

    def _fits(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())
