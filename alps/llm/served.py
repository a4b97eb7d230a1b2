"""What a reply of litellm holds: its text, why it ended, what it used and what it cost."""

from typing import Any

from alps.llm.prices import has_own_price, price_of
from alps.llm.types import Reply


def read_reply(response: Any, model: str) -> Reply:
    """Return the reply in our own terms."""
    usage = getattr(response, "usage", None)
    used = {name: getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")}
    cost = _cost(response, model, **used)
    if not response.choices:
        return Reply(text=None, cost=cost, **used)
    choice = response.choices[0]
    extra = getattr(choice.message, "provider_specific_fields", None) or {}
    refusal = getattr(choice.message, "refusal", None) or extra.get("refusal")
    thought = getattr(choice.message, "reasoning_content", None)
    thought = thought if isinstance(thought, str) else None
    return Reply(choice.message.content, choice.finish_reason, refusal, cost=cost, thought=thought, **used)


def _cost(response: Any, model: str, *, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
    """Return the dollars of a reply: by the user's price file where it names the model, else by litellm's table."""
    if has_own_price(model):
        details = getattr(getattr(response, "usage", None), "prompt_tokens_details", None)
        cached = min(getattr(details, "cached_tokens", None) or 0, prompt_tokens or 0)
        return price_of(model).cost(prompt_tokens or 0, completion_tokens or 0, cached_tokens=cached)
    cost: float | None = response._hidden_params.get("response_cost")
    return cost
