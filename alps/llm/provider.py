"""One HTTP attempt: instructor says how a typed answer is asked for, litellm asks.

Retries are the client's: litellm and instructor are told to make exactly one request.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from alps.llm.failures import redirected, requests_left, transport_error
from alps.llm.options import sent
from alps.llm.preflight import credentials
from alps.llm.prices import ReplyTokens, price_of
from alps.llm.secrets import redact
from alps.llm.structured import as_body, is_valid, refuses_shape, shaped, with_arguments
from alps.llm.types import Reply, Request, TransportError
from alps.llm.wire import Exchange, following_none, libraries

# Seconds; the client's own timeout, which bounds the whole call, comes before litellm's, which
# bounds its parts.
_LATER = 60.0


async def send(
    request: Request[Any],
    messages: list[dict[str, str]],
    *,
    timeout: float | None = None,
    told: Callable[[float, float], None] | None = None,
    stand_in: Callable[[Any], Any] | None = None,
    service: str | None = None,
    prepare: Callable[[Exchange], None] | None = None,
) -> Reply:
    """Make one HTTP request and return what came back, well-formed or not.

    Args:
        request: What is asked.
        messages: The messages, those of the request or more.
        timeout: Seconds that the caller waits; litellm would give up after 600.
        told: Is given how many requests are left and in how many seconds their limit is reset,
            where the answer says.
        stand_in: Answers in the place of the network, as a batch does.
        service: How the request was served, where the caller knows better than the reply.
        prepare: Says how the exchange goes, before it begins.

    Raises:
        TransportError: If no answer came. Its `fatal` is what ends the run where no later call can
            go through either: a CredentialError if the key was refused, a QuotaError if the
            provider asks to wait for longer than an hour, a UsageError if the model is not there.
    """
    litellm = libraries().litellm
    encodable = [_encodable(message) for message in messages]
    options = _options(request, encodable) if request.form is None else {}
    if request.api_base is not None:
        options["api_base"] = request.api_base
    options |= credentials(request.model, api_base=request.api_base)
    if timeout is not None:
        options["timeout"] = timeout + _LATER
    options["max_retries"] = 0
    with following_none() as exchange:
        exchange.stand_in = stand_in
        if prepare is not None:
            prepare(exchange)
        try:
            if request.form is None:
                response = await litellm.acompletion(**options)
                reply = with_arguments(read_reply(response, request.model, service), response)
            else:
                message = encodable[-1]["content"]
                reply = await request.form.ask(request, message, options, exchange)
        except TransportError:
            raise
        except Exception as error:  # whatever a provider's client raises, no answer was heard
            if exchange.redirect is not None:
                raise redirected(exchange) from error
            failure = transport_error(litellm.exceptions, error, request.model, exchange)
            if request.answer is not None:
                failure.shape_refused = refuses_shape(litellm.exceptions, error)
            raise failure from error
    if told is not None and (left := requests_left(exchange.headers)) is not None:
        told(*left)
    return replace(reply, strict=is_valid(reply, request))


def _options(request: Request[Any], messages: list[dict[str, str]]) -> dict[str, Any]:
    """Return what a chat is asked with."""
    options = {"model": request.model, **shaped(request, messages)}
    options["messages"] = marked(options["messages"], request.model)
    return as_body({**options, **request.decoding, **sent(request.extra)}, request.model)


def _encodable(message: dict[str, str]) -> dict[str, str]:
    """Replace halves of characters, which real texts hold and no HTTP client can send."""
    items = message.items()
    return {name: text.encode("utf-8", errors="replace").decode() for name, text in items}


async def close() -> None:
    """Close and forget the connections that litellm, if it was loaded, keeps for later calls."""
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


_MARK = {"type": "ephemeral"}
# Providers that pass the mark on to Anthropic's models, in its form or in their own
_ROUTES = ("anthropic", "bedrock", "vertex_ai", "azure_ai", "openrouter")


def marked(messages: Sequence[Mapping[str, str]], model: str) -> list[dict[str, Any]]:
    """Return the messages of a request, the system message marked where `model` needs that."""
    copies: list[dict[str, Any]] = [dict(message) for message in messages]
    for message in copies if needs_mark(model) else ():
        if message["role"] == "system":
            block = {"type": "text", "text": message["content"], "cache_control": _MARK}
            message["content"] = [block]
    return copies


@cache
def needs_mark(model: str) -> bool:
    """Tell whether a prompt is kept by `model` only where it is marked."""
    # Bedrock refuses the mark under models without a cache: litellm's table must know of one
    litellm = libraries().litellm
    name, provider, _, _ = litellm.get_llm_provider(model)
    if provider == "anthropic":
        return True
    if provider not in _ROUTES or "claude" not in name:
        return False
    return provider == "openrouter" or bool(litellm.utils.supports_prompt_caching(model))


# A count above it is no count: the longest prompt that any provider takes has 10 million tokens.
_MOST_TOKENS = 100_000_000
_LONGEST_NAME = 120
_NAMED = ("service", "served_model", "fingerprint", "request_id")
_ID_HEADERS = ("llm_provider-x-request-id", "llm_provider-request-id", "x-request-id")


def read_reply(response: Any, model: str, service: str | None = None) -> Reply:
    """Return the reply in our own terms; `service` is how it was served, None for as it says."""
    used = used_in(response)
    used = used if service is None else replace(used, service=service)
    fields: dict[str, Any] = {
        "prompt_tokens": used.prompt or None,
        "completion_tokens": _completion(response, used),
        "cached_tokens": used.cached or None,
        "cache_write_tokens": used.cache_write or None,
        "reasoning_tokens": used.reasoning or None,
        "service": used.service,
        "served_model": _name(_part(response, "model")),
        "fingerprint": _name(_part(response, "system_fingerprint")),
        "request_id": _request_id(response),
    }
    counted = fields["prompt_tokens"] is not None and fields["completion_tokens"] is not None
    fields |= _without_secrets({name: fields[name] for name in _NAMED})
    fields["cost"] = price_of(model).cost(used) if counted else None
    if not _part(response, "choices"):  # embeddings have none
        return Reply(text=None, **fields)
    choice = response.choices[0]
    message = getattr(choice, "message", None)  # a completion of plain text has none
    extra = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or _part(extra, "refusal")
    thought = getattr(message, "reasoning_content", None)
    fields["thought"] = thought if isinstance(thought, str) else None
    text, reason = getattr(message, "content", None), getattr(choice, "finish_reason", None)
    reason = reason if isinstance(reason, str) else None
    return Reply(_as_text(text), reason, _as_text(refusal or None), **fields)


def _as_text(value: Any) -> str | None:
    """Return a text that an endpoint gives in parts, or as some other JSON."""
    if value is None or isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    texts = [_part(part, "text") or _part(part, "message") for part in parts]
    if all(isinstance(text, str) for text in texts):
        return "".join(texts)
    return json.dumps(value, default=str)


def used_in(response: Any) -> ReplyTokens:
    """Return the tokens that a reply says it used; 0 for what it does not tell, or can't be meant.

    A cost that it reports is not read: gateways report negative ones, `nan`, and those of another
    model.
    """
    usage = _part(response, "usage")
    asked = _part(usage, "prompt_tokens_details")
    answered = _part(usage, "completion_tokens_details")
    written = _part(asked, "cache_creation_token_details")
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    thought = _count(answered, "reasoning_tokens") or _count(usage, "reasoning_tokens")
    # some count what is answered alone
    if completion and thought and _count(usage, "total_tokens") == prompt + completion + thought:
        completion += thought
    cached = _count(asked, "cached_tokens") or _count(usage, "cache_read_input_tokens")
    cached = min(cached, prompt)
    cache_write = _count(asked, "cache_write_tokens") or _count(asked, "cache_creation_tokens")
    return ReplyTokens(
        prompt,
        completion,
        cached,
        min(cache_write, prompt - cached),
        _count(written, "ephemeral_1h_input_tokens"),
        min(thought, completion),
        _service(response, usage),
    )


def _completion(response: Any, used: ReplyTokens) -> int | None:
    """Return how many tokens were answered; None where a reply with text does not say."""
    choices = _part(response, "choices") or ()
    silent = not any(_part(_part(choice, "message"), "content") for choice in choices)
    count = _part(_part(response, "usage"), "completion_tokens")
    return used.completion if used.completion or (silent and count == 0) else None


def _service(response: Any, usage: Any) -> str | None:
    """Return how a request was served, where the reply says so."""
    service = _name(_part(response, "service_tier")) or _name(_part(usage, "service_tier"))
    return service.lower() if service else None


def _request_id(response: Any) -> str | None:
    """Return the number that finds a request at the provider, best that of the headers."""
    headers = _part(_part(response, "_hidden_params"), "additional_headers")
    named = (_name(_part(headers, header)) for header in _ID_HEADERS)
    return next((name for name in named if name), None) or _name(_part(response, "id"))


def _part(whole: Any, name: str) -> Any:
    """Return a part of something that may be an object, a mapping, or nothing of the kind."""
    return whole.get(name) if isinstance(whole, dict) else getattr(whole, name, None)


def _count(whole: Any, name: str) -> int:
    """Return a count of tokens; 0 for text, a fraction, and less or more than there can be."""
    value = _part(whole, name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 < value <= _MOST_TOKENS else 0


def _name(value: Any) -> str | None:
    """Return a name that an endpoint gives as a line; None for what is no text."""
    if not isinstance(value, str):
        return None
    return "".join(filter(str.isprintable, value[: 8 * _LONGEST_NAME])).strip() or None


def _without_secrets(names: dict[str, str | None]) -> dict[str, str | None]:
    # all at once, as looking secrets up takes a tenth of a millisecond
    clean = redact("\0".join(name or "" for name in names.values())).split("\0")
    return {key: name[:_LONGEST_NAME] or None for key, name in zip(names, clean, strict=True)}
