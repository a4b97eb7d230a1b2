"""Where the environment sends a model: addresses and API versions that litellm and the providers'
clients read there.

They are resolved once, before anything is asked, and from then on count as if they had been given:
an answer of another endpoint is not the provider's.
"""

import os

from alps.errors import UsageError
from alps.llm.libraries import libraries
from alps.llm.secrets import check_address

_OPENAI = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
_ANTHROPIC = ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL")
_AZURE = ("AZURE_API_BASE", "AZURE_OPENAI_ENDPOINT")
_ADDRESSES = {
    "openai": _OPENAI,
    "text-completion-openai": _OPENAI,
    "custom_openai": _OPENAI,
    "aiohttp_openai": _OPENAI,
    "anthropic": _ANTHROPIC,
    "anthropic_text": _ANTHROPIC,
    "azure": _AZURE,
    "azure_text": _AZURE,
    "azure_ai": ("AZURE_AI_API_BASE", "AZURE_API_BASE"),
    "bedrock": ("AWS_BEDROCK_RUNTIME_ENDPOINT",),
    "cohere_chat": ("COHERE_API_BASE",),
    "datarobot": ("DATAROBOT_ENDPOINT",),
    "gradient_ai": ("GRADIENT_AI_AGENT_ENDPOINT",),
    "huggingface": ("HF_API_BASE", "HUGGINGFACE_API_BASE"),
    "ollama_chat": ("OLLAMA_API_BASE",),
    "vertex_ai": ("VERTEXAI_API_BASE",),
    "vertex_ai_beta": ("VERTEXAI_API_BASE",),
    "watsonx": ("WATSONX_API_BASE", "WATSONX_URL", "WX_URL", "WML_URL"),
    "watsonx_text": ("WATSONX_API_BASE", "WATSONX_URL", "WX_URL", "WML_URL"),
}
"""The variables that litellm 1.105 reads while it asks, in its order; of others it reads
PROVIDER_API_BASE.
"""
_FALLS_BACK_ON_OPENAI = ("litellm_proxy", "xinference")
"""Providers that are asked where the OpenAI client is sent to, if they have no address of their
own.
"""
_VERSIONS = {"azure": "AZURE_API_VERSION", "azure_text": "AZURE_API_VERSION"}


def endpoint_from_environment(model: str) -> tuple[str, str] | None:
    """Return the variable of the environment that sends `model` elsewhere than to its provider, and
    the address.

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
        raise UsageError(f"{name}, in the environment: {error}") from error
    return name, address


def _variable(provider: str, base: str | None) -> str | None:
    """Return the variable that is read first.

    `base` is the address that litellm has resolved already, if any.
    """
    names = list(_ADDRESSES.get(provider, (f"{provider.upper().replace('-', '_')}_API_BASE",)))
    names += _OPENAI if provider in _FALLS_BACK_ON_OPENAI else ()
    if name := next((name for name in names if os.environ.get(name, "").strip()), None):
        return name
    if base is None:
        return None
    given = (
        (name, value.strip().rstrip("/")) for name, value in os.environ.items() if "://" in value
    )
    return next((name for name, value in given if base.strip().startswith(value)), None)


def version_from_environment(model: str) -> str | None:
    """Return the version of the provider's API that the environment names, None where it names
    none.
    """
    variable = _VERSIONS.get(libraries().litellm.get_llm_provider(model)[1])
    return os.environ.get(variable, "").strip() or None if variable is not None else None
