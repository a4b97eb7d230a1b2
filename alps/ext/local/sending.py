"""Requests to servers of one's own."""

from dataclasses import replace
from typing import Any

from alps.errors import UsageError
from alps.ext.local.files import ModelFile, model_file
from alps.ext.local.server import Server
from alps.llm import provider
from alps.llm.served import Asking, Sender, is_served
from alps.llm.types import Reply, Request


def sender(asking: Asking) -> Sender | None:
    """Return what asks a server of one's own; None for all others.

    Raises:
        UsageError: If the model that is named is not there.
    """
    if not is_served(asking.model):
        return None
    if asking.api_base is not None:
        what = "it has a server of its own; leave the address out, or name openai/NAME behind it"
        raise UsageError(f"{asking.model}: {what}")
    return Local(asking, model_file(asking.model))


class Local:
    """Asks a model that is served for this run alone."""

    def __init__(self, asking: Asking, file: ModelFile) -> None:
        self._asking, self._file = asking, file
        self._server: Server | None = None

    async def ready(self) -> None:
        """Wait until the model is loaded."""
        if self._server is None:
            self._server = Server.of(self._file)
        await self._server.ready()

    async def __call__(self, request: Request[Any], messages: list[dict[str, str]]) -> Reply:
        """Make one request."""
        assert self._server is not None
        base = f"{self._server.address}/v1"
        asked = replace(request, model=self._file.name, api_base=base)
        reply = await provider.send(asked, messages, timeout=self._asking.timeout)
        return replace(reply, cost=0.0)

    async def aclose(self) -> None:
        """End the server."""
        if self._server is not None:
            await self._server.released()
            self._server = None
