"""One HTTP attempt: instructor says how a typed answer is asked for, litellm asks.

Retries are the client's: litellm and instructor are told to make exactly one request.
"""

import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any

from alps.llm.failures import redirected, transport_error
from alps.llm.libraries import libraries
from alps.llm.redirects import following_none
from alps.llm.served import read_reply
from alps.llm.structured import is_valid, refuses_shape, shaped, with_arguments
from alps.llm.types import Reply, Request

_PLACEHOLDER_KEY = "not-needed"


async def send(request: Request[Any], messages: list[dict[str, str]]) -> Reply:
    """Make one HTTP request and return what came back, well-formed or not.

    Raises:
        TransportError: If no answer came. Its `fatal` is what ends the run where no later call can go through either: a
            CredentialError if the key was refused, a QuotaError if the provider asks to wait for longer than an hour, a
            UsageError if the model is not there.
    """
    loaded = libraries()
    clean = [{name: _encodable(text) for name, text in message.items()} for message in messages]
    options: dict[str, Any] = {"model": request.model, **shaped(request, clean), **request.sampling}
    if request.api_base is not None:
        options["api_base"] = request.api_base
        if loaded.litellm.validate_environment(request.model)["missing_keys"]:
            options["api_key"] = _PLACEHOLDER_KEY
    with following_none() as refused:
        try:
            response = await loaded.litellm.acompletion(max_retries=0, **options)
            reply = with_arguments(read_reply(response, request.model), response)
            return replace(reply, strict=is_valid(reply, request))
        except Exception as error:  # whatever a provider's client raises, no answer was heard
            if refused.status is not None:
                raise redirected(refused) from error
            failure = transport_error(loaded.litellm.exceptions, error, request.model)
            failure.shape_refused = request.answer is not None and refuses_shape(loaded.litellm.exceptions, error)
            raise failure from error


def _encodable(text: str) -> str:
    """Replace halves of characters, which real texts hold and no HTTP client can send."""
    return text.encode("utf-8", errors="replace").decode()


async def close() -> None:
    """Close the connections that litellm keeps for later calls, and forget them; nothing where it was never loaded."""
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
