"""Serving of pages on this machine alone: loopback, a token, and nothing for other pages.

Loopback is open to every account of a machine, and to every page that a browser has open.
"""

import secrets
import socket
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from alps.errors import UsageError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.routing import BaseRoute

HOST = "127.0.0.1"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    # The token is in the address, which a link must not tell to another site.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_REFUSAL = "No such page: open the full address that alps printed last\n"


def require_packages(command: str) -> None:
    """Refuse to begin without the packages that serve pages; `command` is who needs them.

    Raises:
        UsageError: If one is not installed.
    """
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        extra = "pip install 'alps-eval[annotate]'"
        raise UsageError(f"{command} needs more packages: {extra}")


def listen(port: int) -> socket.socket:
    """Return a socket on loopback that is bound; 0 for any port that is free.

    Raises:
        UsageError: If the port is taken.
    """
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A page that was just closed can be served at its port again.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
        # From here on a browser waits, rather than being refused, until the server runs.
        bound.listen()
    except OSError as error:
        bound.close()
        fault = f"{error.strerror or error}; choose another port, or 0 for any"
        raise UsageError(f"port={port}: {fault}") from error
    return bound


def new_token() -> str:
    """Draw the token of a page; each start has another one."""
    return secrets.token_urlsafe(24)


def address_of(bound: socket.socket, token: str) -> str:
    """Return the address of the page that is served at a socket."""
    return f"http://{HOST}:{bound.getsockname()[1]}/{token}/"


def application_of(routes: "Sequence[BaseRoute]", token: str) -> "Starlette":
    """Return the application that answers `routes` to holders of the token."""
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

    from alps.ext.view.loopback_connections import BACKLOG, TimedConnection

    config = uvicorn.Config(
        application,
        http=TimedConnection,
        backlog=BACKLOG,
        # Its warnings are of what strangers send, a line and more for each; we say that once.
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
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
        # Browsers name the origin of each form that they send: one without is not from our page.
        if foreign or origin not in (None, own) or (scope["method"] == "POST" and origin is None):
            refusal = PlainTextResponse("request from another page", 403)
            await refusal(scope, receive, with_headers)
        else:
            await self.app(scope, receive, with_headers)


class _Login:
    """Lets in whoever asks below the token, with which every address of the page begins.

    Not by a cookie: a browser sends the cookies of this machine to the servers on all of its ports.
    """

    def __init__(self, app: Any, token: str) -> None:
        self.app, self._token = app, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        from starlette.responses import PlainTextResponse, RedirectResponse, Response

        given, slash, _ = scope["path"].removeprefix("/").partition("/")
        answer: Response
        # The time of an ordinary comparison would tell the token sign by sign.
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            answer = PlainTextResponse(_REFUSAL, 403)
        elif slash:
            await self.app({**scope, "root_path": f"/{given}"}, receive, send)
            return
        else:
            answer = RedirectResponse(f"/{given}/", status_code=303)
        await answer(scope, receive, send)
