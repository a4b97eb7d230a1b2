"""Models that extensions serve, and endpoints that they send requests to in a way of their own."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from alps.extension import extensions, load

if TYPE_CHECKING:
    from alps.llm.ledger import Totals
    from alps.llm.limiter import Limiter
    from alps.llm.types import Reply, Request


@dataclass(frozen=True)
class Asking:
    """A model at an endpoint that is to be asked; `notice` is given lines for the user.

    `limiter` and `totals` are None where only the name is checked; `timeout` is in seconds.
    """

    model: str
    api_base: str | None
    timeout: float = math.inf
    limiter: "Limiter | None" = None
    totals: "Totals | None" = None
    notice: Callable[[str], None] | None = None


class Sender(Protocol):
    """Sends requests to one endpoint, and keeps its time itself."""

    async def ready(self) -> None:
        """Wait until the endpoint can be asked.

        Raises:
            UsageError: If it never can.
        """

    async def __call__(self, request: "Request[Any]", messages: "list[dict[str, str]]") -> "Reply":
        """Make one request, as `alps.llm.provider.send` does."""
        ...

    async def aclose(self) -> None:
        """End what it started."""


def is_served(model: str) -> bool:
    """Tell whether an extension serves a model of that name itself."""
    return any(one.serves(model) for one in extensions())


def sender_of(asking: Asking) -> Sender | None:
    """Return what sends the requests of an endpoint; None where it is asked as providers are.

    Raises:
        UsageError: If a model that an extension serves is not there.
    """
    for one in extensions():
        if one.sends and (sender := load(one.sends)(asking)) is not None:
            found: Sender = sender
            return found
    return None
