"""What a reply of litellm holds: its text, why it ended, what answered, what it used and what that
cost.
"""

from typing import Any

from alps.llm.prices import price_of
from alps.llm.rates import Used
from alps.llm.secrets import redact
from alps.llm.types import Reply

_MOST_TOKENS = 100_000_000
"""A count above it is no count: the longest prompt that any provider takes has 10 million tokens.
"""
_LONGEST_NAME = 120
_NAMED = ("service", "served_model", "fingerprint", "request_id")
_ID_HEADERS = ("llm_provider-x-request-id", "llm_provider-request-id", "x-request-id")


def read_reply(response: Any, model: str) -> Reply:
    """Return the reply in our own terms."""
    used = used_in(response)
    told: dict[str, Any] = {
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
    counted = told["prompt_tokens"] is not None and told["completion_tokens"] is not None
    told |= _without_secrets({name: told[name] for name in _NAMED})
    told["cost"] = price_of(model).cost_of(used) if counted else None
    if not response.choices:
        return Reply(text=None, **told)
    choice = response.choices[0]
    extra = getattr(choice.message, "provider_specific_fields", None) or {}
    refusal = getattr(choice.message, "refusal", None) or extra.get("refusal")
    thought = getattr(choice.message, "reasoning_content", None)
    thought = thought if isinstance(thought, str) else None
    return Reply(choice.message.content, choice.finish_reason, refusal, thought=thought, **told)


def used_in(response: Any) -> Used:
    """Return the tokens that a reply says it used; 0 for what it does not tell, or can't be meant.

    A cost that it reports is not read: gateways report negative ones, `nan`, and those of another
    model.
    """
    usage = _part(response, "usage")
    asked, answered = (
        _part(usage, "prompt_tokens_details"),
        _part(usage, "completion_tokens_details"),
    )
    written = _part(asked, "cache_creation_token_details")
    prompt, completion = (
        _count(_part(usage, "prompt_tokens")),
        _count(_part(usage, "completion_tokens")),
    )
    thought = _count(_part(answered, "reasoning_tokens")) or _count(
        _part(usage, "reasoning_tokens")
    )
    total = _count(_part(usage, "total_tokens"))
    if (
        completion and thought and total == prompt + completion + thought
    ):  # some count what is answered alone
        completion += thought
    cached = _count(_part(asked, "cached_tokens")) or _count(
        _part(usage, "cache_read_input_tokens")
    )
    cache_write = _count(_part(asked, "cache_write_tokens")) or _count(
        _part(asked, "cache_creation_tokens")
    )
    cached = min(cached, prompt)
    return Used(
        prompt,
        completion,
        cached,
        min(cache_write, prompt - cached),
        _count(_part(written, "ephemeral_1h_input_tokens")),
        min(thought, completion),
        _service(response, usage),
    )


def _completion(response: Any, used: Used) -> int | None:
    """Return how many tokens were answered; None where none are told of a reply that has some text."""
    choices = response.choices or ()
    silent = not any(_part(_part(choice, "message"), "content") for choice in choices)
    told = _part(_part(response, "usage"), "completion_tokens")
    return used.completion if used.completion or (silent and told == 0) else None


def _service(response: Any, usage: Any) -> str | None:
    """Return how a request was served, where the reply says so."""
    service = _name(_part(response, "service_tier")) or _name(_part(usage, "service_tier"))
    return service.lower() if service else None


def _request_id(response: Any) -> str | None:
    """Return the number under which the provider's support finds a request: its header, else that
    of the answer.
    """
    headers = _part(_part(response, "_hidden_params"), "additional_headers")
    named = (_name(_part(headers, header)) for header in _ID_HEADERS)
    return next((name for name in named if name), None) or _name(_part(response, "id"))


def _part(whole: Any, name: str) -> Any:
    """Return a part of something that may be an object, a mapping, or nothing of the kind."""
    return whole.get(name) if isinstance(whole, dict) else getattr(whole, name, None)


def _count(value: Any) -> int:
    """Return a count of tokens, 0 for what is none: text, a fraction, less than nothing, or more
    than there can be.
    """
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
    """Return short names without secrets.

    All at once, as looking secrets up takes a tenth of a millisecond.
    """
    clean = redact("\0".join(name or "" for name in names.values())).split("\0")
    return {key: name[:_LONGEST_NAME] or None for key, name in zip(names, clean, strict=True)}
