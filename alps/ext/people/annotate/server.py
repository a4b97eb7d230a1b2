"""Server of the page: on loopback, and closed to requests from other pages."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from alps.errors import UsageError
from alps.ext.people.annotate.page import WorkProgress, environment, render, standing_of
from alps.ext.people.annotate.seat import Seat
from alps.ext.view.loopback import application_of
from alps.text import whole_number

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

ASSETS = Path(__file__).with_name("assets")
_KINDS = {"annotate.css": "text/css", "annotate.js": "text/javascript"}
# Of a form: a memory, its quote and two queries are far shorter.
_LONGEST = 200_000
# How long figures of the work stay, in times of what they took.
_WORTH = 20


class _Desk:
    """What the server answers for one person."""

    def __init__(self, seat: Seat, purpose: Sequence[str]) -> None:
        self.seat, self.templates, self._purpose = seat, environment(), purpose
        # Whoever goes on though the interval is narrow enough is not asked again.
        self.going_on = False
        self._standing, self._fresh_until = standing_of(seat), 0.0

    async def show(self, request: "Request") -> "Response":
        """Show the next item, or the one at a place."""
        named = request.path_params.get("place")
        place = None if named is None else whole_number(named) or 0
        self.going_on = self.going_on or "on" in request.query_params
        if self.seat.adjudicate:
            self.seat.refresh()
        step = self.seat.next() if place is None else self.seat.at(place)
        return self._page(request, step, place)

    async def take(self, request: "Request") -> "Response":
        """Put a label on disk, and show what comes next."""
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > _LONGEST:
                return self._refusal("The form is too long", 413)
        given = dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
        place = whole_number(given.get("place", "")) or 0
        rows = whole_number(given.get("rows", "")) or 0
        try:
            step = self.seat.say(
                given.get("item", ""), rows, given, showing=given.get("showing", "")
            )
        except UsageError as error:
            step = self.seat.at(place)
            return self._page(request, step, place, fault=str(error), given=given)
        except OSError as error:
            return self._refusal(f"The label is not saved: {error.strerror}", 507)
        in_another_tab = step is not None and step.in_another_tab
        if in_another_tab or "fetch" in request.headers.get("x-requested-with", ""):
            return self._page(request, step, None)
        from starlette.responses import RedirectResponse

        return RedirectResponse(f"{request.scope['root_path']}/", status_code=303)

    def _page(
        self,
        request: "Request",
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
            purpose=self._purpose,
            root=request.scope["root_path"],
        )
        return HTMLResponse(text.encode(errors="replace"))

    def _current(self) -> WorkProgress:
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


def application(seat: Seat, token: str, purpose: Sequence[str] = ()) -> "Starlette":
    """Return the application that serves `seat` to holders of the token.

    `purpose` says what the labels are for, before the first and after the last one.
    """
    from starlette.responses import FileResponse, PlainTextResponse
    from starlette.routing import Route

    desk = _Desk(seat, purpose)

    async def asset(request: "Request") -> "Response":
        name = request.path_params["name"]
        if name not in _KINDS:
            return PlainTextResponse("not found", 404)
        return FileResponse(ASSETS / name, media_type=_KINDS[name])

    routes = [
        Route("/", desk.show),
        Route("/item/{place}", desk.show),
        Route("/label", desk.take, methods=["POST"]),
        Route("/assets/{name}", asset),
    ]
    return application_of(routes, token)
