"""Addresses and keys of models, as the environment says them.

Addresses and API versions of the environment are resolved once, before anything is asked, and from
then on count as if they had been given: an answer of another endpoint is not the provider's.
"""

import os
import re
from collections.abc import Sequence

from alps.errors import UsageError, causes_of
from alps.llm.secrets import check_address
from alps.llm.wire import libraries

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
# Errors of the clouds' own clients
_NO_CREDENTIALS = re.compile(
    r"NoCredentials|PartialCredentials|DefaultCredentials|NoAuthToken|CredentialRetrieval"
)
# Errors that clients raise before they ask; what a server answers is of a class below, or of
# litellm.
_LOCAL = ("openai.OpenAIError", "builtins.ValueError")
_SAYS_SO = re.compile(r"\bcredentials\b|\b(?:API|JWT|access) ?key\b|_API_KEY\b", re.IGNORECASE)
# GROQ_KEY and the like are read by nobody
_LIKE_A_KEY = re.compile(r"API_?KEY|ACCESS_KEY|TOKEN|SECRET|CREDENTIAL|PASSWORD|PROFILE")
# All that is read instead of a variable that litellm lists; of others any name may be
_INSTEAD = {
    "OPENAI_API_KEY": ("OPENAI_IDENTITY_TOKEN_FILE",),
    "ANTHROPIC_API_KEY": ("ANTHROPIC_AUTH_TOKEN",),
}


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


def lacks_credentials(error: BaseException) -> bool:
    """Tell whether a client found no credentials and sent no request."""
    # litellm takes most such errors for a server's: without this they would be tried again, for
    # half a minute a record.
    for cause in causes_of(error):
        kind = type(cause)
        is_local = f"{kind.__module__}.{kind.__name__}" in _LOCAL
        if _NO_CREDENTIALS.search(kind.__name__) or (is_local and _SAYS_SO.search(str(cause))):
            return True
    return False


def _first(*names: str) -> str:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")


def missing_key(model: str) -> tuple[str, bool]:
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


def near_miss(names: str) -> str:
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
