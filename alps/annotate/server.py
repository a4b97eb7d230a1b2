"""Server of the page: on this machine alone, and for nobody who asks from another page."""

import socket
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from alps.annotate.figures import Standing, standing_of
from alps.annotate.page import environment, render
from alps.annotate.seat import Seat
from alps.errors import UsageError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOST = "127.0.0.1"
ASSETS = Path(__file__).with_name("assets")
_KINDS = {"annotate.css": "text/css", "annotate.js": "text/javascript"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# Of a form: a memory, its quote and two queries are far shorter.
_LONGEST = 200_000
# How long figures of the work stay, in times of what they took.
_WORTH = 20
_LACKING = "alps annotate needs packages that are not installed: pip install 'alps-eval[annotate]'"


class _Desk:
    """What the server answers for one person."""

    def __init__(self, seat: Seat) -> None:
        self.seat, self.templates = seat, environment()
        # Whoever goes on though the interval is narrow enough is not asked again.
        self.going_on = False
        self._standing, self._fresh_until = standing_of(seat), 0.0

    async def show(self, request: "Request") -> "Response":
        """Show the next item, or the one at a place."""
        place = request.path_params.get("place")
        self.going_on = self.going_on or "on" in request.query_params
        if self.seat.adjudicate:
            self.seat.refresh()
        return self._page(self.seat.next() if place is None else self.seat.at(place), place)

    async def take(self, request: "Request") -> "Response":
        """Put a label on disk, and show what comes next."""
        body = await request.body()
        if len(body) > _LONGEST:
            return self._refusal("The form is too long", 413)
        given = dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
        place = int(given.get("place", "0")) if given.get("place", "").isdigit() else 0
        rows = int(given["rows"]) if given.get("rows", "").isdigit() else -1
        try:
            step = self.seat.say(given.get("item", ""), rows, given)
        except UsageError as error:
            return self._page(self.seat.at(place), place, fault=str(error), given=given)
        except OSError as error:
            return self._refusal(f"The label is not saved: {error.strerror}", 507)
        if "fetch" in request.headers.get("x-requested-with", ""):
            return self._page(step, None)
        from starlette.responses import RedirectResponse

        return RedirectResponse("/", status_code=303)

    def _page(
        self,
        step: object,
        place: int | None,
        *,
        fault: str = "",
        given: Mapping[str, str] | None = None,
    ) -> "Response":
        from starlette.responses import HTMLResponse

        text = render(
            self.templates,
            self.seat,
            step,  # type: ignore[arg-type]
            standing=self._current(),
            fault=fault,
            given=given,
            going_on=self.going_on or place is not None,
        )
        return HTMLResponse(text.encode(errors="replace"))

    def _current(self) -> Standing:
        """Return how far the work is, made anew when that is worth its time."""
        # Of 10,000 labels it takes 0.4 s: nobody waits for it at every label.
        if time.monotonic() >= self._fresh_until:
            started = time.monotonic()
            self._standing = standing_of(self.seat)
            self._fresh_until = started + _WORTH * (time.monotonic() - started)
        return self._standing

    def _refusal(self, message: str, status: int) -> "Response":
        from starlette.responses import PlainTextResponse

        return PlainTextResponse(message, status)


def require_packages() -> None:
    """Refuse to begin without the packages that serve the page.

    Raises:
        UsageError: If one is not installed.
    """
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise UsageError(_LACKING)


def application(seat: Seat) -> "Starlette":
    """Return the application that serves `seat`."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import FileResponse, PlainTextResponse
    from starlette.routing import Route

    desk = _Desk(seat)

    async def asset(request: "Request") -> "Response":
        name = request.path_params["name"]
        if name not in _KINDS:
            return PlainTextResponse("not found", 404)
        return FileResponse(ASSETS / name, media_type=_KINDS[name])

    return Starlette(
        routes=[
            Route("/", desk.show),
            Route("/item/{place:int}", desk.show),
            Route("/label", desk.take, methods=["POST"]),
            Route("/assets/{name}", asset),
        ],
        # Another page may have its own name lead here: what is asked under it is refused.
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"]),
            Middleware(_Guard),
        ],
    )


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


def server_of(seat: Seat) -> Any:
    """Return the server of `seat`, whose `run` serves sockets until it is interrupted."""
    import uvicorn

    config = uvicorn.Config(
        application(seat), log_level="warning", access_log=False, lifespan="off", ws="none"
    )
    return uvicorn.Server(config)
