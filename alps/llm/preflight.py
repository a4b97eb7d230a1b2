"""Addresses and keys of models, and checks of their names and options, before the first call.

Addresses and API versions of the environment are resolved once, before anything is asked, and from
then on count as if they had been given: an answer of another endpoint is not the provider's.

litellm knows of each model what it refuses, and says so only when it is asked; its own check is
made here before the first call, so that nothing is paid for in vain.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from alps.errors import CredentialError, UsageError
from alps.llm.options import kept_by_litellm, sent, variables
from alps.llm.secrets import check_address
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
_OPENAI = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
_ANTHROPIC = ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL")
_WATSONX = ("WATSONX_API_BASE", "WATSONX_URL", "WX_URL", "WML_URL")
_AZURE_ADDRESSES = ("AZURE_API_BASE", "AZURE_OPENAI_ENDPOINT")
# The variables that litellm 1.105 reads while it asks, in its order; of others it reads
# PROVIDER_API_BASE.
_ADDRESSES = {
    **dict.fromkeys(
        ("openai", "text-completion-openai", "custom_openai", "aiohttp_openai"), _OPENAI
    ),
    **dict.fromkeys(("anthropic", "anthropic_text"), _ANTHROPIC),
    **dict.fromkeys(("azure", "azure_text"), _AZURE_ADDRESSES),
    "azure_ai": ("AZURE_AI_API_BASE", "AZURE_API_BASE"),
    "bedrock": ("AWS_BEDROCK_RUNTIME_ENDPOINT",),
    "cohere_chat": ("COHERE_API_BASE",),
    "datarobot": ("DATAROBOT_ENDPOINT",),
    "gradient_ai": ("GRADIENT_AI_AGENT_ENDPOINT",),
    "huggingface": ("HF_API_BASE", "HUGGINGFACE_API_BASE"),
    "ollama_chat": ("OLLAMA_API_BASE",),
    **dict.fromkeys(("vertex_ai", "vertex_ai_beta"), ("VERTEXAI_API_BASE",)),
    **dict.fromkeys(("watsonx", "watsonx_text"), _WATSONX),
}
# Providers that are asked where the OpenAI client is sent to, if they have no address of their
# own.
_FALLS_BACK_ON_OPENAI = ("litellm_proxy", "xinference")
PLACEHOLDER = "not-needed"
"""What is sent as the key of an OpenAI-compatible server of one's own; its client refuses to go
without any.
"""

# Providers that are asked through OpenAI's client, and may be servers that want no key
_OWN_SERVERS = ("openai", "text-completion-openai", "custom_openai", "litellm_proxy", "xinference")
_AZURE = ("azure", "azure_text")
_A_KEY = re.compile(r"\w+_(?:API_KEY|API_TOKEN)")
# How variables of a provider begin that litellm reads, too, and that do not begin as the one it
# lists.
_BY_ANOTHER_NAME = {"openrouter": "OR_", "huggingface": "HF_"}
_BY_ANOTHER_NAME |= dict.fromkeys(("cohere", "cohere_chat"), "CO_")
# GROQ_KEY and the like are read by nobody
_LIKE_A_KEY = re.compile(r"API_?KEY|ACCESS_KEY|TOKEN|SECRET|CREDENTIAL|PASSWORD|PROFILE")
# All that is read instead of a variable that litellm lists; of others any name may be
_INSTEAD = {
    "OPENAI_API_KEY": ("OPENAI_IDENTITY_TOKEN_FILE",),
    "ANTHROPIC_API_KEY": ("ANTHROPIC_AUTH_TOKEN",),
}


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
        text = str(error).partition("Error: ")[2] or str(error)
        return {}, text.splitlines()[0].partition(" To drop ")[0].strip().rstrip(".,")[:200]
    except Exception:  # whatever else goes wrong in there, the first call will tell
        return None, None


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
    names, for_sure = _missing_key(model)
    if for_sure:
        what = f"set {names} in the environment (the key of {provider})"
        what += f"; {near} is not read" if (near := _near_miss(names)) else ""
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


def endpoint_from_environment(model: str) -> tuple[str, str] | None:
    """Return the variable that sends `model` elsewhere than to its provider, and the address.

    Raises:
        UsageError: If the address holds a user, a password, a query or a key, or is none: names the
            variable alone.
    """
    _, provider, _, base = libraries().litellm.get_llm_provider(model)
    name = _variable(provider, base)
    if name is None:
        return None
    address = os.environ[name].strip()
    try:
        check_address(address)
    except ValueError as error:
        raise UsageError(f"{name} in the environment: {error}") from error
    return name, address


def _variable(provider: str, base: str | None) -> str | None:
    """Return the variable that is read first, given the address litellm has resolved already."""
    names = list(_ADDRESSES.get(provider, (f"{provider.upper().replace('-', '_')}_API_BASE",)))
    names += _OPENAI if provider in _FALLS_BACK_ON_OPENAI else ()
    if name := next((name for name in names if os.environ.get(name, "").strip()), None):
        return name
    if base is None:
        return None
    for name, value in os.environ.items():
        if "://" in value and base.strip().startswith(value.strip().rstrip("/")):
            return name
    return None


def version_from_environment(model: str) -> str | None:
    """Return the version of the provider's API that the environment names, None for none."""
    named = libraries().litellm.get_llm_provider(model)[1] in _AZURE
    return (_first("AZURE_API_VERSION") or None) if named else None


def credentials(model: str, *, api_base: str | None) -> dict[str, str]:
    """Return the credentials, mostly none, that litellm would not find itself.

    An OpenAI-compatible endpoint of one's own gets the placeholder where there is no key. No other
    provider does: it would replace a credential that is found later, or elsewhere. An Entra token
    of the environment, which litellm 1.105 reads and then loses on its way to Azure's client, is
    passed on.
    """
    _, provider, key, _ = libraries().litellm.get_llm_provider(model)
    if provider in _AZURE and not _first("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"):
        token = _first("AZURE_AD_TOKEN")
        return {"azure_ad_token": token} if token else {}
    lacking = provider in _OWN_SERVERS and not key and not _first("OPENAI_API_KEY")
    return {"api_key": PLACEHOLDER} if lacking and api_base is not None else {}


def _first(*names: str) -> str:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")


def _missing_key(model: str) -> tuple[str, bool]:
    """Return what litellm lacks to call `model`, and whether it is required.

    Only a provider with a single key, for which nothing stands in the environment, can't be asked
    for sure. Others take credentials from elsewhere: the role of a machine, a profile, a token, a
    file.
    """
    litellm = libraries().litellm
    _, provider, key, _ = litellm.get_llm_provider(model)
    missing = litellm.validate_environment(model)["missing_keys"]
    if not missing or key:
        return "", False
    single = all(_A_KEY.fullmatch(name) for name in missing)
    own_first = sorted(missing, key=lambda name: provider.upper() not in name)
    names = (" or " if single else " and ").join(own_first)
    return names, single and not _has_another(provider, missing)


def _near_miss(names: str) -> str:
    """Return the variable that was meant to hold a key but is not read, empty where none was."""
    begin = f"{names.partition('_')[0]}_"
    return next((name for name in os.environ if name.startswith(begin) and "KEY" in name), "")


def _has_another(provider: str, missing: Sequence[str]) -> bool:
    """Tell whether a variable that litellm does not list holds a key of the provider."""
    if missing[0] in _INSTEAD:
        return bool(_first(*_INSTEAD[missing[0]]))
    begins = tuple(name.partition("_")[0].removesuffix("AI") for name in missing)
    begins += (_BY_ANOTHER_NAME.get(provider, begins[0]),)
    others = (
        (variable, value) for variable, value in os.environ.items() if variable.startswith(begins)
    )
    return any(_LIKE_A_KEY.search(variable) and value.strip() for variable, value in others)
