"""Checks of a model, its key and its options before the first call.

litellm knows of each model what it refuses, and says so only when it is asked; its own check is
made here before the first call, so that nothing is paid for in vain.
"""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from alps.errors import CredentialError, UsageError
from alps.llm.endpoints import missing_key, near_miss
from alps.llm.options import kept_by_litellm, sent, variables
from alps.llm.wire import libraries

LONGEST_UNLISTED, LONGEST_OLD = 32_000, 4_096
"""Tokens that an Anthropic model may answer which litellm's table does not know: the least maximum
since Claude 4, and the least before, when models were called claude-3-haiku and claude-2.1.

Anthropic wants a maximum in each request; litellm would send 4,096 and cut answers that are no
longer than others'.
"""

# Clouds whose requests need a maximum, as Anthropic's own do
_ANTHROPICS_MAXIMUM = ("vertex_ai", "azure_ai")
_OLD_NAME = re.compile(r"claude-(?:instant|v?[123])\b")
_NOT_REASONING = ("none", "disable")
# Providers whose newer models take no temperature but their own
_REFUSE_IN_NEW_MODELS = ("openai", "anthropic")
# Clouds that have Anthropic's models; OpenRouter leaves out what a model does not take
_ANTHROPICS_ROUTES = ("bedrock", "vertex_ai", "azure_ai")


def default_temperature(
    model: str, *, api_base: str | None, sampling: Mapping[str, Any], extra: Mapping[str, Any]
) -> float | None:
    """Return the temperature of a judge that was given none: 0, or None where it takes none.

    A model that reasons takes none. Behind a gateway the model is asked for by a longer name; the
    gateway passes on what the provider then refuses. Of names that litellm does not know, those of
    OpenAI and Anthropic are new.
    """
    effort = sampling.get("reasoning_effort")
    if effort is not None and effort not in _NOT_REASONING:
        return None
    mapped, problem = _mapped(model, {**sampling, **sent(extra), "temperature": 0})
    _, behind = _mapped(model.partition("/")[2], {"temperature": 0})
    if problem or behind or _thinks(mapped):
        return None
    return None if _is_new(model, api_base) else 0


def check_sampling(
    model: str, sampling: Mapping[str, Any], extra: Mapping[str, Any], *, prefix: str = ""
) -> None:
    """Refuse a sampling setting that `model` does not take.

    Raises:
        UsageError: Names the setting, and why litellm would refuse it.
    """
    settings = {name: value for name, value in sampling.items() if value is not None}
    problem = _refusal(model, {**settings, **sent(extra)})
    if problem is None:
        return
    named = {f"{prefix}{name}": {name: value} for name, value in settings.items()}
    named |= {f"{prefix}request.{name}": sent({name: value}) for name, value in extra.items()}
    guilty = [name for name, option in named.items() if _refusal(model, option) is not None]
    shown = []
    for name in guilty or named:
        (value,) = named[name].values()
        shown.append(name if isinstance(value, Mapping) else f"{name}={value}")
    it = "it" if len(shown) == 1 else "them"
    refused = f"{model} does not accept {it} ({problem}); leave {it} out"
    raise UsageError(f"{' and '.join(shown)}: {refused}")


def unlisted_answer(model: str, sampling: Mapping[str, Any]) -> int | None:
    """Return the tokens that an Anthropic model unknown to litellm may answer, else None."""
    litellm = libraries().litellm
    name, provider, _, _ = litellm.get_llm_provider(model)
    of_cloud = provider in _ANTHROPICS_MAXIMUM and "claude" in name
    if sampling.get("max_tokens") is not None or not (provider == "anthropic" or of_cloud):
        return None
    try:
        known = litellm.get_max_tokens(name)
    except Exception:  # litellm raises a bare Exception for a model that it does not know
        known = None
    if known is not None:
        return None
    longest = LONGEST_OLD if _OLD_NAME.search(name) else LONGEST_UNLISTED
    return int(os.environ.get("DEFAULT_ANTHROPIC_CHAT_MAX_TOKENS", longest))


def _refusal(model: str, options: Mapping[str, Any]) -> str | None:
    mapped, problem = _mapped(model, options)
    warm = "claude" in model and options.get("temperature", 1) != 1
    if problem is None and warm and _thinks(mapped):
        return "with reasoning, the model accepts only temperature=1"
    return problem


def _mapped(model: str, options: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str | None]:
    """Return the options as litellm would send them and its objection; None where it can't tell."""
    litellm = libraries().litellm
    try:
        name, provider, _, _ = litellm.get_llm_provider(model)
    except litellm.exceptions.BadRequestError:
        return None, None
    chosen = {key: value for key, value in options.items() if value is not None}
    try:
        return litellm.utils.get_optional_params(
            model=name, custom_llm_provider=provider, **chosen
        ), None
    except (litellm.exceptions.BadRequestError, ValueError) as error:
        return {}, _in_short(error)
    except Exception:  # whatever else goes wrong in there, the first call will tell
        return None, None


def _in_short(error: Exception) -> str:
    text = str(error).partition("Error: ")[2] or str(error)
    return text.splitlines()[0].partition(" To drop ")[0].strip().rstrip(".,")[:200]


def _thinks(mapped: Mapping[str, Any] | None) -> bool:
    thinking = (mapped or {}).get("thinking")
    return isinstance(thinking, Mapping) and thinking.get("type") != "disabled"


def _is_new(model: str, api_base: str | None) -> bool:
    """Tell whether a model is unknown to litellm, and of a family that takes no temperature now.

    Under `openai/` with an address it is a server of one's own; other providers with one are
    reached by a gateway.
    """
    litellm = libraries().litellm
    name, provider, _, _ = litellm.get_llm_provider(model)
    if (provider == "openai" and api_base is not None) or _OLD_NAME.search(name):
        return False
    listed = any(known in litellm.model_cost for known in (model, name, name.rpartition("/")[2]))
    of_anthropic = provider in _ANTHROPICS_ROUTES and "claude" in name
    return not listed and (provider in _REFUSE_IN_NEW_MODELS or of_anthropic)


def check_name(model: str) -> None:
    """Check that litellm knows by its name where to send `model`.

    Raises:
        UsageError: If no provider can be told from it.
    """
    if not is_known(model):
        what = "unknown provider; write provider/model, such as openai/gpt-4.1-mini"
        raise UsageError(f"model '{model}': {what}")


def is_known(model: str) -> bool:
    """Tell whether litellm knows by its name where to send `model`."""
    litellm = libraries().litellm
    try:
        litellm.get_llm_provider(model)
    except litellm.exceptions.BadRequestError:
        return False
    return True


def check_model(
    model: str, *, api_base: str | None, warn: Callable[[str], None] | None = None
) -> None:
    """Refuse a name from which litellm can't tell where to send `model`.

    `warn` is told, in a line, of credentials that may come from elsewhere than the environment.

    Raises:
        UsageError: If no provider can be told from the name.
        CredentialError: If the provider's only key is missing; the message names its variable.
    """
    check_name(model)
    if api_base is not None:
        return
    provider = libraries().litellm.get_llm_provider(model)[1]
    names, for_sure = missing_key(model)
    if for_sure:
        what = f"set {names} in the environment (the key of {provider})"
        what += f"; {near} is not read" if (near := near_miss(names)) else ""
        raise CredentialError(f"model '{model}': {what}")
    if names and warn is not None:
        hint = f"the first call shows whether litellm finds credentials for {provider} elsewhere"
        warn(f"{model}: {names} not set in the environment; {hint}")


def check_options(
    model: str,
    sampling: Mapping[str, Any],
    extra: Mapping[str, Any],
    *,
    prefix: str = "",
    keys: bool = True,
) -> None:
    """Refuse what `model`, or litellm, would not take of the options of a request.

    `prefix` is `judge_` for those of the judge; `keys` tells whether the variables that headers are
    taken from must be set.

    Raises:
        UsageError: If an option is not taken, or never sent.
        CredentialError: If a variable that a header is taken from is not set.
    """
    from litellm.types.utils import all_litellm_params

    if kept := kept_by_litellm(extra, all_litellm_params):
        instead = f"to send it to the provider, write request.extra_body.{kept[0]}="
        raise UsageError(f"{prefix}request.{kept[0]}: litellm does not send it; {instead}")
    for variable in variables(extra) if keys else ():
        if not os.environ.get(variable, "").strip():
            what = f"{variable} is not set in the environment"
            raise CredentialError(f"{prefix}request.headers: {what}")
    check_sampling(model, sampling, extra, prefix=prefix)
