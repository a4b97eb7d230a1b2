"""A client that sends nothing: it notes the requests that it is given.

What a run would ask is then found by the very code that asks, with this client in the place of one
that has a provider.
"""

import asyncio
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from alps.llm.types import Completion, Request

T = TypeVar("T")


class Completes(Protocol):
    """An object that answers requests: `alps.llm.client.Client` or a `Recorder`."""

    async def complete(self, request: Request[T]) -> Completion[T]:
        """Answer `request`."""
        ...


class Recorder:
    """Notes requests, and gives each the answer that it takes for the likeliest.

    Attributes:
        requests: What it was asked, in this order. What was asked after an answer was given hangs
            on that answer, so it is not `certain`.
    """

    def __init__(self) -> None:
        self.requests: list[Request[Any]] = []
        self._answered = False

    async def complete(self, request: Request[T]) -> Completion[T]:
        """Return the likeliest answer; a failure where the request knows none."""
        self.requests.append(replace(request, certain=not self._answered))
        # Requests that are made together must all be noted before one of them is answered.
        await asyncio.sleep(0)
        self._answered = True
        if request.likely is None:
            return Completion("empty", error="only noted")
        return Completion("ok", request.likely())
