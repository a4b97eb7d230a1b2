"""What can be told about a model and its key before the first call."""

import os
from urllib.parse import urlsplit

from alps.errors import CredentialError, UsageError
from alps.llm.libraries import libraries
from alps.llm.secrets import redact


def check_model(model: str, *, api_base: str | None) -> None:
    """Check that litellm knows where to send `model` and that its key is set, without a request.

    Raises:
        UsageError: If no provider can be told from the name.
        CredentialError: If an environment variable is missing; the message names it.
    """
    litellm = libraries().litellm
    try:
        provider = litellm.get_llm_provider(model)[1]
    except litellm.exceptions.BadRequestError as error:
        raise UsageError(
            f"model '{model}': no provider is known by that name; write provider/model, as in openai/gpt-4.1-mini"
        ) from error
    missing = litellm.validate_environment(model)["missing_keys"]
    if missing and api_base is None:
        names = " and ".join(missing)
        raise CredentialError(f"model '{model}': set {names} in the environment (the key of {provider})")


def endpoint_from_environment(model: str) -> tuple[str, str] | None:
    """Return the variable of the environment that sends `model` elsewhere than to its provider, and the host there.

    litellm and the providers' own clients read such variables: `OPENAI_BASE_URL`, `ANTHROPIC_API_BASE` and the like.
    """
    provider = libraries().litellm.get_llm_provider(model)[1].upper()
    names = (f"{provider}_{name}" for name in ("API_BASE", "BASE_URL", "API_BASE_URL", "ENDPOINT"))
    for name in names:
        if address := os.environ.get(name, "").strip():
            return name, redact(urlsplit(address).netloc.rpartition("@")[2] or "another address")
    return None
