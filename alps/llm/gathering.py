"""Interface between a client and requests that are sent together."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from alps.llm.types import Reply, Request

Messages = Sequence[dict[str, str]]


class GatheredResult(Protocol):
    """The result of one request."""

    @property
    def lost(self) -> str:
        """Why it was not answered; empty where it was."""
        ...

    @property
    def billed(self) -> bool | None:
        """Whether it is billed; None if unknown."""
        ...


class GatheredAnswer(Protocol):
    """An answer that came with others; `batch` is the provider's name of what it came in."""

    @property
    def result(self) -> GatheredResult:
        """The result of the request."""
        ...

    @property
    def batch(self) -> str:
        """What it came in, as the provider calls it."""
        ...


class Gathering(Protocol):
    """Where requests wait to be sent together."""

    @property
    def places(self) -> AbstractAsyncContextManager[None] | None:
        """What a record waits for before it is read; None where it need not."""
        ...

    def takes(self, request: Request[Any], key: str) -> bool:
        """Tell whether a request waits here."""
        ...

    def is_sent(self, key: str) -> bool:
        """Tell whether a request was sent before, by a command that was killed, say."""
        ...

    def note(self, messages: Messages) -> None:
        """Record the memory use of the current record's requests."""
        ...

    async def answered(
        self, request: Request[Any], messages: list[dict[str, str]], key: str
    ) -> GatheredAnswer | None:
        """Return the answer; None if a single request must be sent."""
        ...

    def is_billed(self, key: str, batch: str) -> bool:
        """Tell whether the ledger has the answer already."""
        ...

    async def read(
        self, request: Request[Any], messages: list[dict[str, str]], answered: Any
    ) -> Reply:
        """Return the reply of an answer.

        Raises:
            TransportError: If there is none.
        """
        ...

    def taken(self, answered: Any) -> None:
        """Forget an answer, which the ledger and the cache have."""
        ...

    async def aclose(self) -> None:
        """Give up what waits."""
        ...
