"""Prompt caches: Anthropic keeps the beginning of a prompt only where the request marks it.

Others do it unasked.

All our prompts begin with what they share, in the system message, so its end is marked. The mark is
put on when a request is sent: the messages that are hashed in cache keys, and counted in budgets,
are without it.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from alps.llm.libraries import libraries

_MARK = {"type": "ephemeral"}
_ROUTES = ("anthropic", "bedrock", "vertex_ai", "azure_ai", "openrouter")
"""Providers that pass the mark on to Anthropic's models, in its form or in their own."""


def marked(messages: Sequence[Mapping[str, str]], model: str) -> list[dict[str, Any]]:
    """Return the messages of a request, the system message marked where `model` needs that."""
    if not needs_mark(model):
        return [dict(message) for message in messages]
    return [
        _marked(message) if message["role"] == "system" else dict(message) for message in messages
    ]


@cache
def needs_mark(model: str) -> bool:
    """Tell whether a prompt is kept by `model` only where it is marked.

    Bedrock refuses the mark under models without a cache, so that elsewhere litellm's table must
    know of one.
    """
    litellm = libraries().litellm
    name, provider, _, _ = litellm.get_llm_provider(model)
    if provider == "anthropic":
        return True
    known = provider in _ROUTES and "claude" in name
    return known and (
        provider == "openrouter" or bool(litellm.utils.supports_prompt_caching(model))
    )


def _marked(message: Mapping[str, str]) -> dict[str, Any]:
    block = {"type": "text", "text": message["content"], "cache_control": _MARK}
    return {**message, "content": [block]}
