"""Keys of providers: which one is missing, and what is sent where none is needed."""

import os
import re
from collections.abc import Iterable

from alps.llm.libraries import libraries

PLACEHOLDER = "not-needed"
"""What is sent as the key of an OpenAI-compatible server of one's own; its client refuses to go
without any.
"""

_OWN_SERVERS = ("openai", "text-completion-openai", "custom_openai", "litellm_proxy", "xinference")
"""Providers that are asked through OpenAI's client, and may be servers that want no key."""
_AZURE = ("azure", "azure_text")
_A_KEY = re.compile(r"\w+_(?:API_KEY|API_TOKEN)")
_BY_ANOTHER_NAME = {
    "openrouter": "OR_",
    "cohere": "CO_",
    "cohere_chat": "CO_",
    "huggingface": "HF_",
}
"""How variables of a provider begin that litellm reads, too, and that do not begin as the one it
lists.
"""
_NO_CREDENTIALS = re.compile(
    r"NoCredentials|PartialCredentials|DefaultCredentials|NoAuthToken|CredentialRetrieval"
)
"""Errors of the clouds' own clients."""
_LOCAL = ("openai.OpenAIError", "builtins.ValueError")
"""Errors that clients raise before they ask; what a server answers is of a class below, or of
litellm.
"""
_SAYS_SO = re.compile(r"\bcredentials\b|\b(?:API|JWT|access) ?key\b|_API_KEY\b", re.IGNORECASE)
_LIKE_A_KEY = re.compile(r"KEY|TOKEN|SECRET|CREDENTIAL|PASSWORD|PROFILE")


def credentials(model: str, *, api_base: str | None) -> dict[str, str]:
    """Return the credentials that litellm must be given, as it would not find them itself.

    Mostly none.

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
    """Tell whether a client found no credentials, and so asked nobody.

    litellm takes most such errors for a server's: without this they would be tried again, for half
    a minute a record.
    """
    cause: BaseException | None = error
    while cause is not None:
        kind = type(cause)
        is_local = f"{kind.__module__}.{kind.__name__}" in _LOCAL
        if _NO_CREDENTIALS.search(kind.__name__) or (is_local and _SAYS_SO.search(str(cause))):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _first(*names: str) -> str:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")


def missing_key(model: str) -> tuple[str, bool]:
    """Return what litellm misses in the environment to ask `model`, and whether nobody could ask
    without it.

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
    names = (" or " if single else " and ").join(
        sorted(missing, key=lambda name: provider.upper() not in name)
    )
    return names, single and not _has_another(provider, missing)


def _has_another(provider: str, missing: Iterable[str]) -> bool:
    """Tell whether a variable of the same provider holds something like a key: litellm reads more
    than it lists.
    """
    begins = tuple(name.partition("_")[0].removesuffix("AI") for name in missing)
    begins += (_BY_ANOTHER_NAME.get(provider, begins[0]),)
    others = ((other, value) for other, value in os.environ.items() if other.startswith(begins))
    return any(_LIKE_A_KEY.search(other) and value.strip() for other, value in others)
