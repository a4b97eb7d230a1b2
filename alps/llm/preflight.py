"""What can be told about a model, its key and its options before the first call."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from alps.errors import CredentialError, UsageError
from alps.llm.decoding import check_sampling
from alps.llm.extra import kept_by_litellm, variables
from alps.llm.keys import missing_key
from alps.llm.libraries import libraries


def check_name(model: str) -> None:
    """Check that litellm knows by its name where to send `model`.

    Raises:
        UsageError: If no provider can be told from it.
    """
    if not is_known(model):
        raise UsageError(
            f"model '{model}': no provider is known by that name; write provider/model, as in openai/gpt-4.1-mini"
        )


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
    """Check that litellm knows where to send `model` and that its key may be there, without a
    request.

    Args:
        model: A litellm model name.
        api_base: The endpoint, None for the provider's own.
        warn: Told, in a line, of credentials that may come from elsewhere than the environment.

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
        raise CredentialError(
            f"model '{model}': set {names} in the environment (the key of {provider})"
        )
    if names and warn is not None:
        warn(
            f"{model}: {names} not in the environment; the first call will tell whether {provider} lets us in"
        )


def check_options(
    model: str,
    sampling: Mapping[str, Any],
    extra: Mapping[str, Any],
    *,
    prefix: str = "",
    keys: bool = True,
) -> None:
    """Refuse what `model`, or litellm, would not take of the options of a request.

    Args:
        model: A litellm model name.
        sampling: The sampling settings that were given.
        extra: The other options.
        prefix: `judge_` for those of the judge.
        keys: Whether the variables that headers are taken from must be set.

    Raises:
        UsageError: If an option is not taken, or never sent.
        CredentialError: If a variable that a header is taken from is not set.
    """
    from litellm.types.utils import all_litellm_params

    if kept := kept_by_litellm(extra, all_litellm_params):
        name = f"{prefix}request.{kept[0]}"
        raise UsageError(
            f"{name}: litellm keeps it to itself; for the provider write request.extra_body.{kept[0]}="
        )
    for variable in variables(extra) if keys else ():
        if not os.environ.get(variable, "").strip():
            raise CredentialError(
                f"{prefix}request.headers: {variable} is not set in the environment"
            )
    check_sampling(model, sampling, extra, prefix=prefix)
