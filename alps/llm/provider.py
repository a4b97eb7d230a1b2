"""One HTTP attempt: instructor says how a typed answer is asked for, litellm asks.

Retries are the client's: litellm and instructor are told to make exactly one request.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from alps.llm.extra import sent
from alps.llm.failures import redirected, transport_error
from alps.llm.keys import credentials
from alps.llm.libraries import libraries
from alps.llm.prompt_cache import marked
from alps.llm.ratelimits import requests_left
from alps.llm.redirects import following_none
from alps.llm.served import read_reply
from alps.llm.structured import as_body, is_valid, refuses_shape, shaped, with_arguments
from alps.llm.types import Reply, Request

_LATER = 60.0
"""Seconds; the client's own timeout, which bounds the whole call, comes before litellm's, which
bounds its parts.
"""


async def send(
    request: Request[Any],
    messages: list[dict[str, str]],
    *,
    timeout: float | None = None,
    told: Callable[[float, float], None] | None = None,
) -> Reply:
    """Make one HTTP request and return what came back, well-formed or not.

    Args:
        request: What is asked.
        messages: The messages, those of the request or more.
        timeout: Seconds that the caller waits; litellm would give up after 600.
        told: Is given how many requests are left and in how many seconds their limit is reset,
            where the answer says.

    Raises:
        TransportError: If no answer came. Its `fatal` is what ends the run where no later call can
            go through either: a CredentialError if the key was refused, a QuotaError if the
            provider asks to wait for longer than an hour, a UsageError if the model is not there.
    """
    loaded = libraries()
    clean = [{name: _encodable(text) for name, text in message.items()} for message in messages]
    options: dict[str, Any] = {"model": request.model, **shaped(request, clean)}
    options["messages"] = marked(options["messages"], request.model)
    options = as_body({**options, **request.sampling, **sent(request.extra)}, request.model)
    if request.api_base is not None:
        options["api_base"] = request.api_base
    options |= credentials(request.model, api_base=request.api_base)
    if timeout is not None:
        options["timeout"] = timeout + _LATER
    with following_none() as exchange:
        try:
            response = await loaded.litellm.acompletion(max_retries=0, **options)
            reply = with_arguments(read_reply(response, request.model), response)
        except Exception as error:  # whatever a provider's client raises, no answer was heard
            if exchange.redirect is not None:
                raise redirected(exchange) from error
            failure = transport_error(loaded.litellm.exceptions, error, request.model, exchange)
            failure.shape_refused = request.answer is not None and refuses_shape(
                loaded.litellm.exceptions, error
            )
            raise failure from error
    if told is not None and (left := requests_left(exchange.headers)) is not None:
        told(*left)
    return replace(reply, strict=is_valid(reply, request))


def _encodable(text: str) -> str:
    """Replace halves of characters, which real texts hold and no HTTP client can send."""
    return text.encode("utf-8", errors="replace").decode()


async def close() -> None:
    """Close the connections that litellm keeps for later calls, and forget them.

    Nothing where it was never loaded.
    """
    if "litellm" not in sys.modules:
        return
    import litellm
    from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

    await close_litellm_async_clients()
    closer = getattr(litellm.in_memory_llm_clients_cache, "evicted_client_closer", None)
    made: set[Any] = getattr(closer, "_owned", set())
    while made:
        client = made.pop()
        with suppress(Exception):
            await getattr(client, "aclose", client.close)()
    litellm.in_memory_llm_clients_cache.flush_cache()
