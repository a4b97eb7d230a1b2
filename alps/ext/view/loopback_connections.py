"""Connections of a page that is served: those that send no whole request are few, and end."""

import asyncio
from typing import Any

import click
from uvicorn.protocols.http.h11_impl import H11Protocol

BACKLOG = 32
"""Connections that are accepted at a time."""
MOST = 64
"""Connections that may be without a whole request; of more, the oldest is closed."""
SECONDS = 20.0
"""For how long one may be without a whole request."""
_SAID = "closing connections without a request: {}"
_MANY, _LATE, _BROKEN = "there are too many", "they waited too long", "they do not send HTTP"


class TimedConnection(H11Protocol):  # type: ignore[misc]
    """A connection that has to send its requests in time."""

    def __init__(self, config: Any, server_state: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, server_state, *args, **kwargs)
        # Of one server: in the order in which they began to wait.
        self._waiting: dict[TimedConnection, asyncio.TimerHandle]
        self._waiting = server_state.__dict__.setdefault("waiting", {})
        self._state = server_state

    def connection_made(self, transport: Any) -> None:
        """Wait for a request, replacing the connection that has waited longest."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what is sent; the next request on the same connection has to come in time, too."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._wait_no_longer()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self.cycle is None or self.cycle.response_complete:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        super().send_400_response(msg)
        self._tell(_BROKEN)

    def _wait(self) -> None:
        if self in self._waiting or self.transport is None or self.transport.is_closing():
            return
        self._waiting[self] = self.loop.call_later(SECONDS, self._end, _LATE)
        if len(self._waiting) > MOST:
            next(iter(self._waiting))._end(_MANY)

    def _wait_no_longer(self) -> None:
        if (timer := self._waiting.pop(self, None)) is not None:
            timer.cancel()

    def _end(self, why: str) -> None:
        self._wait_no_longer()
        # `close` would wait until the other side has taken what is still to be sent.
        self.transport.abort()
        self._tell(why)

    def _tell(self, why: str) -> None:
        # Once: who opens hundreds of them would fill the terminal.
        if not self._state.__dict__.setdefault("told", False):
            self._state.told = True
            click.echo(f"alps: {_SAID.format(why)}", err=True)
